package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// cli is what all commands share.
type cli struct {
	getenv  func(string) string
	dataDir string
}

func (c *cli) config() (config.Config, error) { return config.Load(c.getenv, c.dataDir) }

// quiet is the log of commands whose output is for people: warnings and errors only.
func quiet(cfg config.Config) *slog.Logger {
	return telemetry.NewLogger(os.Stderr, telemetry.LogText, max(cfg.LogLevel, slog.LevelWarn), secret.NewRedactor(cfg.Secrets()))
}

// open connects to database and Temporal for one command.
func (c *cli) open(ctx context.Context) (*backend.Backend, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	log := quiet(cfg)
	return backend.Open(ctx, cfg, log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(log)})
}

// pipelines wires the platforms for one command.
func pipelines(b *backend.Backend) (*platforms.Platforms, error) {
	metrics, err := telemetry.NewMetrics(b.Log)
	if err != nil {
		return nil, err
	}
	return platforms.New(b, metrics)
}

// store connects to the database alone, for commands that only look.
func (c *cli) store(ctx context.Context) (*store.Store, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	s, err := backend.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.CheckSchema(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// printJSON writes one value, indented, with a newline.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("the output cannot be written: %w", err)
	}
	return nil
}

// output is what a command found: the value that --json prints, and how people read it.
type output struct {
	value  any
	people func(io.Writer) error
}

// query makes cmd a command that opens the database, runs, and prints what it found, as JSON with --json. What can be
// refused without the database is refused in cmd's PreRunE.
func (c *cli) query(cmd *cobra.Command, run func(ctx context.Context, s *store.Store, args []string) (output, error)) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := c.store(cmd.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		found, err := run(cmd.Context(), s, args)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(cmd.OutOrStdout(), found.value)
		}
		return found.people(cmd.OutOrStdout())
	}
	return cmd
}
