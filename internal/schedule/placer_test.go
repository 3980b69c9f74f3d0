package schedule_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/schedule"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

type woken struct{ sessions []string }

func (w *woken) Wake(_ context.Context, officeKey, sessionKey string) error {
	w.sessions = append(w.sessions, officeKey+"/"+sessionKey)
	return nil
}

const officeKey = "v1-slack-c1-4feb881cb4826d55"

func open(t *testing.T) *store.Store {
	t.Helper()
	s := storetest.Open(t)
	if err := s.BeginImport(t.Context(), "x", "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginOffice(t.Context(), store.ImportOffice{Source: "x", Office: store.Office{
		Key: officeKey, Platform: "slack", ConversationID: "C1", Audience: store.Shared, CreatedAt: time.Unix(1, 0),
	}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *store.Store, made store.Schedule) {
	t.Helper()
	made.OfficeKey, made.CreatedAt = officeKey, time.Unix(1, 0)
	if made.State == "" {
		made.State = store.ScheduleActive
	}
	if made.Zone == "" {
		made.Zone = "UTC"
	}
	if err := s.ImportSchedule(t.Context(), store.ImportFile{OfficeKey: officeKey, Kind: store.ImportedSchedule, Name: made.ID}, made); err != nil {
		t.Fatal(err)
	}
}

func TestAFiringIsOneTriggerHoweverOftenItIsRepeated(t *testing.T) {
	t.Parallel()
	s := open(t)
	add(t, s, store.Schedule{ID: "daily", Kind: store.ScheduleCron, Cron: "0 9 * * *", Text: "stand up"})
	due := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for range 3 {
		at, runID, fired, err := s.FireSchedule(t.Context(), "daily", due)
		if err != nil || !fired || at.SessionKey != "C1:schedule:daily:1796115600" || runID == "" {
			t.Fatalf("%+v %q %t %v", at, runID, fired, err)
		}
	}
	if n, _, err := s.Waiting(t.Context(), officeKey); err != nil || n != 1 {
		t.Errorf("%d triggers wait (%v)", n, err)
	}
	at := store.Address{OfficeKey: officeKey, SessionKey: "C1:schedule:daily:1796115600"}
	claim, err := s.Claim(t.Context(), at, store.Execution{WorkflowID: "w", OriginRun: "o", RunID: "o"}, store.Wait, store.Terms{Model: "demo/demo", Zone: time.UTC})
	if err != nil || claim.Run.Trigger != run.Scheduled || claim.Run.ID != run.ID(officeKey, at.SessionKey, "schedule:daily:1796115600", 1) {
		t.Fatalf("%+v %v", claim, err)
	}
	loaded, err := s.Context(t.Context(), claim.Run.SessionID)
	if err != nil || len(loaded.Entries) != 1 {
		t.Errorf("the run's session does not start empty: %d entries (%v)", len(loaded.Entries), err)
	}
	// Run already, it does not wait again.
	if _, _, _, err := s.FireSchedule(t.Context(), "daily", due); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := s.Waiting(t.Context(), officeKey); n != 0 {
		t.Errorf("%d triggers wait", n)
	}
}

func TestAPausedOrEndedTaskDoesNotFire(t *testing.T) {
	t.Parallel()
	s := open(t)
	add(t, s, store.Schedule{ID: "daily", Kind: store.ScheduleCron, Cron: "0 9 * * *", Text: "x"})
	for _, state := range []store.ScheduleState{store.SchedulePaused, store.ScheduleEnded} {
		if _, err := s.SetScheduleState(t.Context(), "daily", state); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := s.FireSchedule(t.Context(), "daily", time.Unix(1796115600, 0)); err != nil {
			t.Fatal(err)
		}
		if n, _, _ := s.Waiting(t.Context(), officeKey); n != 0 {
			t.Errorf("%s: %d triggers wait", state, n)
		}
	}
	if _, err := s.SetScheduleState(t.Context(), "daily", store.ScheduleActive); err == nil {
		t.Error("an ended task can be resumed")
	}
	if _, _, fired, err := s.FireSchedule(t.Context(), "nobody", time.Unix(1, 0)); fired || err != nil {
		t.Errorf("a task that is gone: %t %v", fired, err)
	}
}

func keeper(t *testing.T, s *store.Store) (*schedule.Keeper, client.Client, *woken) {
	t.Helper()
	address, namespace := testenv.Temporal(t)
	c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &woken{}
	return &schedule.Keeper{Store: s, Client: c, Queue: "q", Waker: w, Log: slog.New(slog.DiscardHandler)}, c, w
}

func TestTemporalIsToldOfEveryChangeAndOfWhatItLost(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	add(t, s, store.Schedule{ID: "daily", Kind: store.ScheduleCron, Cron: "0 9 * * 1-5", Zone: "Europe/Berlin", Text: "x"})
	add(t, s, store.Schedule{ID: "once", Kind: store.ScheduleOnce, At: &at, Text: "x", State: store.SchedulePaused})
	k, c, _ := keeper(t, s)
	if err := k.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	describe := func(id string) (*client.ScheduleDescription, error) {
		return c.ScheduleClient().GetHandle(t.Context(), run.ScheduleID(id)).Describe(t.Context())
	}
	daily, err := describe("daily")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := schedule.Next("0 9 * * 1-5", "Europe/Berlin", time.Now())
	if len(daily.Info.NextActionTimes) == 0 || !daily.Info.NextActionTimes[0].Equal(want) {
		t.Errorf("next at %v, want %v", daily.Info.NextActionTimes, want)
	}
	once, err := describe("once")
	if err != nil || !once.Schedule.State.Paused {
		t.Fatalf("%v", err)
	}
	if _, err := s.SetScheduleState(t.Context(), "once", store.ScheduleActive); err != nil {
		t.Fatal(err)
	}
	if err := k.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if once, err = describe("once"); err != nil || once.Schedule.State.Paused || len(once.Info.NextActionTimes) != 1 || !once.Info.NextActionTimes[0].Equal(at) {
		t.Errorf("%+v %v", once, err)
	}
	// Temporal came back without it: it is placed again.
	if err := c.ScheduleClient().GetHandle(t.Context(), run.ScheduleID("daily")).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		if err := k.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := describe("daily"); err == nil {
			break // the list that Check reads lags behind
		}
		if t.Context().Err() != nil {
			t.Fatal("it was not placed again")
		}
	}
	if _, err := s.SetScheduleState(t.Context(), "daily", store.ScheduleEnded); err != nil {
		t.Fatal(err)
	}
	if err := k.Place(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := describe("daily"); err == nil {
		t.Error("a deleted task is still with Temporal")
	}
}

func TestATaskThatTemporalLostBeforeItsMomentIsMadeUpForOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	add(t, s, store.Schedule{ID: "once", Kind: store.ScheduleOnce, At: &at, Text: "x"})
	k, _, w := keeper(t, s)
	for range 2 {
		if err := k.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.sessions) != 1 {
		t.Errorf("%v", w.sessions)
	}
	if n, _, _ := s.Waiting(t.Context(), officeKey); n != 1 {
		t.Errorf("%d triggers wait", n)
	}
}
