package schedule_test

import (
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/schedule"
)

func TestTheNextTimeIsReadInTheZone(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct{ cron, zone, after, want string }{
		"across the end of summer time":     {"0 9 * * 1-5", "Europe/Berlin", "2026-10-23T12:00:00+02:00", "2026-10-26T09:00:00+01:00"},
		"across the beginning":              {"0 9 * * 1-5", "Europe/Berlin", "2027-03-26T12:00:00+01:00", "2027-03-29T09:00:00+02:00"},
		"an hour that the clocks leave out": {"30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00+01:00", "2027-03-29T02:30:00+02:00"},
		"seconds first":                     {"15 0 9 * * *", "UTC", "2026-01-01T09:00:15Z", "2026-01-02T09:00:15Z"},
		"half an hour off":                  {"0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00+05:30"},
	} {
		after, err := time.Parse(time.RFC3339, w.after)
		if err != nil {
			t.Fatal(err)
		}
		next, err := schedule.Next(w.cron, w.zone, after)
		if got := next.Format(time.RFC3339); err != nil || got != w.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, w.want, err)
		}
	}
}

func TestWhatIsNoScheduleIsRefused(t *testing.T) {
	t.Parallel()
	for _, w := range [][2]string{
		{"", "UTC"}, {"* * * *", "UTC"}, {"61 * * * *", "UTC"}, {"@every 1h", "UTC"}, {"TZ=UTC 0 9 * * *", "UTC"}, {"0 9 * * *", ""}, {"0 9 * * *", "Local"},
		{"0 9 * * *", "Nowhere/City"}, {"0 9 L * *", "UTC"},
	} {
		if err := schedule.Check(w[0], w[1]); err == nil {
			t.Errorf("%q in %q is taken", w[0], w[1])
		}
	}
}
