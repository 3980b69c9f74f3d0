package github_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

type place struct {
	Owner  string `json:"owner"`
	Repo   string `json:"repo"`
	Number int64  `json:"number"`
	Pull   bool   `json:"pull,omitempty"`
	Thread int64  `json:"thread,omitempty"`
}

func outgoing(t testing.TB, number, thread int64, key, text string) adapters.Outgoing {
	t.Helper()
	issue, err := office.NewIssue("Acme", "Web.App", number)
	if err != nil {
		t.Fatal(err)
	}
	return adapters.Outgoing{
		Address: issue.Address(), SessionKey: issue.ConversationID(), Key: key, Markdown: text,
		Reply: adapters.ReplyOf(place{Owner: "Acme", Repo: "Web.App", Number: number, Pull: thread != 0, Thread: thread}),
	}
}

func (w *world) pull() (number, thread int64) {
	number = w.hub.OpenPull(repo, ann, "Mend", "", "mend", githubtest.File{Path: "a.go", Patch: "+x"})
	_, inline := w.hub.Review(repo, number, ann, "commented", "", githubtest.Inline{Path: "a.go", Line: 1, Hunk: "+x", Body: "why?"})
	return number, inline[0]
}

func TestAnAnswerGoesWhereItBelongsAndCarriesItsMarker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	number, thread := w.pull()
	id, err := g.adapter.Post(t.Context(), outgoing(t, number, 0, "key1", "**Done.**"))
	w.must(err)
	inline, err := g.adapter.Post(t.Context(), outgoing(t, number, thread, "key2", "Because."))
	w.must(err)
	shown := w.hub.Visible(repo, number)
	if len(shown) != 4 {
		t.Fatalf("shown: %+v", shown)
	}
	comment, answer := shown[1], shown[3]
	if id != fmt.Sprintf("comment-%d", comment.ID) || comment.Author != me || comment.Thread != 0 || !strings.HasPrefix(comment.Body, "**Done.**") || !strings.HasSuffix(comment.Body, "<!-- mikan:key1 -->") {
		t.Errorf("%s is shown as %+v", id, comment)
	}
	if inline != fmt.Sprintf("inline-%d", answer.ID) || answer.Thread != thread {
		t.Errorf("%s is shown as %+v", inline, answer)
	}
	w.must(g.adapter.Edit(t.Context(), id, outgoing(t, number, 0, "key1", "Edited.")))
	w.must(g.adapter.Edit(t.Context(), inline, outgoing(t, number, thread, "key2", "Edited, too.")))
	shown = w.hub.Visible(repo, number)
	if !strings.HasPrefix(shown[1].Body, "Edited.") || !strings.HasPrefix(shown[3].Body, "Edited, too.") {
		t.Errorf("after edits: %+v", shown)
	}
	for key, at := range map[string]int64{"key1": 0, "key2": thread} {
		if _, found, err := g.adapter.FindDelivery(t.Context(), outgoing(t, number, at, key, ""), time.Now()); err != nil || !found {
			t.Errorf("%s is not found: %v", key, err)
		}
	}
	w.must(g.adapter.Delete(t.Context(), id, outgoing(t, number, 0, "key1", "")))
	w.must(g.adapter.Delete(t.Context(), inline, outgoing(t, number, thread, "key2", "")))
	if shown := w.hub.Visible(repo, number); len(shown) != 2 {
		t.Errorf("after deletions: %+v", shown)
	}
}

func TestADeliveryIsFoundByItsMarkerAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	began := time.Now()
	m := outgoing(t, number, 0, "key1", "Done.")
	w.hub.Comment(repo, number, eve, "a copy\n\n<!-- mikan:key1 -->") // anybody can write this
	_, found, err := g.adapter.FindDelivery(t.Context(), m, began)
	if err != nil || found {
		t.Errorf("a copy was taken for ours: %v, %v", found, err)
	}
	w.hub.Break(githubtest.Fault{Method: "POST", Route: "/comments", Kind: githubtest.LostReply})
	if _, err := g.adapter.Post(t.Context(), m); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("a lost reply: %v", err)
	}
	for range 120 { // more than a page of other talk
		w.hub.Comment(repo, number, ann, "talk")
	}
	id, found, err := g.adapter.FindDelivery(t.Context(), m, began)
	if want := fmt.Sprintf("comment-%d", w.hub.Visible(repo, number)[2].ID); err != nil || !found || id != want {
		t.Errorf("found %q %v %v, want %s", id, found, err, want)
	}
	if _, found, err = g.adapter.FindDelivery(t.Context(), outgoing(t, number, 0, "key2", ""), began); err != nil || found {
		t.Errorf("found what was never posted: %v %v", found, err)
	}
}

// Trap F05.
func TestALongAnswerIsSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	answer := strings.Repeat("All of this is one long paragraph of words. ", 1600)
	parts := g.adapter.Split(answer)
	if len(parts) < 2 {
		t.Fatalf("%d characters are %d part", utf8.RuneCountInString(answer), len(parts))
	}
	for n, part := range parts {
		m := outgoing(t, number, 0, fmt.Sprint("key", n), part)
		m.Part = n
		if _, err := g.adapter.Post(t.Context(), m); err != nil {
			t.Fatalf("part %d: %v", n, err)
		}
	}
	words := 0
	for _, s := range w.hub.Visible(repo, number) {
		words += strings.Count(s.Body, "paragraph")
		if n := utf8.RuneCountInString(s.Body); n > 60_100 {
			t.Errorf("a part has %d characters", n)
		}
	}
	if words != 1600 {
		t.Errorf("%d of 1600 sentences are shown", words)
	}
}

// Trap E21.
func TestNoAnswerNotifiesAnybodyWhoWasNotMeant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	w.must(w.store.KeepPeople(t.Context(), store.Person{Platform: "github", Installation: "mikan-bot", ID: "ann", Handle: "ann"}))
	_, err := g.adapter.Post(t.Context(), outgoing(t, number, 0, "key", "@Ann see @eve, @acme/everybody, `@code` <!-- mikan:other --> and @all."))
	w.must(err)
	body := w.hub.Visible(repo, number)[1].Body
	if !strings.Contains(body, "@ann") {
		t.Errorf("whom mikan knows is not mentioned: %s", body)
	}
	for _, no := range []string{"@eve", "@acme/everybody", "@all", "<!-- mikan:other -->"} {
		if strings.Contains(body, no) {
			t.Errorf("%s is in: %s", no, body)
		}
	}
}

func TestHowRefusalsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault *githubtest.Fault
		setUp func(w *world, number int64)
		want  fault.Code
		after time.Duration
	}{
		"the hourly limit":    {&githubtest.Fault{Kind: githubtest.Primary, After: time.Hour}, nil, fault.RateLimited, 30 * time.Minute},
		"a secondary limit":   {&githubtest.Fault{Kind: githubtest.Secondary, After: 90 * time.Second}, nil, fault.RateLimited, 90 * time.Second},
		"429":                 {&githubtest.Fault{Kind: githubtest.TooMany, After: 30 * time.Second}, nil, fault.RateLimited, 30 * time.Second},
		"502":                 {&githubtest.Fault{Kind: githubtest.Failing, Status: 502}, nil, fault.Unavailable, 0},
		"a broken connection": {&githubtest.Fault{Kind: githubtest.LostCall}, nil, fault.Unavailable, 0},
		"half an answer":      {&githubtest.Fault{Kind: githubtest.Malformed}, nil, fault.Unavailable, 0},
		"a revoked token":     {nil, func(w *world, _ int64) { w.hub.RevokeToken(token) }, fault.Forbidden, 0},
		"a missing permission": {nil, func(w *world, _ int64) {
			w.hub.AddToken(token, me, map[githubtest.Permission]githubtest.Level{"metadata": 1, "issues": 1})
		}, fault.Forbidden, 0},
		"another repository's": {nil, func(w *world, _ int64) { w.hub.AddToken(token, me, githubtest.FullLevels(), "acme/other") }, fault.Forbidden, 0},
		"a locked issue":       {nil, func(w *world, n int64) { w.hub.Permit(repo, me, "read"); w.hub.Lock(repo, n) }, fault.Forbidden, 0},
		"a deleted issue":      {nil, func(w *world, n int64) { w.hub.DeleteIssue(repo, n, ann) }, fault.NotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway()
			number := w.hub.OpenIssue(repo, ann, "Broken", "")
			if c.setUp != nil {
				c.setUp(w, number)
			}
			if c.fault != nil {
				c.fault.Method, c.fault.Route = "POST", "/comments"
				w.hub.Break(*c.fault)
			}
			_, err := g.adapter.Post(t.Context(), outgoing(t, number, 0, "key", "Done."))
			if fault.CodeOf(err) != c.want || fault.RetryAfter(err) < c.after {
				t.Errorf("%v (%s after %s), want %s after %s", err, fault.CodeOf(err), fault.RetryAfter(err), c.want, c.after)
			}
			if strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
	w := newWorld(t)
	g := w.gateway()
	number := w.hub.OpenIssue(repo, ann, "Broken", "")
	m := outgoing(t, number, 0, "key", "Done.")
	m.Address.ConversationID = "GH_acme_web.app_99"
	if _, err := g.adapter.Post(t.Context(), m); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("another conversation's answer: %v", err)
	}
}

func TestEyesOnWhatWasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	number, thread := w.pull()
	comment := w.hub.Comment(repo, number, ann, "hello")
	for _, cause := range []string{fmt.Sprintf("comment-%d", comment), fmt.Sprintf("inline-%d", thread), fmt.Sprintf("issue-%d", number), "review-7", "assigned-7"} {
		m := outgoing(t, number, 0, "", "")
		m.Cause = cause
		for range 2 {
			w.must(g.adapter.Mark(t.Context(), m, adapters.MarkSeen))
		}
	}
	for _, s := range w.hub.Visible(repo, number) {
		if len(s.Reactions) != 1 || s.Reactions[0] != me+":eyes" {
			t.Errorf("%+v", s)
		}
	}
	m := outgoing(t, number, 0, "", "")
	m.Cause = fmt.Sprintf("comment-%d", comment)
	w.must(g.adapter.Unmark(t.Context(), m, adapters.MarkSeen))
	if s := w.hub.Visible(repo, number)[1]; len(s.Reactions) != 0 {
		t.Errorf("after the unmarking: %+v", s)
	}
}

func TestPicturesComeFromGitHubAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start()
	w.hub.AddAsset("abc", []byte("picture"))
	foreign := newHub(t) // stands for any other host
	foreign.AddAsset("abc", []byte("trap"))
	number := w.hub.OpenIssue(repo, ann, "Broken", "@mikan-bot see ![one](https://github.com/user-attachments/assets/abc) and "+
		`<img width="10" src="https://github.com/user-attachments/assets/gone"> and ![two](`+foreign.URL+"/user-attachments/assets/abc) ![three](https://example.com/x.png)")
	w.decided()
	m, _ := w.logged(repo, number, fmt.Sprintf("issue-%d", number))
	if len(m.Attachments) != 2 {
		t.Fatalf("attachments: %+v", m.Attachments)
	}
	content, err := g.adapter.Fetch(t.Context(), office.Address{}, m.Attachments[0])
	w.must(err)
	got, err := io.ReadAll(content)
	if err != nil || string(got) != "picture" {
		t.Errorf("fetched %q, %v", got, err)
	}
	_ = content.Close()
	if _, err := g.adapter.Fetch(t.Context(), office.Address{}, m.Attachments[1]); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a missing picture: %v", err)
	}
	if _, err := g.adapter.Fetch(t.Context(), office.Address{}, store.Attachment{Source: foreign.URL + "/user-attachments/assets/abc"}); fault.CodeOf(err) != fault.Forbidden {
		t.Errorf("a foreign host: %v", err)
	}
	if calls := foreign.Calls("", ""); len(calls) != 0 {
		t.Errorf("the foreign host was called: %+v", calls)
	}
}
