package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
)

func TestPageShowsNameTimesStateUsageAndTimeline(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.message("C1", "bob", "good morning")
	r := c.ask("C1", "ann", "what is in here?")
	c.think(r, 1, words("I look."), calling("k1", "bash", `{"command":"ls -la"}`))
	c.result(r, 1, 0, "k1", "total 0")
	c.think(r, 2, words("Nothing is in here."))
	url := c.link(r.SessionID)

	running := c.page(url)
	if got := running.id("facts").text(); !strings.Contains(got, "running since") {
		t.Errorf("while the run goes the page says %q", got)
	}
	c.answer(r, "Nothing is in here.")
	page := c.page(url)
	head := page.id("facts").text()
	for _, want := range []string{"idle", "5 ", "1 run ·", "2,000 tokens in", "20 out", "4 read from cache", "$0.000030", "UTC"} {
		if !strings.Contains(head, want) {
			t.Errorf("the head says %q, which lacks %q", head, want)
		}
	}
	for id, want := range map[string]string{
		"e1": "Chat line", "e2": "User", "e3": "Assistant demo-1", "e5": "run answered",
	} {
		if got := page.id(id).text(); !strings.Contains(got, want) {
			t.Errorf("%s shows %q, which lacks %q", id, got, want)
		}
	}
	folded := page.id("e3").all("details", "call")
	if len(folded) != 1 {
		t.Fatalf("the turn folds %d calls, want 1", len(folded))
	}
	if got := folded[0].id("e4").text(); !strings.Contains(got, "total 0") {
		t.Errorf("the call's result shows %q", got)
	}
	for _, open := range page.all("details", "") {
		if attribute(open.root, "open") != "" || slices.ContainsFunc(open.root.Attr, func(a htmlAttribute) bool { return a.Key == "open" }) {
			t.Error("a result is not folded")
		}
	}
}

func TestForksLinkBothWaysAtTheForkPointAndCountUsageOnce(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	first := c.ask("C1", "ann", "first")
	c.think(first, 1, words("one"))
	answered := c.answer(first, "one")
	second := c.ask("C1", "ann", "second")
	c.think(second, 1, words("two"))
	c.answer(second, "two")
	inThread := c.ask("C1:"+answered, "bob", "in the thread")
	c.think(inThread, 1, words("three"))
	c.answer(inThread, "three")

	url := c.link(first.SessionID)
	page := c.page(url)
	threads := page.id("e2").all("nav", "threads")
	if len(threads) != 1 {
		t.Fatalf("the fork point lists %d threads, want 1", len(threads))
	}
	if strings.Contains(page.id("e4").text(), "[mikan]: one") {
		t.Error("a later entry lists the thread, too")
	}
	threadURL := follow(t, url, attribute(threads[0].all("a", "")[0].root, "href"))
	thread := c.page(threadURL)
	if got := thread.all("h1", "")[0].text(); got != "[mikan]: one" {
		t.Errorf("the thread is named %q", got)
	}
	if got := thread.id("facts").text(); !strings.Contains(got, "1 run ·") || !strings.Contains(got, "1,000 tokens in") {
		t.Errorf("the thread counts inherited usage: %q", got)
	}
	if got := thread.id("e1").text(); !strings.Contains(got, "in the thread") {
		t.Errorf("the thread begins with %q, want its own first entry", got)
	}
	back := attribute(thread.all("p", "parent")[0].all("a", "")[0].root, "href")
	parentURL := follow(t, threadURL, back)
	if !strings.HasSuffix(parentURL, "#e2") {
		t.Errorf("the parent's link is %s, want it to end at the fork point #e2", parentURL)
	}
	if !c.page(parentURL).has("e2") {
		t.Error("the parent's page does not show the fork point")
	}
	for _, address := range []string{url, threadURL, parentURL} {
		for _, id := range []string{first.SessionID, inThread.SessionID, c.office.Key, inThread.SessionKey} {
			if strings.Contains(address, id) {
				t.Errorf("the address %s holds the id %s", address, id)
			}
		}
	}
}

func TestNoLinkLeavesTheOffice(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	ours := c.ask("C1", "ann", "hello")
	other := *c
	other.office = officeOf(t, "C2")
	theirs := other.ask("C2", "eve", "secret")
	// Nothing writes this; the view must not depend on it.
	_, err := c.s.Pool().Exec(t.Context(), `UPDATE sessions SET parent_id = $2, fork_seq = 1 WHERE id = $1`, theirs.SessionID, ours.SessionID)
	c.must(err)
	parent := c.page(c.link(ours.SessionID))
	if n := len(parent.all("nav", "threads")); n != 0 {
		t.Errorf("the page lists %d threads of another office", n)
	}
	if n := len(c.page(c.link(theirs.SessionID)).all("p", "parent")); n != 0 {
		t.Error("the page links to a parent in another office")
	}
	if got := c.page(c.link(ours.SessionID) + "/all").text(); strings.Contains(got, "C2") {
		t.Errorf("the list shows another office's sessions: %q", got)
	}
}

func TestCompactionsTellWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	kept := c.think(r, 1, words("hi"))
	basis, known, err := c.s.CurrentSession(t.Context(), c.office.Key, "C1")
	if err != nil || !known {
		t.Fatal(known, err)
	}
	attempt, err := c.s.BeginStep(t.Context(), r.ID, "compact/1")
	c.must(err)
	c.must(c.s.Compact(t.Context(), attempt, basis, "They <b>greeted</b>.", kept, store.Spent{}))
	url := c.link(r.SessionID)
	shown := c.page(url).id("e3")
	if got := shown.text(); !strings.Contains(got, "before entry #2") || !strings.Contains(got, "They <b>greeted</b>.") {
		t.Errorf("the compaction shows as %q", got)
	}
	if !c.page(url).has("e1") {
		t.Error("what the summary stands for is gone")
	}
	to := follow(t, url, attribute(shown.all("p", "says")[0].all("a", "")[0].root, "href"))
	if !strings.HasSuffix(to, "#e2") || !c.page(to).has("e2") {
		t.Errorf("the kept entry's link leads to %s", to)
	}
}

func TestEveryDeadLinkLooksTheSame(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	other := *c
	other.office = officeOf(t, "C2")
	foreign := other.ask("C2", "eve", "hello")

	expired, _, err := c.s.CreateLink(t.Context(), foreign.SessionID, -time.Second)
	c.must(err)
	revoked := c.link(r.SessionID)
	if n, err := c.s.RevokeLinks(t.Context(), r.SessionID); err != nil || n != 1 {
		t.Fatalf("revoking gave %d, %v; want one link", n, err)
	}
	live := c.link(r.SessionID)
	foreignLive := c.link(foreign.SessionID)
	foreignPage := c.page(foreignLive)
	_ = foreignPage
	// A reference that one link made, under another.
	list := c.page(foreignLive + "/all")
	foreignRef := attribute(list.all("a", "")[0].root, "href")
	foreignRef = foreignRef[strings.LastIndex(foreignRef, "/")+1:]

	never := c.get(c.base + "/session/" + strings.Repeat("A", 43))
	if never.status != http.StatusNotFound {
		t.Fatalf("a link that never was gives %d", never.status)
	}
	for name, url := range map[string]string{
		"expired":               c.base + "/session/" + expired.Reveal(),
		"revoked":               revoked,
		"too short":             c.base + "/session/x",
		"the session's id":      c.base + "/session/" + r.SessionID,
		"revoked, raw text":     revoked + "/raw/1",
		"revoked, list":         revoked + "/all",
		"revoked, live":         revoked + "/live",
		"unknown reference":     live + "/s/AAAA",
		"id as reference":       live + "/s/" + r.SessionID,
		"another's reference":   live + "/s/" + foreignRef,
		"no such entry":         live + "/raw/99",
		"no such image":         live + "/raw/1/0",
		"no such page":          live + "?before=99",
		"page that is no page":  live + "?at=x",
		"unknown path":          live + "/what/ever",
		"position that is none": live + "/live?after=99",
	} {
		got := c.get(url)
		if got.status != never.status || title(t, got.body) != title(t, never.body) || parse(t, got.body).all("main", "")[0].text() != parse(t, never.body).all("main", "")[0].text() {
			t.Errorf("%s: %d %q, want the same as for a link that never was", name, got.status, title(t, got.body))
		}
		for _, header := range []string{"Content-Type", "Content-Security-Policy", "Cache-Control", "Referrer-Policy"} {
			if got.header.Get(header) != never.header.Get(header) {
				t.Errorf("%s: %s is %q", name, header, got.header.Get(header))
			}
		}
	}
	if strings.Contains(c.log.String(), expired.Reveal()) || c.log.Len() > 0 {
		t.Errorf("the view logged %q", c.log.String())
	}
}

func title(t *testing.T, markup string) string { return parse(t, markup).all("title", "")[0].text() }

func TestLinkSurvivesResetAndForkAndEndsWithItsOffice(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	c.think(r, 1, words("hi"))
	answered := c.answer(r, "hi")
	url := c.link(r.SessionID)
	reset := c.message("C1", "ann", "/new")
	_, _, err := c.s.Reset(t.Context(), c.office.Key, "C1", reset, c.now)
	c.must(err)
	c.ask("C1:"+answered, "bob", "in a thread")
	page := c.page(url)
	if got := page.id("e3").text(); !strings.Contains(got, "Reset") {
		t.Errorf("the reset shows as %q", got)
	}
	if got := page.id("e1").text(); !strings.Contains(got, "hello") {
		t.Errorf("what was said before the reset shows as %q", got)
	}
	// No command deletes an office yet; the foreign key is the rule.
	for _, table := range []string{"entries", "run_waits", "run_steps", "runs", "deliveries", "inbox", "chat_log"} {
		_, err := c.s.Pool().Exec(t.Context(), "DELETE FROM "+table)
		c.must(err)
	}
	for _, statement := range []string{"DELETE FROM sessions WHERE parent_id IS NOT NULL", "DELETE FROM sessions", "DELETE FROM offices"} {
		_, err := c.s.Pool().Exec(t.Context(), statement)
		c.must(err)
	}
	if got := c.get(url); got.status != http.StatusNotFound {
		t.Errorf("the link of a deleted office gives %d", got.status)
	}
}

func TestTokensAreKeptByHashOnly(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	token, expires, err := c.s.CreateLink(t.Context(), r.SessionID, store.LinkLifetime)
	c.must(err)
	if len(token.Reveal()) < 22 || token.Reveal() == r.SessionID {
		t.Errorf("the token has %d characters, want at least 128 bits", len(token.Reveal()))
	}
	if until := time.Until(expires); until > 24*time.Hour+time.Minute || until < 23*time.Hour {
		t.Errorf("the link lives for %s", until)
	}
	var kept string
	c.must(c.s.Pool().QueryRow(t.Context(), `SELECT string_agg(view_links::text, ' ') FROM view_links`).Scan(&kept))
	if strings.Contains(kept, token.Reveal()) {
		t.Error("the database holds the token itself")
	}
}

func TestLongSessionsPage(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	c.fill(r.SessionID, 10_000, strings.Repeat("a line of some length. ", 20))
	url := c.link(r.SessionID)
	seen := map[string]int{}
	pages := 0
	for next := url; next != ""; pages++ {
		page := c.page(next)
		for _, entry := range page.all("li", "entry") {
			seen[attribute(entry.root, "id")]++
		}
		here := next
		next = ""
		for _, a := range page.all("a", "") {
			if attribute(a.root, "rel") == "prev" {
				next = follow(t, here, attribute(a.root, "href"))
			}
		}
	}
	if len(seen) != 10_001 || pages != 51 {
		t.Errorf("%d pages show %d entries, want 51 and 10,001", pages, len(seen))
	}
	if at := c.page(url + "?at=5000"); !at.has("e5000") || !at.has("e4950") {
		t.Error("the page around entry 5000 does not show it with what is before it")
	}
	if oldest := c.page(url + "?after=0"); !oldest.has("e1") || !oldest.has("e200") || oldest.has("e201") {
		t.Error("the oldest page does not show entries 1 to 200")
	}
}

func TestResultsStayWithTheirCallsAcrossPages(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	c.fill(r.SessionID, 198, "before") // entries 2 to 199
	c.think(r, 1, calling("k", "bash", `{"command":"a"}`), calling("k2", "bash", `{"command":"b"}`))
	c.result(r, 1, 0, "k", "result of a")
	c.result(r, 1, 1, "k2", "result of b")
	c.think(r, 2, calling("k", "bash", `{"command":"c"}`)) // models reuse ids
	c.result(r, 2, 0, "k", "result of c")
	url := c.link(r.SessionID)
	for _, id := range []string{"e201", "e202"} {
		if got := c.page(url + "?before=201").id("e200"); !got.has(id) {
			t.Errorf("the page that ends with the call does not show %s", id)
		}
		if c.page(url + "?after=200").has(id) {
			t.Errorf("the page after the call shows %s again", id)
		}
	}
	page := c.page(url)
	if got := page.id("e203").id("e204").text(); !strings.Contains(got, "result of c") {
		t.Errorf("the second call of the same id has the result %q", got)
	}
}

func TestWholeTextsAndImagesHaveTheirOwnAddress(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	long := strings.Repeat("0123456789", 5000) + "the end\u202e"
	c.think(r, 1, words(long), calling("k", "read", `{"path":"a.png"}`))
	c.result(r, 1, 0, "k", "an image", llm.Block{Kind: llm.BlockImage, MediaType: "image/png", Data: []byte("\x89PNG")},
		llm.Block{Kind: llm.BlockImage, MediaType: "text/html", Data: []byte("<script>alert(1)</script>")})
	url := c.link(r.SessionID)
	page := c.page(url)
	if strings.Contains(page.id("e2").text(), "the end") || !strings.Contains(page.id("e2").text(), "30,010 more bytes") {
		t.Error("a long text is not shortened with how much is left out")
	}
	whole := c.get(url + "/raw/2")
	if whole.body != long || whole.header.Get("Content-Type") != "text/plain; charset=utf-8" || whole.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the whole text: %d bytes as %q", len(whole.body), whole.header.Get("Content-Type"))
	}
	image := c.get(url + "/raw/3/0")
	if image.body != "\x89PNG" || image.header.Get("Content-Type") != "image/png" {
		t.Errorf("the image: %q as %q", image.body, image.header.Get("Content-Type"))
	}
	if got := c.get(url + "/raw/3/1"); got.status != http.StatusNotFound {
		t.Errorf("an image that is HTML gives %d", got.status)
	}
}

func TestEveryAnswerCarriesTheStrictPolicy(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	url := c.link(r.SessionID)
	for _, address := range []string{url, url + "/all", url + "/raw/1", c.base + "/session/", c.base + "/session/none", c.base + "/session/view.js", c.base + "/session/view.css"} {
		got := c.get(address)
		policy := got.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%d: the policy %q lacks %q", got.status, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || got.header.Get("Referrer-Policy") != "no-referrer" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers are %v", got.header)
		}
		if !strings.Contains(address, "view.") && got.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("the answer may be cached: %q", got.header.Get("Cache-Control"))
		}
	}
}
