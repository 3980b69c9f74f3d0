package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/deploy"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/telemetry"
)

func (c *cli) deployCommand() *cobra.Command {
	var name string
	cmd := group("deploy", "Which build of the workers gets new runs, where versioning is on",
		c.deployStatusCommand(&name), c.deployPromoteCommand(&name), c.deployMoveCommand(&name))
	cmd.PersistentFlags().StringVar(&name, "deployment", "", "the deployment (default: MIKAN_DEPLOYMENT)")
	return cmd
}

// deployments connects to Temporal alone.
func (c *cli) deployments(name string) (d deploy.Deployments, deployment string, done func(), err error) {
	cfg, err := c.config()
	if err != nil {
		return d, "", nil, err
	}
	if name == "" {
		name = cfg.Deployment
	}
	if name == "" {
		return d, "", nil, usageError{fmt.Errorf("no deployment is named; give --deployment, or set MIKAN_DEPLOYMENT as the workers have it")}
	}
	temporal, err := backend.Dial(cfg, backend.Instruments{TemporalLog: telemetry.TemporalLogger(quiet(cfg))})
	if err != nil {
		return d, "", nil, err
	}
	return deploy.Deployments{Client: temporal, Namespace: cfg.Temporal.Namespace}, name, temporal.Close, nil
}

// refused makes what Temporal does not allow now an exit code of its own.
func refused(err error) error {
	if fault.CodeOf(err) != fault.Conflict {
		return err
	}
	fmt.Fprintln(os.Stderr, "mikan: "+err.Error())
	return &exitError{exitRefused}
}

func (c *cli) deployStatusCommand(name *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the builds of the workers: which gets new runs, which can go",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, name, done, err := c.deployments(*name)
			if err != nil {
				return err
			}
			defer done()
			status, err := d.Status(cmd.Context(), name)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), status)
			}
			return printBuilds(cmd.OutOrStdout(), status)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printBuilds(out io.Writer, status deploy.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "BUILD\tSTATE\tOPEN\tSINCE")
	for _, b := range status.Builds {
		state := string(b.State)
		if b.State == deploy.Ramping {
			state = fmt.Sprintf("ramping (%g%%)", b.Percent)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", b.BuildID, state, b.Open, b.Since.Local().Format(time.DateTime))
	}
	return w.Flush()
}

func (c *cli) deployPromoteCommand(name *string) *cobra.Command {
	var percent float32
	cmd := &cobra.Command{
		Use:   "promote BUILD",
		Short: "Let new runs begin on a build; open ones end on theirs",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if percent <= 0 || percent > 100 {
				return usageError{fmt.Errorf("--percent must lie between 1 and 100")}
			}
			d, name, done, err := c.deployments(*name)
			if err != nil {
				return err
			}
			defer done()
			if err := d.Promote(cmd.Context(), name, args[0], percent); err != nil {
				return refused(err)
			}
			share := "new runs begin"
			if percent < 100 {
				share = fmt.Sprintf("%g%% of the new runs begin", percent)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s on %s\n", share, args[0])
			return err
		},
	}
	cmd.Flags().Float32Var(&percent, "percent", 100, "the share of new runs that begin on it")
	return cmd
}

func (c *cli) deployMoveCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "move BUILD",
		Short: "Let the open runs of a build whose workers are gone go on with the current build",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, name, done, err := c.deployments(*name)
			if err != nil {
				return err
			}
			defer done()
			moved, err := d.Move(cmd.Context(), name, args[0])
			if err != nil {
				return refused(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d open executions go on with the current build\n", moved)
			return err
		},
	}
}
