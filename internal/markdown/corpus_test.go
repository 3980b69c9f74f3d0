package markdown_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/markdown"
)

var update = flag.Bool("update", false, "write the golden files anew, to be read before they are committed")

// document is one of testdata/corpus.
type document struct{ name, text string }

func corpus(t testing.TB) []document {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := make([]document, len(files))
	for i, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs[i] = document{strings.TrimSuffix(filepath.Base(f), ".md"), string(b)}
	}
	if len(docs) < 60 {
		t.Fatalf("%d documents, want at least 60", len(docs))
	}
	return docs
}

// platform is one way to render, with Alice known to it.
type platform struct {
	name  string
	fits  func(string) bool
	text  func(part string) string // what a golden file shows
	shown func(part string) string // what a reader sees, markup aside
	limit func(part string) error
}

func known(mention string) markdown.Names {
	return func(name string) (string, bool) { return mention, name == "alice" }
}

var (
	slackOptions    = markdown.SlackOptions{Names: known("<@UALICE>")}
	discordOptions  = markdown.DiscordOptions{Names: known("<@111>")}
	telegramOptions = markdown.TelegramOptions{Names: known("tg://user?id=111")}
	gitHubOptions   = markdown.GitHubOptions{Names: known("@alice-gh")}
)

func platforms() []platform {
	return []platform{
		{"slack", markdown.FitsSlack(slackOptions), slackText, slackShown, slackLimit},
		{"discord", markdown.FitsDiscord(discordOptions), discordText, discordText, discordLimit},
		{"telegram", markdown.FitsTelegram(telegramOptions), telegramText, telegramShown, telegramLimit},
		{"github", markdown.FitsGitHub(gitHubOptions), gitHubText, gitHubText, gitHubLimit},
	}
}

func asJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

func slackText(part string) string { return asJSON(markdown.Slack(part, slackOptions)) }

func discordText(part string) string { return markdown.Discord(part, discordOptions) }

func gitHubText(part string) string { return markdown.GitHub(part, gitHubOptions) }

func telegramText(part string) string {
	m := markdown.Telegram(part, telegramOptions)
	var b strings.Builder
	b.WriteString(m.Text + "\n")
	all := utf16.Encode([]rune(m.Text))
	for _, e := range m.Entities {
		of := string(utf16.Decode(all[e.Offset : e.Offset+e.Length]))
		if r := []rune(of); len(r) > 40 {
			of = string(r[:20]) + "…" + string(r[len(r)-20:])
		}
		fmt.Fprintf(&b, "[%d+%d %s %s%s] %q\n", e.Offset, e.Length, e.Type, e.URL, e.Language, of)
	}
	return b.String()
}

func telegramShown(part string) string { return markdown.Telegram(part, telegramOptions).Text }

var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

func unentity(s string) string { return entities.Replace(s) }

// slackShown collects the texts of a message's blocks.
func slackShown(part string) string {
	var b strings.Builder
	var walk func([]markdown.SlackElement)
	walk = func(elements []markdown.SlackElement) {
		for _, e := range elements {
			b.WriteString(e.Text)
			walk(e.Elements)
		}
	}
	for _, block := range markdown.Slack(part, slackOptions).Blocks {
		b.WriteString(unentity(block.Text))
		walk(block.Elements)
		for _, row := range block.Rows {
			walk(row)
		}
	}
	return b.String()
}

// slackLimit knows Slack's limits by itself.
func slackLimit(part string) error {
	m := markdown.Slack(part, slackOptions)
	if n := len(m.Blocks); n > 50 {
		return fmt.Errorf("%d blocks", n)
	}
	if n := utf8.RuneCountInString(m.Text); n > 40_000 {
		return fmt.Errorf("a fallback of %d characters", n)
	}
	characters, tables := 0, 0
	for _, b := range m.Blocks {
		switch b.Type {
		case markdown.SlackMarkdown:
			if b.Text == "" {
				return fmt.Errorf("an empty markdown block")
			}
			characters += utf8.RuneCountInString(b.Text)
		case markdown.SlackTable:
			tables++
			if err := slackTableLimit(b); err != nil {
				return err
			}
		case markdown.SlackRichText:
			if err := slackTexts(b.Elements); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a block of type %q", b.Type)
		}
	}
	if characters > 12_000 || tables > 1 {
		return fmt.Errorf("%d characters of markdown, %d tables", characters, tables)
	}
	return nil
}

func slackTableLimit(b markdown.SlackBlock) error {
	if len(b.Rows) > 100 || len(b.Rows) == 0 || len(b.Columns) > 20 {
		return fmt.Errorf("%d rows, %d columns", len(b.Rows), len(b.Columns))
	}
	characters := 0
	for _, row := range b.Rows {
		if len(row) != len(b.Rows[0]) || len(row) > 20 || len(row) == 0 {
			return fmt.Errorf("a row of %d cells", len(row))
		}
		for _, c := range row {
			if c.Type != "rich_text" || len(c.Elements) != 1 || len(c.Elements[0].Elements) == 0 {
				return fmt.Errorf("not a cell: %+v", c)
			}
			for _, e := range c.Elements[0].Elements {
				characters += utf8.RuneCountInString(e.Text)
			}
		}
		if err := slackTexts(row); err != nil {
			return err
		}
	}
	if characters > 10_000 {
		return fmt.Errorf("%d characters in cells", characters)
	}
	return nil
}

// slackTexts refuses elements without what their type requires.
func slackTexts(elements []markdown.SlackElement) error {
	for _, e := range elements {
		switch e.Type {
		case "text":
			if e.Text == "" {
				return fmt.Errorf("a text element without text")
			}
		case "link":
			if !strings.Contains(e.URL, ":") {
				return fmt.Errorf("a link to %q", e.URL)
			}
		case "user":
			if e.User != "UALICE" {
				return fmt.Errorf("a mention of %q", e.User)
			}
		case "rich_text", "rich_text_section", "rich_text_list", "rich_text_quote", "rich_text_preformatted":
			if len(e.Elements) == 0 {
				return fmt.Errorf("a %s without elements", e.Type)
			}
		default:
			return fmt.Errorf("an element of type %q", e.Type)
		}
		if err := slackTexts(e.Elements); err != nil {
			return err
		}
	}
	return nil
}

func discordLimit(part string) error {
	if n := utf8.RuneCountInString(discordText(part)); n > 2_000 {
		return fmt.Errorf("%d characters", n)
	}
	return nil
}

func gitHubLimit(part string) error {
	if n := utf8.RuneCountInString(gitHubText(part)); n > 60_000 {
		return fmt.Errorf("%d characters", n)
	}
	return nil
}

func telegramLimit(part string) error {
	m := markdown.Telegram(part, telegramOptions)
	if n := len(utf16.Encode([]rune(m.Text))); n > 4_096 {
		return fmt.Errorf("%d UTF-16 units", n)
	}
	return checkEntities(m)
}

// checkEntities holds entities against Telegram's rules.
func checkEntities(m markdown.TelegramMessage) error {
	if len(m.Entities) > 100 {
		return fmt.Errorf("%d entities", len(m.Entities))
	}
	all := utf16.Encode([]rune(m.Text))
	code := map[int]bool{}
	for _, e := range m.Entities {
		if e.Type == markdown.Pre {
			code[e.Offset] = true
		}
	}
	for i, e := range m.Entities {
		end := e.Offset + e.Length
		if e.Offset < 0 || e.Length <= 0 || end > len(all) {
			return fmt.Errorf("%+v outside of %d units", e, len(all))
		}
		if e.Offset > 0 && utf16.IsSurrogate(rune(all[e.Offset])) && all[e.Offset] >= 0xDC00 ||
			end < len(all) && all[end] >= 0xDC00 && all[end] <= 0xDFFF {
			return fmt.Errorf("%+v cuts a character", e)
		}
		of := string(utf16.Decode(all[e.Offset:end]))
		if strings.TrimSpace(of) == "" && e.Type != markdown.Pre || !code[e.Offset] && e.Type != markdown.InlineCode && strings.Trim(of, " \n") != of {
			return fmt.Errorf("%+v has space at its ends: %q", e, of)
		}
		if (e.URL != "") != (e.Type == markdown.TextLink) {
			return fmt.Errorf("%+v and its address", e)
		}
		for _, o := range m.Entities[i+1:] {
			if err := nested(e, o); err != nil {
				return err
			}
		}
	}
	if text := strings.TrimSpace(m.Text); text != m.Text && !code[0] {
		return fmt.Errorf("a text with space at its ends")
	}
	return nil
}

func nested(a, b markdown.Entity) error {
	aEnd, bEnd := a.Offset+a.Length, b.Offset+b.Length
	if aEnd <= b.Offset || bEnd <= a.Offset {
		return nil
	}
	outer, inner := a, b
	if b.Offset <= a.Offset && bEnd >= aEnd && b.Length > a.Length {
		outer, inner = b, a
	}
	if inner.Offset < outer.Offset || inner.Offset+inner.Length > outer.Offset+outer.Length {
		return fmt.Errorf("%+v and %+v overlap", a, b)
	}
	style := map[markdown.EntityType]bool{markdown.Bold: true, markdown.Italic: true, markdown.Strikethrough: true}
	quote := map[markdown.EntityType]bool{markdown.Blockquote: true, markdown.ExpandableBlockquote: true}
	switch {
	case outer.Type == inner.Type || quote[outer.Type] && quote[inner.Type]:
		return fmt.Errorf("%+v within its kind", inner)
	case outer.Type == markdown.Pre || outer.Type == markdown.InlineCode:
		return fmt.Errorf("%+v within code", inner)
	case style[outer.Type] && (inner.Type == markdown.Pre || inner.Type == markdown.InlineCode || quote[inner.Type]):
		// Of the same extent either may be the outer one, but code and style have nothing in common.
		return fmt.Errorf("%+v within %+v", inner, outer)
	case outer.Type == markdown.TextLink && !style[inner.Type]:
		return fmt.Errorf("%+v within a link", inner)
	}
	return nil
}

func TestEveryDocumentLooksAsItDid(t *testing.T) {
	t.Parallel()
	for _, p := range platforms() {
		for _, doc := range corpus(t) {
			t.Run(p.name+"/"+doc.name, func(t *testing.T) {
				t.Parallel()
				var b strings.Builder
				for i, part := range markdown.Split(doc.text, p.fits) {
					if i > 0 {
						b.WriteString("\n======== next message ========\n")
					}
					b.WriteString(p.text(part))
				}
				file := filepath.Join("testdata/golden", p.name, doc.name+".txt")
				if *update {
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
						t.Fatal(err)
					}
					return
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if b.String() != string(want) {
					t.Errorf("differs from %s:\n%s", file, difference(string(want), b.String()))
				}
			})
		}
	}
}

// difference shows the first line in which two texts differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %.300q\ngot  %.300q", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestEveryMessageIsWithinThePlatformsLimits(t *testing.T) {
	t.Parallel()
	for _, p := range platforms() {
		for _, doc := range corpus(t) {
			for i, part := range markdown.Split(doc.text, p.fits) {
				if err := p.limit(part); err != nil {
					t.Errorf("%s, %s, message %d: %v", p.name, doc.name, i+1, err)
				}
				if !utf8.ValidString(p.text(part)) {
					t.Errorf("%s, %s, message %d: not UTF-8", p.name, doc.name, i+1)
				}
			}
		}
	}
}
