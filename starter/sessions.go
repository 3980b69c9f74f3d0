package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
	"github.com/geminixiang/mikan/internal/web"
)

func (c *cli) sessionCommand() *cobra.Command {
	return group("session", "List and show sessions, and give out links to them",
		c.sessionListCommand(), c.sessionShowCommand(), c.sessionLinkCommand(), c.sessionRevokeCommand(), c.sessionExportCommand())
}

const sessionNamed = "SESSION is an id, a prefix of one of at least 8 characters, or a session key with --office"

func (c *cli) sessionListCommand() *cobra.Command {
	var office string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List sessions, newest activity first, each with its forks below it",
		Args:    arguments(0, 0),
		PreRunE: func(*cobra.Command, []string) error { return atLeastOne("limit", limit) },
	}
	cmd.Flags().StringVar(&office, "office", "", "only sessions of this office (its key)")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many")
	return c.query(cmd, func(ctx context.Context, s *store.Store, _ []string) (output, error) {
		if office != "" {
			if _, err := s.Office(ctx, office); err != nil {
				return output{}, err
			}
		}
		sessions, err := s.SessionSummaries(ctx, office, limit, 0)
		if err != nil {
			return output{}, err
		}
		return output{append([]store.SessionSummary{}, sessions...), func(out io.Writer) error { return printSessions(out, sessions) }}, nil
	})
}

// atLeastOne refuses a number of things that is none.
func atLeastOne(flag string, n int) error {
	if n < 1 {
		return usageError{fmt.Errorf("--%s must be at least 1, not %d", flag, n)}
	}
	return nil
}

func printSessions(out io.Writer, sessions []store.SessionSummary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SESSION\tSTATE\tUPDATED\tENTRIES\tRESETS\tCOMPACTIONS\tFORKED AT\tKEY\tNAME")
	for _, s := range tree(sessions) {
		branch := ""
		if s.depth > 0 {
			branch = strings.Repeat("   ", s.depth-1) + "└─ "
		}
		forked := "-"
		if s.ParentID != "" {
			forked = fmt.Sprintf("#%d", s.ForkSeq)
			if s.depth == 0 {
				forked += " of " + s.ParentID // which is not in the list
			}
		}
		_, _ = fmt.Fprintf(w, "%s%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", branch, s.ID, stateOf(s.SessionSummary), s.UpdatedAt.Local().Format(time.DateTime),
			s.Entries, s.Resets, s.Compactions, forked, text.VisibleLine(s.SessionKey), text.VisibleLine(s.Title))
	}
	return w.Flush()
}

func stateOf(s store.SessionSummary) string {
	switch {
	case s.Running:
		return "running"
	case s.ArchivedAt != nil:
		return "archived"
	}
	return "idle"
}

// branch is a session in a tree of forks.
type branch struct {
	store.SessionSummary
	depth int
}

// tree puts forks below the session that they began with, in order of their fork points. The others keep their order.
func tree(sessions []store.SessionSummary) []branch {
	listed := map[string]bool{}
	for _, s := range sessions {
		listed[s.ID] = true
	}
	forks := map[string][]store.SessionSummary{}
	var roots []store.SessionSummary
	for _, s := range sessions {
		if listed[s.ParentID] {
			forks[s.ParentID] = append(forks[s.ParentID], s)
		} else {
			roots = append(roots, s)
		}
	}
	all := make([]branch, 0, len(sessions))
	var grow func(s store.SessionSummary, depth int)
	grow = func(s store.SessionSummary, depth int) {
		all = append(all, branch{s, depth})
		slices.SortStableFunc(forks[s.ID], func(a, b store.SessionSummary) int { return int(a.ForkSeq - b.ForkSeq) })
		for _, fork := range forks[s.ID] {
			grow(fork, depth+1)
		}
	}
	for _, s := range roots {
		grow(s, 0)
	}
	return all
}

// shownSession is what `session show --json` prints.
type shownSession struct {
	Session store.SessionSummary `json:"session"`
	Usage   store.Usage          `json:"usage"`
	Forks   []store.Session      `json:"forks"`
	Entries []store.Entry        `json:"entries"`
}

// forksShown bounds how many forks of one session are listed.
const forksShown = 1000

func (c *cli) sessionShowCommand() *cobra.Command {
	var office string
	var after int64
	var limit int
	cmd := &cobra.Command{
		Use:     "show SESSION",
		Short:   "Show a session with its usage, forks and entries; " + sessionNamed,
		Args:    arguments(1, 1),
		PreRunE: func(*cobra.Command, []string) error { return atLeastOne("limit", limit) },
	}
	cmd.Flags().StringVar(&office, "office", "", "the office (its key) that a session key belongs to")
	cmd.Flags().Int64Var(&after, "after", 0, "skip entries up to this position")
	cmd.Flags().IntVar(&limit, "limit", 1000, "how many entries")
	return c.query(cmd, func(ctx context.Context, s *store.Store, args []string) (output, error) {
		found, err := findSession(ctx, s, office, args[0])
		if err != nil {
			return output{}, err
		}
		shown, err := showSession(ctx, s, found.ID, after, limit)
		if err != nil {
			return output{}, err
		}
		return output{shown, func(out io.Writer) error { return printSession(out, shown) }}, nil
	})
}

func showSession(ctx context.Context, s *store.Store, id string, after int64, limit int) (shownSession, error) {
	shown := shownSession{Forks: []store.Session{}, Entries: []store.Entry{}}
	var err error
	if shown.Session, err = s.SessionSummary(ctx, id); err != nil {
		return shown, err
	}
	if shown.Usage, err = s.SessionUsage(ctx, id); err != nil {
		return shown, err
	}
	forks, err := s.SessionForks(ctx, id, 0, shown.Session.NextSeq, forksShown)
	if err != nil {
		return shown, err
	}
	entries, err := s.Entries(ctx, id, after, limit)
	shown.Forks, shown.Entries = append(shown.Forks, forks...), append(shown.Entries, entries...)
	return shown, err
}

func printSession(out io.Writer, shown shownSession) error {
	s, u := shown.Session, shown.Usage
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	field := func(name, format string, args ...any) { _, _ = fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	field("session", "%s", s.ID)
	if s.Title != "" {
		field("name", "%s", text.VisibleLine(s.Title))
	}
	field("key", "%s in %s", text.VisibleLine(s.SessionKey), s.OfficeKey)
	field("state", "%s", stateOf(s))
	if s.ParentID != "" {
		field("forked", "at #%d of %s", s.ForkSeq, s.ParentID)
	}
	field("began", "%s", s.CreatedAt.Local().Format(time.DateTime))
	field("last entry", "%s", s.UpdatedAt.Local().Format(time.DateTime))
	field("entries", "%d, %d resets, %d compactions", s.Entries, s.Resets, s.Compactions)
	field("usage", "%d runs, %d tokens in, %d out, %d read from cache, %d written to cache", u.Runs, u.Input, u.Output, u.CacheRead, u.CacheWrite)
	cost := fmt.Sprintf("$%d.%06d", u.CostMicros/1e6, u.CostMicros%1e6)
	if u.Unpriced > 0 {
		cost += fmt.Sprintf(" and %d runs at an unknown price", u.Unpriced)
	}
	field("cost", "%s", cost)
	for _, fork := range shown.Forks {
		field("fork", "at #%d: %s %s", fork.ForkSeq, fork.ID, text.VisibleLine(fork.Title))
	}
	if s.Forks > int64(len(shown.Forks)) {
		field("fork", "and %d more", s.Forks-int64(len(shown.Forks)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out)
	if err := printEntries(out, shown.Entries); err != nil {
		return err
	}
	if n := len(shown.Entries); n > 0 && shown.Entries[n-1].Seq < s.NextSeq-1 {
		_, err := fmt.Fprintf(out, "… %d more; go on with --after %d\n", s.NextSeq-1-shown.Entries[n-1].Seq, shown.Entries[n-1].Seq)
		return err
	}
	return nil
}

// givenLink is what `session link --json` prints.
type givenLink struct {
	URL       string    `json:"url"`
	SessionID string    `json:"session_id"`
	OfficeKey string    `json:"office_key"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (c *cli) sessionLinkCommand() *cobra.Command {
	var office string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "link SESSION",
		Short: "Print a link that shows a session to whoever has it, for 24 hours; " + sessionNamed,
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := c.config()
			if err != nil {
				return err
			}
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := findSession(cmd.Context(), s, office, args[0])
			if err != nil {
				return err
			}
			token, expires, err := s.CreateLink(cmd.Context(), found.ID, store.LinkLifetime)
			if err != nil {
				return err
			}
			given := givenLink{URL: web.Link(platforms.PublicURL(cfg), token), SessionID: found.ID, OfficeKey: found.OfficeKey, ExpiresAt: expires}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), given)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", given.URL)
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "until %s; end it with: mikan session revoke %s\n", expires.Local().Format(time.DateTime), found.ID)
			return err
		},
	}
	cmd.Flags().StringVar(&office, "office", "", "the office (its key) that a session key belongs to")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) sessionRevokeCommand() *cobra.Command {
	var office string
	cmd := &cobra.Command{
		Use:   "revoke SESSION",
		Short: "End all links to a session; " + sessionNamed,
		Args:  arguments(1, 1),
	}
	cmd.Flags().StringVar(&office, "office", "", "the office (its key) that a session key belongs to")
	return c.query(cmd, func(ctx context.Context, s *store.Store, args []string) (output, error) {
		found, err := findSession(ctx, s, office, args[0])
		if err != nil {
			return output{}, err
		}
		revoked, err := s.RevokeLinks(ctx, found.ID)
		if err != nil {
			return output{}, err
		}
		return output{map[string]any{"session_id": found.ID, "revoked": revoked}, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "ended %d links to %s\n", revoked, found.ID)
			return err
		}}, nil
	})
}

// shortestPrefix of a session id that names it.
const shortestPrefix = 8

// findSession finds a session by id or prefix, or by its key when the office is given. Errors: not_found; invalid for
// a name that is too short to be an id.
func findSession(ctx context.Context, s *store.Store, office, name string) (store.Session, error) {
	if office == "" {
		return s.FindSession(ctx, name)
	}
	if _, err := s.Office(ctx, office); err != nil {
		return store.Session{}, err
	}
	session, known, err := s.CurrentSession(ctx, office, name)
	if err != nil || known {
		return session, err
	}
	if len(name) >= shortestPrefix {
		session, err = s.FindSession(ctx, name)
		if err == nil && session.OfficeKey == office {
			return session, nil
		}
	}
	if err == nil || fault.CodeOf(err) == fault.NotFound {
		err = fault.New(fault.NotFound, "the office %s has no session %s", office, name)
	}
	return store.Session{}, err
}

// shownText is how many characters of one entry a listing shows.
const shownText = 2000

func printEntries(out io.Writer, entries []store.Entry) error {
	for _, e := range entries {
		aside := ""
		if !e.InContext {
			aside = " (not part of the model's context)"
		}
		if _, err := fmt.Fprintf(out, "#%d %s %s%s\n", e.Seq, e.At.Local().Format(time.DateTime), e.Kind, aside); err != nil {
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

// entryLines shows an entry to people: nothing that was said can steer their terminal.
func entryLines(e store.Entry) []string {
	var lines []string
	add := func(prefix, content string) {
		for line := range strings.Lines(text.Visible(text.Clip(content, shownText))) {
			lines = append(lines, prefix+strings.TrimRight(line, "\n"))
		}
	}
	if e.Kind == store.EntryReset {
		add("", "the model's context starts anew after this")
	}
	if e.Body.Summary != "" {
		add("summary: ", e.Body.Summary)
	}
	if e.Body.Note != "" {
		add("", e.Body.Note)
	}
	for _, block := range e.Body.Blocks {
		switch block.Kind {
		case llm.BlockText:
			add("", block.Text)
		case llm.BlockToolCall:
			add("call "+text.VisibleLine(block.Name)+" ", block.Arguments)
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
