package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/office"
)

// migrateFlags are what `mikan migrate` was asked for.
type migrateFlags struct {
	workspace, stateDir                                 string
	owners                                              []string
	dryRun, skipBroken, pauseEvents, asJSON, schemaOnly bool
}

func (c *cli) migrateCommand() *cobra.Command {
	var f migrateFlags
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the schema, then import a mikan 0.5.3 installation",
		Long: `Migrate the database schema, then import a mikan 0.5.3 installation: sessions, chat logs, settings and scheduled events.

Everything is read before anything is written. Stop mikan 0.5.3 first. A run that ended in the middle is continued by
running the same command again. Exit codes: 0 done or nothing to do, 1 failed midway, 2 usage, 3 refused and nothing
written, 4 done but for broken files.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.migrate(cmd, f) },
	}
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "0.5.3's workspace (default: workspace in the state directory)")
	cmd.Flags().StringVar(&f.stateDir, "state-dir", "", "0.5.3's state directory (default: ~/.mikan)")
	cmd.Flags().StringArrayVar(&f.owners, "owner", nil, "whose a conversation is, where that is not plain: <conversationId>=<platform>; may be repeated")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "read everything, tell what would be done and every problem, write nothing")
	cmd.Flags().BoolVar(&f.skipBroken, "skip-broken", false, "leave out files that cannot be read, and import the rest")
	cmd.Flags().BoolVar(&f.pauseEvents, "pause-events", false, "import scheduled events as paused schedules")
	cmd.Flags().BoolVar(&f.schemaOnly, "schema-only", false, "migrate the schema and import nothing")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "one JSON object per step")
	return cmd
}

func (c *cli) migrate(cmd *cobra.Command, f migrateFlags) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	s, err := backend.OpenStore(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	out := newMigrateOutput(cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
	if f.schemaOnly {
		from, to, err := s.Migrate(cmd.Context())
		if err == nil {
			out.event(migrate.Event{Step: migrate.StepSchema, From: &from, To: &to})
		}
		return err
	}
	o, err := c.migrateOptions(f, cfg)
	if err != nil {
		return err
	}
	o.Store, o.Report = s, out.event
	result, err := migrate.Run(cmd.Context(), o)
	var refused *migrate.Refused
	switch {
	case errors.As(err, &refused):
		out.refused(refused)
		return &exitError{exitRefused}
	case err != nil && o.Mode == migrate.Execute && fault.CodeOf(err) != fault.Invalid && cmd.Context().Err() == nil:
		out.failed(err)
		return &exitError{exitFailed}
	case err != nil:
		return err
	case len(result.Skipped) > 0:
		return &exitError{exitUnserved}
	}
	if o.Mode == migrate.Execute && cfg.Workspace != o.Workspace {
		out.advise("serve and worker need MIKAN_WORKSPACE=" + o.Workspace)
	}
	return nil
}

func (c *cli) migrateOptions(f migrateFlags, cfg config.Config) (migrate.Options, error) {
	o := migrate.Options{Platforms: cfg.Platforms(), Owners: map[string]office.Platform{}, Now: time.Now}
	for _, said := range f.owners {
		id, platform, err := migrate.ParseOwner(said)
		if err != nil {
			return o, usageError{err}
		}
		if before, twice := o.Owners[id]; twice && before != platform {
			return o, usageError{fmt.Errorf("--owner names two platforms for %s", id)}
		}
		o.Owners[id] = platform
	}
	if f.dryRun {
		o.Mode = migrate.DryRun
	}
	if f.skipBroken {
		o.Broken = migrate.SkipBroken
	}
	if f.pauseEvents {
		o.Events = migrate.PauseEvents
	}
	stateDir := f.stateDir
	if stateDir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return o, usageError{fmt.Errorf("there is no home directory; name the state directory with --state-dir")}
		}
		stateDir = filepath.Join(home, ".mikan")
	}
	workspace := f.workspace
	if workspace == "" {
		workspace = filepath.Join(stateDir, "workspace")
	}
	var err error
	if o.StateDir, err = filepath.Abs(stateDir); err != nil {
		return o, usageError{err}
	}
	if o.Workspace, err = filepath.Abs(workspace); err != nil {
		return o, usageError{err}
	}
	o.Command = migrateCommandLine(f, o)
	return o, nil
}

// migrateCommandLine is the command that goes on with an import, with paths that hold wherever it is run.
func migrateCommandLine(f migrateFlags, o migrate.Options) string {
	words := []string{"mikan", "migrate", "--workspace", quoted(o.Workspace), "--state-dir", quoted(o.StateDir)}
	for _, owner := range f.owners {
		words = append(words, "--owner", quoted(owner))
	}
	if f.skipBroken {
		words = append(words, "--skip-broken")
	}
	if f.pauseEvents {
		words = append(words, "--pause-events")
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-=+:,@", r))
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
