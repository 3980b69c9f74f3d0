package rate

import (
	"context"
	"time"

	"github.com/geminixiang/mikan/internal/store"
)

// Lease is work that one process at a time does: reading a token's update queue, holding its gateway connection.
type Lease struct {
	Store  *store.Store
	Name   string
	Holder string        // unique to the process
	Lasts  time.Duration // how long the work stands still when its holder dies
}

// Hold does the work whenever this process holds the lease, until ctx ends. do is cancelled as soon as the lease may be
// lost; its error ends Hold, nil means that the lease was lost and is to be taken again.
func (l Lease) Hold(ctx context.Context, do func(context.Context) error) error {
	for ctx.Err() == nil {
		asked := time.Now()
		if _, held, err := l.Store.TakeLease(ctx, l.Name, l.Holder, l.Lasts); err == nil && held {
			if err := l.while(ctx, asked, do); err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-time.After(l.Lasts / 4):
		case <-ctx.Done():
		}
	}
	return nil
}

// while does the work for as long as the lease is certain to be held: three quarters of its time after the moment at
// which it was last asked for with success, whenever the database answered.
func (l Lease) while(ctx context.Context, asked time.Time, do func(context.Context) error) error {
	certain := asked.Add(l.Lasts * 3 / 4)
	if time.Now().After(certain) {
		return nil // the answer came too late
	}
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(work) }()
	tick := time.NewTicker(l.Lasts / 4)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			dropped, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer stop()
			_ = l.Store.DropLease(dropped, l.Name, l.Holder)
			return err
		case <-tick.C:
			asked := time.Now()
			asking, stop := context.WithDeadline(work, certain) // a database that says nothing does not renew it
			_, held, err := l.Store.TakeLease(asking, l.Name, l.Holder, l.Lasts)
			stop()
			if err == nil && held {
				certain = asked.Add(l.Lasts * 3 / 4)
			}
			if err == nil && !held || time.Now().After(certain) {
				cancel()
				<-done
				return nil
			}
		}
	}
}
