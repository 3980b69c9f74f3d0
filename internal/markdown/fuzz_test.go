package markdown_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/markdown"
)

func seeds(f *testing.F) {
	for _, doc := range corpus(f) {
		if len(doc.text) < 2000 {
			f.Add(doc.text)
		}
	}
	for _, s := range []string{
		"***a** b*", "*a **b* c**", "_a_b_ *c*", "**a*b**c*", "`a``b`", "[a](b)[c]: d", "1. - > # x", "- - - x", "> > - ```",
		"|a|\n|-|\n|`b|`|", "![a](b)", "[[a](b)](c)", "<br>|<br/>", "a\\\nb\\", "~~a~b~~", "@a**b**@c", "\t- x\n\t\ty",
		"0. a\n1) b\n* c\n+ d", "**\u3000a**", "a\u200d**b**", "&#64;everyone", "[x]:<y>\n[x]", "- [ ] [x]\n- [x] ```\n  a\n  ```",
	} {
		f.Add(s)
	}
}

// FuzzSplit cuts any text at any length.
func FuzzSplit(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		for _, n := range []int{12, 60, 400} {
			checkSplit(t, "it", text, n)
		}
	})
}

// FuzzWrite reads what was written of any text.
func FuzzWrite(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		once := markdown.Written(text)
		if want, got := markdown.Read(text), markdown.Read(once); want != got {
			t.Errorf("%q is written as %q: %s", text, once, difference(want, got))
		}
	})
}

// FuzzMessages renders any text for every platform.
func FuzzMessages(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4000 {
			return
		}
		for _, p := range platforms() {
			var got strings.Builder
			for _, part := range markdown.Split(text, p.fits) {
				if err := p.limit(part); err != nil {
					t.Errorf("%s: %v", p.name, err)
				}
				shown := p.shown(part)
				got.WriteString(shown)
				if !utf8.ValidString(shown) {
					t.Errorf("%s: not UTF-8", p.name)
				}
			}
			want := strings.ReplaceAll(markdown.Read(text), "@alice", "")
			if r, lost := fewer(want, got.String()+unentity(got.String())); lost {
				t.Errorf("%s: %q is lost from %q: %q", p.name, r, text, got.String())
			}
		}
	})
}

// FuzzPings looks for what would notify somebody in the messages made of any text.
func FuzzPings(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4000 || !utf8.ValidString(text) {
			return
		}
		for platform := range pings {
			if found := pinged(platform, text); found != "" {
				t.Errorf("%s: %q", platform, found)
			}
		}
	})
}
