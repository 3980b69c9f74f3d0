package schedule

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// Waker starts or signals the workflow of a session.
type Waker interface {
	Wake(ctx context.Context, officeKey, sessionKey string) error
}

// Keeper makes Temporal's schedules what the database says. Every worker runs one; none is special, and two at once do
// no harm.
type Keeper struct {
	Store  *store.Store
	Client client.Client
	Queue  string
	Waker  Waker
	Log    *slog.Logger
}

// How often the keeper looks for changes, and for schedules that Temporal has lost.
const (
	placeEvery = 2 * time.Second
	checkEvery = time.Minute
	// overdueAfter is how late a task to be done once is taken for lost. Temporal itself fires within a second.
	overdueAfter = time.Minute
	batch        = 40 // at a time: what was missed must not start all at once
	callTimeout  = 10 * time.Second
	// catchUp is how long after its moment a firing that was missed is made up for. Since a task's next firing is skipped
	// while the one before goes on, one of those that were missed is made up for, and no more.
	catchUp = 24 * time.Hour
)

// Run keeps the schedules until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	place, check := time.NewTicker(placeEvery), time.NewTicker(checkEvery)
	defer place.Stop()
	defer check.Stop()
	k.report("find lost schedules", k.Check(ctx))
	for {
		select {
		case <-ctx.Done():
			return
		case <-place.C:
			k.report("place schedules", k.Place(ctx))
		case <-check.C:
			k.report("find lost schedules", k.Check(ctx))
		}
	}
}

func (k *Keeper) report(what string, err error) {
	if err != nil && fault.CodeOf(err) != fault.Interrupted {
		k.Log.Warn("schedules are behind and will be tried again", "doing", what, "code", fault.CodeOf(err), "error", err)
	}
}

// Place tells Temporal of every schedule that changed since it was told last.
func (k *Keeper) Place(ctx context.Context) error {
	changed, err := k.Store.UnplacedSchedules(ctx, batch)
	if err != nil {
		return err
	}
	for _, s := range changed {
		if err := k.placeOne(ctx, s); err != nil {
			return err
		}
		if err := k.Store.SchedulePlaced(ctx, s.ID, s.Revision); err != nil {
			return err
		}
	}
	return nil
}

// Check places what Temporal does not have any more, and fires what was due while it had lost it.
func (k *Keeper) Check(ctx context.Context) error {
	wanted, err := k.Store.Schedules(ctx, "")
	if err != nil || len(wanted) == 0 {
		return err
	}
	overdue, err := k.Store.OverdueSchedules(ctx, overdueAfter, batch)
	if err != nil {
		return err
	}
	for _, s := range overdue {
		at, _, fired, err := k.Store.FireSchedule(ctx, s.ID, *s.At)
		if err != nil {
			return err
		}
		if fired {
			if err := k.Waker.Wake(ctx, at.OfficeKey, at.SessionKey); err != nil {
				return err
			}
		}
	}
	known, err := k.known(ctx)
	if err != nil {
		return err
	}
	for _, s := range wanted {
		if known[s.ID] || s.Placed < s.Revision || s.Kind == store.ScheduleOnce && !s.At.After(time.Now()) {
			continue
		}
		if err := k.placeOne(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// known lists the schedules of mikan's that Temporal has. A new one may be missing for a moment: placing it again is
// harmless.
func (k *Keeper) known(ctx context.Context) (map[string]bool, error) {
	list, err := k.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, translate(err)
	}
	known := map[string]bool{}
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return nil, translate(err)
		}
		if id, ours := run.ParseScheduleID(entry.ID); ours {
			known[id] = true
		}
	}
	return known, nil
}

func (k *Keeper) placeOne(ctx context.Context, s store.Schedule) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handle := k.Client.ScheduleClient().GetHandle(ctx, run.ScheduleID(s.ID))
	var gone *serviceerror.NotFound
	if s.State == store.ScheduleEnded {
		if err := handle.Delete(ctx); err != nil && !errors.As(err, &gone) {
			return translate(err)
		}
		return nil
	}
	options := k.options(s)
	_, err := k.Client.ScheduleClient().Create(ctx, options)
	if err == nil || !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return translate(err)
	}
	return translate(handle.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			return &client.ScheduleUpdate{Schedule: &client.Schedule{
				Spec: &options.Spec, Action: options.Action,
				Policy: &client.SchedulePolicies{Overlap: options.Overlap, CatchupWindow: options.CatchupWindow},
				State:  &client.ScheduleState{Paused: options.Paused, LimitedActions: options.RemainingActions > 0, RemainingActions: options.RemainingActions},
			}}, nil
		},
	}))
}

func (k *Keeper) options(s store.Schedule) client.ScheduleOptions {
	o := client.ScheduleOptions{
		ID:      run.ScheduleID(s.ID),
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchUp, Paused: s.State == store.SchedulePaused,
		Action: &client.ScheduleWorkflowAction{
			ID: "schedule/" + s.ID, Workflow: run.FireWorkflowType, Args: []any{run.FireInput{ScheduleID: s.ID}}, TaskQueue: k.Queue,
			TypedSearchAttributes: temporal.NewSearchAttributes(
				run.PlatformAttribute.ValueSet(run.PlatformOf(s.OfficeKey)), run.OfficeAttribute.ValueSet(s.OfficeKey),
				run.TriggerAttribute.ValueSet(string(run.Scheduled)),
			),
		},
	}
	if s.Kind == store.ScheduleOnce {
		at := s.At.UTC()
		o.RemainingActions = 1
		o.Spec = client.ScheduleSpec{Calendars: []client.ScheduleCalendarSpec{{
			Second: exactly(at.Second()), Minute: exactly(at.Minute()), Hour: exactly(at.Hour()),
			DayOfMonth: exactly(at.Day()), Month: exactly(int(at.Month())), Year: exactly(at.Year()),
		}}}
		return o
	}
	o.Spec = client.ScheduleSpec{CronExpressions: []string{temporalCron(s.Cron)}, TimeZoneName: s.Zone}
	return o
}

func exactly(n int) []client.ScheduleRange { return []client.ScheduleRange{{Start: n}} }

// temporalCron writes an expression for Temporal, where seconds come only with a year behind the others.
func temporalCron(expression string) string {
	if len(strings.Fields(expression)) == 6 {
		return expression + " *"
	}
	return expression
}

func translate(err error) error {
	if err == nil {
		return nil
	}
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) {
		return fault.Wrap(fault.Invalid, err, "Temporal refused the schedule")
	}
	return fault.Wrap(fault.Unavailable, err, "Temporal is not reachable")
}
