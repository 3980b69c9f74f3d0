package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

func (c *cli) accessCommand() *cobra.Command {
	return group("access", "Say who may talk to mikan on a platform",
		c.accessListCommand(),
		c.accessRuleCommand("allow", store.Allow, "Let somebody, or all who belong to something, talk to mikan"),
		c.accessRuleCommand("deny", store.Deny, "Keep somebody, or all who belong to something, from talking to mikan"),
		c.accessRemoveCommand())
}

func (c *cli) accessListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [PLATFORM]",
		Short: "List the rules, those of the configuration file included",
		Args:  arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			platform := ""
			if len(args) == 1 {
				if _, err := platformNamed(args[0]); err != nil {
					return err
				}
				platform = args[0]
			}
			cfg, err := c.config()
			if err != nil {
				return err
			}
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			rules, err := s.AccessRules(cmd.Context(), platform)
			if err != nil {
				return err
			}
			for _, r := range adapters.ListedAccess(cfg.Settings.Access) {
				if platform == "" || r.Platform == platform {
					r.Note = "from the configuration file"
					rules = append(rules, r)
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), append([]store.AccessRule{}, rules...))
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "PLATFORM\tEFFECT\tKIND\tID\tNOTE")
			for _, r := range rules {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Platform, r.Effect, r.Kind, text.VisibleLine(r.Principal), text.VisibleLine(r.Note))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// principalHelp is what the commands say about their arguments.
const principalHelp = `KIND is user, group, workspace, guild, role, chat or repository; ID is the platform's own id.

A rule about a user comes before one about something the user belongs to, and deny before allow. As soon as one rule
allows something on a platform, only what is allowed may talk to mikan there: the platform's own default (members of
the installed Slack workspace, nobody on Discord and Telegram) does not hold any more. On GitHub the sender's
permission in the repository is needed as well. An office's own list (mikan office set KEY allowed ...) decides alone.`

func (c *cli) accessRuleCommand(use string, effect store.Effect, short string) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   use + " PLATFORM KIND ID",
		Short: short,
		Long:  short + ".\n\n" + principalHelp,
		Args:  arguments(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, err := ruleOf(args)
			if err != nil {
				return err
			}
			rule.Effect, rule.Note = effect, note
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.SetAccess(cmd.Context(), rule); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s on %s, from the next message on\n", effect, rule.Kind, rule.Principal, rule.Platform)
			return err
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "what it is for")
	return cmd
}

func (c *cli) accessRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove PLATFORM KIND ID",
		Short: "Remove a rule",
		Args:  arguments(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, err := ruleOf(args)
			if err != nil {
				return err
			}
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			return s.UnsetAccess(cmd.Context(), rule.Platform, rule.Kind, rule.Principal)
		},
	}
}

func ruleOf(args []string) (store.AccessRule, error) {
	platform, err := platformNamed(args[0])
	if err != nil {
		return store.AccessRule{}, err
	}
	kind := store.PrincipalKind(args[1])
	if !slices.Contains(store.PrincipalKinds(), kind) {
		return store.AccessRule{}, fault.New(fault.Invalid, "%q is no kind of principal; write one of %s", args[1], joined(store.PrincipalKinds()))
	}
	if args[2] == "" || len(args[2]) > 200 || strings.ContainsAny(args[2], " \t\r\n\x00,") {
		return store.AccessRule{}, fault.New(fault.Invalid, "%q is no id; write the platform's own id, one at a time", args[2])
	}
	return store.AccessRule{Platform: string(platform), Kind: kind, Principal: args[2]}, nil
}

func platformNamed(name string) (office.Platform, error) {
	known := []office.Platform{office.Slack, office.Discord, office.Telegram, office.GitHub, office.Terminal}
	if p := office.Platform(name); slices.Contains(known, p) {
		return p, nil
	}
	return "", fault.New(fault.Invalid, "%q is no platform; write one of %s", name, joined(known))
}

func joined[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
