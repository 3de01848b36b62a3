package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/runtime/system"
)

func (a *app) migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Makes the ledger's tables, or brings them up to this version",
		Long: `Makes the ledger's tables, or brings them up to this version, and prints what it
applied. Run again it does nothing; several at a time wait for each other.`,
		Example: `  ledgerctl migrate --dir .daybook
  DAYBOOK_POSTGRES_URL=postgres://daybook@127.0.0.1/daybook ledgerctl migrate`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			done, err := system.Migrate(c.Context(), a.where())
			verb := "applied"
			if a.dry {
				verb = "would apply"
			}
			for _, name := range done {
				fmt.Fprintf(a.out, "%s %s\n", verb, name)
			}
			if errors.Is(err, system.ErrOptions) {
				return usageError{err}
			}
			if err == nil && len(done) == 0 {
				fmt.Fprintln(a.out, "up to date, nothing applied")
			}
			return err
		},
	}
	a.changes(c)
	return c
}
