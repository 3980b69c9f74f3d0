package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/fault"
)

func (c *cli) runRetryCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Run the message of a failed or stopped run again",
		Long: `Run the message of a failed or stopped run again, as a new attempt with a run id of its own. It waits behind what its
session has to do already, sees what the earlier attempt did, and answers where that would have answered.

Exit codes: 0 it is queued and on its way; 3 there is nothing to run again (the run is open, was answered, or was run
again already; its message was deleted), nothing was written; 4 it is queued, but Temporal is not reachable: whichever
process sees it first starts it; 5 there is no such run.`,
		Args: arguments(1, 1),
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
			retried, err := all.Intake.Retry(cmd.Context(), args[0])
			if fault.CodeOf(err) == fault.Conflict {
				fmt.Fprintln(os.Stderr, "mikan: "+err.Error())
				return &exitError{exitRefused}
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), retried)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "attempt %d is run %s\n", retried.Attempt, retried.RunID)
			}
			if err == nil && !retried.Woken {
				return &exitError{exitUnserved}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
