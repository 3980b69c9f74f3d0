package github_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/github"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// installation is mikan before a local GitHub.
type installation struct {
	*world
	*servicetest.Installation
	listening atomic.Pointer[http.ServeMux] // whichever gateway the webhook comes to
}

// prepare makes an installation in which nothing runs. lines are those of the MIKAN_CONFIG file.
func prepare(t testing.TB, script llmtest.Script, lines ...string) *installation {
	t.Helper()
	hub := newHub(t)
	mikan := servicetest.New(t, servicetest.Options{Script: script, Lines: lines, Env: map[string]string{
		"GITHUB_AGENT_TOKEN": token, "GITHUB_WEBHOOK_SECRET": secret, "GITHUB_API_URL": hub.URL,
	}})
	return &installation{world: &world{TB: t, hub: hub, store: mikan.Store}, Installation: mikan}
}

// install makes an installation with a worker, and a webhook of the repository that comes to the newest gateway.
func install(t testing.TB, script llmtest.Script, lines ...string) *installation {
	t.Helper()
	in := prepare(t, script, lines...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux := in.listening.Load()
		if mux == nil {
			panic(http.ErrAbortHandler) // nobody listens
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	in.hub.AddHook(repo, server.URL+github.WebhookPath, secret, githubtest.JSONHook)
	in.Worker()
	return in
}

// serve starts a gateway that gets the webhook.
func (in *installation) serve() *servicetest.Process {
	in.Helper()
	p := in.Gateway()
	in.listening.Store(p.Mux)
	in.Cleanup(func() { in.listening.Store(nil) })
	return p
}

// answers lists what mikan has said in a conversation.
func (in *installation) answers(number int64) (all []githubtest.Shown) {
	for _, s := range in.hub.Visible(repo, number)[1:] {
		if s.Author == me {
			all = append(all, s)
		}
	}
	return all
}

func (in *installation) settled() {
	in.Helper()
	in.eventually("everything is settled", in.Settled)
	in.hub.Settle()
}

func TestAReviewConversation(t *testing.T) {
	t.Parallel()
	in := install(t, func(r llmtest.Request) llmtest.Reply {
		if results := r.LastResults(); len(results) > 0 {
			return llmtest.Say("The tool said: %s", results[0].Text)
		}
		switch text := r.LastUserText(); {
		case strings.Contains(text, "mend it"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c1", "github_pr", `{"action":"create","title":"Mended","files":[{"path":"a.go","content":"package a\n"}]}`)}}
		case strings.Contains(text, "read it"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("c2", "github_read", `{"what":"issue"}`)}}
		default:
			return llmtest.Say("You said: %s", text[strings.LastIndex(text, "\n")+1:])
		}
	}, "github: {capabilities: [pr]}")
	in.hub.SetEcho(githubtest.EchoFirst)
	in.serve()
	number := in.hub.OpenPull(repo, ann, "Change", "@mikan-bot please review", "change", githubtest.File{Path: "a.go", Patch: "+x"})
	in.settled()
	_, inline := in.hub.Review(repo, number, ann, "commented", "", githubtest.Inline{Path: "a.go", Line: 1, Hunk: "@@ -0,0 +1 @@\n+x", Body: "@mikan-bot why this?"})
	in.settled()
	in.hub.Comment(repo, number, ann, "then mend it")
	in.settled()
	in.hub.ReplyInline(repo, number, inline[0], ann, "read it")
	in.settled()

	answers := in.answers(number)
	if len(answers) != 4 {
		t.Fatalf("answers: %+v", answers)
	}
	for n, want := range []struct {
		text   string
		thread int64
	}{{"please review", 0}, {"Opened", 0}, {"why this?", inline[0]}, {"Pull request acme/web.app", inline[0]}} {
		if a := answers[n]; !strings.Contains(a.Body, want.text) || a.Thread != want.thread {
			t.Errorf("answer %d is %+v, want %q in thread %d", n, a, want.text, want.thread)
		}
	}
	for _, s := range in.hub.Visible(repo, number) {
		if seen := slices.Contains(s.Reactions, me+":eyes"); seen != (s.Author == ann) {
			t.Errorf("eyes on %+v", s)
		}
	}
	if n := in.count("SELECT count(*) FROM sessions"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if n := in.count("SELECT count(*) FROM chat_log WHERE author_kind = 'mikan'"); n != 4 {
		t.Errorf("%d of 4 answers are logged", n)
	}
	if pulls := in.hub.Pulls(repo); len(pulls) != 2 {
		t.Errorf("pull requests: %v", pulls)
	}
	last := in.Model.Requests()[len(in.Model.Requests())-1]
	if all := strings.Join(last.Tools, " "); !strings.Contains(all, "github_read") || strings.Contains(all, "github_issue") {
		t.Errorf("offered: %s", all)
	}
}

func TestToolsOfGitHubAreOfferedOnGitHubOnly(t *testing.T) {
	t.Parallel()
	in := install(t, llmtest.Always(llmtest.Say("Yes.")))
	in.serve().Send(terminal.Input{Conversation: "C1", User: "ann", Text: "hello"})
	in.eventually("the model is asked", func() bool { return len(in.Model.Requests()) == 1 })
	in.settled()
	if all := strings.Join(in.Model.Requests()[0].Tools, " "); strings.Contains(all, "github_") || !strings.Contains(all, "bash") {
		t.Errorf("offered: %s", all)
	}
}

// Every answer comes once although each step of the way fails once.
func TestOneAnswerWhateverFails(t *testing.T) {
	t.Parallel()
	in := install(t, llmtest.Always(llmtest.Say("Done.")))
	in.serve()
	number := in.hub.OpenIssue(repo, ann, "Broken", "")
	for n, f := range []githubtest.Fault{
		{Method: "POST", Route: "/issues/{number}/comments", Kind: githubtest.LostReply},
		{Method: "POST", Route: "/issues/{number}/comments", Kind: githubtest.LostCall},
		{Method: "POST", Route: "/issues/{number}/comments", Kind: githubtest.Secondary, After: time.Second, Times: 2},
		{Method: "POST", Route: "/issues/{number}/comments", Kind: githubtest.Malformed},
		{Method: "GET", Route: "permission", Kind: githubtest.Failing, Status: 500},
		{Method: "GET", Route: "/comments", Kind: githubtest.Failing, Status: 502, Times: 2},
		{Method: "POST", Route: "reactions", Kind: githubtest.Failing, Status: 500},
	} {
		in.hub.Break(f)
		in.hub.Comment(repo, number, ann, fmt.Sprintf("@mikan-bot once more %d", n))
		in.hub.Redeliver(1)
		in.settled()
		if got := len(in.answers(number)); got != n+1 {
			t.Fatalf("after %s of %s: %d answers, want %d", f.Kind, f.Route, got, n+1)
		}
	}
}

// What was said while no gateway listened is answered when one does, once.
func TestWhatWasSaidWhileNobodyListenedIsAnswered(t *testing.T) {
	t.Parallel()
	in := install(t, llmtest.Always(llmtest.Say("Done.")))
	first := in.serve()
	number := in.hub.OpenIssue(repo, ann, "Broken", "@mikan-bot look")
	in.settled()
	in.listening.Store(nil)
	first.Quit()
	in.hub.Comment(repo, number, ann, "and there")
	second := in.hub.OpenIssue(repo, ann, "Broken, too", "@mikan-bot look")
	if status, code := in.hub.Delivered(); code != 0 {
		t.Fatalf("somebody listened: %s %d", status, code)
	}
	in.serve()
	in.eventually("both are answered", func() bool { return len(in.answers(number)) == 2 && len(in.answers(second)) == 1 })
	in.hub.Redeliver(3)
	in.settled()
	if len(in.answers(number)) != 2 || len(in.answers(second)) != 1 {
		t.Errorf("answers: %+v %+v", in.answers(number), in.answers(second))
	}
}

func TestALongAnswerIsSplitIntoComments(t *testing.T) {
	t.Parallel()
	answer := strings.Repeat("All of this is one long paragraph of words. ", 1600)
	in := install(t, llmtest.Always(llmtest.Say("%s", answer)))
	in.serve()
	number := in.hub.OpenIssue(repo, ann, "Broken", "@mikan-bot look")
	in.settled()
	words := 0
	answers := in.answers(number)
	for _, a := range answers {
		words += strings.Count(a.Body, "paragraph")
	}
	if len(answers) != 2 || words != 1600 {
		t.Errorf("%d comments with %d sentences", len(answers), words)
	}
}
