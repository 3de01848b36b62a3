package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/memorydb"
)

// forgetting is what the command line of memory forget says.
type forgetting struct {
	memoryFlags
	who  acting
	root string
}

func (f forgetting) check(a *app, args []string) error {
	switch {
	case (len(args) == 1) == (f.root != ""):
		return usagef("say what is to be forgotten: either a NOTE or --root, not both")
	case len(args) > 1:
		return usagef("one note at a time, got %d", len(args))
	case a.dry:
		return nil
	}
	if err := f.who.check(); err != nil {
		return err
	}
	if f.root != "" {
		return a.confirm(fmt.Sprintf("that all of root %q is forgotten", f.root))
	}
	return a.confirm("that note " + args[0] + " is forgotten")
}

func (a *app) memoryForgetCommand() *cobra.Command {
	var f forgetting
	c := &cobra.Command{
		Use:   "forget [NOTE]",
		Short: "Deletes a note, or all that a root holds, for good",
		Long: `Deletes one note, or with --root all notes and raw moments that belong to a root, whoever they
are kept for, for good. Nobody's owner is erased: agents go on remembering. Who had it done and
why stays on record with a digest of what went (ledgerctl memory log); what it said does not.
What runs have recorded stays: calls that read the note have its text in their redacted results,
and a model that still has it in its transcript may remember it again.
` + whoActs,
		Example: `  ledgerctl memory forget 01KF0Z7Q9V3T5W8X2Y4A6B0C1D --tenant acme --reason 'planted by a page' --yes
  ledgerctl memory forget --root user:u-17 --tenant acme --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(a, args); err != nil {
				return err
			}
			var id events.ID
			if f.root == "" {
				var err error
				if id, err = a.parseNote(args[0]); err != nil {
					return err
				}
			}
			ctx := c.Context()
			return a.withMemory(ctx, func(st ledger.Store, m *memorydb.Store) error {
				if a.dry {
					return a.wouldForget(ctx, m, f, id)
				}
				by, err := a.actor(ctx, st, f.who)
				if err != nil {
					return err
				}
				if f.root == "" {
					r, err := m.ForgetNote(ctx, f.tenant, id, by, f.who.reason)
					if err != nil {
						return a.noNote(f.memoryFlags, err)
					}
					_, err = fmt.Fprintf(a.out, "note %s of root %q is forgotten, by %s (sha256 %s)\n", id, clean(r.Root), clean(r.By), r.Digest)
					return err
				}
				r, err := m.ForgetRoot(ctx, f.tenant, f.root, by, f.who.reason)
				if err != nil {
					if r.Notes > 0 {
						fmt.Fprintf(a.err, "ledgerctl: %d notes of root %q are forgotten and recorded; type it again for the rest\n", r.Notes, clean(f.root))
					}
					return a.noNote(f.memoryFlags, err)
				}
				_, err = fmt.Fprintf(a.out, "%d notes and %d moments of root %q are forgotten, by %s\n", r.Notes, r.Moments, clean(f.root), clean(r.By))
				return err
			})
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	f.add(c)
	fs.StringVar(&f.root, "root", "", "all that belongs to this root")
	f.who.add(c)
	a.changesItself(c)
	return c
}

func (a *app) wouldForget(ctx context.Context, m *memorydb.Store, f forgetting, id events.ID) error {
	if f.root == "" {
		n, err := m.Note(ctx, f.tenant, id)
		if err != nil {
			return a.noNote(f.memoryFlags, err)
		}
		_, err = fmt.Fprintf(a.out, "note %s of root %q (%s, %d bytes) would be forgotten\n", id, clean(n.Root), clean(n.Context), len(n.Text))
		return err
	}
	notes, moments, err := m.Held(ctx, f.tenant, f.root)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%d notes and %d moments of root %q would be forgotten\n", notes, moments, clean(f.root))
	return err
}

type removalView struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	Root    string    `json:"root"`
	Note    string    `json:"note,omitempty"` // empty: notes of the root
	Notes   int64     `json:"notes"`
	Moments int64     `json:"moments"`
	SHA256  string    `json:"sha256"`
}

func (a *app) memoryLogCommand() *cobra.Command {
	var f memoryFlags
	var p page
	c := &cobra.Command{
		Use:     "log",
		Short:   "Lists who had what forgotten, when and why, the newest first",
		Example: `  ledgerctl memory log --tenant acme`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			var before int64
			if p.after != "" {
				var err error
				if before, err = strconv.ParseInt(p.after, 10, 64); err != nil || before < 1 {
					return usagef("--after %q: want the number that the last page said", p.after)
				}
			}
			return a.withMemory(c.Context(), func(_ ledger.Store, m *memorydb.Store) error {
				return listPage(a, c, args, p, lister[memorydb.Removal, removalView]{
					read: func(n int, after *memorydb.Removal) ([]memorydb.Removal, error) {
						if after != nil {
							before = after.ID
						}
						return m.Removals(c.Context(), f.tenant, before, n)
					},
					view: func(r memorydb.Removal) (removalView, error) {
						v := removalView{r.ID, r.At, r.By, r.Reason, r.Root, "", r.Notes, r.Moments, r.Digest.String()}
						if !r.Locus.IsZero() {
							v.Note = r.Locus.String()
						}
						return v, nil
					},
					place: func(r memorydb.Removal) string { return strconv.FormatInt(r.ID, 10) },
				}, removalColumns(), "nothing was forgotten in tenant "+strconv.Quote(f.tenant))
			})
		},
	}
	f.add(c)
	p.add(c, "this number")
	listFlags[removalView](a, c)
	return c
}

func removalColumns() []column[removalView] {
	return []column[removalView]{
		{name: "at", keep: true, text: func(v removalView) string { return stamp(v.At) }, raw: func(v removalView) string { return exact(v.At) }},
		{name: "root", want: 16, text: func(v removalView) string { return v.Root }},
		{name: "note", keep: true, text: func(v removalView) string { return v.Note }},
		{name: "notes", right: true, text: func(v removalView) string { return strconv.FormatInt(v.Notes, 10) }},
		{name: "moments", right: true, drop: 2, text: func(v removalView) string { return strconv.FormatInt(v.Moments, 10) }},
		{name: "by", text: func(v removalView) string { return v.By }},
		{name: "reason", want: 24, text: func(v removalView) string { return v.Reason }},
		{name: "sha256", mixed: true, text: func(removalView) string { return "" }, raw: func(v removalView) string { return v.SHA256 }},
	}
}
