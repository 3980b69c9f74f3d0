package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

func (c *cli) officeCommand() *cobra.Command {
	return group("office", "List and show offices, change their settings, and print office keys",
		c.officeListCommand(), c.officeShowCommand(), c.officeSetCommand(), officeKeyCommand())
}

func (c *cli) officeListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List offices, newest first",
		Args:    arguments(0, 0),
		PreRunE: func(*cobra.Command, []string) error { return atLeastOne("limit", limit) },
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how many")
	return c.query(cmd, func(ctx context.Context, s *store.Store, _ []string) (output, error) {
		offices, err := s.Offices(ctx, limit)
		if err != nil {
			return output{}, err
		}
		return output{append([]store.Office{}, offices...), func(out io.Writer) error { return printOffices(out, offices) }}, nil
	})
}

func printOffices(out io.Writer, offices []store.Office) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "OFFICE\tPLATFORM\tCONVERSATION\tAUDIENCE\tSINCE\tNAME")
	for _, o := range offices {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.Key, o.Platform, text.VisibleLine(o.ConversationID), o.Audience,
			o.CreatedAt.Local().Format(time.DateTime), text.VisibleLine(o.Name))
	}
	return w.Flush()
}

// shownOffice is what `office show --json` prints.
type shownOffice struct {
	Office       store.Office               `json:"office"`
	Settings     map[string]json.RawMessage `json:"settings"`
	Installation map[string]json.RawMessage `json:"installation_settings"` // hold where the office says nothing
	Sessions     []store.SessionSummary     `json:"sessions"`
	OpenRuns     []store.Run                `json:"open_runs"`
}

// openShown bounds how many open runs are shown: one for each session that runs.
const openShown = 1000

func (c *cli) officeShowCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "show KEY",
		Short:   "Show an office with its settings, sessions and open runs",
		Args:    arguments(1, 1),
		PreRunE: func(*cobra.Command, []string) error { return atLeastOne("limit", limit) },
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "how many sessions")
	return c.query(cmd, func(ctx context.Context, s *store.Store, args []string) (output, error) {
		shown, err := showOffice(ctx, s, args[0], limit)
		return output{shown, func(out io.Writer) error { return printOffice(out, shown) }}, err
	})
}

func showOffice(ctx context.Context, s *store.Store, key string, limit int) (shown shownOffice, err error) {
	if shown.Office, err = s.Office(ctx, key); err != nil {
		return shown, err
	}
	if shown.Settings, err = s.Settings(ctx, shown.Office.Key); err != nil {
		return shown, err
	}
	if shown.Installation, err = s.Settings(ctx, store.Installation); err != nil {
		return shown, err
	}
	sessions, err := s.SessionSummaries(ctx, shown.Office.Key, limit, 0)
	if err != nil {
		return shown, err
	}
	runs, err := s.Runs(ctx, store.RunFilter{OfficeKey: shown.Office.Key, State: store.Running, Limit: openShown})
	shown.Sessions, shown.OpenRuns = append([]store.SessionSummary{}, sessions...), append([]store.Run{}, runs...)
	return shown, err
}

func printOffice(out io.Writer, shown shownOffice) error {
	o := shown.Office
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	field := func(name string, value any) { _, _ = fmt.Fprintf(w, "%s\t%v\n", name, value) }
	field("office", o.Key)
	field("conversation", o.Platform+" "+text.VisibleLine(o.ConversationID))
	if o.Name != "" {
		field("name", text.VisibleLine(o.Name))
	}
	field("audience", o.Audience)
	field("since", o.CreatedAt.Local().Format(time.DateTime))
	for _, name := range slices.Sorted(maps.Keys(shown.Settings)) {
		field("setting "+name, text.VisibleLine(string(shown.Settings[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(shown.Installation)) {
		if _, own := shown.Settings[name]; !own {
			field("setting "+name, text.VisibleLine(string(shown.Installation[name]))+" (of the installation)")
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nopen runs: %d\n", len(shown.OpenRuns))
	if len(shown.OpenRuns) > 0 {
		if err := printRuns(out, shown.OpenRuns); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(out, "\nsessions: %d\n", len(shown.Sessions))
	if len(shown.Sessions) == 0 {
		return nil
	}
	return printSessions(out, shown.Sessions)
}

func (c *cli) officeSetCommand() *cobra.Command {
	var unset, asJSON bool
	var known strings.Builder
	for _, s := range settings.All() {
		fmt.Fprintf(&known, "\n  %-13s %s", s.Name, s.Takes)
	}
	cmd := &cobra.Command{
		Use:   "set KEY NAME VALUE",
		Short: "Change one setting of an office",
		Long: "Change one setting of an office, or, with \"installation\" in place of its key, of all that do not say otherwise.\n" +
			"It holds from the next run on. The settings:" + known.String(),
		Args: arguments(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if unset == (len(args) == 3) {
				return usageError{fmt.Errorf("%s: give a value, or --unset without one", cmd.CommandPath())}
			}
			setting, err := settings.Find(args[1])
			if err != nil {
				return err
			}
			var value any
			if !unset {
				if _, value, err = settings.Parse(args[1], args[2]); err != nil {
					return err
				}
			}
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if args[0] != store.Installation {
				if _, err := s.Office(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			if err := s.SetSetting(cmd.Context(), args[0], string(setting.Name), value); err != nil {
				return err
			}
			c.warnUnserved(cmd.ErrOrStderr(), setting.Name, value)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"scope": args[0], "name": setting.Name, "value": value})
			}
			said := "is no longer set"
			if !unset {
				raw, err := json.Marshal(value)
				if err != nil {
					return fault.Wrap(fault.Internal, err, "the value cannot be shown")
				}
				said = "is " + text.VisibleLine(string(raw))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s of %s %s\n", setting.Name, args[0], said)
			return err
		},
	}
	cmd.Flags().BoolVar(&unset, "unset", false, "remove the setting: the installation's holds again")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// warnUnserved says so when a model was set that cannot be called as this command is configured. It is no error: the
// keys may be in the worker's environment only.
func (c *cli) warnUnserved(out io.Writer, name settings.Name, value any) {
	model, ok := value.(string)
	if name != settings.Model || !ok {
		return
	}
	cfg, err := c.config()
	ref, parseErr := llm.ParseRef(model)
	if err == nil && parseErr == nil && !cfg.Serves(ref.Provider) {
		_, _ = fmt.Fprintf(out, "mikan: this command's environment has no key for %s; runs need one in the worker's\n", ref.Provider)
	}
}

func officeKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "key PLATFORM CONVERSATION",
		Short: "Print the office key of a conversation",
		Args:  arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := office.NewAddress(args[0], args[1])
			if err != nil {
				return fault.Wrap(fault.Invalid, err, "there is no such office")
			}
			key, err := address.Key()
			if err != nil {
				return fault.Wrap(fault.Invalid, err, "there is no such office")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key)
			return err
		},
	}
}
