package markdown_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	unsafe "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"

	"github.com/geminixiang/mikan/internal/markdown"
)

// missing tells the first character of want, with what stands around it, that is not in got behind those before it.
func missing(want, got string) (around string, lost bool) {
	rest := got
	for i, r := range want {
		at := strings.IndexRune(rest, r)
		if at < 0 {
			return want[max(0, i-30):min(len(want), i+30)], true
		}
		rest = rest[at+utf8.RuneLen(r):]
	}
	return "", false
}

// fewer tells a character of want that is in got less often.
func fewer(want, got string) (r rune, lost bool) {
	left := map[rune]int{}
	for _, r := range got {
		left[r]++
	}
	for _, r := range want {
		if left[r]--; left[r] < 0 {
			return r, true
		}
	}
	return 0, false
}

func TestNoVisibleCharacterIsLostOnAnyPlatform(t *testing.T) {
	t.Parallel()
	for _, p := range platforms() {
		for _, doc := range corpus(t) {
			var got strings.Builder
			for _, part := range markdown.Split(doc.text, p.fits) {
				got.WriteString(p.shown(part))
			}
			want := strings.ReplaceAll(markdown.Read(doc.text), "@alice", "")
			if strings.Contains(doc.name, "table") { // may come out as a list, which has another order
				if r, lost := fewer(want, got.String()); lost {
					t.Errorf("%s, %s: %q is lost", p.name, doc.name, r)
				}
			} else if around, lost := missing(want, got.String()); lost {
				// References to characters are none in code.
				if _, lost = missing(want, unentity(got.String())); lost {
					t.Errorf("%s, %s: lost at %q", p.name, doc.name, around)
				}
			}
		}
	}
}

// limits are lengths at which texts of the corpus are cut, from that of a few words to that of a platform.
var limits = []int{30, 200, 2000}

func atMost(n int) func(string) bool {
	return func(part string) bool { return utf8.RuneCountInString(part) <= n }
}

func TestThePartsShowWhatTheWholeShows(t *testing.T) {
	t.Parallel()
	for _, doc := range corpus(t) {
		for _, n := range limits {
			checkSplit(t, doc.name, doc.text, n)
		}
	}
}

func checkSplit(t *testing.T, name, text string, n int) {
	t.Helper()
	parts := markdown.Split(text, atMost(n))
	rest := markdown.Read(text)
	for i, part := range parts {
		if !utf8.ValidString(part) && utf8.ValidString(text) {
			t.Errorf("%s at %d: part %d is not UTF-8", name, n, i)
		}
		read := markdown.Read(part)
		if !strings.HasPrefix(rest, read) && i > 0 { // the header is repeated
			read = strings.TrimPrefix(read, markdown.Header(part))
		}
		if !strings.HasPrefix(rest, read) {
			t.Errorf("%s at %d: part %d: %s", name, n, i, difference(rest, read))
			return
		}
		rest = rest[len(read):]
		if len(parts) == 1 {
			break
		}
		if again := markdown.Split(part, atMost(max(n, utf8.RuneCountInString(part)))); len(again) != 1 || again[0] != part {
			t.Errorf("%s at %d: part %d is cut again", name, n, i)
		}
	}
	if rest != "" {
		t.Errorf("%s at %d: %q is in no part", name, n, rest)
	}
}

func TestAPartThatFitsIsWithinTheLimit(t *testing.T) {
	t.Parallel()
	for _, doc := range corpus(t) {
		for _, n := range limits[1:] {
			for i, part := range markdown.Split(doc.text, atMost(n)) {
				if l := utf8.RuneCountInString(part); l > n && utf8.RuneCountInString(markdown.Read(part)) > 12 {
					t.Errorf("%s at %d: part %d has %d characters", doc.name, n, i, l)
				}
			}
		}
	}
}

func TestWhatIsWrittenIsReadAsTheSame(t *testing.T) {
	t.Parallel()
	for _, doc := range corpus(t) {
		once := markdown.Written(doc.text)
		if twice := markdown.Written(once); once != twice {
			t.Errorf("%s: %s", doc.name, difference(once, twice))
		}
		if want, got := markdown.Read(doc.text), markdown.Read(once); want != got {
			t.Errorf("%s: %s", doc.name, difference(want, got))
		}
	}
}

// What the parser's own HTML renderer shows is in the tree, which is made independently of it.
func TestTheTreeHoldsAllText(t *testing.T) {
	t.Parallel()
	stock := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(unsafe.WithUnsafe()))
	for _, doc := range corpus(t) {
		var page bytes.Buffer
		source := strings.ReplaceAll(strings.ReplaceAll(doc.text, "\r\n", "\n"), "\x00", "\ufffd")
		if err := stock.Convert([]byte(source), &page); err != nil {
			t.Fatal(err)
		}
		want := shownByPage(page.String())
		if doc.name == "cjk-emphasis" { // which CommonMark does not see
			want = strings.ReplaceAll(want, "*", "")
		}
		if around, lost := missing(want, markdown.Read(doc.text)); lost {
			t.Errorf("%s: %q is not in the tree", doc.name, around)
		}
	}
}

// shownByPage is the text of HTML, without space and control characters.
func shownByPage(page string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return markdown.Condensed(strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return -1
				}
				return r
			}, b.String()))
		case html.TextToken:
			b.WriteString(html.UnescapeString(string(z.Raw())))
		}
	}
}
