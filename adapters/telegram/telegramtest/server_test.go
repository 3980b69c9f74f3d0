package telegramtest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
)

// client calls a server as a program would that knows nothing of it.
type client struct {
	testing.TB
	*telegramtest.Server
	now atomic.Int64 // nanoseconds that the server's clock is ahead
}

func start(t *testing.T, o telegramtest.Options) *client {
	t.Helper()
	c := &client{TB: t}
	o.Now = func() time.Time { return time.Now().Add(time.Duration(c.now.Load())) }
	if o.Pause == 0 {
		o.Pause = 10 * time.Millisecond
	}
	c.Server = telegramtest.New(o)
	h := httptest.NewServer(c.Server)
	c.URL = h.URL
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	c.AddPerson(telegramtest.Person{ID: 1, FirstName: "Ann", Username: "ann"})
	c.AddChat(telegramtest.Chat{ID: 1, Type: telegramtest.PrivateChat})
	return c
}

type answer struct {
	OK          bool            `json:"ok"`
	Code        int             `json:"error_code"`
	Description string          `json:"description"`
	Result      json.RawMessage `json:"result"`
	Parameters  struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

func (c *client) call(method string, args ...string) answer {
	c.Helper()
	query := url.Values{}
	for i := 0; i < len(args); i += 2 {
		query.Set(args[i], args[i+1])
	}
	resp, err := http.PostForm(c.URL+"/bot"+c.Token+"/"+method, query)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		c.Fatalf("%s answered %q", method, body)
	}
	if !a.OK && a.Code != resp.StatusCode {
		c.Errorf("%s: status %d with error code %d", method, resp.StatusCode, a.Code)
	}
	return a
}

// updates lists the ids of an answer.
func (c *client) updates(a answer) (ids []int64, texts []string) {
	c.Helper()
	var all []struct {
		ID      int64 `json:"update_id"`
		Message struct {
			Text string `json:"text"`
		} `json:"message"`
	}
	if err := json.Unmarshal(a.Result, &all); err != nil {
		c.Fatalf("%+v: %v", a, err)
	}
	for _, u := range all {
		ids, texts = append(ids, u.ID), append(texts, u.Message.Text)
	}
	return ids, texts
}

func (c *client) say(text string) { c.Say(telegramtest.Said{Chat: 1, From: 1, Text: text}) }

func (c *client) later(d time.Duration) { c.now.Add(int64(d)) }

func TestAnOffsetConfirmsWhatIsBeforeIt(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	for _, text := range []string{"a", "b", "c", "d"} {
		c.say(text)
	}
	ids, texts := c.updates(c.call("getUpdates", "limit", "2"))
	if strings.Join(texts, "") != "ab" {
		t.Fatalf("got %q", texts)
	}
	c.later(time.Second)
	if _, again := c.updates(c.call("getUpdates")); strings.Join(again, "") != "abcd" {
		t.Errorf("unconfirmed ones do not come again: %q", again)
	}
	if _, once := c.updates(c.call("getUpdates")); strings.Join(once, "") != "a" {
		t.Errorf("the same request at once gives %q; Telegram gives one", once)
	}
	if _, rest := c.updates(c.call("getUpdates", "offset", fmt.Sprint(ids[1]+1))); strings.Join(rest, "") != "cd" {
		t.Errorf("behind the offset come %q", rest)
	}
	if _, last := c.updates(c.call("getUpdates", "offset", "-1")); strings.Join(last, "") != "d" || c.Pending() != 1 {
		t.Errorf("a negative offset gives %q", last)
	}
}

func TestUpdatesAreKeptForADay(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	c.say("old")
	c.later(23 * time.Hour)
	c.say("new")
	if _, texts := c.updates(c.call("getUpdates")); len(texts) != 2 {
		t.Errorf("after 23 hours: %q", texts)
	}
	c.later(2 * time.Hour)
	if _, texts := c.updates(c.call("getUpdates")); len(texts) != 1 || texts[0] != "new" {
		t.Errorf("after 25 hours: %q", texts)
	}
}

func TestOnlyOneRequestForUpdatesWaits(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	first := make(chan answer, 1)
	go func() { first <- c.call("getUpdates", "timeout", "30") }()
	for {
		select {
		case a := <-first:
			if a.Code != http.StatusConflict || !strings.Contains(a.Description, "terminated by other getUpdates request") {
				t.Errorf("the first was answered with %+v", a)
			}
			return
		default:
			c.call("getUpdates", "offset", "1")
		}
	}
}

func TestWebhookAndPollingExcludeEachOther(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	for address, want := range map[string]string{
		"http://example.com/x":       "An HTTPS URL must be provided",
		"https://example.com:8080/x": "only on ports 80, 88, 443 or 8443",
		"https://127.0.0.1/x":        "is reserved",
	} {
		if a := c.call("setWebhook", "url", address); a.OK || !strings.Contains(a.Description, want) {
			t.Errorf("%s: %+v", address, a)
		}
	}
	if a := c.call("setWebhook", "url", "https://example.invalid/x", "secret_token", "a b"); a.OK {
		t.Error("a secret with a space is taken")
	}
	if a := c.call("setWebhook", "url", "https://example.invalid/x"); !a.OK {
		t.Fatalf("%+v", a)
	}
	if a := c.call("getUpdates"); a.Code != http.StatusConflict || !strings.Contains(a.Description, "webhook is active") {
		t.Errorf("polling beside a webhook: %+v", a)
	}
	c.call("deleteWebhook")
	if a := c.call("getUpdates"); !a.OK {
		t.Errorf("polling after it: %+v", a)
	}
}

func TestEntitiesAreHeldAgainstTheText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, entities string
		want           string // in the refusal, or what would be mended; empty: it is taken
	}{
		{"plain", "", ""},
		{"bold", `[{"type":"bold","offset":0,"length":4}]`, ""},
		{"🍊 bold", `[{"type":"bold","offset":3,"length":4}]`, ""},
		{"🍊 bold", `[{"type":"bold","offset":1,"length":4}]`, "begins in a middle"},
		{"🍊🍊", `[{"type":"bold","offset":0,"length":3}]`, "ends in a middle"},
		{"short", `[{"type":"bold","offset":0,"length":6}]`, "ends after the end"},
		{"short", `[{"type":"bold","offset":5,"length":1}]`, "begins after the end"},
		{"short", `[{"type":"bold","offset":-1,"length":1}]`, "incorrect offset"},
		{"short", `[{"type":"bold","length":1}]`, `"offset" must be of type Number`},
		{"a link", `[{"type":"text_link","offset":2,"length":4,"url":"https://example.com"}]`, ""},
		{"a link", `[{"type":"text_link","offset":2,"length":4,"url":"http://localhost"}]`, "Wrong HTTP URL"},
		{"a link", `[{"type":"text_link","offset":2,"length":4,"url":"javascript://x.y"}]`, "Unsupported URL protocol"},
		{"a link", `[{"type":"text_link","offset":2,"length":4,"url":"tg://user?id=1"}]`, ""},
		{"bold code", `[{"type":"bold","offset":0,"length":9},{"type":"code","offset":5,"length":4}]`, "code at 5 stands within bold"},
		{"crossing", `[{"type":"bold","offset":0,"length":5},{"type":"italic","offset":3,"length":5}]`, "crosses"},
		{"quoted code", `[{"type":"blockquote","offset":0,"length":11},{"type":"code","offset":7,"length":4}]`, ""},
		{"quoted", `[{"type":"blockquote","offset":0,"length":6},{"type":"blockquote","offset":1,"length":2}]`, "within another"},
		{" \n ", "", "non-empty"},
		{strings.Repeat("!", 4096), "", ""},
		{strings.Repeat("!", 4097), "", "too long"},
		{strings.Repeat("🍊", 2049), "", "too long"},
		{"  " + strings.Repeat("!", 4096) + "\n\n", "", ""}, // trimmed before it is counted
	} {
		got := telegramtest.Refusal(c.text, c.entities)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%.20q with %s: %q, want %q", c.text, c.entities, got, c.want)
		}
	}
}

func TestWhatTheTableDoesNotHoldIsAViolation(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	for what, do := range map[string]func(){
		"an unknown method":    func() { c.call("sendDice", "chat_id", "1") },
		"an unknown parameter": func() { c.call("sendMessage", "chat_id", "1", "text", "x", "parse_mode", "HTML") },
		"no text":              func() { c.call("sendMessage", "chat_id", "1") },
		"a number that is none": func() {
			c.call("editMessageText", "chat_id", "1", "message_id", "1e3", "text", "x")
		},
		"a command with a hyphen": func() {
			c.call("setMyCommands", "commands", `[{"command":"auto-reply","description":"x"}]`)
		},
		"dropping updates": func() { c.call("deleteWebhook", "drop_pending_updates", "true") },
	} {
		c.ForgiveViolations()
		do()
		if len(c.Violations()) == 0 {
			t.Errorf("%s is no violation", what)
		}
	}
}

func TestAWrongTokenIsTold(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	for token, want := range map[string]int{"1:wrong": http.StatusUnauthorized, "nonsense": http.StatusNotFound} {
		resp, err := http.Get(c.URL + "/bot" + token + "/getMe")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", token, resp.StatusCode, want)
		}
	}
}

func TestAGroupThatMovedSaysWhereTo(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	c.AddChat(telegramtest.Chat{ID: -5, Type: telegramtest.GroupChat, Title: "g"})
	c.Migrate(-5, -1005)
	if a := c.call("sendMessage", "chat_id", "-5", "text", "x"); a.Code != http.StatusBadRequest || a.Parameters.MigrateTo != -1005 {
		t.Errorf("%+v", a)
	}
}

func TestLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{Limits: telegramtest.LimitsEnforced})
	var last answer
	for range 4 {
		last = c.call("sendMessage", "chat_id", "1", "text", "x")
	}
	if last.Code != http.StatusTooManyRequests || last.Parameters.RetryAfter < 1 {
		t.Errorf("the fourth message in a second: %+v", last)
	}
}

func TestItCanBeSteeredFromOutside(t *testing.T) {
	t.Parallel()
	c := start(t, telegramtest.Options{})
	resp, err := http.Post(c.URL+"/control/say", "application/json", strings.NewReader(`{"chat":1,"from":1,"text":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	c.call("sendMessage", "chat_id", "1", "text", "hi")
	resp, err = http.Get(c.URL + "/control/visible?chat=1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var seen []telegramtest.Seen
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil || len(seen) != 2 || seen[0].Text != "hello" || seen[1].From != c.BotID {
		t.Errorf("seen %+v, %v", seen, err)
	}
}
