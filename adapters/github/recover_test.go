package github_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/github"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// known makes a repository one that mikan follows: somebody has called it in once.
func (w *world) known(g *gateway) {
	w.Helper()
	w.hub.OpenIssue(repo, ann, "First", "@mikan-bot hello")
	w.decided()
	_, err := w.store.Pool().Exec(w.Context(), "UPDATE cursors SET position = $1 WHERE scope LIKE 'repo:%'", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	w.must(err)
	if w.waiting() != 1 {
		w.Fatalf("%d wait", w.waiting())
	}
}

// Everything that was said while no webhook came through is found by reading.
func TestWhatWasMissedIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.AddToken(token, me, map[githubtest.Permission]githubtest.Level{"metadata": 1, "issues": 2, "pull_requests": 2})
	g := w.start()
	w.known(g)
	w.hub.LoseDeliveries(1000)
	w.hub.OpenIssue(repo, ann, "Second", "@mikan-bot you")
	w.hub.OpenIssue(repo, ann, "For nobody", "talk")
	assigned := w.hub.OpenIssue(repo, ann, "Third", "")
	w.hub.Assign(repo, assigned, ann, me)
	comment := w.hub.Comment(repo, 1, ann, "a follow-up")
	stranger := w.hub.Comment(repo, 1, eve, "@mikan-bot do this")
	pull := w.hub.OpenPull(repo, ann, "Mend", "", "mend", githubtest.File{Path: "a.go", Patch: "+x"})
	w.hub.RequestReview(repo, pull, ann, me)
	_, inline := w.hub.Review(repo, pull, ann, "commented", "@mikan-bot and this", githubtest.Inline{Path: "a.go", Line: 1, Hunk: "+x", Body: "@mikan-bot why?"})
	w.must(github.ReadAll(t.Context(), g.inbound))
	w.decided()
	var got []string
	rows, err := w.store.Pool().Query(t.Context(), "SELECT message_id FROM inbox WHERE state = 'waiting' ORDER BY 1")
	w.must(err)
	for rows.Next() {
		var id string
		w.must(rows.Scan(&id))
		got = append(got, strings.SplitN(id, "-", 2)[0])
	}
	if want := "assigned comment inline issue issue requested review"; strings.Join(got, " ") != want {
		t.Errorf("waiting: %v, want %s", got, want)
	}
	if _, ok := w.logged(repo, 1, fmt.Sprintf("comment-%d", comment)); !ok {
		t.Error("the follow-up is not logged")
	}
	if _, ok := w.logged(repo, 1, fmt.Sprintf("comment-%d", stranger)); ok {
		t.Error("the stranger's order is logged")
	}
	if m, _ := w.logged(repo, pull, fmt.Sprintf("inline-%d", inline[0])); m.Text == "" {
		t.Error("the inline comment is not logged")
	}

	// Reading again, with another process and with the webhooks after all, changes nothing.
	before := w.rows()
	w.must(github.ReadAll(t.Context(), w.gateway().inbound))
	w.hub.LoseDeliveries(0)
	w.hub.Redeliver(20)
	w.decided()
	if w.rows() != before || w.waiting() != 7 {
		t.Errorf("%d rows, then %d; %d wait", before, w.rows(), w.waiting())
	}
}

func TestAnEditThatWasMissedIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start()
	w.known(g)
	id := w.hub.Comment(repo, 1, eve, "first")
	w.hub.LoseDeliveries(1000)
	w.hub.EditComment(repo, id, eve, "second")
	w.must(github.ReadAll(t.Context(), g.inbound))
	if m, _ := w.logged(repo, 1, fmt.Sprintf("comment-%d", id)); m.Text != "second" {
		t.Errorf("logged %q", m.Text)
	}
}

func TestReadingCostsLittleWhereNothingIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start()
	w.known(g)
	for range 3 {
		w.must(github.ReadAll(t.Context(), g.inbound))
	}
	before := len(w.hub.Calls("", ""))
	w.must(github.ReadAll(t.Context(), g.inbound))
	calls := w.hub.Calls("", "")[before:]
	for _, c := range calls {
		if c.Status != 304 && !strings.Contains(c.Route, "deliveries") {
			t.Errorf("%s %s: %d", c.Method, c.Path, c.Status)
		}
	}
	if len(calls) > 6 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestFailedDeliveriesAreAskedForWhereTheTokenMay(t *testing.T) {
	t.Parallel()
	for _, target := range []string{repo, "Acme"} {
		w := newWorld(t)
		g := w.gateway()
		w.hub.AddHook(target, g.url, secret, githubtest.JSONHook)
		w.known(g)
		id := w.hub.Comment(repo, 1, eve, "to be deleted")
		w.hub.LoseDeliveries(1)
		w.hub.DeleteComment(repo, id, eve) // reading cannot find this
		w.hub.Age(time.Minute)
		w.must(github.ReadAll(t.Context(), g.inbound))
		w.hub.Settle()
		if _, ok := w.logged(repo, 1, fmt.Sprintf("comment-%d", id)); ok {
			t.Errorf("%s: the deletion was not delivered after all", target)
		}
		w.must(github.ReadAll(t.Context(), g.inbound))
		w.hub.Settle()
		if n := len(w.hub.Calls("POST", "attempts")); n != 1 {
			t.Errorf("%s: asked %d times", target, n)
		}
	}
}

func TestAWebhookThatCannotBeCommittedIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	g := w.start()
	s, err := store.Open(t.Context(), w.store.Pool().Config().ConnString())
	w.must(err)
	s.Close()
	kept := g.intake.Store
	g.intake.Store = s
	w.hub.Comment(repo, number, ann, "@mikan-bot look")
	if _, code := w.hub.Delivered(); code != 503 {
		t.Errorf("GitHub was told %d", code)
	}
	g.intake.Store = kept
	w.hub.Redeliver(1)
	w.decided()
	if w.waiting() != 1 {
		t.Errorf("%d wait", w.waiting())
	}
}

// A conversation's past is read when mikan is called into it, and none of it is answered.
func TestThePastOfAConversationIsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.Shift(48 * time.Hour)
	number := w.hub.OpenPull(repo, eve, "Mend", "It is broken. @mikan-bot", "mend", githubtest.File{Path: "a.go", Patch: "+x"})
	for n := range 250 {
		w.hub.Comment(repo, number, ann, fmt.Sprint("@mikan-bot talk ", n))
	}
	w.hub.Review(repo, number, rob, "approved", "fine", githubtest.Inline{Path: "a.go", Line: 1, Hunk: "+x", Body: "here"})
	w.start()
	w.hub.Shift(80 * time.Second)
	w.hub.Comment(repo, number, ann, "@mikan-bot look")
	w.decided()
	if w.waiting() != 1 {
		t.Errorf("%d wait", w.waiting())
	}
	description, ok := w.logged(repo, number, fmt.Sprintf("issue-%d", number))
	if !ok || !strings.Contains(description.AuthorName, "untrusted") || !strings.Contains(description.Text, "It is broken") {
		t.Errorf("the description is logged as %+v", description)
	}
	if n := w.count("SELECT count(*) FROM chat_log"); n < 200 || n > 260 {
		t.Errorf("%d lines are logged", n)
	}
	if n := w.count("SELECT count(*) FROM chat_log WHERE message_id LIKE 'review-%' OR message_id LIKE 'inline-%'"); n != 2 {
		t.Errorf("%d of the review's two lines", n)
	}
}

func TestARefusedTokenEndsTheAdapterWithASentence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	w.hub.RevokeToken(token)
	if err := g.inbound.Run(t.Context()); fault.CodeOf(err) != fault.Forbidden || !strings.Contains(err.Error(), "GITHUB_AGENT_TOKEN") {
		t.Errorf("ended with %v", err)
	}
}

func TestAnOutageIsReportedAndPasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	w.hub.Break(githubtest.Fault{Route: "/user", Kind: githubtest.Failing, Status: 503})
	w.run(g)
	for _, want := range []fault.Code{fault.Unavailable, ""} {
		select {
		case err := <-g.ready:
			if fault.CodeOf(err) != want {
				t.Errorf("reported %v, want %q", err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("nothing was reported")
		}
	}
}

// One gateway reads for all.
func TestOneGatewayReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start()
	w.known(first)
	w.run(first)
	w.eventually("the first gateway reads", func() bool { return len(w.hub.Calls("GET", "/pulls/comments")) > 0 })
	second := w.gateway()
	w.run(second)
	select {
	case <-second.ready:
	case <-time.After(30 * time.Second):
		t.Fatal("the second gateway is not ready")
	}
	_, held, err := w.store.TakeLease(context.WithoutCancel(t.Context()), "github/mikan-bot/read", "somebody else", time.Second)
	if err != nil || held {
		t.Errorf("the lease is free: %v, %v", held, err)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start()
	findings := g.adapter.Check(t.Context())
	if len(findings) != 2 || findings[0].Err != nil || !strings.Contains(findings[0].Note, me) {
		t.Errorf("before any event: %+v", findings)
	}
	w.known(g)
	for name, c := range map[string]struct {
		levels map[githubtest.Permission]githubtest.Level
		role   string
		broken string
	}{
		"all is well":     {githubtest.FullLevels(), "write", ""},
		"webhooks unseen": {map[githubtest.Permission]githubtest.Level{"metadata": 1, "issues": 2, "pull_requests": 2}, "write", ""},
		"role read":       {githubtest.FullLevels(), "read", "Write"},
	} {
		w.hub.AddToken(token, me, c.levels)
		w.hub.Permit(repo, me, c.role)
		var broken []string
		for _, f := range w.gateway().adapter.Check(t.Context()) {
			if f.Err != nil {
				broken = append(broken, f.Err.Error())
			}
		}
		if (len(broken) > 0) != (c.broken != "") || !strings.Contains(strings.Join(broken, " "), c.broken) {
			t.Errorf("%s: %v", name, broken)
		}
	}
	w.hub.Permit(repo, me, "write")
	w.hub.RevokeToken(token)
	if f := g.adapter.Check(t.Context()); len(f) != 1 || f[0].Err == nil {
		t.Errorf("with a revoked token: %+v", f)
	}
}
