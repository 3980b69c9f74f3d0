package web_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

type htmlAttribute = html.Attribute

// hostile texts try to become elements, attributes, script, style, entities or ends of what they stand in.
var hostile = []string{
	`<script>alert(1)</script>`,
	`</pre></article></li><img src=x onerror=alert(1)>`,
	`"><svg onload=alert(1)>`,
	`' onmouseover='alert(1)' x='`,
	`" autofocus onfocus=alert(1) x="`,
	`</title></textarea></style><script>alert(1)</script>`,
	`<!-- --><iframe src="javascript:alert(1)"></iframe>`,
	`javascript:alert(1)`,
	`[click](javascript:alert(1)) <javascript:alert(1)> ![x](https://evil.example/x.png)`,
	`<base href="https://evil.example/"><meta http-equiv="refresh" content="0;url=https://evil.example/">`,
	`&lt;b&gt; &amp;#60;script&amp;#62; &#x3c;script&#x3e;`,
	"`onclick=alert(1)` {{.}} {{template \"page.html\" .}}",
	"<b\x00>nul</b\x00> \ufffd",
	"\u202etxt.exe\u202c \u2066isolated\u2069 \u200bzero \U000e0041tag",
	"data: x\n\nevent: gone\ndata: {}\n\nid: 99",
	"</script\u2028>\u2029\r\r\n\x1b[31mred\x07",
	`<a href="https://evil.example/">link</a><form action=x><button>go</button></form>`,
	"+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
	"# heading <b>\n\n[a]: javascript:alert(1) \"x\"\n\n[a] [b](https://ok.example/?a=1&b=<i>\"onclick=1 'title') ![i](data:text/html,x)\n\n| a | b |\n|:-:|--:|\n| <i> | `<u>` |\n\n```html onload=1\n<s>\n```\n\n- [x] task\n\n> quote <q>",
	"[x](  JaVaScRiPt:alert(1)) [y](vbscript:x) [z](//evil.example/) [w](\\x01javascript:x) [v](&#106;avascript:alert(1)) www.evil.example mailto:a@b.c <a@b.c>",
	"&#x202e; &#0; &#x3c;script&#x3e; &lt;script&gt;",
	"\xff\xfe broken \xed\xa0\x80",
}

// shape is what a page is made of: its elements, each with its attributes' names.
// A model's answer is Markdown, so what it is made of may change: see allowed.
func shape(d document) []string {
	var all []string
	for n := range d.root.Descendants() {
		if inMarkdown(n) {
			continue
		}
		switch n.Type {
		case html.CommentNode:
			all = append(all, "comment")
		case html.ElementNode:
			var names []string
			for _, a := range n.Attr {
				names = append(names, a.Key)
			}
			all = append(all, n.Data+" "+strings.Join(names, " "))
		}
	}
	return all
}

func inMarkdown(n *html.Node) bool {
	for at := n.Parent; at != nil; at = at.Parent {
		if attribute(at, "class") == "markdown" {
			return true
		}
	}
	return false
}

// allowed is what Markdown may become, with all attributes there may be.
var allowed = map[string]string{
	"p": "", "br": "", "strong": "", "em": "", "del": "", "code": "", "pre": "", "blockquote": "", "ul": "", "ol": "start", "li": "", "hr": "",
	"table": "", "thead": "", "tbody": "", "tr": "", "th": "", "td": "", "a": "rel href",
}

// checkMarkdown proves that answers became nothing but what is allowed, and that links lead to the web.
func checkMarkdown(t *testing.T, page document, said string) {
	t.Helper()
	for n := range page.root.Descendants() {
		if !inMarkdown(n) || n.Type == html.TextNode {
			continue
		}
		attributes, known := allowed[n.Data]
		if n.Type != html.ElementNode || !known {
			t.Errorf("%q became a %q", said, n.Data)
		}
		for _, a := range n.Attr {
			if !slices.Contains(strings.Fields(attributes), a.Key) {
				t.Errorf("%q became the attribute %s=%q of a %s", said, a.Key, a.Val, n.Data)
			}
		}
		if n.Data == "a" {
			if to := attribute(n, "href"); !strings.HasPrefix(to, "http://") && !strings.HasPrefix(to, "https://") {
				t.Errorf("%q became a link to %q", said, to)
			}
			if rel := attribute(n, "rel"); !strings.Contains(rel, "noopener") || !strings.Contains(rel, "nofollow") {
				t.Errorf("%q became a link with rel %q", said, rel)
			}
		}
	}
}

// tell puts one text everywhere a text can come from.
func (c *scene) tell(said string) store.Run {
	c.office.Name = text.Storable(said)
	c.message("C1", said, said)
	r := c.ask("C1", said, said)
	c.think(r, 1, llm.Block{Kind: llm.BlockThinking, Text: said}, words(said), calling(said, said, said),
		llm.Block{Kind: llm.BlockToolCall, CallID: "2", Name: "bash", Arguments: fmt.Sprintf(`{"command":%q}`, "x"), Invalid: said})
	c.result(r, 1, 0, said, said, llm.Block{Kind: llm.BlockImage, MediaType: text.Storable(said), Data: []byte("x")})
	c.think(r, 2, words(said))
	answered := c.answer(r, said)
	_, err := c.s.Pool().Exec(c.t.Context(), `UPDATE runs SET model = $1, error_code = 'internal', error_text = $1 WHERE id = $2`, text.Storable(said), r.ID)
	c.must(err)
	thread := c.ask("C1:"+answered, said, said)
	c.think(thread, 1, words(said))
	return r
}

func TestTextNeverBecomesMarkup(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	plainURL := c.link(c.tell("plain").SessionID)
	want := shape(c.page(plainURL))
	wantList := shape(c.page(plainURL + "/all"))
	for i, said := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := *c
			c.t, c.office = t, officeOf(t, fmt.Sprintf("C1%d", i))
			r := c.tell(said)
			url := c.link(r.SessionID)
			page := c.page(url)
			if got := shape(page); !slices.Equal(got, want) {
				t.Errorf("%q changes what the page is made of:\n%s", said, difference(want, got))
			}
			if got := shape(c.page(url + "/all")); !slices.Equal(got, wantList) {
				t.Errorf("%q changes what the list is made of:\n%s", said, difference(wantList, got))
			}
			checkMarkdown(t, page, said)
			for n := range page.root.Descendants() {
				for _, a := range n.Attr {
					if inMarkdown(n) {
						continue
					}
					address := a.Key == "href" || a.Key == "src"
					if address && (strings.Contains(a.Val, "evil") || strings.Contains(strings.ToLower(a.Val), "script:")) {
						t.Errorf("%q became the address %q", said, a.Val)
					}
				}
			}
			for n := range page.root.Descendants() {
				if n.Type == html.TextNode && strings.ContainsFunc(n.Data, func(r rune) bool {
					return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0x200b || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && r <= 0xe007f
				}) {
					t.Errorf("%q hides in %q", said, n.Data)
				}
			}
		})
	}
}

func difference(want, got []string) string {
	count := map[string]int{}
	for _, s := range got {
		count[s]++
	}
	for _, s := range want {
		count[s]--
	}
	var lines []string
	for _, s := range slices.Sorted(maps.Keys(count)) {
		if count[s] != 0 {
			lines = append(lines, fmt.Sprintf("%+d %s", count[s], s))
		}
	}
	return strings.Join(lines, "\n")
}

func TestWhatHidesIsShown(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"a\u202eb":                 "a⟨U+202E⟩b",
		"a\x1b[31mb":               "a␛[31mb",
		"a\x7fb\u0085":             "a␡b⟨U+0085⟩",
		"a\u200bb\ufeff":           "a⟨U+200B⟩b⟨U+FEFF⟩",
		"\U000e0041":               "⟨U+E0041⟩",
		"family 👨\u200d👩\u200d👧":   "family 👨\u200d👩\u200d👧",
		"می\u200cخواهم":            "می\u200cخواهم",
		"2932809024865746956 1e21": "2932809024865746956 1e21",
	} {
		c := newScene(t)
		r := c.ask("C1", "ann", "hello")
		c.think(r, 1, words(said))
		if got := c.page(c.link(r.SessionID)).id("e2").all("div", "markdown")[0].text(); got != want {
			t.Errorf("%q shows as %q, want %q", said, got, want)
		}
	}
}

func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "id 2932809024865746956")
	c.think(r, 1, calling("k", "read", `{"id":2932809024865746956,"x":1.10,"y":1E400}`))
	c.result(r, 1, 0, "k", `{"id":2932809024865746957}`)
	_, err := c.s.Pool().Exec(t.Context(), `UPDATE runs SET input_tokens = 9007199254740993, cost_micros = 9007199254740993`)
	c.must(err)
	page := c.page(c.link(r.SessionID))
	for id, wants := range map[string][]string{
		"e1":    {"2932809024865746956"},
		"e2":    {`"id": 2932809024865746956`, `"x": 1.10`, `"y": 1E400`, "2932809024865746957"},
		"facts": {"9,007,199,254,740,993", "$9007199254.740993"},
	} {
		for _, want := range wants {
			if got := page.id(id).text(); !strings.Contains(got, want) {
				t.Errorf("%s shows %q, which lacks %q", id, got, want)
			}
		}
	}
}

func TestAnswersReadAsInAChat(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	c.think(r, 1, words("## Done\n\nThe **step** `migrate` [failed](https://ci.example/1?a=b&c=d), see [x](javascript:alert(1)):\n\n1. one\n2. two\n\n```sh\nls <dir>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![plan](https://img.example/p.png) https://bare.example/x <b>no tag</b>"))
	c.think(r, 2, words(strings.Repeat(">", 5000)+" deep"))
	c.think(r, 3, words(strings.Repeat("[**a**](", 2000))) // costs the square of its length
	page := c.page(c.link(r.SessionID))
	answer := page.id("e2")
	for element, want := range map[string]string{"strong": "Done", "code": "migrate", "ol": "one two", "pre": "ls <dir>", "td": "1", "a": "e2"} {
		if found := answer.all(element, ""); len(found) == 0 || element != "a" && found[0].text() != want {
			t.Errorf("the answer has no %s that says %q", element, want)
		}
	}
	var targets []string
	for _, a := range answer.all("div", "markdown")[0].all("a", "") {
		targets = append(targets, attribute(a.root, "href"))
	}
	if want := []string{"https://ci.example/1?a=b&c=d", "https://img.example/p.png", "https://bare.example/x"}; !slices.Equal(targets, want) {
		t.Errorf("it leads to %q, want %q", targets, want)
	}
	if got := answer.text(); !strings.Contains(got, "x (javascript:alert(1))") || !strings.Contains(got, "<b>no tag</b>") {
		t.Errorf("it hides something: %q", got)
	}
	if len(answer.all("img", "")) > 0 {
		t.Error("it loads an image from elsewhere")
	}
	for _, id := range []string{"e3", "e4"} {
		if len(page.id(id).all("div", "markdown")) > 0 || len(page.id(id).all("pre", "")) != 1 {
			t.Errorf("%s, a text that costs much to render, is rendered", id)
		}
	}
}
