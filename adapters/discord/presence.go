package discord

import (
	"context"
	"net/url"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// Working shows that mikan is typing, for the 10 s that Discord shows it. It cannot say what is being done. A command
// shows that it waits by itself.
func (a *Adapter) Working(ctx context.Context, m adapters.Outgoing, _ string) error {
	t, err := a.termsOf(ctx, m)
	if err != nil || t.Token != "" {
		return err
	}
	return a.api.do(ctx, call{
		what: "typing", method: "POST", path: "channels/" + t.Channel + "/typing", major: t.Channel, limit: writes, urgent: rate.Progress,
	}, nil)
}

// Rest has nothing to do: typing ends with the message, or by itself.
func (a *Adapter) Rest(context.Context, adapters.Outgoing) error { return nil }

// queuedSign is the hourglass that a waiting message carries.
const queuedSign = "⏳"

// Mark puts an hourglass on a message that waits. That it was received, typing shows.
func (a *Adapter) Mark(ctx context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	return a.sign(ctx, m, mark, "PUT")
}

// Unmark takes the hourglass off.
func (a *Adapter) Unmark(ctx context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	err := a.sign(ctx, m, mark, "DELETE")
	if saidNo(err, codeUnknownMessage) {
		return nil
	}
	return err
}

func (a *Adapter) sign(ctx context.Context, m adapters.Outgoing, mark adapters.Mark, method string) error {
	t, err := a.termsOf(ctx, m)
	if err != nil || mark != adapters.MarkQueued || t.Message == "" {
		return err
	}
	err = a.api.do(ctx, call{
		what: "reaction", method: method, major: t.Channel, limit: reactions,
		path: "channels/" + t.Channel + "/messages/" + t.Message + "/reactions/" + url.PathEscape(queuedSign) + "/@me",
	}, nil)
	if fault.CodeOf(err) == fault.Forbidden {
		return nil // without the permission to react, nothing shows that a message waits
	}
	return err
}
