package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// How often a stream looks, and how it ends. A reader who takes nothing for writeWithin is gone.
const (
	lookWhenRunning = 400 * time.Millisecond
	lookWhenIdle    = 1500 * time.Millisecond
	heartbeat       = 15 * time.Second
	writeWithin     = 20 * time.Second
	retryMS         = 2000
)

// live streams what is new in a session as server-sent events: finished entries as they are on the page, the answer
// while it grows, and the head of the page when it changes. The id of an event is the position of the newest entry
// sent, so a stream that was cut goes on where it was. It ends with the link.
func (v *Viewer) live(w http.ResponseWriter, r *http.Request, at visit) error {
	last, err := lastSeen(r, at.session.NextSeq-1)
	if err != nil {
		return err
	}
	select {
	case v.streams <- struct{}{}:
		defer func() { <-v.streams }()
	default:
		w.Header().Set("Retry-After", "15")
		http.Error(w, "too many live views are open", http.StatusServiceUnavailable)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-v.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies pass it on at once
	s := &stream{viewer: v, out: w, control: http.NewResponseController(w), request: r.WithContext(ctx), at: at, last: last, beat: time.Now()}
	if err := s.send(fmt.Sprintf("retry: %d\n\n", retryMS)); err != nil {
		return nil
	}
	for {
		wait, err := s.look(ctx)
		if err != nil {
			if ctx.Err() == nil && fault.CodeOf(err) != fault.NotFound {
				v.log.Warn("a live view ended", "error", err)
			}
			return nil // the answer has begun: the reader comes back and is told
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// lastSeen is the newest entry that the reader has: what it says when it comes back, or what its page showed.
func lastSeen(r *http.Request, total int64) (int64, error) {
	said := r.Header.Get("Last-Event-ID")
	if said == "" {
		said = r.URL.Query().Get("after")
	}
	if said == "" {
		return total, nil
	}
	n, err := strconv.ParseInt(said, 10, 64)
	if err != nil || n < 0 || n > total {
		return 0, fault.New(fault.NotFound, "no such position")
	}
	return n, nil
}

type stream struct {
	viewer  *Viewer
	out     http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	at      visit

	started bool
	last    int64  // newest entry sent
	run     string // open run as last seen
	draft   time.Time
	drawn   bool
	beat    time.Time
}

// look sends what has changed since the last look and tells how long to wait for the next.
func (s *stream) look(ctx context.Context) (time.Duration, error) {
	p, reached, err := s.viewer.store.Pulse(ctx, s.at.hash, s.at.session.ID)
	if err != nil {
		return 0, err
	}
	if !reached {
		if err := s.event("gone", "", struct{}{}); err != nil {
			return 0, err
		}
		return 0, fault.New(fault.NotFound, "the link has ended")
	}
	changed := !s.started || p.LastSeq != s.last || p.RunID != s.run
	switch {
	case p.LastSeq-s.last > pageEntries:
		// The reader was away for long; the page itself shows it better.
		if err := s.event("reload", "", struct{}{}); err != nil {
			return 0, err
		}
		s.last = p.LastSeq
	case changed:
		if err := s.entries(ctx, p); err != nil {
			return 0, err
		}
	}
	if changed {
		if err := s.head(ctx); err != nil {
			return 0, err
		}
	}
	s.started, s.run = true, p.RunID
	if err := s.grow(p); err != nil {
		return 0, err
	}
	if time.Since(s.beat) > heartbeat {
		if err := s.send(": still here\n\n"); err != nil {
			return 0, err
		}
	}
	if p.RunID != "" {
		return lookWhenRunning, nil
	}
	return lookWhenIdle, nil
}

// entries sends the items that are new, that got a result, or whose run has ended.
func (s *stream) entries(ctx context.Context, p store.Pulse) error {
	from, err := s.firstTouched(ctx, p)
	if err != nil || from > p.LastSeq {
		return err
	}
	items, err := s.viewer.timeline(ctx, s.at, p.RunID, from, p.LastSeq)
	if err != nil {
		return err
	}
	ended := s.started && s.run != "" && p.RunID != s.run
	var touched []item
	for _, it := range items {
		if ended || !s.started || it.newest > s.last {
			touched = append(touched, it)
		}
	}
	for i, it := range touched {
		var html bytes.Buffer
		if err := pages.ExecuteTemplate(&html, "item.html", it); err != nil {
			return fault.Wrap(fault.Internal, err, "an item cannot be made")
		}
		id := ""
		if i == len(touched)-1 {
			id = strconv.FormatInt(p.LastSeq, 10) // a reader cut off before it gets all of them again
		}
		news := ""
		if it.Seq > s.last {
			news = it.Title
		}
		if err := s.event("entry", id, map[string]string{"id": "e" + strconv.FormatInt(it.Seq, 10), "html": html.String(), "news": news}); err != nil {
			return err
		}
	}
	s.last = p.LastSeq
	return nil
}

// firstTouched is the position from which items may have changed: a result changes the item of its call, the end of a
// run those of the run, and a reader who just came may have missed either.
func (s *stream) firstTouched(ctx context.Context, p store.Pulse) (int64, error) {
	from := s.last + 1
	if p.RunID != s.run && s.run != "" {
		ended, err := s.viewer.store.Run(ctx, s.run)
		if err != nil {
			return 0, err
		}
		from = min(from, max(ended.FirstSeq, p.LastSeq-pageEntries+1))
	}
	if !s.started {
		from = min(from, max(1, s.last))
	}
	near, err := s.viewer.store.EntriesBetween(ctx, s.at.session.ID, from-foldWithin, p.LastSeq, store.EntryAssistant, store.EntryToolResult)
	if err != nil {
		return 0, err
	}
	first := from
	for seq, c := range matchResults(near).owner {
		if seq >= from {
			first = min(first, c.seq)
		}
	}
	return first, nil
}

func (s *stream) head(ctx context.Context) error {
	var err error
	if s.at.session, err = s.viewer.store.SessionSummary(ctx, s.at.session.ID); err != nil {
		return err
	}
	f, _, err := s.viewer.facts(s.request, s.at)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := pages.ExecuteTemplate(&html, "facts.html", f); err != nil {
		return fault.Wrap(fault.Internal, err, "the head cannot be made")
	}
	return s.event("state", "", map[string]any{"running": f.Running, "html": html.String()})
}

// grow sends the answer as it is so far, or that there is none any more.
func (s *stream) grow(p store.Pulse) error {
	if p.Draft == "" && !s.drawn || p.Draft != "" && p.DraftAt.Equal(s.draft) {
		return nil
	}
	s.draft, s.drawn = p.DraftAt, p.Draft != ""
	return s.event("draft", "", map[string]string{"text": text.Visible(p.Draft)})
}

func (s *stream) event(name, id string, data any) error {
	raw, err := json.Marshal(data) // one line: JSON escapes line breaks
	if err != nil {
		return fault.Wrap(fault.Internal, err, "an event cannot be encoded")
	}
	message := "event: " + name + "\n"
	if id != "" {
		message += "id: " + id + "\n"
	}
	return s.send(message + "data: " + string(raw) + "\n\n")
}

func (s *stream) send(message string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin)) // not every connection has one
	if _, err := s.out.Write([]byte(message)); err != nil {
		return fault.Wrap(fault.NotFound, err, "the reader is gone")
	}
	s.beat = time.Now()
	if err := s.control.Flush(); err != nil {
		return fault.Wrap(fault.NotFound, err, "the reader is gone")
	}
	return nil
}
