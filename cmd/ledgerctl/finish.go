package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/cmd/internal/manpages"
)

// finish gives the root what every command gets, once all are there.
func (a *app) finish(c *cobra.Command) *cobra.Command {
	c.AddCommand(filtersHelp(), exitCodesHelp(), manpages.Command(usagef))
	// Help names the fields of a list's rows.
	const before = "{{if .HasAvailableLocalFlags}}"
	c.SetUsageTemplate(strings.Replace(c.UsageTemplate(), before, "{{with index .Annotations \"fields\"}}\n\nFields (--filter, --jq):\n  {{.}}{{end}}"+before, 1))
	a.suggest(c)
	return c
}
