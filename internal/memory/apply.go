package memory

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

const (
	// File is the name of the memory anchor in an office's directory.
	File = "MEMORY.md"
	// MaxSection is the largest section, in bytes with its heading; MaxLines the most lines.
	MaxSection = 64 << 10
	MaxLines   = 500
	// MaxFile is the largest file that capture changes, in bytes.
	MaxFile = 8 << 20
)

// Origin is where knowledge comes from: what every captured line says about itself.
type Origin struct {
	Date      time.Time // of the capture; its day in UTC is written
	MessageID string
}

// EffectKind tells what became of an operation.
type EffectKind string

// What becomes of operations.
const (
	Added      EffectKind = "added"
	Replaced   EffectKind = "replaced"
	Duplicate  EffectKind = "duplicate"  // the file says it already
	Forgotten  EffectKind = "forgotten"  // it was taken out of the file since: it does not come back
	Credential EffectKind = "credential" // it looks like one
)

// Effect is what became of an operation.
type Effect struct {
	Operation
	Kind EffectKind `json:"effect"`
	Now  string     `json:"now,omitempty"` // Added, Replaced: the line as it stands in the file
	Was  string     `json:"was,omitempty"` // Replaced: the line that stood there
}

// Changes tells whether the operation put a line into the file.
func (e Effect) Changes() bool { return e.Kind == Added || e.Kind == Replaced }

// Full tells whether a change was refused because the section would pass its limits.
func Full(err error) bool { return fault.CodeOf(err) == fault.TooLarge }

// Apply carries out operations in order on a file's content and returns the new content, which is the old one but for
// the lines added and replaced. forgotten are statements that must not come back (see Gone). It is fault.TooLarge, and
// nothing is changed, when the section would pass its limits.
func Apply(content []byte, operations []Operation, from Origin, forgotten []string) ([]byte, []Effect, error) {
	gone := map[string]bool{}
	for _, statement := range forgotten {
		gone[fold(said(statement))] = true
	}
	known := statements(content)
	effects := make([]Effect, 0, len(operations))
	for _, o := range operations {
		effect := Effect{Operation: o}
		meaning := fold(o.Text)
		if gone[meaning] && known[meaning] == 0 {
			effect.Kind = Forgotten
			effects = append(effects, effect)
			continue
		}
		content, effect = one(content, effect, known, from)
		if effect.Changes() {
			known[meaning]++
			if was := fold(said(effect.Was)); effect.Kind == Replaced && known[was] > 0 {
				known[was]--
			}
		}
		effects = append(effects, effect)
	}
	if !slices.ContainsFunc(effects, Effect.Changes) {
		return content, effects, nil
	}
	if s, ok := findSection(content); ok {
		if lines := bytes.Count(bytes.TrimRight(content[s.start:s.end], "\r\n"), []byte{'\n'}) + 1; s.end-s.start > MaxSection || lines > MaxLines {
			return nil, nil, fault.New(fault.TooLarge, "the section %q would have %d bytes in %d lines; the limits are %d and %d",
				headingText, s.end-s.start, lines, MaxSection, MaxLines)
		}
	}
	return content, effects, nil
}

// statements counts what the file says, folded.
func statements(content []byte) map[string]int {
	known := map[string]int{}
	for line := range strings.Lines(string(bytes.TrimPrefix(content, byteOrderMark))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		known[fold(said(line))]++
	}
	return known
}

// one carries out one operation.
func one(content []byte, effect Effect, known map[string]int, from Origin) ([]byte, Effect) {
	line := "- " + effect.Text + " (captured " + from.Date.UTC().Format(time.DateOnly) + " from " + messageName(from.MessageID) + ")"
	s, exists := findSection(content)
	if effect.Operation.Kind == Update && exists {
		if target, ok := s.quoted(content, effect.Line); ok {
			effect.Was = target.of(content)
			if fold(said(effect.Was)) == fold(effect.Text) {
				return content, Effect{Operation: effect.Operation, Kind: Duplicate}
			}
			effect.Kind, effect.Now = Replaced, effect.Was[:markerAt(effect.Was)]+line
			return splice(content, target.from, target.to, effect.Now), effect
		}
	}
	if known[fold(effect.Text)] > 0 {
		effect.Kind = Duplicate
		return content, effect
	}
	effect.Kind, effect.Now = Added, line
	if !exists {
		return appendSection(content, line), effect
	}
	return s.insert(content, line), effect
}

// messageName is a message id fit to stand in a line's provenance.
func messageName(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '(' || r == ')' {
			return -1
		}
		return r
	}, oneLine(id))
}

// markerAt is where a list line's marker begins: lists may be indented.
func markerAt(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// quoted finds the list item that a model quotes, which may be without its marker and provenance. An item of several
// lines is not found: replacing a part of it would change what the rest says.
func (s section) quoted(content []byte, quote string) (span, bool) {
	exact, meaning := strings.TrimSpace(quote), fold(said(quote))
	if meaning == "" || strings.HasPrefix(exact, "#") {
		return span{}, false
	}
	for _, same := range []func(string) bool{
		func(line string) bool { return strings.TrimSpace(line) == exact },
		func(line string) bool { return fold(said(line)) == meaning },
	} {
		for _, i := range s.items {
			if i.single && same(i.line.of(content)) {
				return i.line, true
			}
		}
	}
	return span{}, false
}

// insert adds a line behind the section's last list item, or where its first belongs.
func (s section) insert(content []byte, line string) []byte {
	eol := ending(content)
	if s.listEnd > 0 {
		return splice(content, s.listEnd, s.listEnd, unended(content, s.listEnd, eol)+line+eol)
	}
	at := blankFrom(content, s.body, s.end)
	added := unended(content, at, eol) + eol + line + eol
	if at < len(content) && len(bytes.TrimSpace(lineBytes(content, at))) > 0 {
		added += eol // a heading follows at once
	}
	return splice(content, at, at, added)
}

// appendSection adds the section at the end of the file.
func appendSection(content []byte, line string) []byte {
	eol := ending(content)
	added := Heading + eol + eol + line + eol
	bare := bytes.TrimPrefix(content, byteOrderMark)
	if len(bytes.TrimSpace(bare)) > 0 {
		last := bytes.TrimRight(content, "\r\n")
		blank := bytes.Count(content[len(last):], []byte{'\n'}) > 1 || len(bytes.TrimSpace(content[lineStart(content, len(content)-1):])) == 0
		if !blank {
			added = eol + added
		}
	}
	return splice(content, len(content), len(content), unended(content, len(content), eol)+added)
}

// unended is the line ending that a line before at still needs: the file's last line may have none.
func unended(content []byte, at int, eol string) string {
	if at == 0 || content[at-1] == '\n' || at == len(byteOrderMark) && bytes.HasPrefix(content, byteOrderMark) {
		return ""
	}
	return eol
}

func lineBytes(content []byte, at int) []byte { return content[at:nextLine(content, at)] }

func splice(content []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(content)+len(with))
	return append(append(append(out, content[:from]...), with...), content[to:]...)
}

// Written tells whether a file holds any of the lines that effects put there: since a file is replaced as a whole, then
// all of them were written.
func Written(content []byte, effects []Effect) bool {
	for _, e := range effects {
		if _, ok := find(content, e.Now); e.Changes() && ok {
			return true
		}
	}
	return false
}

// find finds a list item of the section by its exact line.
func find(content []byte, line string) (item, bool) {
	s, _ := findSection(content)
	for _, i := range s.items {
		if i.line.of(content) == line {
			return i, true
		}
	}
	return item{}, false
}

// Undo tells what Revert did about one line.
type Undo struct {
	Line string   `json:"line"`
	Kind UndoKind `json:"undone"`
	Back string   `json:"back,omitempty"` // Restored: the line that stands there again
}

// UndoKind is what became of a line.
type UndoKind string

// What becomes of lines. Edited and missing lines are left to whoever changed them.
const (
	Removed  UndoKind = "removed"
	Restored UndoKind = "restored"
	Changed  UndoKind = "changed" // not there as it was written: edited or removed since
)

// Revert takes back what effects did to a file: added lines go, replaced ones return. A line that is not there exactly
// as it was written is left alone.
func Revert(content []byte, effects []Effect) ([]byte, []Undo) {
	var undone []Undo
	for _, e := range slices.Backward(effects) {
		if !e.Changes() {
			continue
		}
		undo := Undo{Line: e.Now, Kind: Changed}
		if i, ok := find(content, e.Now); ok && i.single {
			if e.Kind == Added {
				undo.Kind = Removed
				content = splice(content, i.line.from, nextLine(content, i.line.from), "")
			} else {
				undo.Kind, undo.Back = Restored, e.Was
				content = splice(content, i.line.from, i.line.to, e.Was)
			}
		}
		undone = append(undone, undo)
	}
	slices.Reverse(undone)
	return content, undone
}

// Gone lists what earlier states of a file said and the file does not say any more: what was forgotten or corrected.
func Gone(earlier []string, content []byte) []string {
	known := statements(content)
	var gone []string
	for _, before := range earlier {
		for line := range strings.Lines(before) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if meaning := fold(said(line)); meaning != "" && known[meaning] == 0 {
				known[meaning] = 1 // once
				gone = append(gone, said(line))
			}
		}
	}
	return gone
}
