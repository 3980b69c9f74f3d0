package markdown_test

import (
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/markdown"
)

// hostile are texts that cost a parser of Markdown, or a careless renderer, the square of their length.
var hostile = map[string]func(n int) string{
	"open brackets":        func(n int) string { return strings.Repeat("[", n) },
	"brackets":             func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"links within links":   func(n int) string { return strings.Repeat("[a](", n/4) },
	"images":               func(n int) string { return strings.Repeat("![a](", n/5) },
	"closed links":         func(n int) string { return strings.Repeat("[a](b)", n/6) },
	"titles":               func(n int) string { return strings.Repeat("[a](b \"", n/7) },
	"references":           func(n int) string { return strings.Repeat("[a][", n/4) },
	"definitions":          func(n int) string { return strings.Repeat("[a]: b \"c\n", n/10) },
	"definitions in use":   func(n int) string { return strings.Repeat("[a]: http://b\n\n[a]\n\n", n/20) },
	"stars":                func(n int) string { return strings.Repeat("*a **a ", n/7) },
	"stars within words":   func(n int) string { return strings.Repeat("a**b", n/4) },
	"closing stars":        func(n int) string { return strings.Repeat("a* ", n/3) },
	"underscores":          func(n int) string { return strings.Repeat("_a", n/2) },
	"tildes":               func(n int) string { return strings.Repeat("~~a ", n/4) },
	"all marks":            func(n int) string { return strings.Repeat("*_~`[", n/5) },
	"backticks":            func(n int) string { return backticks(n) },
	"quotes in a line":     func(n int) string { return strings.Repeat("> ", n/2) },
	"quotes in many lines": func(n int) string { return strings.Repeat(strings.Repeat(">", 200)+"a\n", n/202) },
	"lists in a line":      func(n int) string { return strings.Repeat("* ", n/2) + "a" },
	"ever deeper lists":    func(n int) string { return deeper(n) },
	"items":                func(n int) string { return strings.Repeat("- a\n", n/4) },
	"loose items":          func(n int) string { return strings.Repeat("1. a\n\n", n/6) },
	"paragraphs":           func(n int) string { return strings.Repeat("a\n\n", n/3) },
	"lines":                func(n int) string { return strings.Repeat("a\n", n/2) },
	"headings":             func(n int) string { return strings.Repeat("# a\n", n/4) },
	"one word":             func(n int) string { return strings.Repeat("a", n) },
	"one Chinese word":     func(n int) string { return strings.Repeat("字", n/3) },
	"one grapheme":         func(n int) string { return "a" + strings.Repeat("\u0301", n/2) },
	"joiners":              func(n int) string { return strings.Repeat("👩\u200d", n/7) },
	"entities":             func(n int) string { return strings.Repeat("&lt;", n/4) },
	"ampersands":           func(n int) string { return strings.Repeat("&", n) },
	"backslashes":          func(n int) string { return strings.Repeat("\\", n) },
	"angles":               func(n int) string { return strings.Repeat("<a:", n/3) },
	"addresses":            func(n int) string { return strings.Repeat("http://a.b/", n/11) },
	"addresses in words":   func(n int) string { return strings.Repeat("(http://a.b_", n/12) },
	"mail":                 func(n int) string { return strings.Repeat("a@", n/2) },
	"names":                func(n int) string { return strings.Repeat("@a.b.c-d/e ", n/11) },
	"joined names":         func(n int) string { return "@" + strings.Repeat("a.", n/2) },
	"rows":                 func(n int) string { return "|a|b|\n|-|-|\n" + strings.Repeat("|c|d|\n", n/6) },
	"columns":              func(n int) string { return "|" + strings.Repeat("a|", n/4) + "\n|" + strings.Repeat("-|", n/4) + "\n" },
	"cells of code":        func(n int) string { return "|a|b|\n|-|-|\n" + strings.Repeat("|`a\\|b`|c|\n", n/11) },
	"headers only":         func(n int) string { return strings.Repeat("|a|\n|-|\n\n", n/9) },
	"open code":            func(n int) string { return "```\n" + strings.Repeat("a b\n", n/4) },
	"code of backticks":    func(n int) string { return "~~~\n" + strings.Repeat("`", n) + "\n~~~" },
	"breaks":               func(n int) string { return strings.Repeat("a<br>", n/5) },
	"bold lines":           func(n int) string { return strings.Repeat("**a**\n", n/6) },
	"bold words":           func(n int) string { return strings.Repeat("**a** ", n/6) },
	"dashes":               func(n int) string { return strings.Repeat("-", n) },
	"spaces":               func(n int) string { return "a" + strings.Repeat(" ", n) + "b" },
	"tabs":                 func(n int) string { return strings.Repeat("\t", n) + "b" },
	"zeros":                func(n int) string { return strings.Repeat("\x00", n) },
	"not UTF-8":            func(n int) string { return strings.Repeat("\xff", n) },
}

func backticks(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("`", i) + "a")
	}
	return b.String()
}

func deeper(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(" ", 2*(i%400)) + "- a\n")
	}
	return b.String()
}

// No answer is as long as these texts. Were the cost of one the square of its length, this test would not end.
func TestHostileTextsAreRendered(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		long, short := text(1<<16), text(1<<12)
		markdown.GitHub(long, gitHubOptions)
		markdown.Slack(short, slackOptions)
		markdown.SlackText(short, slackOptions)
		markdown.Discord(short, discordOptions)
		markdown.Telegram(short, telegramOptions)
		markdown.Plain(long)
	}
}

func TestAMegabyteIsRendered(t *testing.T) {
	t.Parallel()
	source := ordinary(t, 1<<20)
	for _, p := range platforms() {
		if p.fits(source) {
			t.Errorf("%s takes a megabyte", p.name)
		}
	}
}

func TestALongTextIsSplitForEveryPlatform(t *testing.T) {
	t.Parallel()
	source := ordinary(t, 1<<15)
	for _, p := range platforms() {
		for _, part := range markdown.Split(source, p.fits) {
			if err := p.limit(part); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

// ordinary is a text of at least n bytes that has everything in it that answers have.
func ordinary(t *testing.T, n int) string {
	var b strings.Builder
	for b.Len() < n {
		for _, doc := range corpus(t) {
			if len(doc.text) < 1500 {
				b.WriteString(doc.text + "\n\n")
			}
		}
	}
	return b.String()
}

// The work of Split is counted in what it has checked for its fit.
func TestSplitChecksAsMuchAsTheTextIsLong(t *testing.T) {
	t.Parallel()
	const perByte = 40 // each part is tried a dozen times, and may be up to twice too long
	for name, text := range hostile {
		source := text(1 << 14)
		checked := 0
		parts := markdown.Split(source, func(part string) bool {
			checked += len(part)
			return len(part) <= 4000
		})
		if checked > perByte*len(source)+1<<16 {
			t.Errorf("%s: %d bytes checked for %d", name, checked, len(source))
		}
		for _, part := range parts {
			if len(part) > 4000 {
				t.Errorf("%s: a part of %d bytes", name, len(part))
				break
			}
		}
	}
}

func BenchmarkAnswer(b *testing.B) {
	var source string
	for _, doc := range corpus(b) {
		if doc.name == "answer" {
			source = doc.text
		}
	}
	for _, p := range platforms() {
		b.Run(p.name, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				for _, part := range markdown.Split(source, p.fits) {
					p.text(part)
				}
			}
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	source := strings.Repeat("A paragraph of **some** text with `code` and [a link](https://example.com).\n\n- an item\n- another\n\n", 100)
	for _, p := range platforms() {
		b.Run(p.name, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				markdown.Split(source, p.fits)
			}
		})
	}
}
