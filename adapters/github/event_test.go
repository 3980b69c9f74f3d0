package github

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
)

var bot = identity{login: "mikan-bot", shown: "Mikan-Bot"}

func person(login, kind string) *sdk.User { return &sdk.User{Login: &login, Type: &kind} }

func TestWhatMentionsMikan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"@mikan-bot look":                 true,
		"hey @Mikan-Bot, look":            true,
		"(@mikan-bot)":                    true,
		"**@mikan-bot** look":             true,
		"look\n\n@mikan-bot":              true,
		"- one\n- @mikan-bot":             true,
		"| a |\n|---|\n| @mikan-bot |":    true,
		"你好@mikan-bot":                    true,
		"@mikan-bot.":                     true,
		"[see @mikan-bot](https://x.y)":   true,
		"@mikan-bot2 look":                false,
		"@mikan-bot-x look":               false,
		"@mikan look":                     false,
		"@acme/mikan-bot look":            false,
		"@mikan-bot/x look":               false,
		"me@mikan-bot.org":                false,
		"`@mikan-bot`":                    false,
		"```\n@mikan-bot\n```":            false,
		"    @mikan-bot":                  false,
		"> @mikan-bot look\n\nquoted":     false,
		"<!-- @mikan-bot -->":             false,
		"https://github.com/@mikan-bot/x": false,
		"mikan-bot look":                  false,
		"":                                false,
		"@":                               false,
	} {
		if got := mentions(text, bot.login); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestOnlyItsOwnMentionAtTheBeginningIsDropped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"@mikan-bot stop":       "stop",
		" @Mikan-Bot: /new":     "/new",
		"@mikan-bot ask @alice": "ask @alice",
		"ask @mikan-bot":        "ask @mikan-bot",
		"@mikan-bot":            "@mikan-bot",
		"@mikan-bot2 x":         "@mikan-bot2 x",
		"@alice @mikan-bot x":   "@alice @mikan-bot x",
	} {
		if got := withoutOwn(text, bot.login); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	ann, machine, own := person("ann", "User"), person("ci[bot]", "Bot"), person("Mikan-Bot", "User")
	comment := said{kind: kindComment, change: adapters.Created, author: ann, association: "MEMBER", body: "talk"}
	change := func(s said, f func(*said)) said { f(&s); return s }
	for name, c := range map[string]struct {
		said said
		on   []config.GitHubTrigger
		want adapters.Reason
	}{
		"talk":                        {comment, nil, adapters.FollowUp},
		"talk, follow-ups off":        {comment, []config.GitHubTrigger{config.OnMention}, adapters.NotAddressed},
		"a stranger's talk":           {change(comment, func(s *said) { s.association = "NONE" }), nil, adapters.NotAddressed},
		"talk without association":    {change(comment, func(s *said) { s.association = "" }), nil, adapters.NotAddressed},
		"talk below mikan's own work": {change(comment, func(s *said) { s.opener = bot.login }), nil, adapters.Reply},
		"a mention":                   {change(comment, func(s *said) { s.body = "@mikan-bot" }), nil, adapters.Mention},
		"a mention, mentions off":     {change(comment, func(s *said) { s.body = "@mikan-bot" }), []config.GitHubTrigger{config.OnAssignment}, adapters.NotAddressed},
		"a bot's mention":             {change(comment, func(s *said) { s.body = "@mikan-bot"; s.author = machine }), nil, adapters.NotAddressed},
		"its own mention":             {change(comment, func(s *said) { s.body = "@mikan-bot"; s.author = own }), nil, adapters.NotAddressed},
		"a deleted account's":         {change(comment, func(s *said) { s.body = "@mikan-bot"; s.author = nil }), nil, adapters.NotAddressed},
		"an edit with a mention":      {change(comment, func(s *said) { s.body = "@mikan-bot"; s.change = adapters.Edited }), nil, adapters.Mention},
		"an edit of talk":             {change(comment, func(s *said) { s.change = adapters.Edited }), nil, adapters.NotAddressed},
		"a deletion":                  {change(comment, func(s *said) { s.body = "@mikan-bot"; s.change = adapters.Deleted }), nil, adapters.NotAddressed},
		"a description":               {change(comment, func(s *said) { s.kind = kindIssue }), nil, adapters.NotAddressed},
		"a description's mention":     {change(comment, func(s *said) { s.kind = kindIssue; s.body = "@mikan-bot" }), nil, adapters.Mention},
		"one opened for mikan":        {change(comment, func(s *said) { s.kind = kindIssue; s.body = "@mikan-bot"; s.bears = []string{bot.login} }), nil, adapters.NotAddressed},
		"an assignment":               {said{kind: kindAssigned, change: adapters.Created, author: ann, subject: bot.login}, nil, adapters.Assignment},
		"somebody else's assignment":  {said{kind: kindAssigned, change: adapters.Created, author: ann, subject: "bob"}, nil, adapters.NotAddressed},
		"an assignment by a bot":      {said{kind: kindAssigned, change: adapters.Created, author: machine, subject: bot.login}, nil, adapters.NotAddressed},
		"a review request":            {said{kind: kindRequested, change: adapters.Created, author: ann, subject: bot.login}, nil, adapters.Review},
		"a review request, off":       {said{kind: kindRequested, change: adapters.Created, author: ann, subject: bot.login}, []config.GitHubTrigger{config.OnMention}, adapters.NotAddressed},
	} {
		on := func(t config.GitHubTrigger) bool { return len(c.on) == 0 || slices.Contains(c.on, t) }
		if got := addressed(c.said, bot, on); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Trap F06.
func TestWhoIsRefusedWithoutACall(t *testing.T) {
	t.Parallel()
	for association, want := range map[string]adapters.Standing{
		"OWNER": adapters.Unknown, "MEMBER": adapters.Unknown, "COLLABORATOR": adapters.Unknown, "CONTRIBUTOR": adapters.Unknown,
		"NONE": adapters.Stranger, "FIRST_TIMER": adapters.Stranger, "FIRST_TIME_CONTRIBUTOR": adapters.Stranger, "MANNEQUIN": adapters.Stranger, "": adapters.Stranger,
	} {
		if got := standingOf(said{kind: kindComment, association: association}); got != want {
			t.Errorf("%q: %s", association, got)
		}
	}
}

func TestKeysMatchThePublishedVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "internal", "session", "testdata", "session-keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Derive []struct {
			Platform, Owner, Repo, Key string
			Number                     int64
		}
	}
	found := 0
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	a := &Adapter{}
	for _, v := range vectors.Derive {
		if v.Platform != string(office.GitHub) {
			continue
		}
		found++
		m, _, err := a.message(said{at: target{Owner: v.Owner, Repo: v.Repo, Number: int(v.Number)}, kind: kindComment, id: 1, author: person("ann", "User"), body: "x"}, bot)
		if err != nil || m.SessionKey != v.Key {
			t.Errorf("%s/%s#%d: %q, %v; want %q", v.Owner, v.Repo, v.Number, m.SessionKey, err, v.Key)
		}
		if err := session.Key(m.SessionKey).BelongsTo(m.Address.ConversationID); err != nil {
			t.Error(err)
		}
	}
	if found == 0 {
		t.Error("no vectors")
	}
}

func TestWhatAnInlineCommentShows(t *testing.T) {
	t.Parallel()
	s := said{kind: kindInline, file: "a.md", line: 3, hunk: "@@ -1 +1,2 @@\n+```\n+code", body: "stop"}
	if got := textOf(s, bot.login); got != "stop" {
		t.Errorf("a control word becomes %q", got)
	}
	s.body = "why?"
	if got := textOf(s, bot.login); !strings.Contains(got, "````diff\n@@ -1 +1,2 @@\n+```\n+code\n````\n\nwhy?") {
		t.Errorf("a hunk with a fence becomes %q", got)
	}
}

func TestAnOldDescriptionIsPointedAt(t *testing.T) {
	t.Parallel()
	s := said{kind: kindComment, body: "look", created: time.Now(), opened: time.Now().AddDate(0, -1, 0)}
	if got := textOf(s, bot.login); !strings.Contains(got, "github_read") {
		t.Errorf("%q", got)
	}
	s.opened = time.Now().AddDate(0, 0, -1)
	if got := textOf(s, bot.login); got != "look" {
		t.Errorf("%q", got)
	}
}

func TestWhereTheTokenGoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		api   string
		token map[string]bool   // by address
		files map[string]string // address in a comment, to where it is fetched; "" when it is not
	}{
		{"", map[string]bool{
			"https://api.github.com/user": true, "https://github.com/user-attachments/assets/x": true, "http://api.github.com/user": false,
			"https://api.github.com.evil.org/": false, "https://objects.githubusercontent.com/x": false, "https://evil.org/": false,
		}, map[string]string{
			"https://github.com/user-attachments/assets/x": "https://github.com/user-attachments/assets/x", "https://github.com/acme/web/raw/x.png": "",
			"https://user-images.githubusercontent.com/1/x.png": "https://user-images.githubusercontent.com/1/x.png", "https://evil.org/x": "",
			"https://githubusercontent.com.evil.org/x": "", "http://github.com/user-attachments/assets/x": "", "https://u:p@github.com/user-attachments/x": "",
		}},
		{"http://127.0.0.1:9/api/v3", map[string]bool{
			"http://127.0.0.1:9/api/v3/user": true, "http://127.0.0.1:10/user": false, "https://127.0.0.1:9/": false, "https://github.com/user-attachments/assets/x": false,
		}, map[string]string{
			"https://github.com/user-attachments/assets/x": "http://127.0.0.1:9/user-attachments/assets/x", "https://evil.org/x": "",
			"http://127.0.0.1:9/user-attachments/assets/x": "http://127.0.0.1:9/user-attachments/assets/x",
		}},
	} {
		a, err := New(config.GitHubConfig{APIURL: c.api}, config.GitHubSettings{}, adapters.Services{})
		if err != nil {
			t.Fatal(err)
		}
		for address, want := range c.token {
			if u := mustParse(t, address); a.hosts.trusted(u) != want {
				t.Errorf("%s: the token goes to %s: %v", c.api, address, !want)
			}
		}
		for address, want := range c.files {
			got := ""
			if u, ok := a.hosts.file(address); ok {
				got = u.String()
			}
			if got != want {
				t.Errorf("%s: %s is fetched from %q, want %q", c.api, address, got, want)
			}
		}
	}
}

func FuzzWebhook(f *testing.F) {
	f.Add("issue_comment", []byte(`{"action":"created","repository":{"name":"x","owner":{"login":"y"}},"issue":{"number":1},"comment":{"id":1,"body":"@mikan-bot `+"`"+`x","user":{"login":"z"}}}`))
	f.Add("issues", []byte(`{"action":"assigned","issue":{"number":-1,"assignees":[null]},"assignee":null}`))
	f.Add("pull_request", []byte(`{"action":"review_requested","pull_request":{"number":1},"requested_reviewer":{"login":"mikan-bot"}}`))
	f.Add("pull_request_review", []byte(`{"action":"submitted","review":null}`))
	f.Add("pull_request_review_comment", []byte(`{"action":"created","comment":{"diff_hunk":"\u0000`+"```"+`","in_reply_to_id":9223372036854775807}}`))
	f.Fuzz(func(t *testing.T, event string, payload []byte) {
		all, err := saidIn(event, payload, bot)
		if err != nil {
			return
		}
		a := &Adapter{}
		for _, s := range all {
			m, ok, err := a.message(s, bot)
			if err != nil || !ok {
				continue
			}
			if err := session.Key(m.SessionKey).BelongsTo(m.Address.ConversationID); err != nil {
				t.Errorf("%s: %v", event, err)
			}
			if err := m.Address.Validate(); err != nil {
				t.Errorf("%s: %v", event, err)
			}
			if _, _, err := parseID(m.ID); err != nil {
				t.Errorf("%s: the message id %q cannot be read again", event, m.ID)
			}
		}
	})
}
