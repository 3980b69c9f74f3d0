// Package redact takes the values of configured secrets out of text before it is logged, stored, shown to the model or
// posted. It knows values, not patterns: whatever is configured is found, in whatever text.
package redact

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// MinLength is the length of the shortest value that is taken out, in bytes. Shorter ones stand in ordinary words, so
// replacing them would make text unreadable and tell the secret by its gaps.
const MinLength = 6

// Redactor replaces secret values. It is immutable and safe for concurrent use; the nil Redactor replaces nothing.
type Redactor struct {
	replacer *strings.Replacer
	longest  int
}

// New makes a Redactor from names and values. Values shorter than MinLength are left out.
func New(secrets map[string]string) *Redactor {
	type pair struct{ value, name string }
	var pairs []pair
	for name, value := range secrets {
		for _, form := range forms(value) {
			if len(form) >= MinLength {
				pairs = append(pairs, pair{form, name})
			}
		}
	}
	// At one position the replacer takes the first that matches: the longest must come first, or the rest of a value
	// that starts with another one would stay. Names break ties, so that equal values always get the same placeholder.
	slices.SortFunc(pairs, func(a, b pair) int {
		if len(a.value) != len(b.value) {
			return len(b.value) - len(a.value)
		}
		return strings.Compare(a.value+"\x00"+a.name, b.value+"\x00"+b.name)
	})
	if len(pairs) == 0 {
		return &Redactor{}
	}
	args := make([]string, 0, 2*len(pairs))
	for _, p := range pairs {
		args = append(args, p.value, Placeholder(p.name))
	}
	return &Redactor{replacer: strings.NewReplacer(args...), longest: len(pairs[0].value)}
}

// Placeholder is what stands in a secret's place.
func Placeholder(name string) string { return "[SECRET:" + name + "]" }

// String returns s without any secret value.
func (r *Redactor) String(s string) string {
	if r == nil || r.replacer == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// Longest is the length of the longest value in bytes; 0 when there is none. Who redacts a stream has to hold back one
// byte less than this, since a value can be cut by the end of a piece.
func (r *Redactor) Longest() int {
	if r == nil {
		return 0
	}
	return r.longest
}

// forms are the spellings in which a value turns up: itself, in a URL's path and query, and inside a JSON string.
func forms(value string) []string {
	all := []string{value, url.PathEscape(value), url.QueryEscape(value)}
	if encoded, err := json.Marshal(value); err == nil {
		all = append(all, strings.Trim(string(encoded), `"`))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
