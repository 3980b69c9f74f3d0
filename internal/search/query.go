// Package search says when a text matches a query, and which keys an index needs so that it never misses a match.
//
// A query is words. Every word must occur in the text, in any order, as a part of it and in any case. Chinese, Japanese
// and Korean are written without spaces and with endings that change, so there half of a word's pairs of neighbouring
// characters is enough.
package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/fault"
)

// MaxQuery is the longest query, in characters.
const MaxQuery = 500

// Query is what somebody looks for.
type Query struct {
	parts []part
}

// part is what a text must hold: text as it stands, or need of the pairs.
type part struct {
	text  string
	pairs []string
	need  int
}

// Parse reads a query. It is refused (invalid) when it has no word or is longer than MaxQuery.
func Parse(query string) (Query, error) {
	if utf8.RuneCountInString(query) > MaxQuery {
		return Query{}, fault.New(fault.Invalid, "a query has at most %d characters", MaxQuery)
	}
	var q Query
	for _, word := range strings.Fields(Fold(query)) {
		for word != "" {
			run := firstRun(word)
			word = word[len(run):]
			q.parts = append(q.parts, partOf(run))
		}
	}
	if len(q.parts) == 0 {
		return Query{}, fault.New(fault.Invalid, "a search needs a query with at least one word")
	}
	return q, nil
}

// firstRun is the beginning of a word that is CJK throughout, or not CJK throughout.
func firstRun(word string) string {
	first, _ := utf8.DecodeRuneInString(word)
	end := strings.IndexFunc(word, func(r rune) bool { return isCJK(r) != isCJK(first) })
	if end < 0 {
		return word
	}
	return word[:end]
}

func partOf(run string) part {
	characters := []rune(run)
	if !isCJK(characters[0]) || len(characters) == 1 {
		return part{text: run}
	}
	var pairs []string
	for i := range len(characters) - 1 {
		if pair := string(characters[i : i+2]); !slices.Contains(pairs, pair) {
			pairs = append(pairs, pair)
		}
	}
	return part{pairs: pairs, need: (len(pairs) + 1) / 2}
}

// Match tells whether a text holds every word of the query.
func (q Query) Match(text string) bool {
	folded := Fold(text)
	for _, p := range q.parts {
		if !p.in(folded) {
			return false
		}
	}
	return true
}

func (p part) in(folded string) bool {
	if p.text != "" {
		return strings.Contains(folded, p.text)
	}
	have := 0
	for _, pair := range p.pairs {
		if strings.Contains(folded, pair) {
			have++
		}
	}
	return have >= p.need
}

// MayMatch tells of a text, given as the JSON that it is stored in, whether it can match. It is cheap, since nothing is
// decoded, and never says no to a text that matches: words with signs that JSON may write in another way pass, and so
// does everything in a JSON with numbered escapes.
func (q Query) MayMatch(encoded string) bool {
	if strings.Contains(encoded, `\u`) {
		return true
	}
	folded := Fold(encoded)
	for _, p := range q.parts {
		if strings.ContainsFunc(p.text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			continue
		}
		if !p.in(folded) {
			return false
		}
	}
	return true
}

// First tells where in a text, counted in characters, the first word found begins; false when none is in it. A text
// that is too long to be shown whole is shown around that place.
func (q Query) First(text string) (int, bool) {
	folded := Fold(text)
	for _, p := range q.parts {
		for _, piece := range append([]string{p.text}, p.pairs...) {
			if at := strings.Index(folded, piece); piece != "" && at >= 0 {
				return utf8.RuneCountInString(folded[:at]), true
			}
		}
	}
	return 0, false
}

// Fold makes upper and lower case one. A folded text has as many characters as the text.
func Fold(text string) string {
	ascii := true
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(text)
	}
	return strings.Map(fold, text)
}

// fold goes through upper case, which brings together what lower case alone keeps apart: σ and ς, s and ſ.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// prolonged is the Japanese mark that lengthens a vowel. Unicode counts it to no script.
const prolonged = 'ー'

func isCJK(r rune) bool {
	return r >= 0x1100 && (r == prolonged ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo))
}
