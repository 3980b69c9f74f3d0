package github

import (
	"context"
	"net/http"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// GitHub keeps the deliveries of three days, and sends none again by itself.
// https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries
const (
	mostAttempts  = 5                // of one delivery, the first included
	lookBack      = time.Hour        // behind the cursor, for attempts that failed meanwhile
	inFlight      = 30 * time.Second // an attempt that is younger may still be going on
	deliveryPages = 20
)

// attempts are the deliveries of one GUID.
type attempts struct {
	newest    *sdk.HookDelivery
	count     int
	succeeded bool
}

// askAgain has GitHub send what a webhook failed to deliver since the cursor. What arrives is taken in like anything; it
// is known by what it says when it was read before. A token that may not see webhooks reads only.
func (in *inbound) askAgain(ctx context.Context, me identity, h hook, cursor time.Time) error {
	began := time.Now()
	byGUID, order, err := in.deliveriesSince(ctx, h, cursor.Add(-lookBack))
	switch fault.CodeOf(err) {
	case fault.Forbidden, fault.NotFound:
		in.Log.Debug("the token may not see the deliveries of a webhook; what was missed is read instead", "hook", h.id)
		return nil
	}
	if err != nil {
		return err
	}
	for _, guid := range order {
		a := byGUID[guid]
		if a.succeeded || a.count >= mostAttempts || time.Since(a.newest.GetDeliveredAt().Time) < inFlight || !worthAsking(a.newest) {
			continue
		}
		err := in.call(ctx, "redeliver", reading, rate.Progress, func(ctx context.Context) error {
			var err error
			if h.repo == "" {
				_, _, err = in.api.Organizations.RedeliverHookDelivery(ctx, h.owner, h.id, a.newest.GetID())
			} else {
				_, _, err = in.api.Repositories.RedeliverHookDelivery(ctx, h.owner, h.repo, h.id, a.newest.GetID())
			}
			return err
		})
		switch fault.CodeOf(err) {
		case "":
		case fault.Forbidden, fault.NotFound:
			return nil // it may read deliveries, and no more
		default:
			return err
		}
	}
	return in.Store.SetCursor(ctx, in.stream(me, h.scope()), position(began))
}

// worthAsking holds for what did not reach the gateway, or was told "not now". Any other answer would be the same again.
func worthAsking(d *sdk.HookDelivery) bool {
	return d.GetStatusCode() == 0 || d.GetStatusCode() >= http.StatusInternalServerError
}

func (in *inbound) deliveriesSince(ctx context.Context, h hook, since time.Time) (map[string]*attempts, []string, error) {
	byGUID := map[string]*attempts{}
	var order []string
	options := &sdk.ListCursorOptions{PerPage: perPage}
	for range deliveryPages {
		var some []*sdk.HookDelivery
		var answer *sdk.Response
		err := in.call(ctx, "deliveries", reading, rate.Final, func(ctx context.Context) error {
			var err error
			if h.repo == "" {
				some, answer, err = in.api.Organizations.ListHookDeliveries(ctx, h.owner, h.id, options)
			} else {
				some, answer, err = in.api.Repositories.ListHookDeliveries(ctx, h.owner, h.repo, h.id, options)
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for _, d := range some {
			if d.GetDeliveredAt().Before(since) {
				return byGUID, order, nil
			}
			a := byGUID[d.GetGUID()]
			if a == nil {
				a = &attempts{newest: d} // the list begins with the newest
				byGUID[d.GetGUID()] = a
				order = append(order, d.GetGUID())
			}
			a.count++
			a.succeeded = a.succeeded || d.GetStatusCode() >= 200 && d.GetStatusCode() < 300
		}
		if answer.Cursor == "" {
			return byGUID, order, nil
		}
		options.Cursor = answer.Cursor
	}
	return byGUID, order, nil
}
