package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geminixiang/mikan/internal/backend"
)

func (c *cli) migrateCommand() *cobra.Command {
	var schemaOnly, asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate --schema-only",
		Short: "Bring the database schema to this binary's version",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !schemaOnly {
				return usageError{fmt.Errorf("only the schema can be migrated yet; run: mikan migrate --schema-only")}
			}
			cfg, err := c.config()
			if err != nil {
				return err
			}
			s, err := backend.OpenStore(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			from, to, err := s.Migrate(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"step": "schema", "from": from, "to": to})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "schema: version %d (was %d)\n", to, from)
			return err
		},
	}
	cmd.Flags().BoolVar(&schemaOnly, "schema-only", false, "migrate the schema and import nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per step")
	return cmd
}
