package github

import (
	"context"

	"github.com/geminixiang/mikan/adapters"
)

// ReadAll reads once what changed, as a running gateway does every few minutes.
func ReadAll(ctx context.Context, i adapters.Inbound) error {
	in := i.(*inbound)
	me, err := in.self(ctx)
	if err != nil {
		return err
	}
	return in.readAll(ctx, me)
}

// Addressed tells why a text of a person who may write is meant for an account; follow-ups are switched on.
func Mentions(text, login string) bool { return mentions(text, login) }

// WithoutOwn is what is left of a text without the mention it begins with.
func WithoutOwn(text, login string) string { return withoutOwn(text, login) }

// SaidIn reads a webhook.
func SaidIn(event string, payload []byte) (n int, err error) {
	all, err := saidIn(event, payload, identity{login: "mikan"})
	return len(all), err
}
