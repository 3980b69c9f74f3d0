package markdown_test

import (
	"testing"

	"github.com/geminixiang/mikan/internal/markdown"
)

func TestADraftClosesWhatIsOpen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ partial, want string }{
		{"", ""},
		{"plain text", "plain text"},
		{"closed **bold** and *it*", "closed **bold** and *it*"},
		{"open **bold", "open **bold**"},
		{"open **bold ", "open **bold**"},
		{"open **bold and *both", "open **bold and *both***"},
		{"half closed **bold*", "half closed **bold**"},
		{"marks only **", "marks only"},
		{"~~gone", "~~gone~~"},
		{"some `cod", "some `cod`"},
		{"some ``a`b", "some ``a`b``"},
		{"some `", "some"},
		{"**bold with `cod", "**bold with `cod`**"},
		{"see [the lo", "see [the lo"},
		{"see [the log](https://ci.exam", "see the log"},
		{"see [the log](https://x.example) and", "see [the log](https://x.example) and"},
		{"- item\n- **bold", "- item\n- **bold**"},
		{"# Head *it", "# Head *it*"},
		{"> quoted **b", "> quoted **b**"},
		{"| a | b |\n|---|---|\n| **x", "| a | b |\n|---|---|\n| **x**"},
		{"**done**\n\n```go\nx := a*b", "**done**\n\n```go\nx := a*b"},
		{"2 * 3 and snake_case", "2 * 3 and snake_case"},
		{"`a` is **b** and `c", "`a` is **b** and `c`"},
		{"\\*no", "\\*no"},
		{"**粗體", "**粗體**"},
	} {
		if got := markdown.Draft(test.partial); got != test.want {
			t.Errorf("%q becomes %q, want %q", test.partial, got, test.want)
		}
	}
}

func TestADraftOfAnythingIsRendered(t *testing.T) {
	t.Parallel()
	for _, doc := range corpus(t) {
		text := doc.text[:min(len(doc.text), 800)]
		for cut := 0; cut <= len(text); cut += 1 + len(text)/25 {
			draft := markdown.Draft(text[:cut])
			for _, p := range platforms() {
				if !p.fits(draft) {
					continue
				}
				if err := p.limit(draft); err != nil {
					t.Errorf("%s, %s up to %d: %v", p.name, doc.name, cut, err)
				}
			}
		}
	}
}
