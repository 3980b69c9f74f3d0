// Command mikan is the gateway (it receives platform events and starts runs) and the operator's command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/process"
)

// Exit codes beyond those of fault.ExitCode.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitRefused  = 3 // refused before anything was written
	exitUnserved = 4 // partly done, or nothing serves it
)

// exitError ends the process with a code. Its text, if any, has been printed.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func main() {
	os.Exit(execute(process.UntilSignal(), os.Args[1:]))
}

func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit *exitError
	var usage usageError
	var refused *config.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &refused):
		for _, problem := range refused.Problems {
			fmt.Fprintln(os.Stderr, "mikan: "+problem)
		}
		return exitUsage
	}
	fmt.Fprintln(os.Stderr, "mikan: "+err.Error())
	if errors.As(err, &usage) {
		return exitUsage
	}
	return fault.ExitCode(fault.CodeOf(err))
}

func newRoot() *cobra.Command {
	cli := &cli{getenv: os.Getenv}
	root := &cobra.Command{
		Use:           "mikan",
		Short:         "An agent that lives in chat, each of whose runs is a Temporal workflow",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&cli.dataDir, "data-dir", "", "where dev keeps everything (default: under your state directory)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		cli.devCommand(), cli.serveCommand(), cli.askCommand(), cli.doctorCommand(), cli.migrateCommand(),
		cli.officeCommand(), cli.sessionCommand(), cli.runCommand(), cli.accessCommand(), cli.pruneCommand(), cli.deployCommand(), cli.historyCommand(), cli.scheduleCommand(), cli.logCommand(), cli.memoryCommand(),
	)
	return root
}

// arguments checks how many positional arguments a command got.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError{fmt.Errorf("%s: wrong number of arguments; see: mikan %s --help", cmd.CommandPath(), cmd.Name())}
		}
		return nil
	}
}

// group makes a command that only has subcommands: a word it does not know is a usage error.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError{fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])}
		}
		return cmd.Help()
	}}
	cmd.AddCommand(commands...)
	return cmd
}
