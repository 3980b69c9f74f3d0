package github

import (
	"context"
	"net/url"
	"testing"

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

func mustParse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
