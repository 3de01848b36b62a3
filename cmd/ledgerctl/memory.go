package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
)

func (a *app) memoryCommand() *cobra.Command {
	c := group("memory", "Lists and shows what agents remember, and has some of it forgotten")
	c.AddCommand(a.memoryListCommand(), a.memoryShowCommand(), a.memoryForgetCommand(), a.memoryLogCommand())
	return c
}

// memoryFlags name the tenant of a memory.
type memoryFlags struct{ tenant string }

func (f *memoryFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.tenant, "tenant", "default", "tenant of the memory")
}

// withMemory runs do on what is remembered in the ledger.
func (a *app) withMemory(ctx context.Context, do func(ledger.Store, *memorydb.Store) error) error {
	return withDB(ctx, a, "memory", func(db sqlstore.DB, r *redact.Redactor) (*memorydb.Store, error) {
		return memorydb.New(db, memorydb.Config{Redactor: r})
	}, do)
}

// parseNote reads the id of a note.
func (a *app) parseNote(s string) (events.ID, error) {
	id, err := events.ParseID(strings.ToUpper(strings.TrimSpace(s)))
	if err != nil {
		return id, usagef("%q is no note: want the 26 characters that %s shows", s, a.command("memory", "list"))
	}
	return id, nil
}

// noNote says what to type where a note is not there.
func (a *app) noNote(f memoryFlags, err error) error {
	if !errors.Is(err, memorydb.ErrNotFound) {
		return err
	}
	return hint(err, a.command("memory", "list", "--tenant", f.tenant))
}

type noteView struct {
	Note    string          `json:"note"`
	At      time.Time       `json:"at"`
	Root    string          `json:"root"`
	Context string          `json:"context"`
	Kind    string          `json:"kind"`
	Source  string          `json:"source"`
	Weight  int             `json:"weight"`
	Call    string          `json:"call,omitempty"` // RUN/t1.c0, that wrote it first
	Owners  []string        `json:"owners,omitempty"`
	Text    string          `json:"text"`
	Details json.RawMessage `json:"details"`
	Links   memory.Links    `json:"links"`
	SHA256  string          `json:"sha256"`
}

func viewOfNote(n memorydb.Note) (noteView, error) {
	d, err := n.Digest()
	v := noteView{
		Note: n.Locus.String(), At: n.At, Root: n.Root, Context: n.Context, Kind: n.Kind, Source: n.Source, Weight: n.Weight(),
		Owners: n.Owners, Text: n.Text, Details: n.Details, Links: n.Links, SHA256: d.String(),
	}
	if n.Run != (events.RunID{}) {
		v.Call = n.Run.String() + "/" + n.Call.String()
	}
	return v, err
}

func (a *app) memoryListCommand() *cobra.Command {
	var f memoryFlags
	var filter memorydb.NoteFilter
	var root, run string
	var p page
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists what agents remember, newest first",
		Example: `  ledgerctl memory list --tenant acme --root user:u-17
  ledgerctl memory list --tenant acme --run 7W6X5Y -o jsonl`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			if c.Flags().Changed("root") {
				filter.Root = &root
			}
			if p.after != "" {
				var err error
				if filter.Before, err = strconv.ParseInt(p.after, 10, 64); err != nil || filter.Before < 1 {
					return usagef("--after %q: want the number that the last page said", p.after)
				}
			}
			filter.Tenant = f.tenant
			ctx := c.Context()
			return a.withMemory(ctx, func(st ledger.Store, m *memorydb.Store) error {
				if run != "" {
					id, err := a.findRun(ctx, st, run)
					if err != nil {
						return err
					}
					filter.Run = id
				}
				return listPage(a, c, args, p, lister[memorydb.Note, noteView]{
					read: func(n int, after *memorydb.Note) ([]memorydb.Note, error) {
						q := filter
						if q.Limit = n; after != nil {
							q.Before = after.ID
						}
						return m.Notes(ctx, q)
					},
					view:  viewOfNote,
					place: func(n memorydb.Note) string { return strconv.FormatInt(n.ID, 10) },
				}, a.noteColumns(), "no such notes of tenant "+strconv.Quote(f.tenant))
			})
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	f.add(c)
	fs.StringVar(&root, "root", "", "root that notes belong to; '' for the host's own")
	fs.StringVar(&filter.Owner, "owner", "", "owner that notes are kept for")
	fs.StringVar(&filter.Context, "context", "", "context, such as person:ada")
	fs.StringVar(&filter.Source, "source", "", "source, such as assistant")
	fs.StringVar(&run, "run", "", "run that wrote them first")
	p.add(c, "this number")
	listFlags[noteView](a, c)
	return c
}

func (a *app) noteColumns() []column[noteView] {
	return []column[noteView]{
		{name: "note", keep: true, text: func(v noteView) string { return v.Note }},
		{name: "age", right: true, only: true, drop: 2, text: func(v noteView) string { return a.age(v.At) }, at: func(v noteView) time.Time { return v.At }},
		{name: "at", mixed: true, text: func(noteView) string { return "" }, raw: func(v noteView) string { return exact(v.At) }},
		{name: "root", want: 16, text: func(v noteView) string { return v.Root }},
		{name: "context", want: 16, text: func(v noteView) string { return v.Context }},
		{name: "source", drop: 3, text: func(v noteView) string { return v.Source }},
		{name: "weight", right: true, drop: 5, text: func(v noteView) string { return strconv.Itoa(v.Weight) }},
		{name: "call", drop: 4, text: func(v noteView) string { return v.Call }},
		{name: "text", want: 24, text: func(v noteView) string { return v.Text }},
	}
}

func (a *app) memoryShowCommand() *cobra.Command {
	var f memoryFlags
	c := &cobra.Command{
		Use:   "show NOTE",
		Short: "Shows a note: its text, its links, and which call wrote it",
		Example: `  ledgerctl memory show 01KF0Z7Q9V3T5W8X2Y4A6B0C1D --tenant acme
  ledgerctl memory show 01KF0Z7Q9V3T5W8X2Y4A6B0C1D --tenant acme -o json | jq .links`,
		Args: oneArg("a note"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := a.parseNote(args[0])
			if err != nil {
				return err
			}
			return a.withMemory(c.Context(), func(_ ledger.Store, m *memorydb.Store) error {
				n, err := m.Note(c.Context(), f.tenant, id)
				if err != nil {
					return a.noNote(f, err)
				}
				v, err := viewOfNote(n)
				if err != nil {
					return err
				}
				if a.output != formatTable {
					return a.json(v)
				}
				a.printNote(v)
				return nil
			})
		},
	}
	f.add(c)
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) printNote(v noteView) {
	call := v.Call
	if call == "" {
		call = "no call: the host's own, or of an earlier version"
	} else {
		call += " (" + a.command("calls", "show", v.Call) + ")"
	}
	root := v.Root
	if root == "" {
		root = "none: the host's own"
	}
	a.fields([]field{
		{"note", v.Note},
		{"kept", a.since(v.At)},
		{"written by", call},
		{"root", root},
		{"owners", strings.Join(v.Owners, ", ")},
		{"context", v.Context},
		{"kind", v.Kind},
		{"source", fmt.Sprintf("%s (weight %d of 100)", v.Source, v.Weight)},
		{"extends", strings.Join(v.Links.Extends, ", ")},
		{"related to", strings.Join(v.Links.RelatedTo, ", ")},
		{"reinforces", strings.Join(v.Links.Reinforces, ", ")},
		{"contradicts", strings.Join(v.Links.Contradicts, ", ")},
		{"sha256", v.SHA256},
	})
	if string(v.Details) != "{}" {
		a.block("details", v.Details)
	}
	fmt.Fprintln(a.out)
	for line := range strings.Lines(v.Text) {
		fmt.Fprintln(a.out, clean(strings.TrimRight(line, "\r\n")))
	}
}
