package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/chatfile"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/history"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

func (c *cli) historyCommand() *cobra.Command {
	return group("history", "Look into an office's past as its agent does",
		c.lookCommand(history.Search, "search QUERY...", "Find entries of sessions that hold every word of QUERY", 1, 100),
		c.lookCommand(history.Sessions, "sessions", "List the sessions of an office", 0, 0),
		c.lookCommand(history.Read, "read SESSION", "Page through a session; SESSION is an id or a prefix of at least 8 characters", 1, 1),
		c.lookCommand(history.Chat, "chat [QUERY...]", "Page through the chat log, or find messages", 0, 100),
	)
}

func (c *cli) lookCommand(action history.Action, use, short string, least, most int) *cobra.Command {
	in := history.Request{Action: action}
	var limit int64
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Args: arguments(least, most),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case in.Office == "":
				return usageError{errors.New("--office is required; mikan office list shows the keys")}
			case action == history.Read:
				in.Session = args[0]
			default:
				in.Query = strings.Join(args, " ")
			}
			if cmd.Flags().Changed("limit") {
				in.Limit = &limit
			}
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if _, err := s.Office(cmd.Context(), in.Office); err != nil {
				return err
			}
			answer, err := (&history.Reader{Store: s, Zone: time.Local}).Look(cmd.Context(), in)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), answer)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), answer.Text())
			return err
		},
	}
	cmd.Flags().StringVar(&in.Office, "office", "", "the office (its key)")
	cmd.Flags().Int64Var(&limit, "limit", 20, fmt.Sprintf("how many, from 1 to %d", history.MaxLimit))
	cmd.Flags().Int64Var(&in.Skip, "skip", 0, "how many of the newest to leave out")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	if action == history.Search {
		cmd.Flags().StringVar(&in.Session, "session", "", "only this session (an id or a prefix of at least 8 characters)")
	}
	return cmd
}

func (c *cli) logCommand() *cobra.Command {
	return group("log", "Write chat logs as files", c.logExportCommand())
}

// logExport is what log export prints as JSON.
type logExport struct {
	OfficeKey string `json:"office_key"`
	Path      string `json:"path"`
	store.LogFile
}

func (c *cli) logExportCommand() *cobra.Command {
	var key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write an office's chat log to log.jsonl in its part of the workspace",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if key == "" {
				return usageError{errors.New("--office is required; mikan office list shows the keys")}
			}
			parsed, err := office.ParseKey(key)
			if err != nil {
				return fault.Wrap(fault.Invalid, err, "there is no such office")
			}
			cfg, err := c.config()
			if err != nil {
				return err
			}
			dir, err := parsed.Dir(cfg.Workspace)
			if err != nil {
				return err
			}
			s, err := backend.OpenStore(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.CheckSchema(cmd.Context()); err != nil {
				return err
			}
			if _, err := s.Office(cmd.Context(), key); err != nil {
				return err
			}
			file, err := chatfile.Update(cmd.Context(), s, dir, key, store.Anew)
			if err != nil {
				return err
			}
			done := logExport{OfficeKey: key, Path: filepath.Join(dir, chatfile.Name), LogFile: file}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d messages in %s\n", done.Messages, done.Path)
			return err
		},
	}
	cmd.Flags().StringVar(&key, "office", "", "the office (its key)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
