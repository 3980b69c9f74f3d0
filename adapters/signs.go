package adapters

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// signWithin bounds how long the sign that a message waits may be on its way.
const signWithin = 10 * time.Second

// acknowledge shows at once that a message was received, and that it waits where something is ahead of it. It runs
// beside the caller and is dropped when it fails: a sign is worth no delay.
func (d *Delivery) acknowledge(ctx context.Context, row store.InboxRow) {
	p, err := d.place(ctx, row.OfficeKey)
	if err != nil {
		return
	}
	waiting := p.outbound.Capabilities(p.address).Waiting
	marker, marks := p.outbound.(Marker)
	if waiting == WaitingUnsaid && !marks {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signWithin)
	go func() {
		defer cancel()
		m := outgoingTo(p, row)
		var err error
		if marks {
			err = marker.Mark(ctx, m, MarkSeen)
		}
		if err == nil && waiting != WaitingUnsaid && row.Trigger == run.Human {
			err = d.markWaiting(ctx, p, row, m)
		}
		if err != nil && ctx.Err() == nil {
			d.Log.Debug("a sign was not shown", "platform", p.address.Platform, "code", fault.CodeOf(err))
		}
	}()
}

func (d *Delivery) markWaiting(ctx context.Context, p place, row store.InboxRow, m Outgoing) error {
	waits, err := d.Store.MarkWaiting(ctx, row)
	if err != nil || !waits {
		return err
	}
	if p.outbound.Capabilities(p.address).Waiting == WaitingNoticed {
		return d.Say(ctx, Notice{Cause: row.MessageID, What: "waiting", Row: row, Text: "I answer this after what I am doing now.", State: store.Final})
	}
	marker, ok := p.outbound.(Marker)
	if !ok {
		return nil
	}
	if err := marker.Mark(ctx, m, MarkQueued); err != nil {
		if code := fault.CodeOf(err); ctx.Err() == nil && (code == fault.RateLimited || !fault.Retryable(code)) {
			return errors.Join(err, d.Store.NotMarked(ctx, row)) // taking off what is not there costs the rate of what is
		}
		return err
	}
	if still, err := d.Store.Waits(ctx, row.ID); err != nil || still {
		return err
	}
	return marker.Unmark(ctx, m, MarkQueued) // its run began meanwhile, and may have looked before the sign was there
}

// unmark takes the sign that they wait off messages that will not be answered, beside the caller.
func (d *Delivery) unmark(ctx context.Context, rows []store.InboxRow) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r store.InboxRow) bool { return !r.Marked })
	if len(rows) == 0 {
		return
	}
	p, err := d.place(ctx, rows[0].OfficeKey) // they are of one session
	if err != nil {
		return
	}
	marker, marks := p.outbound.(Marker)
	if !marks || p.outbound.Capabilities(p.address).Waiting != WaitingMarked {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decideWithin)
	go func() {
		defer cancel()
		for _, row := range rows {
			if err := marker.Unmark(ctx, outgoingTo(p, row), MarkQueued); err != nil && ctx.Err() == nil {
				d.Log.Debug("a sign was not taken off", "platform", p.address.Platform, "code", fault.CodeOf(err))
			}
		}
	}()
}

func outgoingTo(p place, row store.InboxRow) Outgoing {
	return Outgoing{Address: p.address, SessionKey: row.SessionKey, Reply: row.Reply, Cause: row.MessageID}
}

// rest takes off every sign that a run is at work, beside the caller.
func (d *Delivery) rest(ctx context.Context, p place, r store.Run) {
	presence, present := p.outbound.(Presence)
	marker, marks := p.outbound.(Marker)
	if !present && (!marks || !r.Marked) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postWithin)
	go func() {
		defer cancel()
		m := outgoing(p, answerDelivery(r, store.AnswerDelivery, 0, ""))
		if present {
			if err := presence.Rest(ctx, m); err != nil {
				d.Log.Debug("a status was not cleared", "run", r.ID, "code", fault.CodeOf(err))
			}
		}
		if marks && r.Marked {
			if err := d.takeOff(ctx, marker, m, r); err != nil {
				d.Log.Debug("a sign was not taken off", "run", r.ID, "code", fault.CodeOf(err))
			}
		}
	}()
}

func (d *Delivery) takeOff(ctx context.Context, marker Marker, m Outgoing, r store.Run) error {
	if err := marker.Unmark(ctx, m, MarkQueued); err != nil {
		return err
	}
	return d.Store.TakenOff(ctx, r.ID, signWithin)
}

// TakeOff takes the sign that it waited off the message of a run that has ended: whoever ended the run may have died, or
// the platform's rate was used up.
func (d *Delivery) TakeOff(ctx context.Context, r store.Run) error {
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return err
	}
	p.cause = r.TriggerMessageID
	marker, marks := p.outbound.(Marker)
	if !marks || p.outbound.Capabilities(p.address).Waiting != WaitingMarked {
		return d.Store.TakenOff(ctx, r.ID, 0)
	}
	err = d.takeOff(ctx, marker, outgoing(p, answerDelivery(r, store.AnswerDelivery, 0, "")), r)
	if err != nil && ctx.Err() == nil && !fault.Retryable(fault.CodeOf(err)) {
		// An app that may not react, a channel in the archive: no later try changes that.
		d.Log.Debug("a sign stays", "run", r.ID, "code", fault.CodeOf(err))
		return d.Store.TakenOff(ctx, r.ID, 0)
	}
	return err
}

// presenceEvery is how often a platform is told that a run still goes on: Discord's typing ends after 10 s.
const presenceEvery = 8 * time.Second

// Accompany shows that a run is at work, and takes off the sign that it waited, until ctx ends. It returns at once.
func (d *Delivery) Accompany(ctx context.Context, r store.Run, doing string) {
	p, err := d.place(ctx, r.OfficeKey)
	if err != nil {
		return
	}
	p.cause = r.TriggerMessageID
	presence, present := p.outbound.(Presence)
	marker, marks := p.outbound.(Marker)
	if !present && (!marks || !r.Marked) {
		return
	}
	go func() {
		m := outgoing(p, answerDelivery(r, store.AnswerDelivery, 0, ""))
		if marks && r.Marked {
			_ = d.takeOff(ctx, marker, m, r) // if not, the end of the run does
		}
		for present {
			if err := presence.Working(ctx, m, doing); err != nil && ctx.Err() == nil {
				d.Log.Debug("a status was not shown", "run", r.ID, "code", fault.CodeOf(err))
			}
			select {
			case <-time.After(presenceEvery):
			case <-ctx.Done():
				return
			}
		}
	}()
}
