package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/store"
)

func (c *cli) runCommand() *cobra.Command {
	return group("run", "List, show, stop and retry runs", c.runListCommand(), c.runShowCommand(), c.runStopCommand(), c.runRetryCommand())
}

func (c *cli) runListCommand() *cobra.Command {
	var filter store.RunFilter
	var open bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Args:  arguments(0, 0),
	}
	cmd.Flags().StringVar(&filter.OfficeKey, "office", "", "only runs of this office (its key)")
	cmd.Flags().IntVar(&filter.Limit, "limit", 50, "how many")
	cmd.Flags().BoolVar(&open, "open", false, "only runs that have not ended")
	return c.query(cmd, func(ctx context.Context, s *store.Store, _ []string) (output, error) {
		if open {
			filter.State = store.Running
		}
		runs, err := s.Runs(ctx, filter)
		if err != nil {
			return output{}, err
		}
		return output{append([]store.Run{}, runs...), func(out io.Writer) error { return printRuns(out, runs) }}, nil
	})
}

func printRuns(out io.Writer, runs []store.Run) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "RUN\tSTARTED\tTRIGGER\tOUTCOME\tSTEPS\tTOOK\tSESSION\tOFFICE")
	for _, r := range runs {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.ID, r.StartedAt.Local().Format(time.DateTime), r.Trigger,
			outcomeOf(r), r.Steps, tookOf(r), r.SessionKey, r.OfficeKey)
	}
	return w.Flush()
}

func outcomeOf(r store.Run) string {
	if r.State == store.Running {
		return "running"
	}
	if r.ErrorCode != "" {
		return string(r.Outcome) + " (" + string(r.ErrorCode) + ")"
	}
	return string(r.Outcome)
}

func tookOf(r store.Run) string {
	end := time.Now()
	if r.SettledAt != nil {
		end = *r.SettledAt
	}
	return end.Sub(r.StartedAt).Round(time.Millisecond).String()
}

func (c *cli) runShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run with its entries and what it said",
		Args:  arguments(1, 1),
	}
	return c.query(cmd, func(ctx context.Context, s *store.Store, args []string) (output, error) {
		r, err := s.Run(ctx, args[0])
		if err != nil {
			return output{}, err
		}
		entries, err := s.RunEntries(ctx, r)
		if err != nil {
			return output{}, err
		}
		said, err := s.RunDeliveries(ctx, r.ID)
		if err != nil {
			return output{}, err
		}
		return output{map[string]any{"run": r, "entries": entries, "deliveries": said}, func(out io.Writer) error { return printRun(out, r, entries, said) }}, nil
	})
}

func printRun(out io.Writer, r store.Run, entries []store.Entry, said []store.Delivery) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	field := func(name string, value any) { _, _ = fmt.Fprintf(w, "%s\t%v\n", name, value) }
	field("run", r.ID)
	field("workflow", r.WorkflowID)
	field("temporal run", r.TemporalRunID)
	field("session", r.SessionID)
	field("trigger", fmt.Sprintf("%s %s", r.Trigger, r.TriggerMessageID))
	field("outcome", outcomeOf(r))
	if r.ErrorText != "" {
		field("error", r.ErrorText)
	}
	field("model", r.Model)
	field("tokens", fmt.Sprintf("%d in, %d out, %d cached", r.Usage.Input, r.Usage.Output, r.Usage.CacheRead))
	if r.CostMicros != nil {
		field("cost", fmt.Sprintf("$%.6f", float64(*r.CostMicros)/1e6))
	}
	field("time", fmt.Sprintf("%s (model %d ms, tools %d ms)", tookOf(r), r.ModelMS, r.ToolMS))
	for _, d := range said {
		field("message", fmt.Sprintf("%s %s %s", d.MessageID, d.Kind, d.State))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printEntries(out, entries)
}

func (c *cli) runStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop RUN",
		Short: "Stop a run, as `stop` in its chat does",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := c.open(cmd.Context())
			if err != nil {
				return err
			}
			defer b.Close()
			all, err := pipelines(b)
			if err != nil {
				return err
			}
			r, err := all.Control.StopRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "stopping %s\n", r.ID)
			return err
		},
	}
}
