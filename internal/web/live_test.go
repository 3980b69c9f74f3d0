package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

type event struct {
	name, id string
	data     struct {
		ID, HTML, News, Text string
		Running              bool
	}
}

// listener reads one stream.
type listener struct {
	t      *testing.T
	events chan event
	status int
}

func (c *scene) listen(ctx context.Context, url, lastEventID string) *listener {
	c.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	c.must(err)
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request)
	c.must(err)
	l := &listener{c.t, make(chan event, 1000), response.StatusCode}
	go func() {
		defer close(l.events)
		defer func() { _ = response.Body.Close() }()
		var e event
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				_ = json.Unmarshal([]byte(value), &e.data)
			case "":
				if e.name != "" {
					l.events <- e
				}
				e = event{}
			}
		}
	}()
	return l
}

// until reads events up to the first that fits.
func (l *listener) until(what string, fits func(event) bool) event {
	l.t.Helper()
	for {
		select {
		case e, open := <-l.events:
			if !open {
				l.t.Fatalf("the stream ended before %s", what)
			}
			if fits(e) {
				return e
			}
		case <-l.t.Context().Done():
			l.t.Fatalf("the test ended before %s", what)
		}
	}
}

func TestARunIsFollowedLive(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	url := c.link(r.SessionID)
	l := c.listen(t.Context(), url+"/live?after=1", "")
	l.until("the state", func(e event) bool { return e.name == "state" && e.data.Running })

	c.draw(r, "I lo")
	if e := l.until("a draft", func(e event) bool { return e.name == "draft" }); e.data.Text != "I lo" {
		t.Errorf("the draft is %q", e.data.Text)
	}
	c.draw(r, "I look <b>")
	l.until("the draft growing", func(e event) bool { return e.name == "draft" && e.data.Text == "I look <b>" })
	c.think(r, 1, words("I look <b>"), calling("k", "bash", `{"command":"ls"}`))
	turn := l.until("the turn", func(e event) bool { return e.name == "entry" && e.data.ID == "e2" })
	if turn.id != "2" || turn.data.News != "Assistant" || !strings.Contains(turn.data.HTML, "I look &lt;b&gt;") || !strings.Contains(turn.data.HTML, "running") {
		t.Errorf("the turn came as %+v", turn)
	}
	l.until("the draft's end", func(e event) bool { return e.name == "draft" && e.data.Text == "" })
	c.result(r, 1, 0, "k", "total 0")
	folded := l.until("the result in its turn", func(e event) bool { return e.name == "entry" })
	if folded.data.ID != "e2" || folded.id != "3" || !strings.Contains(folded.data.HTML, `id="e3"`) || folded.data.News != "" {
		t.Errorf("the result came as %+v", folded)
	}
	c.think(r, 2, words("done"))
	c.answer(r, "done")
	l.until("the run's end at its last entry", func(e event) bool {
		return e.name == "entry" && e.data.ID == "e4" && strings.Contains(e.data.HTML, "run answered")
	})
	l.until("idle", func(e event) bool { return e.name == "state" && !e.data.Running })

	again := c.listen(t.Context(), url+"/live?after=0", "2")
	missed := again.until("what was missed", func(e event) bool { return e.id == "4" })
	if missed.data.ID != "e4" {
		t.Errorf("a stream that goes on after entry 2 ends with %+v", missed)
	}
}

func TestLiveViewEndsWithItsLink(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	l := c.listen(t.Context(), c.link(r.SessionID)+"/live", "")
	l.until("the state", func(e event) bool { return e.name == "state" })
	_, err := c.s.RevokeLinks(t.Context(), r.SessionID)
	c.must(err)
	l.until("the end", func(e event) bool { return e.name == "gone" })
	if _, open := <-l.events; open {
		t.Error("the stream goes on after its link was revoked")
	}
}

func TestLiveViewTellsToReloadAfterALongAbsence(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	c.fill(r.SessionID, 1000, "missed")
	l := c.listen(t.Context(), c.link(r.SessionID)+"/live", "1")
	l.until("the advice", func(e event) bool {
		if e.name == "entry" {
			t.Errorf("%s was sent", e.data.ID)
		}
		return e.name == "reload"
	})
}

func TestLiveViewsAreBounded(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	url := c.link(c.ask("C1", "ann", "hello").SessionID) + "/live"
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var open []*listener
	for len(open) < 64 {
		l := c.listen(ctx, url, "")
		l.until("the state", func(e event) bool { return e.name == "state" })
		open = append(open, l)
	}
	if refused := c.get(url); refused.status != http.StatusServiceUnavailable || refused.header.Get("Retry-After") == "" {
		t.Errorf("one view too many gives %d, Retry-After %q", refused.status, refused.header.Get("Retry-After"))
	}
	leave()
	for _, l := range open {
		for range l.events { // until its stream has ended
		}
	}
}

func TestAReaderTakesNoLock(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	r := c.ask("C1", "ann", "hello")
	url := c.link(r.SessionID)
	tx, err := c.s.Pool().Begin(t.Context())
	c.must(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	// What a writer holds: the session's row and its lock, and the run's row.
	for _, statement := range []string{
		"SELECT 1 FROM sessions FOR UPDATE", "SELECT 1 FROM runs FOR UPDATE", "SELECT 1 FROM view_links FOR UPDATE",
		"SELECT pg_advisory_xact_lock(hashtextextended('" + c.office.Key + "/C1', 0))",
	} {
		_, err := tx.Exec(t.Context(), statement)
		c.must(err)
	}
	c.page(url)
	c.listen(t.Context(), url+"/live", "").until("the state", func(e event) bool { return e.name == "state" })
	var locks int
	c.must(tx.QueryRow(t.Context(), `
		SELECT count(*) FROM pg_locks WHERE mode NOT IN ('AccessShareLock') AND locktype = 'relation'
		  AND pid <> pg_backend_pid() AND relation IN ('sessions'::regclass, 'entries'::regclass, 'runs'::regclass, 'view_links'::regclass)`).Scan(&locks))
	if locks != 0 {
		t.Errorf("readers hold %d locks that writers would wait for", locks)
	}
}
