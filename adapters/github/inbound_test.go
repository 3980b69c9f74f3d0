package github_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

func TestWhatTheWebhookAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	comment := []byte(`{"action":"created","repository":{"name":"x","owner":{"login":"y"}},"issue":{"number":1},"comment":{"id":1,"body":"hi","user":{"login":"z"}}}`)
	for name, c := range map[string]struct {
		change func(*http.Request)
		event  string
		body   []byte
		want   int
	}{
		"a ping":                          {nil, "ping", []byte(`{"zen":"x"}`), 200},
		"an event":                        {nil, "issue_comment", comment, 202},
		"an event of no interest":         {nil, "star", []byte(`{}`), 202},
		"a wrong signature":               {func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64)) }, "issue_comment", comment, 401},
		"no signature":                    {func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, "ping", comment, 401},
		"the old signature alone":         {func(r *http.Request) { r.Header.Del("X-Hub-Signature-256"); r.Header.Set("X-Hub-Signature", "sha1=00") }, "ping", comment, 401},
		"a signature that is no hex":      {func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=zz") }, "ping", comment, 401},
		"GET":                             {func(r *http.Request) { r.Method = "GET" }, "ping", comment, 405},
		"PUT":                             {func(r *http.Request) { r.Method = "PUT" }, "ping", comment, 405},
		"no event name":                   {func(r *http.Request) { r.Header.Del("X-GitHub-Event") }, "", comment, 400},
		"no JSON":                         {nil, "issue_comment", []byte(`{"action":`), 400},
		"another type than GitHub's":      {nil, "issue_comment", []byte(`{"action":5}`), 400},
		"more than 25 MiB, announced":     {nil, "ping", bytes.Repeat([]byte(" "), 25<<20+1), 413},
		"more than 25 MiB, not announced": {func(r *http.Request) { r.ContentLength = -1 }, "ping", bytes.Repeat([]byte(" "), 25<<20+1), 413},
	} {
		req, err := githubtest.WebhookRequest(g.url, secret, c.event, "guid", c.body)
		w.must(err)
		if c.change != nil {
			c.change(req)
		}
		answer, err := http.DefaultClient.Do(req)
		w.must(err)
		_ = answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.want)
		}
	}
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestAFormPayloadIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	w.hub.AddHook(repo, g.url, secret, githubtest.FormHook)
	w.hub.OpenIssue(repo, ann, "Broken", "@mikan-bot please look")
	w.decided()
	if w.waiting() != 1 {
		t.Errorf("%d wait", w.waiting())
	}
}

func TestTheGatesInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listed []store.AccessRule
		login  string
		runs   int
	}{
		"who may write":                           {nil, ann, 1},
		"who may read":                            {nil, rob, 0},
		"a stranger":                              {nil, eve, 0},
		"another bot":                             {nil, robot, 0},
		"itself":                                  {nil, me, 0},
		"a listed repository":                     {[]store.AccessRule{allow(store.PrincipalRepository, "acme/web.app")}, ann, 1},
		"a listed owner":                          {[]store.AccessRule{allow(store.PrincipalRepository, "acme/*")}, ann, 1},
		"a repository that is not listed":         {[]store.AccessRule{allow(store.PrincipalRepository, "acme/other")}, ann, 0},
		"a listed user":                           {[]store.AccessRule{allow(store.PrincipalUser, "Ann")}, ann, 1},
		"a user who is not listed":                {[]store.AccessRule{allow(store.PrincipalUser, "bob")}, ann, 0},
		"a listed user without the permission":    {[]store.AccessRule{allow(store.PrincipalUser, "rob")}, rob, 0},
		"a listed stranger":                       {[]store.AccessRule{allow(store.PrincipalUser, "eve")}, eve, 0},
		"a listed user, repository not listed":    {[]store.AccessRule{allow(store.PrincipalUser, "ann"), allow(store.PrincipalRepository, "acme/other")}, ann, 0},
		"a listed repository, user without right": {[]store.AccessRule{allow(store.PrincipalRepository, "acme/web.app")}, rob, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.listed = c.listed
			number := w.hub.OpenIssue(repo, ann, "Broken", "")
			w.start()
			w.hub.Comment(repo, number, c.login, "@mikan-bot please look")
			if _, code := w.hub.Delivered(); code != 202 {
				t.Errorf("GitHub was told %d", code)
			}
			w.decided()
			if got := w.waiting(); got != c.runs {
				t.Errorf("%d wait, want %d", got, c.runs)
			}
			if n := w.rows(); c.runs == 0 && n != 0 {
				t.Errorf("a refused event left %d rows", n)
			}
			w.hub.Settle()
			if len(w.hub.Visible(repo, number)) != 2 {
				t.Errorf("something was said: %v", w.hub.Visible(repo, number))
			}
		})
	}
}

func allow(kind store.PrincipalKind, id string) store.AccessRule {
	return store.AccessRule{Platform: "github", Kind: kind, Principal: id, Effect: store.Allow}
}

// A look-up that fails is a no, and one that cannot be made now is made again.
func TestAPermissionThatCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	w.start()
	w.hub.Permit(repo, me, "read") // may not see permissions any more
	w.hub.Comment(repo, number, ann, "@mikan-bot please look")
	w.decided()
	if w.waiting() != 0 || w.rows() != 0 {
		t.Errorf("%d wait, %d rows", w.waiting(), w.rows())
	}
	w.hub.Permit(repo, me, "write")

	w = newWorld(t)
	number = w.hub.OpenIssue(repo, ann, "Broken", "")
	g := w.start()
	w.hub.Break(githubtest.Fault{Route: "permission", Kind: githubtest.Failing, Status: 502})
	w.hub.Comment(repo, number, ann, "@mikan-bot please look")
	w.eventually("the call failed", func() bool { return len(w.hub.Calls("GET", "permission")) == 1 })
	undecided, err := w.store.Undecideds(t.Context(), store.Overdue{Platform: office.GitHub, Limit: 10})
	w.must(err)
	for _, u := range undecided {
		w.must(g.intake.Decide(t.Context(), u))
	}
	w.decided()
	if w.waiting() != 1 {
		t.Errorf("%d wait", w.waiting())
	}
}

func TestAPermissionIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	w.start()
	for range 3 {
		w.hub.Comment(repo, number, ann, "@mikan-bot please look")
		w.decided()
	}
	if n := len(w.hub.Calls("GET", "permission")); n != 1 || w.waiting() != 3 {
		t.Errorf("asked %d times, %d wait", n, w.waiting())
	}
}

func TestWhatTriggersBySetting(t *testing.T) {
	t.Parallel()
	acts := map[config.GitHubTrigger]func(w *world, issue, pull int64){
		config.OnMention:       func(w *world, issue, _ int64) { w.hub.Comment(repo, issue, ann, "hey @mikan-bot!") },
		config.OnAssignment:    func(w *world, issue, _ int64) { w.hub.Assign(repo, issue, ann, me) },
		config.OnReviewRequest: func(w *world, _, pull int64) { w.hub.RequestReview(repo, pull, ann, me) },
	}
	for trigger, act := range acts {
		for name, c := range map[string]struct {
			on   []config.GitHubTrigger
			want int
		}{
			"all":      {nil, 1},
			"alone":    {[]config.GitHubTrigger{trigger}, 1},
			"switched": {[]config.GitHubTrigger{config.OnFollowUp}, 0},
		} {
			t.Run(string(trigger)+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				issue := w.hub.OpenIssue(repo, ann, "Broken", "")
				pull := w.hub.OpenPull(repo, ann, "Mend", "", "mend", githubtest.File{Path: "a.go", Patch: "+x"})
				w.start(c.on...)
				act(w, issue, pull)
				w.decided()
				if w.waiting() != c.want {
					t.Errorf("%d wait, want %d", w.waiting(), c.want)
				}
			})
		}
	}
}

func TestFollowUpsCountWhereMikanTakesPart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on   []config.GitHubTrigger
		want int
	}{{nil, 2}, {[]config.GitHubTrigger{config.OnMention}, 1}} {
		w := newWorld(t)
		number := w.hub.OpenIssue(repo, ann, "Broken", "")
		w.start(c.on...)
		w.hub.Comment(repo, number, ann, "just talk")
		if n := w.rows(); n != 0 {
			t.Errorf("talk left %d rows", n)
		}
		w.hub.Comment(repo, number, ann, "@mikan-bot look")
		w.decided()
		w.hub.Comment(repo, number, ann, "and there")
		w.hub.Comment(repo, number, eve, "me too")
		w.decided()
		if w.waiting() != c.want {
			t.Errorf("%v: %d wait, want %d", c.on, w.waiting(), c.want)
		}
		id := fmt.Sprintf("comment-%d", w.hub.Visible(repo, number)[4].ID)
		if m, ok := w.logged(repo, number, id); !ok || !strings.Contains(m.AuthorName, "untrusted") {
			t.Errorf("the stranger's talk is logged as %+v", m)
		}
	}
}

func TestAnIssueOpenedForMikanRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.hub.OpenIssue(repo, ann, "Broken", "@mikan-bot please", me)
	w.decided()
	if w.waiting() != 1 {
		t.Errorf("%d wait", w.waiting())
	}
}

func TestOneSessionHoldsAllThatIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	number := w.hub.OpenPull(repo, ann, "Mend", "@mikan-bot please look", "mend", githubtest.File{Path: "a.go", Patch: "+x"})
	w.decided()
	hunk := "@@ -1,3 +1,20 @@\n" + strings.Repeat(" before\n", 20) + "+the line"
	comment := w.hub.Comment(repo, number, ann, "what about this?")
	review, inline := w.hub.Review(repo, number, ann, "changes_requested", "not yet", githubtest.Inline{Path: "a.go", Line: 7, Hunk: hunk, Body: "@mikan-bot why?"})
	reply := w.hub.ReplyInline(repo, number, inline[0], ann, "well?")
	w.decided()
	if n := w.count("SELECT count(DISTINCT session_key) FROM inbox"); n != 1 || w.waiting() != 5 {
		t.Errorf("%d sessions, %d wait", n, w.waiting())
	}
	for id, want := range map[string]string{
		fmt.Sprintf("issue-%d", number):     "Pull request #1: Mend\n\n@mikan-bot please look",
		fmt.Sprintf("comment-%d", comment):  "what about this?",
		fmt.Sprintf("review-%d", review):    "Requested changes.\n\nnot yet",
		fmt.Sprintf("inline-%d", inline[0]): "On a.go, line 7:\n```diff\n" + strings.Repeat(" before\n", 11) + "+the line\n```\n\nwhy?",
	} {
		if m, ok := w.logged(repo, number, id); !ok || m.Text != want || m.SessionKey != "GH_acme_web.app_1" {
			t.Errorf("%s is logged as %q in %q", id, m.Text, m.SessionKey)
		}
	}
	if m, _ := w.logged(repo, number, fmt.Sprintf("inline-%d", reply)); m.ReplyTo != fmt.Sprintf("inline-%d", inline[0]) {
		t.Errorf("the reply answers %q", m.ReplyTo)
	}
}

// Trap F02, F03, F04 and two webhooks of one repository: what says the same is the same.
func TestOneRunHoweverOftenItIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	w.start()
	w.start()                                                           // a second webhook and gateway
	w.hub.AddHook("Acme", w.gateway().url, secret, githubtest.JSONHook) // and one of the organisation
	w.hub.Comment(repo, number, ann, "@mikan-bot look")
	w.hub.Assign(repo, number, ann, me)
	w.hub.Redeliver(2)
	w.decided()
	if w.waiting() != 2 {
		t.Errorf("%d wait, want the mention and the assignment", w.waiting())
	}

	w = newWorld(t)
	g := w.gateway()
	body := []byte(`{"action":"created","repository":{"name":"Web.App","owner":{"login":"Acme"}},"issue":{"number":1},` +
		`"comment":{"body":"@mikan-bot look","user":{"login":"Ann"},"author_association":"COLLABORATOR","created_at":"` + time.Now().UTC().Format(time.RFC3339) + `"}}`)
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			req, err := githubtest.WebhookRequest(g.url, secret, "issue_comment", fmt.Sprint("guid-", n), body)
			w.must(err)
			answer, err := http.DefaultClient.Do(req)
			w.must(err)
			_ = answer.Body.Close()
		})
	}
	group.Wait()
	w.decided()
	if w.waiting() != 1 {
		t.Errorf("without an id: %d wait", w.waiting())
	}
}

func TestEditsAndDeletionsChangeTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	w.start()
	w.hub.Comment(repo, number, ann, "@mikan-bot look")
	w.decided()
	id := w.hub.Comment(repo, number, eve, "first")
	message := fmt.Sprintf("comment-%d", id)
	w.hub.EditComment(repo, id, eve, "second")
	if m, _ := w.logged(repo, number, message); m.Text != "second" {
		t.Errorf("after the edit: %q", m.Text)
	}
	w.hub.Redeliver(1)
	w.hub.DeleteComment(repo, id, eve)
	if m, ok := w.logged(repo, number, message); ok {
		t.Errorf("after the deletion: %+v", m)
	}
	w.hub.Redeliver(3)
	if m, ok := w.logged(repo, number, message); ok {
		t.Errorf("after redeliveries: %+v", m)
	}
	if w.waiting() != 1 {
		t.Errorf("%d wait", w.waiting())
	}
}

// A delivery that comes late is compared with how things stand now.
func TestOldNewsIsLookedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.Shift(time.Hour)
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	g := w.gateway()
	w.hub.AddHook(repo, g.url, secret, githubtest.JSONHook)
	w.hub.LoseDeliveries(100)
	kept := w.hub.Comment(repo, number, ann, "@mikan-bot first")
	gone := w.hub.Comment(repo, number, ann, "@mikan-bot gone")
	w.hub.EditComment(repo, kept, ann, "@mikan-bot second")
	w.hub.DeleteComment(repo, gone, ann)
	w.hub.LoseDeliveries(0)
	w.hub.Redeliver(4)
	w.decided()
	if m, _ := w.logged(repo, number, fmt.Sprintf("comment-%d", kept)); m.Text != "second" || w.waiting() != 1 {
		t.Errorf("logged %q, %d wait", m.Text, w.waiting())
	}
}

func TestTheIdsOfTwoRepositoriesNeverCollide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	for _, full := range []string{"a_b/c", "a/b_c"} {
		addRepo(w.hub, full)
		w.hub.AddHook(full, g.url, secret, githubtest.JSONHook)
		w.hub.OpenIssue(full, ann, "One", "@mikan-bot look")
		if _, code := w.hub.Delivered(); code != 202 {
			t.Errorf("%s: GitHub was told %d", full, code)
		}
	}
	w.decided()
	if w.waiting() != 1 || w.count("SELECT count(*) FROM offices WHERE repo_owner = 'a_b' AND repo_name = 'c'") != 1 || w.count("SELECT count(*) FROM chat_log") != 1 {
		t.Errorf("the second repository was not refused: %d wait", w.waiting())
	}
}
