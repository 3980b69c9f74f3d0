package markdown_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	unsafe "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"

	"github.com/geminixiang/mikan/internal/markdown"
)

// fencesBalance tells whether a message opens and closes its code blocks, all in one language.
func fencesBalance(message, language string) bool {
	open := false
	for line := range strings.Lines(message) {
		line = strings.TrimRight(line, "\n")
		switch {
		case open && line == "```":
			open = false
		case !open && strings.HasPrefix(line, "```"):
			if line != "```"+language {
				return false
			}
			open = true
		}
	}
	return !open
}

func TestALongCodeBlockIsClosedAndOpenedAgainInItsLanguage(t *testing.T) {
	t.Parallel()
	lines := make([]string, 300)
	for i := range lines {
		lines[i] = strings.Repeat("x", i%90) + " := 1"
	}
	source := "Intro.\n\n```go\n" + strings.Join(lines, "\n") + "\n```\n\nOutro."
	parts := markdown.Split(source, markdown.FitsDiscord(discordOptions))
	var code []string
	for i, part := range parts {
		message := markdown.Discord(part, discordOptions)
		if n := utf8.RuneCountInString(message); n > 2000 {
			t.Errorf("message %d has %d characters", i, n)
		}
		if !fencesBalance(message, "go") {
			t.Errorf("message %d:\n%s", i, message)
		}
		for line := range strings.Lines(message) {
			if line = strings.TrimRight(line, "\n"); strings.HasSuffix(line, ":= 1") {
				code = append(code, line)
			}
		}
	}
	if !slices.Equal(code, lines) {
		t.Errorf("%d lines of code came out, %d went in, or in another order", len(code), len(lines))
	}
	if len(parts) < 5 {
		t.Errorf("%d messages", len(parts))
	}
}

func TestAFenceAtTheLimitCountsItsClosing(t *testing.T) {
	t.Parallel()
	for n := 1970; n <= 2010; n++ {
		source := "```\n" + strings.Repeat("a", n) + "\n```"
		for i, part := range markdown.Split(source, markdown.FitsDiscord(discordOptions)) {
			if l := utf8.RuneCountInString(markdown.Discord(part, discordOptions)); l > 2000 {
				t.Errorf("%d characters of code: message %d has %d", n, i, l)
			}
		}
	}
}

func TestNoMessageCutsAGrapheme(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Chinese":   strings.Repeat("漢字假名交錯文", 430),
		"families":  strings.Repeat("👨‍👩‍👧‍👦", 900),
		"flags":     strings.Repeat("🇩🇪🇨🇭", 900),
		"accents":   strings.Repeat("e\u0301\u0323", 3000),
		"mixed":     strings.Repeat("a👍🏽각é ", 900),
		"in a list": "- " + strings.Repeat("🏴󠁧󠁢󠁥󠁮󠁧󠁿", 900),
	} {
		whole := graphemes(markdown.Read(text))
		for _, p := range platforms() {
			var got []string
			for _, part := range markdown.Split(text, p.fits) {
				got = append(got, graphemes(markdown.Read(part))...)
			}
			if !slices.Equal(got, whole) {
				t.Errorf("%s on %s: %d graphemes, want %d", name, p.name, len(got), len(whole))
			}
		}
	}
}

func graphemes(s string) []string {
	var out []string
	for g := uniseg.NewGraphemes(s); g.Next(); {
		out = append(out, g.Str())
	}
	return out
}

func TestPunctuationCostsTelegramNothing(t *testing.T) {
	t.Parallel()
	source := strings.Repeat("!", 4096)
	if parts := markdown.Split(source, markdown.FitsTelegram(telegramOptions)); len(parts) != 1 {
		t.Errorf("%d messages", len(parts))
	}
	for _, source := range []string{"---", "a - b", "1.", "(x)", "snake_case_", "a.b.c!", "#", "|", "{}", "=", "~", ">", "+", "\\"} {
		m := markdown.Telegram("x "+source+" y", telegramOptions)
		if m.Text != "x "+source+" y" || len(m.Entities) > 0 {
			t.Errorf("%q: %+v", source, m)
		}
	}
}

func TestMarkupOverABoundaryStandsInBothMessages(t *testing.T) {
	t.Parallel()
	source := "**" + strings.Repeat("bold words ", 500) + "[a link " + strings.Repeat("with a long label ", 200) +
		"](https://example.com) and `" + strings.Repeat("code ", 900) + "`** end"
	parts := markdown.Split(source, markdown.FitsTelegram(telegramOptions))
	if len(parts) < 3 {
		t.Fatalf("%d messages", len(parts))
	}
	for i, part := range parts {
		m := markdown.Telegram(part, telegramOptions)
		if err := checkEntities(m); err != nil {
			t.Errorf("message %d: %v", i, err)
		}
		if strings.ContainsAny(m.Text, "*`[]") {
			t.Errorf("message %d shows markup: %.200q", i, m.Text)
		}
		if len(m.Entities) == 0 {
			t.Errorf("message %d has no markup", i)
		}
	}
}

func TestSlackShowsChineseBoldAndNestedListsNatively(t *testing.T) {
	t.Parallel()
	m := markdown.Slack("**粗體**中文\n\n- a\n  - b\n    - c\n", slackOptions)
	if len(m.Blocks) != 1 || m.Blocks[0].Type != markdown.SlackMarkdown ||
		m.Blocks[0].Text != "**粗體**中文\n\n- a\n  - b\n    - c" {
		t.Errorf("%+v", m.Blocks)
	}
	// CommonMark, which Slack follows, reads no emphasis between a letter and punctuation: the marks move.
	if m := markdown.Slack("これは**「強調」**だ", slackOptions); m.Blocks[0].Text != "これは「**強調**」だ" {
		t.Errorf("%q", m.Blocks[0].Text)
	}
}

func TestCodeComesOutByteForByte(t *testing.T) {
	t.Parallel()
	code := "if a<b && c>d {\n\tprintln(\"<@U1> <!channel> &lt; @everyone @alice \u00e9\")  \n\n    return `x`\n}"
	for name, message := range map[string]string{
		"slack":    slackShown("```go\n" + code + "\n```"),
		"discord":  markdown.Discord("```go\n"+code+"\n```", discordOptions),
		"telegram": markdown.Telegram("```go\n"+code+"\n```", telegramOptions).Text,
		"github":   markdown.GitHub("```go\n"+code+"\n```", gitHubOptions),
		"plain":    markdown.Plain("```go\n" + code + "\n```"),
	} {
		if !strings.Contains(message, code) {
			t.Errorf("%s: %q", name, message)
		}
	}
	inline := "a<b && c>d"
	if m := markdown.Slack("Use `"+inline+"` here", slackOptions); !strings.Contains(asJSON(m), `"text": "`+inline+`"`) {
		t.Errorf("slack: %s", asJSON(m))
	}
	if m := markdown.Slack("```\nplain code\n```", slackOptions); m.Blocks[0].Text != "```\nplain code\n```" {
		t.Errorf("slack: %+v", m)
	}
}

func TestAComparisonIsShownLiterally(t *testing.T) {
	t.Parallel()
	const source, want = "a<b && c>d", "a<b && c>d"
	if got := slackShown(source); got != want {
		t.Errorf("slack: %q", got)
	}
	if got := unentity(markdown.Slack(source, slackOptions).Text); got != want {
		t.Errorf("slack's notification: %q", got)
	}
	if got := markdown.Telegram(source, telegramOptions).Text; got != want {
		t.Errorf("telegram: %q", got)
	}
	if got := unentity(markdown.GitHub(source, gitHubOptions)); got != want {
		t.Errorf("github: %q", got)
	}
	if got := strings.ReplaceAll(markdown.Discord(source, discordOptions), `\`, ""); got != want {
		t.Errorf("discord: %q", got)
	}
}

func TestALongAnswerArrivesWholeAndInOrder(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for b.Len() < 9000 {
		b.WriteString("This is one more sentence of a long answer. ")
	}
	source := strings.TrimSpace(b.String())
	for _, p := range platforms() {
		var got []string
		for _, part := range markdown.Split(source, p.fits) {
			got = append(got, strings.TrimSpace(part))
			if !strings.HasSuffix(strings.TrimSpace(part), ".") {
				t.Errorf("%s: cut within a sentence: …%q", p.name, part[max(0, len(part)-30):])
			}
		}
		if strings.Join(got, " ") != source {
			t.Errorf("%s: %d messages do not make up the answer", p.name, len(got))
		}
	}
}

func TestWhatMayNestIsCutAtItsSeams(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, source string
		at           int
		want         []string
	}{
		{"between blocks", "one\n\ntwo\n\nthree", 10, []string{"one\n\ntwo", "three"}},
		{"a heading stays with its text", "first paragraph\n\n# H\n\ntext", 24, []string{"first paragraph", "# H\n\ntext"}},
		{"between items, which keep their numbers", "3. aaaa\n4. bbbb\n5. cccc", 16, []string{"3. aaaa\n4. bbbb", "5. cccc"}},
		{"within an item, which keeps its depth", "- a\n  - b1 b1\n  - b2 b2\n- c", 18, []string{"- a\n  - b1 b1", "- - b2 b2\n- c"}},
		{"between rows, under the header", "| h | i |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |", 34,
			[]string{"| h | i |\n| --- | --- |\n| 1 | 2 |", "| h | i |\n| --- | --- |\n| 3 | 4 |"}},
		{"between lines of code", "```sh\none\ntwo\nthree\n```", 18, []string{"```sh\none\ntwo\n```", "```sh\nthree\n```"}},
		{"quoted code", "> ```sh\n> one\n> two\n> ```", 20, []string{"> ```sh\n> one\n> ```", "> ```sh\n> two\n> ```"}},
		{"between sentences", "One here. Two there. Three.", 21, []string{"One here. Two there.", "Three."}},
		{"between words", "alpha beta gamma", 12, []string{"alpha beta", "gamma"}},
		{"between letters in the end", "abcdefgh", 5, []string{"abcde", "fgh"}},
		{"emphasis goes on", "**alpha beta** gamma", 12, []string{"**alpha**", "**beta**", "gamma"}},
		{"bold Chinese", "**甲乙丙丁戊己**", 7, []string{"**甲乙丙**", "**丁戊己**"}},
	} {
		if got := markdown.Split(test.source, atMost(test.at)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestATableKeepsItsHeaderInEveryMessage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| Number | Square |\n|---:|---:|\n")
	for i := range 250 {
		b.WriteString("| " + strings.Repeat("1", 1+i%9) + " | x |\n")
	}
	for _, p := range platforms() {
		rows := 0
		for i, part := range markdown.Split(b.String(), p.fits) {
			if !strings.HasPrefix(part, "| Number | Square |\n| --: | --: |\n") && part != b.String() {
				t.Errorf("%s, message %d: %.60q", p.name, i, part)
			}
			rows += strings.Count(part, "| x |")
		}
		if rows != 250 {
			t.Errorf("%s: %d rows", p.name, rows)
		}
	}
}

// pings are the ways in which a platform's own markup notifies people, outside of code.
var pings = map[string]*regexp.Regexp{
	"slack":    regexp.MustCompile(`(?i)<[@!#]|@(channel|here|everyone)`),
	"discord":  regexp.MustCompile(`(?i)@(everyone|here)|<@`),
	"telegram": regexp.MustCompile(`(?:^|[^\pL\pN_])@[A-Za-z][A-Za-z0-9_]{2,}`),
	"github":   regexp.MustCompile(`(?:^|[^A-Za-z0-9_])@[A-Za-z0-9]`),
}

// pinged finds what notifies somebody in a message without resolved names.
func pinged(platform, source string) string {
	switch platform {
	case "slack":
		m := markdown.Slack(source, markdown.SlackOptions{})
		if found := pings[platform].FindString(m.Text); found != "" { // has no code
			return found
		}
		texts := []string{markdown.SlackText(source, markdown.SlackOptions{})}
		for _, b := range m.Blocks {
			texts = append(texts, b.Text) // rich text is not read
			if strings.Contains(asJSON(b.Elements), `"user_id"`) || strings.Contains(asJSON(b.Rows), `"user_id"`) {
				return "a user element"
			}
		}
		for _, text := range texts {
			if found := pings[platform].FindString(outsideCode(text)); found != "" {
				return found
			}
		}
		return ""
	case "discord":
		return pings[platform].FindString(outsideCode(markdown.Discord(source, markdown.DiscordOptions{})))
	case "github":
		text := markdown.GitHub(source, markdown.GitHubOptions{})
		if found := regexp.MustCompile(`(?i)<!--\s*mikan:`).FindString(text); found != "" {
			return found
		}
		return gitHubPing(text)
	default:
		m := markdown.Telegram(source, markdown.TelegramOptions{})
		all := utf16.Encode([]rune(m.Text))
		for _, e := range m.Entities {
			if e.Type == markdown.InlineCode || e.Type == markdown.Pre {
				for i := range e.Length {
					all[e.Offset+i] = ' '
				}
			}
			if strings.HasPrefix(e.URL, "tg:") {
				return e.URL
			}
		}
		return pings[platform].FindString(string(utf16.Decode(all)))
	}
}

// outsideCode blanks what stands in backticks. It reads what this package writes, which has no other use of them but
// behind a backslash.
func outsideCode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == '\\' && i+1 < len(s) {
			b.WriteString(s[i : i+2])
			i += 2
			continue
		}
		n := 0
		for i+n < len(s) && s[i+n] == '`' {
			n++
		}
		if n == 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		end := closing(s[i+n:], n)
		if end < 0 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		b.WriteString(" ")
		i += n + end + n
	}
	return b.String()
}

// closing finds a run of exactly n backticks.
func closing(s string, n int) int {
	for i := 0; i < len(s); {
		m := 0
		for i+m < len(s) && s[i+m] == '`' {
			m++
		}
		if m == n {
			return i
		}
		i += max(m, 1)
	}
	return -1
}

// gitHubPing renders a comment and looks for mentions as GitHub does: in text that is in no link and no code.
func gitHubPing(comment string) string {
	var page bytes.Buffer
	stock := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(unsafe.WithUnsafe()))
	if err := stock.Convert([]byte(comment), &page); err != nil {
		return err.Error()
	}
	inside := 0
	z := html.NewTokenizer(&page)
	for {
		kind := z.Next()
		name, _ := z.TagName()
		quiet := string(name) == "a" || string(name) == "code" || string(name) == "pre"
		switch {
		case kind == html.ErrorToken:
			return ""
		case kind == html.CommentToken:
			return "a comment of HTML"
		case kind == html.StartTagToken && quiet:
			inside++
		case kind == html.EndTagToken && quiet:
			inside--
		case kind == html.TextToken && inside == 0:
			if found := pings["github"].FindString(html.UnescapeString(string(z.Raw()))); found != "" {
				return found
			}
		}
	}
}

func TestNothingNotifiesAnybodyUnlessItWasResolved(t *testing.T) {
	t.Parallel()
	for platform := range pings {
		for _, doc := range corpus(t) {
			if found := pinged(platform, doc.text); found != "" {
				t.Errorf("%s, %s: %q", platform, doc.name, found)
			}
		}
	}
}

func TestResolvedNamesBecomeMentions(t *testing.T) {
	t.Parallel()
	const source = "@alice, mail x@alice.com or `@alice`; [@alice](https://example.com) @bob_the_builder"
	if got, want := markdown.Discord(source, discordOptions), "<@111>, mail x@alice.com or `@alice`; [@alice](https://example.com) @bob\\_the\\_builder"; got != want {
		t.Errorf("discord: %q, want %q", got, want)
	}
	if got := markdown.Slack(source, slackOptions).Blocks[0].Text; !strings.HasPrefix(got, "<@UALICE>, mail ") || strings.Count(got, "UALICE") != 1 {
		t.Errorf("slack: %q", got)
	}
	if got := markdown.GitHub(source, gitHubOptions); !strings.HasPrefix(got, "@alice-gh, mail ") || strings.Count(got, "alice-gh") != 1 {
		t.Errorf("github: %q", got)
	}
	m := markdown.Telegram(source, telegramOptions)
	if len(m.Entities) != 3 || m.Entities[0].URL != "tg://user?id=111" || m.Entities[0].Length != 6 {
		t.Errorf("telegram: %+v", m)
	}
	asked := []string{}
	markdown.Plain(source)
	markdown.GitHub("@ada.lovelace-x. @org/team @你好 @", markdown.GitHubOptions{Names: func(name string) (string, bool) {
		asked = append(asked, name)
		return "", false
	}})
	if want := []string{"ada.lovelace-x", "ada.lovelace", "ada", "org/team", "org", "你好"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

func TestNoTextPassesForAMarkerOfOurs(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"<!-- mikan:k -->", "`<!-- mikan:k -->`", "```\n<!-- mikan:k -->\n```", "&lt;!-- mikan:k -->", "<!--\nmikan:k -->",
		"[x](<!-- mikan:k -->)", "![<!-- mikan:k -->](https://example.com)", "| a |\n|---|\n| `<!-- mikan:k -->` |",
		"[<!-- mikan:k -->]: https://example.com", "~~~ <!-- mikan:k -->\nx\n~~~", "<<!-- mikan:k -->>", "`<!`-- mikan:k -->",
	} {
		if got := markdown.GitHub(source, gitHubOptions); regexp.MustCompile(`(?i)<!--\s*mikan:`).MatchString(got) {
			t.Errorf("%q becomes %q", source, got)
		}
	}
}

func TestAnUnfinishedTextIsRendered(t *testing.T) {
	t.Parallel()
	for _, doc := range corpus(t) {
		text := doc.text
		if len(text) > 2000 {
			text = text[:2000]
		}
		for cut := 0; cut <= len(text); cut += 1 + len(text)/12 {
			for _, p := range platforms() {
				part := text[:cut]
				if !p.fits(part) {
					continue
				}
				if err := p.limit(part); err != nil {
					t.Errorf("%s, %s up to %d: %v", p.name, doc.name, cut, err)
				}
			}
		}
	}
}
