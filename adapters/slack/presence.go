package slack

import (
	"context"
	"strings"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/rate"
)

// Working shows a status below the thread that is answered in: "mikan is thinking…". Slack has none outside of threads.
// It clears a status by itself when a message follows, or after two minutes.
func (a *Adapter) Working(ctx context.Context, m adapters.Outgoing, doing string) error {
	return a.setStatus(ctx, m, doing)
}

// Rest clears the status.
func (a *Adapter) Rest(ctx context.Context, m adapters.Outgoing) error {
	return a.setStatus(ctx, m, "")
}

func (a *Adapter) setStatus(ctx context.Context, m adapters.Outgoing, status string) error {
	to, err := a.termsOf(ctx, m)
	if err != nil || to.Thread == "" || to.OnlyFor != "" {
		return err
	}
	return a.limited(ctx, to.Team, setStatus, "", rate.Progress, func(ctx context.Context) error {
		return a.api.SetAssistantThreadsStatusContext(ctx, sdk.AssistantThreadsSetStatusParameters{
			ChannelID: to.Channel, ThreadTS: to.Thread, Status: status,
		})
	})
}

// hourglass is the reaction on a message that waits behind a run.
const hourglass = "hourglass_flowing_sand"

// Mark puts an hourglass on a message that waits, as long as the rates allow it. That a message was seen is told by the
// status.
func (a *Adapter) Mark(ctx context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	to, err := a.termsOf(ctx, m)
	if err != nil || mark != adapters.MarkQueued || !isMessage(m.Cause) {
		return err
	}
	err = a.limited(ctx, to.Team, addSign, "", rate.Progress, func(ctx context.Context) error {
		return a.api.AddReactionContext(ctx, hourglass, sdk.NewRefToMessage(to.Channel, m.Cause))
	})
	if said(err, "already_reacted", "message_not_found", "not_reactable", "too_many_reactions", "too_many_emoji") {
		return nil
	}
	return err
}

// Unmark takes it off.
func (a *Adapter) Unmark(ctx context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	to, err := a.termsOf(ctx, m)
	if err != nil || mark != adapters.MarkQueued || !isMessage(m.Cause) {
		return err
	}
	err = a.limited(ctx, to.Team, removeSign, "", rate.Final, func(ctx context.Context) error {
		return a.api.RemoveReactionContext(ctx, hourglass, sdk.NewRefToMessage(to.Channel, m.Cause))
	})
	if said(err, "no_reaction", "message_not_found") {
		return nil
	}
	return err
}

// isMessage tells the id of a message from those that commands and buttons are given.
func isMessage(id string) bool {
	return id != "" && strings.Trim(id, "0123456789.") == "" && strings.Count(id, ".") == 1
}
