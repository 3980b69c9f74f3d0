package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

func (c *cli) officeCommand() *cobra.Command {
	return group("office", "List offices and print office keys", c.officeListCommand(), officeKeyCommand())
}

func (c *cli) officeListCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List offices, newest first",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			offices, err := s.Offices(cmd.Context(), limit)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), append([]store.Office{}, offices...))
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "OFFICE\tPLATFORM\tCONVERSATION\tAUDIENCE\tSINCE")
			for _, o := range offices {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", o.Key, o.Platform, o.ConversationID, o.Audience, o.CreatedAt.Local().Format(time.DateTime))
			}
			return w.Flush()
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how many")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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
