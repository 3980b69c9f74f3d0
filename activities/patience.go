package activities

import (
	"context"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// patiently repeats something that only the database can refuse, until the activity's own time is up. While the database
// is away this uses up no attempt of the activity, and what a model or tool has done already is not done again.
func patiently(ctx context.Context, do func() error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := do()
		if fault.CodeOf(err) != fault.Unavailable || store.Overtaken(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
