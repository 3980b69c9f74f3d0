// Package terminal is the platform of `mikan ask` and of dev's prompt: the same intake, sessions, runs and deliveries
// as any other, with nothing outside of mikan. The delivery table is the platform, so posting is naming.
package terminal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// Input is one line that somebody typed.
type Input struct {
	Conversation string
	Thread       string // message id that the line answers to; empty at top level
	User         string
	Text         string
}

// Message makes the line a message with an id of its own. Errors are invalid: an id that is refused.
func Message(in Input) (adapters.Message, error) {
	key, err := session.TerminalKey(in.Conversation, in.Thread)
	if err != nil {
		return adapters.Message{}, fault.Wrap(fault.Invalid, err, "the conversation or thread is refused")
	}
	now := time.Now()
	return adapters.Message{
		Address:    office.Address{Platform: office.Terminal, ConversationID: in.Conversation},
		Audience:   store.Private,
		SessionKey: string(key),
		ID:         newMessageID(now),
		ThreadID:   in.Thread,
		ReplyTo:    in.Thread,
		Author:     adapters.Author{ID: in.User, Name: in.User, Kind: store.AuthorHuman},
		Text:       in.Text,
		SentAt:     now,
		Change:     adapters.Created,
		Addressed:  adapters.DirectMessage,
	}, nil
}

// newMessageID sorts by time and cannot collide: milliseconds and 64 random bits.
func newMessageID(now time.Time) string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return fmt.Sprintf("t%d-%s", now.UnixMilli(), hex.EncodeToString(random[:]))
}

// Outbound shows messages by their delivery rows alone.
type Outbound struct{}

var _ adapters.Outbound = Outbound{}

// Platform is terminal.
func (Outbound) Platform() office.Platform { return office.Terminal }

// Capabilities of the terminal: drafts are redrawn in place.
func (Outbound) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{Redraws: adapters.EditRedraws, Repeats: adapters.RepeatsVanish}
}

// Split leaves a text as it is: a terminal takes any length.
func (Outbound) Split(markdown string) []string { return []string{markdown} }

// Post names the message. The name is a function of the key, so a repeated post is the same message.
func (Outbound) Post(_ context.Context, m adapters.Outgoing) (string, error) { return "a" + m.Key, nil }

// Edit has nothing to do: the delivery row holds the new text.
func (Outbound) Edit(context.Context, string, adapters.Outgoing) error { return nil }

// Delete has nothing to do: the delivery row says so.
func (Outbound) Delete(context.Context, string, adapters.Outgoing) error { return nil }

// FindDelivery finds every message: its name is known.
func (Outbound) FindDelivery(_ context.Context, m adapters.Outgoing, _ time.Time) (string, bool, error) {
	return "a" + m.Key, true, nil
}
