package discordtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/geminixiang/mikan/adapters/discord/discordtest"
)

func start(t *testing.T, o discordtest.Options) *discordtest.Server {
	t.Helper()
	s, err := discordtest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ask makes one call as a bot and returns the status, the error code and the headers.
func ask(t *testing.T, s *discordtest.Server, method, path, body string) (status, code int, h http.Header, reply string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+"v10/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bot "+s.Token())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "DiscordBot (https://example.com, 1)")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(resp.Body)
	var e struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(raw, &e)
	return resp.StatusCode, e.Code, resp.Header, string(raw)
}

func TestWhatDiscordRefusesIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, discordtest.Options{})
	g := s.AddGuild("guild")
	c := s.AddChannel(g, "general")
	hidden := s.AddChannel(g, "hidden")
	s.Restrict(hidden, "hidden")
	ann := s.AddUser("Ann")
	s.Join(g, ann)
	theirs := s.Say(discordtest.Utterance{Channel: c, User: ann, Text: "hi"})
	messages := "channels/" + c + "/messages"
	for name, call := range map[string]struct {
		method, path, body string
		status, code       int
	}{
		"2,001 characters":           {"POST", messages, `{"content":"` + strings.Repeat("x", 2001) + `","allowed_mentions":{"parse":[]}}`, 400, 50035},
		"nothing":                    {"POST", messages, `{"content":"  ","allowed_mentions":{"parse":[]}}`, 400, 50006},
		"a nonce of 26":              {"POST", messages, `{"content":"x","nonce":"` + strings.Repeat("n", 26) + `"}`, 400, 50035},
		"users twice":                {"POST", messages, `{"content":"x","allowed_mentions":{"parse":["users"],"users":["1"]}}`, 400, 50035},
		"a reply to nothing":         {"POST", messages, `{"content":"x","message_reference":{"message_id":"1"}}`, 400, 50035},
		"an unknown field":           {"POST", messages, `{"contents":"x"}`, 400, 50109},
		"somebody else's message":    {"PATCH", messages + "/" + theirs, `{"content":"x"}`, 403, 50005},
		"a hidden channel":           {"GET", "channels/" + hidden + "/messages", "", 403, 50001},
		"an unknown channel":         {"GET", "channels/1", "", 404, 10003},
		"a page of 101":              {"GET", messages + "?limit=101", "", 400, 50035},
		"a stranger as member":       {"GET", "guilds/" + g + "/members/1", "", 404, 10007},
		"a call that does not exist": {"POST", "guilds/" + g + "/burn", "", 404, 0},
		"one bad command of two": {"PUT", "applications/1/commands",
			`[{"name":"good","description":"d"},{"name":"bad","description":"` + strings.Repeat("x", 101) + `"}]`, 400, 50035},
		"an unknown interaction": {"POST", "interactions/1/t/callback", `{"type":5}`, 404, 10062},
	} {
		if status, code, _, reply := ask(t, s, call.method, call.path, call.body); status != call.status || code != call.code {
			t.Errorf("%s: %d %d, want %d %d: %s", name, status, code, call.status, call.code, reply)
		}
	}
	if len(s.Commands()) != 0 || len(s.Own(c)) != 0 {
		t.Error("a refused call had effects")
	}
}

func TestNoncesHistoryAndLimitsAreDiscords(t *testing.T) {
	t.Parallel()
	s := start(t, discordtest.Options{Rates: discordtest.RatesEnforced})
	c := s.AddChannel(s.AddGuild("guild"), "general")
	messages := "channels/" + c + "/messages"
	body := `{"content":"once","nonce":"n1","enforce_nonce":true,"allowed_mentions":{"parse":[]}}`
	_, _, first, one := ask(t, s, "POST", messages, body)
	_, _, _, two := ask(t, s, "POST", messages, body)
	if len(s.Own(c)) != 1 || one != two {
		t.Errorf("the same nonce: %d messages, %s and %s", len(s.Own(c)), one, two)
	}
	if first.Get("X-RateLimit-Limit") != "5" || first.Get("X-RateLimit-Remaining") != "4" || first.Get("X-RateLimit-Bucket") == "" {
		t.Errorf("headers: %v", first)
	}
	if _, _, _, page := ask(t, s, "GET", messages+"?limit=1", ""); strings.Contains(page, "nonce") || !strings.Contains(page, "once") {
		t.Errorf("history: %s", page)
	}
	var status int
	var h http.Header
	for range 5 {
		status, _, h, _ = ask(t, s, "POST", messages, `{"content":"more","allowed_mentions":{"parse":[]}}`)
	}
	if status != 429 || h.Get("Retry-After") == "" || h.Get("X-RateLimit-Scope") != "user" {
		t.Errorf("the sixth message within 5 s: %d, %v", status, h)
	}
}

func TestTheGatewayChecksWhoConnects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send string
		code int
	}{
		"a wrong token":      {`{"op":2,"d":{"token":"x","intents":512,"properties":{"os":"linux"}}}`, 4004},
		"a privileged event": {`{"op":2,"d":{"token":"TOKEN","intents":32768,"properties":{"os":"linux"}}}`, 4014},
		"unknown intents":    {`{"op":2,"d":{"token":"TOKEN","intents":1073741824,"properties":{"os":"linux"}}}`, 4013},
		"another opcode":     {`{"op":10,"d":null}`, 4001},
		"no JSON":            {`{`, 4002},
		"a command too soon": {`{"op":3,"d":{}}`, 4003},
	} {
		s := start(t, discordtest.Options{})
		s.WithoutMessageContent()
		conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+strings.Split(s.URL(), "/")[2]+"/gateway?v=10&encoding=json", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if err := conn.WriteMessage(websocket.TextMessage, []byte(strings.Replace(c.send, "TOKEN", s.Token(), 1))); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, _, err = conn.ReadMessage()
		}
		if !websocket.IsCloseError(err, c.code) {
			t.Errorf("%s: closed with %v, want %d", name, err, c.code)
		}
		_ = conn.Close()
	}
}

// Without the message content intent Discord says who wrote, and not what, unless the bot is mentioned.
func TestContentIsWithheldWithoutItsIntent(t *testing.T) {
	t.Parallel()
	s := start(t, discordtest.Options{})
	g := s.AddGuild("guild")
	c := s.AddChannel(g, "general")
	ann := s.AddUser("Ann")
	conn, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws://"+strings.Split(s.URL(), "/")[2]+"/gateway?v=10&encoding=json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	identify := `{"op":2,"d":{"token":"` + s.Token() + `","intents":513,"properties":{"os":"linux"}}}`
	if err := conn.WriteMessage(websocket.TextMessage, []byte(identify)); err != nil {
		t.Fatal(err)
	}
	if !s.AwaitConnected(t.Context(), 1) {
		t.Fatal("not connected")
	}
	s.Say(discordtest.Utterance{Channel: c, User: ann, Text: "secret"})
	s.Say(discordtest.Utterance{Channel: c, User: ann, Text: discordtest.Mention(s.Bot().ID) + " spoken"})
	s.Say(discordtest.Utterance{Channel: s.DM(ann), User: ann, Text: "directly"}) // no intent for it
	var said []string
	for len(said) < 2 {
		var p struct {
			Name string `json:"t"`
			Data struct {
				Content string `json:"content"`
			} `json:"d"`
		}
		if err := conn.ReadJSON(&p); err != nil {
			t.Fatal(err)
		}
		if p.Name == "MESSAGE_CREATE" {
			said = append(said, p.Data.Content)
		}
	}
	if !slices.Equal(said, []string{"", discordtest.Mention(s.Bot().ID) + " spoken"}) {
		t.Errorf("the bot reads %q", said)
	}
}
