package rate_test

import (
	"context"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

func TestALimitIsSharedAndFinalsComeFirst(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	slow := rate.Limit{PerMinute: 1, Burst: 4, Reserve: 2}
	take := func(p rate.Priority) error {
		l := &rate.Limiter{Store: s, Installation: "slack/T1"} // one a process
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return l.Take(ctx, "chat.update", slow, p)
	}
	for i, c := range []struct {
		p    rate.Priority
		want fault.Code
	}{
		{rate.Progress, ""}, {rate.Progress, ""}, {rate.Progress, fault.RateLimited}, // two are kept for finals
		{rate.Final, ""}, {rate.Final, ""}, {rate.Final, fault.RateLimited}, // which do not wait for what comes too late
	} {
		err := take(c.p)
		if fault.CodeOf(err) != c.want {
			t.Errorf("call %d: %v, want %q", i, err, c.want)
		}
		if err != nil && (fault.RetryAfter(err) < 30*time.Second || fault.RetryAfter(err) > 3*time.Minute) {
			t.Errorf("call %d is to wait %s", i, fault.RetryAfter(err))
		}
	}
	l := &rate.Limiter{Store: s, Installation: "slack/T1"}
	if err := l.Obey(t.Context(), "chat.delete", 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := l.Take(t.Context(), "chat.delete", slow, rate.Progress); fault.RetryAfter(err) < time.Minute {
		t.Errorf("a blocked method: %v after %s", err, fault.RetryAfter(err))
	}
	if err := l.Take(t.Context(), "chat.postMessage", slow, rate.Progress); err != nil {
		t.Errorf("another method: %v", err)
	}
}
