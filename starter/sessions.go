package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

func (c *cli) sessionCommand() *cobra.Command {
	return group("session", "List and show sessions", c.sessionListCommand(), c.sessionShowCommand())
}

func (c *cli) sessionListCommand() *cobra.Command {
	var office string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest activity first",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			sessions, err := s.Sessions(cmd.Context(), office, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), append([]store.Session{}, sessions...))
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "SESSION\tUPDATED\tENTRIES\tKEY\tFORKED FROM\tTITLE")
			for _, session := range sessions {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", session.ID, session.UpdatedAt.Local().Format(time.DateTime),
					session.NextSeq-1, session.SessionKey, forkOf(session), session.Title)
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringVar(&office, "office", "", "only sessions of this office (its key)")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func forkOf(s store.Session) string {
	if s.ParentID == "" {
		return "-"
	}
	return fmt.Sprintf("%s at %d", s.ParentID, s.ForkSeq)
}

func (c *cli) sessionShowCommand() *cobra.Command {
	var office string
	var after int64
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Show a session's entries; SESSION is an id, a prefix of at least 8 characters, or a session key with --office",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			session, err := findSession(cmd.Context(), s, office, args[0])
			if err != nil {
				return err
			}
			entries, err := s.Entries(cmd.Context(), session.ID, after, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"session": session, "entries": append([]store.Entry{}, entries...)})
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "session %s\nkey     %s in %s\nforked  %s\nresets  %d\n\n",
				session.ID, session.SessionKey, session.OfficeKey, forkOf(session), session.Epoch)
			return printEntries(cmd.OutOrStdout(), entries)
		},
	}
	cmd.Flags().StringVar(&office, "office", "", "the office (its key) that a session key belongs to")
	cmd.Flags().Int64Var(&after, "after", 0, "skip entries up to this position")
	cmd.Flags().IntVar(&limit, "limit", 1000, "how many entries")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func findSession(ctx context.Context, s *store.Store, office, name string) (store.Session, error) {
	if office == "" {
		return s.FindSession(ctx, name)
	}
	session, known, err := s.CurrentSession(ctx, office, name)
	if err == nil && !known {
		return s.FindSession(ctx, name)
	}
	if err != nil {
		return store.Session{}, err
	}
	if session.OfficeKey != office {
		return store.Session{}, fault.New(fault.NotFound, "the office %s has no session %s", office, name)
	}
	return session, nil
}

// shownText is how many characters of one entry a listing shows.
const shownText = 2000

func printEntries(out io.Writer, entries []store.Entry) error {
	for _, e := range entries {
		if _, err := fmt.Fprintf(out, "#%d %s %s\n", e.Seq, e.At.Local().Format(time.DateTime), e.Kind); err != nil {
			return err
		}
		for _, line := range entryLines(e) {
			if _, err := fmt.Fprintln(out, "    "+line); err != nil {
				return err
			}
		}
	}
	return nil
}

func entryLines(e store.Entry) []string {
	var lines []string
	add := func(prefix, content string) {
		for line := range strings.Lines(text.Clip(content, shownText)) {
			lines = append(lines, prefix+strings.TrimRight(line, "\n"))
		}
	}
	if e.Body.Summary != "" {
		add("summary: ", e.Body.Summary)
	}
	for _, block := range e.Body.Blocks {
		switch block.Kind {
		case llm.BlockText:
			add("", block.Text)
		case llm.BlockToolCall:
			add("call "+block.Name+" ", block.Arguments)
		case llm.BlockToolResult:
			prefix := "result: "
			if block.IsError {
				prefix = "error: "
			}
			add(prefix, block.Text)
		case llm.BlockImage:
			add("", "(image "+block.MediaType+")")
		}
	}
	return lines
}
