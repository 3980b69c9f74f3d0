package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/schedule"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

func (c *cli) scheduleCommand() *cobra.Command {
	return group("schedule", "List, show, pause, resume and delete scheduled tasks",
		c.scheduleListCommand(), c.scheduleShowCommand(),
		c.scheduleStateCommand("pause", "Keep a task from being started until it is resumed", store.SchedulePaused),
		c.scheduleStateCommand("resume", "Let a paused task be started again", store.ScheduleActive),
		c.scheduleStateCommand("delete", "End a task for good", store.ScheduleEnded))
}

// shownSchedule is what `schedule list --json` and `schedule show --json` print.
type shownSchedule struct {
	store.Schedule
	Next *time.Time `json:"next,omitempty"` // when it is due next, absent while it is paused
}

func showSchedule(s store.Schedule) shownSchedule {
	shown := shownSchedule{Schedule: s}
	switch {
	case s.State != store.ScheduleActive:
	case s.Kind == store.ScheduleOnce:
		shown.Next = s.At
	default:
		if next, err := schedule.Next(s.Cron, s.Zone, time.Now()); err == nil && !next.IsZero() {
			shown.Next = &next
		}
	}
	return shown
}

func (c *cli) scheduleListCommand() *cobra.Command {
	var office string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List scheduled tasks, oldest first",
		Args:  arguments(0, 0),
	}
	cmd.Flags().StringVar(&office, "office", "", "only those of this office (its key)")
	return c.query(cmd, func(ctx context.Context, s *store.Store, _ []string) (output, error) {
		if office != "" {
			if _, err := s.Office(ctx, office); err != nil {
				return output{}, err
			}
		}
		all, err := s.Schedules(ctx, office)
		if err != nil {
			return output{}, err
		}
		shown := make([]shownSchedule, len(all))
		for i, one := range all {
			shown[i] = showSchedule(one)
		}
		return output{shown, func(out io.Writer) error { return printSchedules(out, shown) }}, nil
	})
}

func printSchedules(out io.Writer, shown []shownSchedule) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SCHEDULE\tSTATE\tWHEN\tNEXT\tOFFICE\tTASK")
	for _, s := range shown {
		next := "-"
		if s.Next != nil {
			next = s.Next.Format(time.RFC3339)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.State, when(s.Schedule), next, s.OfficeKey, text.VisibleLine(text.Clip(s.Text, 60)))
	}
	return w.Flush()
}

func when(s store.Schedule) string {
	if s.Kind == store.ScheduleOnce {
		return "once at " + s.At.Format(time.RFC3339)
	}
	return text.VisibleLine(s.Cron) + " in " + text.VisibleLine(s.Zone)
}

func (c *cli) scheduleShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SCHEDULE",
		Short: "Show a scheduled task with its text",
		Args:  arguments(1, 1),
	}
	return c.query(cmd, func(ctx context.Context, s *store.Store, args []string) (output, error) {
		found, err := s.Schedule(ctx, args[0])
		if err != nil {
			return output{}, err
		}
		shown := showSchedule(found)
		return output{shown, func(out io.Writer) error {
			if err := printSchedules(out, []shownSchedule{shown}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(out, "\n%s\n", text.Visible(found.Text))
			return err
		}}, nil
	})
}

func (c *cli) scheduleStateCommand(word, short string, state store.ScheduleState) *cobra.Command {
	cmd := &cobra.Command{
		Use:   word + " SCHEDULE",
		Short: short,
		Args:  arguments(1, 1),
	}
	return c.query(cmd, func(ctx context.Context, s *store.Store, args []string) (output, error) {
		changed, err := s.SetScheduleState(ctx, args[0], state)
		if err != nil {
			return output{}, err
		}
		return output{showSchedule(changed), func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%s is %s; a running worker tells Temporal within seconds\n", changed.ID, changed.State)
			return err
		}}, nil
	})
}
