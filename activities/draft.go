package activities

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// A short answer is finished before its draft is worth a message: the first draw waits a moment. Redraws are at most
// one a second, measured from the end of the one before.
const (
	firstDraw = 150 * time.Millisecond
	redraw    = time.Second
)

// draft shows an answer while it grows, always as a whole: the tool calls so far, one line each, and the text below. A
// failed draw is dropped: the final message says it all.
type draft struct {
	mu      sync.Mutex
	steps   string // Markdown
	text    strings.Builder
	changed chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}
}

func (m *Model) startDraft(ctx context.Context, r store.Run, steps string) (*draft, error) {
	can, err := m.Delivery.Capabilities(ctx, r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &draft{steps: steps, changed: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	m.Delivery.Accompany(ctx, r, "is thinking…")
	if can.Placeholder == adapters.PlaceholderFirst && steps == "" {
		m.draw(ctx, r, adapters.PlaceholderText)
	}
	if can.Redraws == adapters.NoRedraws || can.Redraws == "" {
		close(d.done)
		return d, nil
	}
	if steps != "" {
		d.changed <- struct{}{}
	}
	go func() {
		defer close(d.done)
		wait := firstDraw
		for d.pause(ctx, wait) && m.draw(ctx, r, d.soFar()) {
			wait = cmp.Or(can.RedrawEvery, redraw)
		}
	}()
	return d, nil
}

// draw shows a text; false when there is no message any more that could show it.
func (m *Model) draw(ctx context.Context, r store.Run, text string) bool {
	err := m.Delivery.Draw(ctx, r, text)
	if err != nil && ctx.Err() == nil {
		m.Log.Warn("a draft was not shown", "run", r.ID, "code", fault.CodeOf(err))
	}
	return err == nil || fault.Retryable(fault.CodeOf(err))
}

// pause waits until there is something new to show and the given time has passed.
func (d *draft) pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-d.changed:
	case <-ctx.Done():
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *draft) add(piece string) {
	d.mu.Lock()
	d.text.WriteString(piece)
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *draft) soFar() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return adapters.Draft(d.steps, d.text.String())
}

// stop ends the drawing and waits until no draw is under way: what is shown next is final.
func (d *draft) stop() {
	d.cancel()
	<-d.done
}
