package history_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/history"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/tool"
)

// past is one office with a main session and the run that looks back.
type past struct {
	t      testing.TB
	s      *store.Store
	office string
	main   string // session id
	run    store.Run
}

const officeKey = "v1-slack-c1-0123456789abcdef"

func newPast(t testing.TB) *past {
	t.Helper()
	s := storetest.Open(t)
	p := &past{t: t, s: s, office: officeKey}
	p.say("m1", "C1", "ann", "what happened so far?")
	p.run = p.claim("C1")
	p.main = p.run.SessionID
	return p
}

func (p *past) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) say(id, key, author, said string) {
	p.t.Helper()
	_, err := p.s.Receive(p.t.Context(), store.Arrival{
		Office: store.Office{Key: p.office, Platform: "slack", ConversationID: p.office, Audience: store.Shared},
		Message: store.ChatMessage{
			OfficeKey: p.office, MessageID: id, SessionKey: key, AuthorID: author, AuthorName: author, AuthorKind: store.AuthorHuman,
			Kind: store.ChatMessageKind, Text: said, SentAt: time.Now().Add(-time.Hour),
		},
		Row: &store.InboxRow{OfficeKey: p.office, SessionKey: key, Kind: store.InboxTrigger, Trigger: run.Human, MessageID: id},
	})
	p.must(err)
}

func (p *past) claim(key string) store.Run {
	p.t.Helper()
	claim, err := p.s.Claim(p.t.Context(), store.Address{OfficeKey: p.office, SessionKey: key},
		store.Execution{WorkflowID: run.WorkflowID(p.office, key), OriginRun: key, RunID: key}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
	p.must(err)
	return claim.Run
}

// add appends entries to a session in the way of an import.
func (p *past) add(sessionID string, entries ...store.Entry) {
	p.t.Helper()
	err := pgx.BeginFunc(p.t.Context(), p.s.Pool(), func(tx pgx.Tx) error {
		for _, e := range entries {
			body, err := json.Marshal(e.Body)
			if err != nil {
				return err
			}
			_, err = tx.Exec(p.t.Context(), `
				WITH next AS (UPDATE sessions SET next_seq = next_seq + 1 WHERE id = $1 RETURNING next_seq - 1 AS seq)
				INSERT INTO entries (session_id, seq, kind, body) SELECT $1, seq, $2, $3 FROM next`, sessionID, e.Kind, body)
			if err != nil {
				return err
			}
		}
		return nil
	})
	p.must(err)
}

func entry(kind store.EntryKind, blocks ...llm.Block) store.Entry {
	return store.Entry{Kind: kind, Body: store.Body{Blocks: blocks}}
}

func words(said string) llm.Block { return llm.Block{Kind: llm.BlockText, Text: said} }

func (p *past) session(id, key string, archived any) {
	p.t.Helper()
	_, err := p.s.Pool().Exec(p.t.Context(), `
		INSERT INTO sessions (id, office_key, session_key, window_session, archived_at, updated_at) VALUES ($1, $2, $3, $1, $4, now() - interval '1 day')`,
		id, p.office, key, archived)
	p.must(err)
}

// call carries out one call of the tool in the run.
func (p *past) call(arguments string) tool.Result {
	p.t.Helper()
	registry, err := tool.NewRegistry(nil, &history.Tool{Reader: &history.Reader{Store: p.s}})
	p.must(err)
	chosen, _ := registry.Get("history")
	result, err := chosen.Run(p.t.Context(), tool.Call{
		Arguments: json.RawMessage(arguments), Place: tool.Place{OfficeKey: p.office, SessionKey: "C1", RunID: p.run.ID},
	})
	p.must(err)
	return result
}

func (p *past) want(arguments string, parts ...string) string {
	p.t.Helper()
	result := p.call(arguments)
	if result.IsError {
		p.t.Errorf("%s is refused: %s", arguments, result.Text)
	}
	rest := result.Text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			p.t.Errorf("%s gives\n%s\nwithout %q after\n%s", arguments, result.Text, part, strings.TrimSuffix(result.Text, rest))
			return result.Text
		}
		rest = after
	}
	return result.Text
}

func TestTheToolIsRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	if (&history.Tool{}).Replay() != tool.Safe {
		t.Error("it only reads, and yet is not declared safe")
	}
}

func TestRefusedCallsSayWhy(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	for arguments, want := range map[string]string{
		`{}`:                                `"action" is missing`,
		`[]`:                                "JSON object",
		`{"action":"forget"}`:               "sessions, search, read and chat",
		`{"action":"search"}`:               "needs a query",
		`{"action":"search","query":"  "}`:  "needs a query",
		`{"action":"read"}`:                 "needs a session",
		`{"action":"read","session":"abc"}`: "at least 8 characters",
		`{"action":"search","query":"x","session":"abc"}`: "at least 8 characters",
		`{"action":"read","session":"ffffffff"}`:          "no session ffffffff",
		`{"action":"chat","limit":0}`:                     "limit is 0; it must be from 1 to 200",
		`{"action":"chat","limit":201}`:                   "limit is 201",
		`{"action":"chat","skip":-1}`:                     "skip is -1",
		`{"action":"chat","limit":"many"}`:                `"limit" cannot be a string`,
	} {
		result := p.call(arguments)
		if !result.IsError || !strings.Contains(result.Text, want) {
			t.Errorf("%s gives %q, want an error with %q", arguments, result.Text, want)
		}
	}
}

func TestSessionsAreListedWithTheirOrigin(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.session("earlier-main-generation", "C1", time.Now())
	p.say("m2", "C1:m1", "bob", "in the thread")
	p.run = p.claim("C1:m1")
	p.want(`{"action":"sessions"}`,
		"3 sessions", "earlier-main-generation earlier key=C1 entries=0",
		p.main+" current key=C1 entries=1",
		"* "+p.run.SessionID+" current key=C1:m1", "(this one)", "parent="+p.main[:8], "[ann]: what happened so far?")
}

func TestManySessionsAreAllListed(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	for i := range 25 {
		p.session(fmt.Sprintf("session-%02d", i), fmt.Sprintf("C1:%d", i), nil)
	}
	listed := p.want(`{"action":"sessions"}`, "26 sessions")
	if n := strings.Count(listed, " key=C1"); n != 26 {
		t.Errorf("%d sessions are listed", n)
	}
	p.want(`{"action":"sessions","limit":5}`, "5 sessions", "Continue with skip 5.")
}

func TestSearchNamesMatchesAndSessions(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.session("aaaaaaaa-1", "C1:a", nil)
	p.add("aaaaaaaa-1", entry(store.EntryChat, words("first Deploy")))
	p.add(p.main, entry(store.EntryChat, words("second deploy")))
	p.want(`{"action":"search","query":"DEPLOY"}`, "2 matches in 2 sessions", "session aaaaaaaa-1 #1", "first Deploy", "session "+p.main, "second deploy")
	p.want(`{"action":"search","query":"deploy","session":"aaaaaaaa"}`, "1 match in 1 session", "first Deploy")
	p.want(`{"action":"search","query":"deploy","session":"current"}`, "1 match in 1 session", "second deploy")
	p.want(`{"action":"search","query":"nothing like it"}`, "0 matches")
}

func TestReadPagesFromTheNewest(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.session("aaaaaaaa-1", "C1:a", nil)
	p.add("aaaaaaaa-1", entry(store.EntryChat, words("one")), entry(store.EntryChat, words("two")), entry(store.EntryChat, words("three")))
	page := p.want(`{"action":"read","session":"aaaaaaaa","limit":2}`, "3 entries", "#2", "two", "#3", "three", "Continue with skip 2.")
	if strings.Contains(page, "one\n") {
		t.Errorf("the page is too long:\n%s", page)
	}
	page = p.want(`{"action":"read","session":"aaaaaaaa","limit":2,"skip":2}`, "3 entries", "#1", "one")
	if strings.Contains(page, "Continue") || strings.Contains(page, "two") {
		t.Errorf("the last page is\n%s", page)
	}
	p.want(`{"action":"read","session":"current"}`, "Session "+p.main, "1 entry", "what happened so far?")
}

func TestReadShowsResetsSummariesAndFailures(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.session("aaaaaaaa-1", "C1:a", nil)
	p.add("aaaaaaaa-1",
		entry(store.EntryAssistant, llm.Block{Kind: llm.BlockToolCall, CallID: "c1", Name: "bash", Arguments: `{"command":"false"}`}),
		entry(store.EntryToolResult, llm.Block{Kind: llm.BlockToolResult, CallID: "c1", Text: "exit code 1", IsError: true}),
		store.Entry{Kind: store.EntryCompaction, Body: store.Body{Summary: "They tried false."}},
		entry(store.EntryReset))
	p.want(`{"action":"read","session":"aaaaaaaa"}`, `calls bash {"command":"false"}`, "error of bash: exit code 1", "compaction", "They tried false.", "reset")
}

func TestPicturesAreNamedAndNeverReturned(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	image := llm.Block{Kind: llm.BlockImage, MediaType: "image/png", Data: []byte("picture bytes")}
	p.add(p.main,
		entry(store.EntryPrompt, words("look at this okapi"), image),
		entry(store.EntryAssistant, llm.Block{Kind: llm.BlockToolCall, CallID: "c1", Name: "read", Arguments: `{"path":"okapi.png"}`}),
		entry(store.EntryToolResult, llm.Block{Kind: llm.BlockToolResult, CallID: "c1", Text: "okapi.png is shown.", Images: []llm.Block{image}}))
	for _, arguments := range []string{`{"action":"read","session":"current"}`, `{"action":"search","query":"okapi"}`} {
		p.want(arguments, "look at this okapi", "(a picture, image/png)", "okapi.png is shown.", "(a picture, image/png)")
		result := p.call(arguments)
		if len(result.Images) > 0 || strings.Contains(result.Text, "picture bytes") {
			t.Errorf("%s returns pictures", arguments)
		}
	}
}

func TestItsOwnCallsAreMarkedAndNotRepeated(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.add(p.main,
		entry(store.EntryAssistant, llm.Block{Kind: llm.BlockToolCall, CallID: "h", Name: "history", Arguments: `{"action":"search","query":"quokka"}`}),
		entry(store.EntryToolResult, llm.Block{Kind: llm.BlockToolResult, CallID: "h", Text: "1 match: quokka"}))
	p.want(`{"action":"search","query":"quokka"}`, "0 matches")
	page := p.want(`{"action":"read","session":"current"}`, "3 entries", "calls history", "result of history")
	if strings.Contains(page, "quokka") {
		t.Errorf("it repeats itself:\n%s", page)
	}
}

func TestLongEntriesAreClippedAroundTheMatch(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.session("aaaaaaaa-1", "C1:a", nil)
	p.add("aaaaaaaa-1", entry(store.EntryChat, words(strings.Repeat("前 ", 20_000)+"needle in it "+strings.Repeat("🎉 ", 20_000))))
	found := p.want(`{"action":"search","query":"needle"}`, "needle in it", "[Clipped: 2000 of 80013 characters.")
	if n := utf8.RuneCountInString(found); n > 2400 || !utf8.ValidString(found) {
		t.Errorf("%d characters, valid %v", n, utf8.ValidString(found))
	}
	read := p.want(`{"action":"read","session":"aaaaaaaa"}`, "前 前", "[Clipped: 2000 of 80013 characters.")
	if strings.Contains(read, "needle") {
		t.Error("read shows more than the beginning")
	}
}

func TestOutputIsBoundedAndSaysHowToContinue(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"letters":     strings.Repeat("x", 1990),
		"Chinese":     strings.Repeat("字", 1990),
		"emoji":       strings.Repeat("🎉", 1990),
		"short lines": strings.Repeat("a\n", 990),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			p.session("aaaaaaaa-1", "C1:a", nil)
			for i := range 40 {
				p.add("aaaaaaaa-1", entry(store.EntryChat, words(fmt.Sprintf("n%02d ", i)+said)))
			}
			seen, skip := map[string]bool{}, 0
			for range 40 {
				page := p.call(fmt.Sprintf(`{"action":"read","session":"aaaaaaaa","limit":200,"skip":%d}`, skip)).Text
				if n := utf8.RuneCountInString(page); n > history.OutputCharacters || strings.Contains(page, "[Cut:") {
					t.Fatalf("a page of %d characters, %d bytes: %.200s", n, len(page), page)
				}
				for i := range 40 {
					if number := fmt.Sprintf("n%02d ", i); strings.Contains(page, number) {
						if seen[number] {
							t.Fatalf("%s is on two pages", number)
						}
						seen[number] = true
					}
				}
				_, next, more := strings.Cut(page, "Continue with skip ")
				if !more {
					break
				}
				if _, err := fmt.Sscanf(next, "%d.", &skip); err != nil {
					t.Fatal(err)
				}
			}
			if len(seen) != 40 {
				t.Errorf("%d of 40 entries were seen", len(seen))
			}
		})
	}
}

func TestTheChatLogIsReadAndFiltered(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.say("m2", "C1", "eve", "the <b>marmot</b> & co")
	p.want(`{"action":"chat"}`, "2 messages", "[ann]", "what happened so far?", "[eve]", "the <b>marmot</b> & co")
	page := p.want(`{"action":"chat","query":"MARMOT"}`, "1 matching message", "[eve]", "the <b>marmot</b> & co")
	if strings.Contains(page, "ann") {
		t.Errorf("other lines are shown:\n%s", page)
	}
}

func TestNoOtherOfficeIsReached(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	foreign := &past{t: t, s: p.s, office: "v1-slack-c2-fedcba9876543210"}
	foreign.say("m1", "C1", "mallory", "secret tapir")
	session := foreign.claim("C1").SessionID
	for _, arguments := range []string{
		`{"action":"sessions"}`, `{"action":"search","query":"tapir"}`, `{"action":"chat"}`, `{"action":"chat","query":"tapir"}`,
		`{"action":"read","session":"` + session + `"}`, `{"action":"search","query":"tapir","session":"` + session + `"}`,
		`{"action":"search","query":"tapir","office":"` + foreign.office + `"}`,
	} {
		if text := p.call(arguments).Text; strings.Contains(text, "secret") || strings.Contains(text, "mallory") {
			t.Errorf("%s gives\n%s", arguments, text)
		}
	}
}
