package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/migrate"
)

func (c *cli) sessionExportCommand() *cobra.Command {
	var office, to string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Write a session as version 3 JSONL, which pi-coding-agent 0.80 opens; " + sessionNamed,
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.store(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := findSession(cmd.Context(), s, office, args[0])
			if err != nil {
				return err
			}
			if to == "" {
				out := bufio.NewWriter(cmd.OutOrStdout())
				return errors.Join(migrate.Export(cmd.Context(), s, found.ID, out), out.Flush())
			}
			// A file appears whole or not at all.
			file, err := os.CreateTemp(filepath.Dir(to), ".export-*")
			if err != nil {
				return fault.Wrap(fault.Invalid, err, "the file cannot be made")
			}
			defer func() { _ = os.Remove(file.Name()) }()
			out := bufio.NewWriter(file)
			if err := errors.Join(migrate.Export(cmd.Context(), s, found.ID, out), out.Flush(), file.Close()); err != nil {
				return err
			}
			return os.Rename(file.Name(), to)
		},
	}
	cmd.Flags().StringVar(&office, "office", "", "the office (its key) that a session key belongs to")
	cmd.Flags().StringVar(&to, "to", "", "write this file instead of standard output")
	return cmd
}
