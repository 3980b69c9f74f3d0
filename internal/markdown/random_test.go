package markdown_test

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/markdown"
)

var rounds = flag.Int("rounds", 300, "random texts to try")

var first = flag.Int("first", 0, "the first seed of random texts")

// tokens are what markup is made of, and what stands around it.
var tokens = []string{
	"*", "**", "***", "_", "__", "~~", "~", "`", "``", "```", "[", "]", "](", "](https://x.example/a)", "(", ")", "![", "!",
	"a", "b", "word", "snake_case", "中文", "「", "」", "。", "é", "👨‍👩‍👧", "e\u0301", " ", " ", " ", "  ", "\t", "\n", "\n", "\n", "\n\n",
	"\n\n", "\n- ", "\n* ", "\n1. ", "\n7) ", "\n  - ", "\n   ", "\n    ", "\n> ", "\n> > ", "\n# ", "\n## ", "\n---\n", "\n===\n",
	"\n```go\n", "\n```\n", "\n~~~\n", "\n| a | b |\n|---|:-:|\n", "|", " | ", "\\", "\\|", "&lt;", "&amp;", "&", "<", ">", "<br>", "<b>",
	"<!-- mikan:", "<@U1>", "<!here>", "<@&1>", "@alice", "@bob", "@everyone", "@", "https://x.example/a_b", "www.x.example", "m@x.example",
	"[a]: https://x.example\n", "[a]", "- [ ] ", "[x] ", ":", ".", ",", "\"", "'", "1", "-", "+", "=", "#", "\u200b", "\u00a0", "\x00",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(40) {
		b.WriteString(tokens[r.IntN(len(tokens))])
	}
	return b.String()
}

func TestRandomMarkupKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	for seed := *first; seed < *first+*rounds; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // reproducible
		text := randomText(r)
		once := markdown.Written(text)
		if want, got := markdown.Read(text), markdown.Read(once); want != got {
			t.Errorf("%d: %q is written as %q: %s", seed, text, once, difference(want, got))
		}
		checkSplit(t, text, text, 8+r.IntN(60))
		for _, p := range platforms() {
			if err := p.limit(text); err != nil && p.fits(text) {
				t.Errorf("%d: %s: %q: %v", seed, p.name, text, err)
			}
			shown := ""
			for _, part := range markdown.Split(text, p.fits) {
				shown += p.shown(part)
			}
			want := strings.ReplaceAll(markdown.Read(text), "@alice", "")
			if c, lost := fewer(want, shown+unentity(shown)); lost {
				t.Errorf("%d: %s: %q is lost from %q: %q", seed, p.name, c, text, shown)
			}
			if found := pinged(p.name, text); found != "" {
				t.Errorf("%d: %s: %q pings with %q: %s", seed, p.name, text, found, p.text(text))
			}
		}
		if t.Failed() {
			return
		}
	}
}
