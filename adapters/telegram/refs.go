package telegram

import (
	"context"
	"strconv"
	"strings"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
)

// ref is a message on Telegram, which counts messages per chat.
type ref struct {
	chat    int64
	message int
}

// id names the message within the office of the given first chat.
func (r ref) id(first string) string {
	number := strconv.Itoa(r.message)
	if chat := strconv.FormatInt(r.chat, 10); chat != first {
		return chat + "." + number
	}
	return number
}

// parseRef reads what id wrote.
func parseRef(id, first string) (ref, error) {
	chat, number, found := strings.Cut(id, ".")
	if !found {
		chat, number = first, id
	}
	c, err := strconv.ParseInt(chat, 10, 64)
	if err != nil {
		return ref{}, fault.New(fault.Invalid, "%.64q is no message of Telegram's", id)
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return ref{}, fault.New(fault.Invalid, "%.64q is no message of Telegram's", id)
	}
	return ref{c, n}, nil
}

// first is the first id of a chat, which its office is named after. Only groups change theirs.
func (a *Adapter) first(ctx context.Context, chat int64) (string, error) {
	id := strconv.FormatInt(chat, 10)
	if chat > 0 {
		return id, nil
	}
	return a.store.FirstID(ctx, string(office.Telegram), id)
}

// newest is where the chat of an office is now.
func (a *Adapter) newest(ctx context.Context, first string) (int64, error) {
	id := first
	if strings.HasPrefix(first, "-") {
		var err error
		if id, err = a.store.NewestID(ctx, string(office.Telegram), first); err != nil {
			return 0, err
		}
	}
	chat, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Invalid, "%.64q is no chat of Telegram's", id)
	}
	return chat, nil
}

// moved records that a group has become a supergroup.
func (a *Adapter) moved(ctx context.Context, from, to int64) error {
	return a.store.Alias(ctx, string(office.Telegram), strconv.FormatInt(from, 10), strconv.FormatInt(to, 10))
}

// Reply tells where an answer goes. It is stored with the run.
type Reply struct {
	Chat    int64 `json:"chat"`              // as it was when the message came
	Message int   `json:"message,omitempty"` // in groups: the message that is answered
	Topic   int   `json:"topic,omitempty"`   // of a forum
}
