package slack

import (
	"context"
	"sync"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// positions keeps account of how far each channel was read, for the next backfill. It is written now and then, not with
// every message: read again, a message is known. After a gap nothing is written until the gap has been looked at.
type positions struct {
	store *store.Store

	mu     sync.Mutex
	newest map[string]string // committed, by channel
	unsaid map[string]bool   // not written yet
	held   bool              // there may be a gap
	filled map[string]bool   // while held: channels that have been looked at since
}

func newPositions(s *store.Store) *positions {
	return &positions{store: s, newest: map[string]string{}, unsaid: map[string]bool{}, filled: map[string]bool{}}
}

// saw notes that a message is committed.
func (p *positions) saw(channel, ts string) {
	if !isMessage(ts) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if later(ts, p.newest[channel]) {
		p.newest[channel] = ts
		p.unsaid[channel] = true
	}
}

func (p *positions) holdBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	clear(p.filled)
}

// fill notes that a channel was read up to a message.
func (p *positions) fill(channel, ts string) {
	p.saw(channel, ts)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filled[channel] = true
}

func (p *positions) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
}

// due takes what may be written.
func (p *positions) due() (positions map[string]string, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	positions = map[string]string{}
	for channel := range p.unsaid {
		if !p.held || p.filled[channel] {
			positions[channel] = p.newest[channel]
			delete(p.unsaid, channel)
		}
	}
	return positions, !p.held
}

// write stores what may be stored. The position of the whole installation is when all was known to be read.
func (p *positions) write(ctx context.Context, me identity) error {
	due, whole := p.due()
	for channel, ts := range due {
		if err := p.store.SetCursor(ctx, streamOf(me, channel), ts); err != nil {
			p.mu.Lock()
			p.unsaid[channel] = true
			p.mu.Unlock()
			return err
		}
	}
	if !whole {
		return nil
	}
	return p.store.SetCursor(ctx, streamOf(me, ""), stampOf(time.Now()))
}

func streamOf(me identity, channel string) store.Stream {
	return store.Stream{Platform: string(office.Slack), Installation: me.Team, Scope: channel}
}

// writeEvery is how much is read again after a crash.
const writeEvery = 5 * time.Second

func (in *inbound) keepPositions(ctx context.Context, me identity) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			in.mu.Lock()
			listening := in.connected > 0 || in.config.AppToken == ""
			in.mu.Unlock()
			if listening {
				_ = in.read.write(ctx, me) // the next tick tries again
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			_ = in.read.write(last, me)
			return
		}
	}
}
