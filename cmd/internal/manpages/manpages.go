// Package manpages makes the manual pages of a program from its commands.
package manpages

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Command is the command "man DIR", which writes a page for each command of the
// program that it is added to. The pages depend on the program alone: two runs write
// the same bytes.
func Command(usage func(format string, args ...any) error) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Writes the manual pages into a directory",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usage("%s wants a directory, got %d arguments", c.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return Write(c.Root(), args[0]) },
	}
}

// Write writes the pages of root and of all commands below it into dir, which it makes.
func Write(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	epoch := time.Unix(0, 0).UTC() // no page says when it was made
	header := &doc.GenManHeader{Title: strings.ToUpper(root.Name()), Section: "1", Date: &epoch, Source: "Daybook", Manual: "Daybook"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write manual pages into %s: %w", dir, err)
	}
	return nil
}
