package main

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A cursor is opaque to scripts: where a page of a command ended, as its --after, and the
// moments that its bounds were.
type cursor struct {
	Version int               `json:"v"`
	Command string            `json:"c"`
	After   string            `json:"a"`
	Bounds  map[string]string `json:"b,omitempty"`
}

func newCursor(c *cobra.Command, after string) string {
	v := cursor{Version: 1, Command: c.CommandPath(), After: after}
	for _, name := range bounds {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			if v.Bounds == nil {
				v.Bounds = map[string]string{}
			}
			v.Bounds[name] = f.Value.String()
		}
	}
	b, _ := json.Marshal(v) // texts and a number
	return base64.RawURLEncoding.EncodeToString(b)
}

// readCursor reads a cursor that the same command gave.
func readCursor(c *cobra.Command, s string) (v cursor, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || json.Unmarshal(b, &v) != nil || v.Version != 1 || v.After == "" {
		return v, usagef("--cursor %q is none that a page gave", s)
	}
	if v.Command != c.CommandPath() {
		return v, usagef("--cursor is one of %s, not of %s", v.Command, c.CommandPath())
	}
	return v, nil
}

// bounds are the flags that take a moment, or how long ago one was.
var bounds = [...]string{"since", "until"}

// fixBounds makes moments of bounds that say how long ago they are, those of the cursor
// if there is one: a day ago is later on the next page, and with --follow at the next look.
func (a *app) fixBounds(c *cobra.Command) error {
	for _, name := range bounds {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if d, err := time.ParseDuration(f.Value.String()); err != nil || d <= 0 {
			continue // a moment, or one that the command refuses
		}
		at, err := a.moment(name, f.Value.String())
		if err != nil {
			return err
		}
		text := exact(at)
		if g := c.Flags().Lookup("cursor"); g != nil && g.Value.String() != "" {
			if v, err := readCursor(c, g.Value.String()); err == nil { // else the command refuses it
				text = cmp.Or(v.Bounds[name], text)
			}
		}
		if err := c.Flags().Set(name, text); err != nil {
			return err
		}
	}
	return nil
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
