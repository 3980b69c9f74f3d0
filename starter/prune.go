package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/store"
)

func (c *cli) pruneCommand() *cobra.Command {
	age := ageFlag(config.DefaultRetention)
	var dry bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete bookkeeping that has served its purpose",
		Long: `Delete bookkeeping that has served its purpose: records of messages that were shown, attempts at steps of runs that
ended, captures that wrote nothing, expired links. Sessions, the chat log, runs and what memory was captured from are
never deleted. Every process does the same by itself once a day, with the retention_days of its configuration.`,
		Args: arguments(0, 0),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if time.Duration(age) < config.LeastRetention {
				return usageError{fmt.Errorf("--older-than must be at least 1d; what is younger may still be needed")}
			}
			return nil
		},
	}
	cmd.Flags().Var(&age, "older-than", "how long it must have served its purpose: days, or hours and minutes (90d, 36h)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count what would be deleted")
	return c.query(cmd, func(ctx context.Context, s *store.Store, _ []string) (output, error) {
		prune := s.Prune
		if dry {
			prune = s.Prunable
		}
		pruned, err := prune(ctx, time.Duration(age))
		if err != nil {
			return output{}, err
		}
		return output{pruned, func(out io.Writer) error { return printPruned(out, pruned) }}, nil
	})
}

func printPruned(out io.Writer, pruned []store.Pruned) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ROWS\tTABLE\tWHAT")
	for _, p := range pruned {
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\n", p.Rows, p.Table, p.What)
	}
	return w.Flush()
}

// ageFlag is a duration that can also be given in days.
type ageFlag time.Duration

func (a *ageFlag) String() string {
	const day = 24 * time.Hour
	if d := time.Duration(*a); d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return time.Duration(*a).String()
}

func (a *ageFlag) Type() string { return "age" }

func (a *ageFlag) Set(text string) error {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is no number of days", days)
		}
		*a = ageFlag(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(text)
	*a = ageFlag(d)
	return err
}
