package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A cursor is opaque to scripts: where a page of a command ended, as its --after.
type cursor struct {
	Version int    `json:"v"`
	Command string `json:"c"`
	After   string `json:"a"`
}

func newCursor(c *cobra.Command, after string) string {
	b, _ := json.Marshal(cursor{1, c.CommandPath(), after}) // texts and a number
	return base64.RawURLEncoding.EncodeToString(b)
}

// readCursor returns the --after of a cursor that the same command gave.
func readCursor(c *cobra.Command, s string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	var v cursor
	if err != nil || json.Unmarshal(b, &v) != nil || v.Version != 1 || v.After == "" {
		return "", usagef("--cursor %q is none that a page gave", s)
	}
	if v.Command != c.CommandPath() {
		return "", usagef("--cursor is one of %s, not of %s", v.Command, c.CommandPath())
	}
	return v.After, nil
}

// nextView says in JSON mode, on stderr, how to get the next page.
type nextView struct {
	Cursor  string `json:"cursor"`
	Command string `json:"command"`
}

// more says on stderr how to get the next page: this command line with another --after,
// in JSON mode with the cursor, too.
func (a *app) more(c *cobra.Command, args []string, after string) {
	line := a.again(c, args, after)
	if !a.machine {
		fmt.Fprintf(a.err, "more: %s\n", line)
		return
	}
	a.notice(struct {
		Next nextView `json:"next"`
	}{nextView{newCursor(c, after), line}})
}

// again is this command line, going on after a row.
func (a *app) again(c *cobra.Command, args []string, after string) string {
	words := append(strings.Fields(c.CommandPath())[1:], args...)
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "after" || f.Name == "cursor" || a.flags.Lookup(f.Name) != nil && f.Name != "grace":
		case f.Name == "output" && a.shape.asked != "": // the flag holds what the command writes itself
			words = append(words, "--output", a.shape.asked)
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "stringSlice":
			words = append(words, "--"+f.Name, strings.Trim(f.Value.String(), "[]"))
		default:
			words = append(words, "--"+f.Name, f.Value.String())
		}
	})
	return a.command(append(words, "--after", after)...)
}
