// Package memory is what capture knows about MEMORY.md: which operations a model may ask for, which texts never enter
// the file, and how a line is added, replaced and taken back without touching any other byte.
package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/text"
)

const (
	// MaxOperations is how many operations one capture may ask for.
	MaxOperations = 6
	// MaxText is the longest text of an operation, in characters.
	MaxText = 600
)

// OperationKind tells what an operation does.
type OperationKind string

// The kinds. Nothing deletes: to forget is the agent's work, on request.
const (
	Add    OperationKind = "add"
	Update OperationKind = "update"
)

// Operation is one change that the model asks for.
type Operation struct {
	Kind OperationKind `json:"op"`
	Text string        `json:"text"`           // one sentence; one line without its marker and provenance
	Line string        `json:"line,omitempty"` // Update: the line that the text replaces, as it stands in the file
}

// Schema is the structured output that holds operations, as every provider takes it.
var Schema = json.RawMessage(`{"type":"object","properties":{"operations":{"type":"array","items":{"type":"object","properties":{` +
	`"op":{"type":"string","enum":["add","update"]},` +
	`"text":{"type":"string","description":"One self-contained sentence of at most 600 characters."},` +
	`"line":{"type":"string","description":"For update: the line of the memory that the text replaces, copied exactly. For add: empty."}` +
	`},"required":["op","text","line"],"additionalProperties":false}}},"required":["operations"],"additionalProperties":false}`)

var fence = regexp.MustCompile("(?s)^```(?:json)?[ \t]*\r?\n(.*)\n```$")

// Parse reads a model's answer: JSON of Schema, perhaps in one code fence. Anything else is fault.Invalid, and nothing
// of the answer counts: not JSON, other fields, an unknown operation, an empty or overlong text, more than
// MaxOperations. The texts come back as single lines.
func Parse(answer string) ([]Operation, error) {
	answer = strings.TrimSpace(answer)
	if inner := fence.FindStringSubmatch(answer); inner != nil {
		answer = inner[1]
	}
	var parsed struct {
		Operations *[]Operation `json:"operations"`
	}
	decoder := json.NewDecoder(strings.NewReader(answer))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed); err != nil {
		return nil, fault.New(fault.Invalid, "the answer is not JSON of the agreed form") // the decoder's words may quote it
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "something follows the JSON of the answer")
	}
	if parsed.Operations == nil {
		return nil, fault.New(fault.Invalid, "the answer holds no list of operations")
	}
	operations := *parsed.Operations
	if len(operations) > MaxOperations {
		return nil, fault.New(fault.Invalid, "the answer holds %d operations; at most %d are allowed", len(operations), MaxOperations)
	}
	for i := range operations {
		if err := operations[i].check(); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "operation %d", i+1)
		}
	}
	return operations, nil
}

func (o *Operation) check() error {
	o.Text, o.Line = oneLine(o.Text), strings.TrimSpace(text.Storable(o.Line))
	switch {
	case o.Kind != Add && o.Kind != Update:
		return errors.New("is neither add nor update")
	case fold(o.Text) == "":
		return errors.New("says nothing")
	case utf8.RuneCountInString(o.Text) > MaxText:
		return fault.New(fault.Invalid, "has %d characters; at most %d are allowed", utf8.RuneCountInString(o.Text), MaxText)
	case o.Kind == Update && o.Line == "":
		return errors.New("is an update that quotes no line")
	}
	if o.Kind == Add {
		o.Line = ""
	}
	return nil
}

// marker is what a model may put in front of a line although the line gets its marker here. Left there it would make
// the text a heading, a quotation or a list inside its list item.
var (
	marker     = regexp.MustCompile(`^(?:[-*+>]|#{1,6})\s+`)
	provenance = regexp.MustCompile(`\s*\(captured \d{4}-\d{2}-\d{2} from [^()]+\)$`)
)

// oneLine makes a text fit for one line: no line breaks, nothing that hides or turns text around, no marker in front
// and no provenance behind, which only capture itself may state.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\u200c' || r == '\u200d': // joiners that scripts and emoji need
			return r
		case unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.In(r, unicode.Cf, unicode.Co):
			return -1
		}
		return r
	}, text.Storable(s))
	s = strings.Join(strings.Fields(s), " ")
	for {
		bare := provenance.ReplaceAllString(marker.ReplaceAllString(s, ""), "")
		if bare == s {
			return s
		}
		s = bare
	}
}

// Screen keeps credentials out: what mikan knows as a secret becomes its placeholder, and an operation whose text still
// looks like a credential comes back as withheld, without its text.
func Screen(operations []Operation, known *secret.Redactor) (allowed []Operation, withheld []Effect) {
	for _, o := range operations {
		o.Text, o.Line = known.String(o.Text), known.String(o.Line)
		if LooksSecret(o.Text) {
			withheld = append(withheld, Effect{Operation: Operation{Kind: o.Kind}, Kind: Credential})
			continue
		}
		if LooksSecret(o.Line) {
			o.Line = "" // it stays in the file; it is not copied into the record
		}
		allowed = append(allowed, o)
	}
	return allowed, withheld
}

// fold reduces a text to what two statements of the same meaning share: case, space and punctuation do not count. What
// changes a figure or a name does: "1.5" is not "15", nor "C#" "C".
func fold(s string) string {
	s = normalise(s)
	runes := []rune(s)
	var b bytes.Buffer
	space := false
	for i, r := range runes {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case r == '\'' || r == '’' || r == '*' || r == '`':
			continue
		case insignificant(runes, i):
			space = true
			continue
		}
		if space && b.Len() > 0 && !joined(lastRune(b.Bytes()), r) {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

func lastRune(b []byte) rune {
	r, _ := utf8.DecodeLastRune(b)
	return r
}

// joined: between characters of scripts that are written without spaces, a space says nothing.
func joined(a, b rune) bool {
	return unicode.In(a, unicode.Han, unicode.Hiragana, unicode.Katakana) || unicode.In(b, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// insignificant tells whether the punctuation at i can be left out without changing what is said.
func insignificant(runes []rune, i int) bool {
	r := runes[i]
	if !unicode.IsPunct(r) || strings.ContainsRune("#%@&/\\", r) {
		return false
	}
	digitAfter := i+1 < len(runes) && unicode.IsDigit(runes[i+1])
	digitBefore := i > 0 && unicode.IsDigit(runes[i-1])
	switch {
	case digitAfter && digitBefore: // 1.5, 10:30, 2026-01-02
		return false
	case digitAfter && (r == '-' || r == '.') && (i == 0 || unicode.IsSpace(runes[i-1])): // -5, .5
		return false
	case r == '_':
		return false
	}
	return true
}
