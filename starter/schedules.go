package main

import (
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List scheduled tasks, oldest first",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if office != "" {
				if _, err := s.Office(cmd.Context(), office); err != nil {
					return err
				}
			}
			all, err := s.Schedules(cmd.Context(), office)
			if err != nil {
				return err
			}
			shown := make([]shownSchedule, len(all))
			for i, one := range all {
				shown[i] = showSchedule(one)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), shown)
			}
			return printSchedules(cmd.OutOrStdout(), shown)
		},
	}
	cmd.Flags().StringVar(&office, "office", "", "only those of this office (its key)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SCHEDULE",
		Short: "Show a scheduled task with its text",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := s.Schedule(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			shown := showSchedule(found)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), shown)
			}
			if err := printSchedules(cmd.OutOrStdout(), []shownSchedule{shown}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", text.Visible(found.Text))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) scheduleStateCommand(word, short string, state store.ScheduleState) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   word + " SCHEDULE",
		Short: short,
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			changed, err := s.SetScheduleState(cmd.Context(), args[0], state)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), showSchedule(changed))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s; a running worker tells Temporal within seconds\n", changed.ID, changed.State)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
