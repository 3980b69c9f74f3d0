package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names resolves the name of an "@name" in running text, never in code or in a link, to a platform's own mention, such
// as "<@U123>" for "alice". Where it says no, and where it is nil, the text stays text and notifies nobody. It is asked
// for the longest name first: for "@ada.lovelace." with "ada.lovelace", then with "ada".
type Names func(name string) (mention string, ok bool)

// wordJoiner is a character without width. Behind an "@" it keeps a platform from seeing a mention, and readers from
// seeing anything else.
const wordJoiner = "\u2060"

const (
	nameAtMost     = 64 // bytes
	attemptsAtMost = 4  // names that Names is asked for at one "@"
)

// guard tells whether a platform would notify somebody for an "@" before a name, which is what follows the "@" as far
// as it could belong to a name. A link that is shown as its own address is told of: a joiner would change the address.
type guard func(before rune, name string, in *link) bool

// addressed resolves the mentions in runs and disarms those that were not resolved.
func addressed(runs []run, names Names, g guard) []run {
	if !hasAt(runs) {
		return runs
	}
	out := make([]run, 0, len(runs)+2)
	before := ' '
	for i, r := range runs {
		if r.kind != textRun || r.style&inlineCode != 0 || strings.IndexByte(r.text, '@') < 0 {
			out = append(out, r)
			before = lastRune(r, before)
			continue
		}
		s, done := r.text, 0
		var b strings.Builder
		for at := strings.IndexByte(s, '@'); at >= 0; {
			b.WriteString(s[done : at+1])
			if at > 0 {
				before, _ = utf8.DecodeLastRuneInString(s[:at])
			}
			done = at + 1
			name := nameAt(s[done:])
			if native, n := resolve(names, name); n > 0 && r.link == nil && startsMention(before) {
				kept := b.String()
				if len(kept) > 1 {
					out = append(out, withText(r, kept[:len(kept)-1]))
				}
				out = append(out, run{kind: mentionRun, text: "@" + name[:n], native: native, style: r.style})
				b.Reset()
				done += n
			} else if whole := name + following(runs[i+1:], len(name) == len(s)-done); g(before, whole, r.link) ||
				at == 0 && g(' ', whole, r.link) { // where markup begins, a platform may see the beginning of a word
				b.WriteString(wordJoiner)
			}
			next := strings.IndexByte(s[done:], '@')
			if next < 0 {
				break
			}
			at = done + next
		}
		b.WriteString(s[done:])
		if b.Len() > 0 {
			out = append(out, withText(r, b.String()))
		}
		before = lastRune(r, before)
	}
	return out
}

func hasAt(runs []run) bool {
	for _, r := range runs {
		if strings.IndexByte(r.text, '@') >= 0 {
			return true
		}
	}
	return false
}

func withText(r run, s string) run {
	r.text = s
	return r
}

func lastRune(r run, before rune) rune {
	if r.kind == breakRun {
		return '\n'
	}
	if last, n := utf8.DecodeLastRuneInString(r.text); n > 0 {
		return last
	}
	return before
}

// nameAt is what s begins with that could be a name: letters, digits and "_-./".
func nameAt(s string) string {
	for i, r := range s {
		if i >= nameAtMost || !(r == '_' || r == '-' || r == '.' || r == '/' || unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return s[:i]
		}
	}
	return s[:min(len(s), nameAtMost)]
}

// following is how a name goes on in the runs after its own: markup within a name does not end it.
func following(runs []run, reachesEnd bool) string {
	var name string
	for _, r := range runs {
		if !reachesEnd || r.kind != textRun || len(name) > nameAtMost {
			break
		}
		more := nameAt(r.text)
		name, reachesEnd = name+more, len(more) == len(r.text)
	}
	return name
}

// startsMention tells whether an "@" after a character begins a mention, and is not within an address.
func startsMention(before rune) bool {
	return !unicode.IsLetter(before) && !unicode.IsDigit(before) && !strings.ContainsRune("_/.@-+", before) ||
		eastAsian(before)
}

// resolve asks for a name, then for shorter ones.
func resolve(names Names, name string) (native string, n int) {
	if names == nil {
		return "", 0
	}
	for range attemptsAtMost {
		name = strings.TrimRight(name, "-./")
		if name == "" {
			return "", 0
		}
		if native, ok := names(name); ok {
			return native, len(name)
		}
		shorter := strings.LastIndexAny(name, "-./")
		if end := strings.IndexFunc(name, notASCII); end > 0 && end > shorter {
			shorter = end
		}
		if shorter <= 0 {
			return "", 0
		}
		name = name[:shorter]
	}
	return "", 0
}

// everybody tells of the names that call all of a channel.
func everybody(name string) bool {
	for _, all := range []string{"channel", "here", "everyone"} {
		if len(name) >= len(all) && strings.EqualFold(name[:len(all)], all) {
			return true
		}
	}
	return false
}

// mapRuns makes a copy of blocks in which the text of every leaf has gone through f.
func mapRuns(blocks []*block, f func([]run) []run) []*block {
	out := make([]*block, len(blocks))
	for i, b := range blocks {
		c := *b
		if c.runs != nil {
			c.runs = f(c.runs)
		}
		if c.children != nil {
			c.children = mapRuns(c.children, f)
		}
		if c.rows != nil {
			c.rows = make([][]cell, len(b.rows))
			for j, row := range b.rows {
				c.rows[j] = make([]cell, len(row))
				for k, cell := range row {
					c.rows[j][k] = f(cell)
				}
			}
		}
		out[i] = &c
	}
	return out
}

// unlinked takes links apart that a platform does not follow, and those whose label is another address than the one
// they lead to, and shows where they lead.
func unlinked(runs []run, follows func(dest string) bool) []run {
	labels := labelsOf(runs)
	return unlinkedIf(runs, func(l *link) bool { return follows(l.dest) && !deceptive(labels[l], l.dest) })
}

// labelsOf is what the links among runs show.
func labelsOf(runs []run) map[*link]string {
	var labels map[*link]string
	for _, r := range runs {
		if r.link != nil {
			if labels == nil {
				labels = map[*link]string{}
			}
			labels[r.link] += r.text
		}
	}
	return labels
}

func deceptive(label, dest string) bool {
	return strings.Contains(label, "://") && strings.TrimSuffix(label, "/") != strings.TrimSuffix(dest, "/")
}

func unlinkedIf(runs []run, follows func(*link) bool) []run {
	var out []run
	for i := 0; i < len(runs); {
		l := runs[i].link
		if l == nil || follows(l) {
			if out != nil {
				out = append(out, runs[i])
			}
			i++
			continue
		}
		if out == nil {
			out = append(make([]run, 0, len(runs)+1), runs[:i]...)
		}
		shown := ""
		var last run
		for ; i < len(runs) && (runs[i].link == l || runs[i].kind == breakRun && i+1 < len(runs) && runs[i+1].link == l); i++ {
			last = runs[i]
			last.link = nil
			shown += last.text
			out = append(out, last)
		}
		if !l.auto && shown != l.dest {
			out = append(out, run{text: " (" + l.dest + ")", style: last.style &^ inlineCode})
		}
	}
	if out == nil {
		return runs
	}
	return out
}
