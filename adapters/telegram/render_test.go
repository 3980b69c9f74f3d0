package telegram_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
)

// parts posts a text to a chat of its own, so that no limit of a chat's holds it up, and returns what is seen there.
func (r *rig) parts(markdown string) []telegramtest.Seen {
	r.Helper()
	chat := int64(r.fresh.Add(1))
	r.telegram.AddPerson(telegramtest.Person{ID: chat, FirstName: "Reader"})
	r.telegram.AddChat(telegramtest.Chat{ID: chat, Type: telegramtest.PrivateChat})
	for i, part := range r.adapter.Split(markdown) {
		m := to(chat, part, telegram.Reply{})
		m.Part = i
		r.send(m)
	}
	return r.telegram.FromBot(chat)
}

func TestFormattingIsNative(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	seen := r.parts("# Title\n\nSome **bold**, *italic*, `a_b*c` and [a link](https://example.com/x?a=1&b=2).\n\n```go\nfmt.Println(\"<&>\")\n```\n\n**粗體**字 a<b && c>d")[0]
	for what, pair := range map[string][2][]string{
		"bold":   {seen.Bold, {"Title", "bold", "粗體"}},
		"italic": {seen.Italic, {"italic"}},
		"code":   {seen.Code, {"a_b*c"}},
		"pre":    {seen.Pre, {"fmt.Println(\"<&>\")"}},
		"links":  {seen.Links, {"https://example.com/x?a=1&b=2"}},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	if !strings.Contains(seen.Text, "a<b && c>d") || strings.Contains(seen.Text, "**") {
		t.Errorf("shown %q", seen.Text)
	}
}

func TestLengthsCountAsTelegramCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for what, c := range map[string]struct {
		markdown string
		parts    int // at least
		visible  string
	}{
		"4,096 exclamation marks":           {strings.Repeat("!", 4096), 1, strings.Repeat("!", 4096)},
		"4,096 characters of two units":     {strings.Repeat("🍊", 4096), 2, strings.Repeat("🍊", 4096)},
		"3,000 CJK characters":              {strings.Repeat("橘", 3000), 1, strings.Repeat("橘", 3000)},
		"a long text":                       {strings.TrimSpace(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 200)), 3, ""},
		"emoji of many code points":         {strings.Repeat("👩‍👩‍👧‍👦", 700), 2, strings.Repeat("👩‍👩‍👧‍👦", 700)},
		"bold, link and code over the edge": {strings.Repeat("word ", 815) + "**bold [link `code` more](https://example.com) " + strings.Repeat("bold ", 100) + "**", 2, ""},
	} {
		seen := r.parts(c.markdown)
		var all strings.Builder
		for _, s := range seen {
			if n := telegramtest.Units(s.Text); n > telegramtest.MaxText || !utf8.ValidString(s.Text) {
				t.Errorf("%s: a part of %d units", what, n)
			}
			all.WriteString(s.Text)
		}
		if len(seen) < c.parts || c.visible != "" && all.String() != c.visible {
			t.Errorf("%s: %d parts, %d units in all", what, len(seen), telegramtest.Units(all.String()))
		}
	}
}

func TestALongEditGoesOnInFurtherMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	text := strings.TrimSpace(strings.Repeat("All of this is to be read. ", 334)) // 9,000 characters
	parts := r.adapter.Split(text)
	id := itoa(r.send(to(ann, "Thinking…", telegram.Reply{})))
	r.must(r.adapter.Edit(t.Context(), id, to(ann, parts[0], telegram.Reply{})))
	for i, part := range parts[1:] {
		m := to(ann, part, telegram.Reply{})
		m.Part = i + 1
		r.send(m)
	}
	if got := strings.Join(strings.Fields(strings.Join(r.shown(ann), " ")), " "); got != text {
		t.Errorf("%d of %d characters are shown", len(got), len(text))
	}
	if err := r.adapter.Edit(t.Context(), id, to(ann, text, telegram.Reply{})); fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("all in one message: %v", err)
	}
}

func TestAStreamedAndAnUnstreamedAnswerLookTheSame(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	const answer = "**Done**: see `log.txt` and [the page](https://example.com)."
	id := itoa(r.send(to(ann, "Thinking…", telegram.Reply{})))
	r.must(r.adapter.Edit(t.Context(), id, to(ann, answer, telegram.Reply{})))
	r.send(to(bob, answer, telegram.Reply{}))
	a, b := r.telegram.FromBot(ann)[0], r.telegram.FromBot(bob)[0]
	a.ID, a.Versions, b.ID, b.Versions = 0, 0, 0, 0
	if a.Text != b.Text || !slices.Equal(a.Bold, b.Bold) || !slices.Equal(a.Code, b.Code) || !slices.Equal(a.Links, b.Links) || len(a.Bold) != 1 {
		t.Errorf("edited %+v, posted %+v", a, b)
	}
}

func TestFormattingThatIsRefusedGoesOutPlain(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for _, description := range []string{
		"Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 5",
		"Bad Request: entity URL 'x' is invalid: Wrong HTTP URL",
		"Bad Request: ENTITY_BOUNDS_INVALID",
	} {
		r.telegram.Fail(telegramtest.Fault{Method: "sendMessage", Kind: telegramtest.Refuse, Description: description})
		id := r.send(to(ann, "**bold** - (a_b) `c`.", telegram.Reply{}))
		r.telegram.Fail(telegramtest.Fault{Method: "editMessageText", Kind: telegramtest.Refuse, Description: description})
		r.must(r.adapter.Edit(t.Context(), itoa(id), to(ann, "**bolder** - (a_b) `c`.", telegram.Reply{})))
		seen := r.telegram.FromBot(ann)
		if last := seen[len(seen)-1]; last.Text != "bolder - (a_b) c." || len(last.Bold) != 0 {
			t.Errorf("%s: %+v", description, last)
		}
	}
}

func TestWhatShowsNothingIsNotPosted(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	if _, err := r.adapter.Post(t.Context(), to(ann, " \n\t ", telegram.Reply{})); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("a blank text: %v", err)
	}
	r.send(to(ann, "<!-- only a comment -->", telegram.Reply{}))
	if got := r.shown(ann); len(got) != 1 || got[0] == "" {
		t.Errorf("a text of markup is shown as %q", got)
	}
}

func TestNoPreviewIsFetched(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	id := itoa(r.send(to(ann, "see https://example.com/?secret", telegram.Reply{})))
	r.must(r.adapter.Edit(t.Context(), id, to(ann, "see https://example.com/?other", telegram.Reply{})))
	for _, c := range append(r.telegram.Calls("sendMessage"), r.telegram.Calls("editMessageText")...) {
		if !strings.Contains(c.Args["link_preview_options"], `"is_disabled":true`) {
			t.Errorf("%s leaves previews on", c.Method)
		}
	}
}

// pieces are what goes wrong in Markdown from a model, and what looks like markup of Telegram's own.
var pieces = []string{
	"**", "*", "_", "__", "`", "```", "```go\n", "~~", "||", "[", "](", ")", "](https://example.com)", "](x)", "](tg://user?id=1)", "](http://localhost)",
	"](https://exa mple.com/`x`)", "](javascript:alert(1))", "<b>", "</b>", "<a href=\"", "&lt;", "&", "<", ">", "\n> ", "\n>> ", "\n- ", "\n1. ", "\n    ",
	"\n| a | b |\n|---|---|\n| c | d |\n", "\n# ", "\n---\n", "\n\n", " ", "word", "橘子", "👩‍👩‍👧‍👦", "🍊", "e\u0301", "\u202e", "\u0000", "\r\n", "\t", "-", ".", "!", "(", "=", "+",
	"{", "}", "\\", "\\*", "@everyone", "@ann_example", "/stop", "https://example.com/a_b_c?x=*y*", "- [x] ", "![image](https://example.com/i.png)", "[^1]", "$x_1$",
}

// mayhem makes a text of them.
func mayhem(random *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}

func TestNoTextFromAModelIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		text := mayhem(random, 3+random.IntN(400))
		for n, part := range r.adapter.Split(text) {
			if strings.TrimSpace(part) == "" {
				continue
			}
			chat := int64(r.fresh.Add(1))
			r.telegram.AddPerson(telegramtest.Person{ID: chat, FirstName: "Reader"})
			r.telegram.AddChat(telegramtest.Chat{ID: chat, Type: telegramtest.PrivateChat})
			if _, err := r.adapter.Post(t.Context(), to(chat, part, telegram.Reply{})); err != nil {
				t.Fatalf("text %d, part %d: %v\n%q", i, n, err, part)
			}
		}
	}
	for _, c := range r.telegram.Calls("sendMessage") {
		if c.Code != 200 {
			t.Errorf("Telegram refused %q with %s: %s", c.Args["text"], c.Error, c.Args["entities"])
		}
	}
}

func FuzzNoTextFromAModelIsRefused(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(mayhem(random, 40))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, part := range markdown.Split(text, markdown.FitsTelegram(markdown.TelegramOptions{})) {
			m := markdown.Telegram(part, markdown.TelegramOptions{})
			if m.Text == "" {
				continue // not sent
			}
			entities, err := json.Marshal(m.Entities)
			if err != nil {
				t.Fatal(err)
			}
			if problem := telegramtest.Refusal(m.Text, string(entities)); problem != "" {
				t.Errorf("%q of %q is refused: %s", m.Text, text, problem)
			}
		}
	})
}

func TestPeopleCannotBeCalledByTextAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	for _, stage := range []adapters.Stage{adapters.Growing, adapters.Complete} {
		m := to(group, "@everyone @channel @here @stranger_here <@1> <!channel> [x](tg://user?id=1002)", telegram.Reply{})
		m.Stage = stage
		id := itoa(r.send(m))
		m.Markdown += " again"
		for r.adapter.Edit(t.Context(), id, m) != nil { // a redraw may find the allowance used up
			continue
		}
	}
	for _, s := range r.telegram.FromBot(group) {
		if len(s.Notified) != 0 || len(s.Links) != 0 {
			t.Errorf("%q notifies %q, links %q", s.Text, s.Notified, s.Links)
		}
	}
}
