package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/shareddb"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

func (a *app) sharedPutCommand() *cobra.Command {
	var f sharedFlags
	var who acting
	var info sharedmemory.Info
	var file string
	c := &cobra.Command{
		Use:   "put STORE [PATH]",
		Short: "Makes a store, or puts a document into one",
		Long: fmt.Sprintf(`Makes a store or changes its description; with PATH puts a document into it, in place of the one
that is there. Agents see it at their next call; they cannot change anything. Paths are absolute
and end with a suffix, such as /guides/style.md; a document has at most %d bytes.
What looks like a secret is taken out before it is stored, and the command says so.
`, sharedmemory.MaxRead) + whoActs,
		Example: `  ledgerctl shared put team --description 'how we work' --tenant acme
  ledgerctl shared put team /guides/style.md --file style.md --tenant acme`,
		Args: storeAndPath(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			path := pathIn(args)
			switch {
			case path == "" && len(args) == 2:
				return usagef("the path is empty: it is absolute, such as /guides/style.md")
			case path == "" && c.Flags().Changed("file"):
				return usagef("--file is for a document: give its PATH too")
			case path != "" && (c.Flags().Changed("description") || c.Flags().Changed("writable")):
				return usagef("--description and --writable are of a store: leave PATH out")
			}
			info.ID = args[0]
			return a.sharedPut(c.Context(), f, who, info, path, file)
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	f.add(c)
	fs.StringVar(&info.Description, "description", "", "of a store: what it is for; agents read it")
	fs.BoolVar(&info.Writable, "writable", false, "of a store: agents are told that it can be changed elsewhere")
	fs.StringVar(&file, "file", "-", "of a document: the file to put; - is standard input")
	who.person(c)
	a.changes(c)
	return c
}

func (a *app) sharedPut(ctx context.Context, f sharedFlags, who acting, info sharedmemory.Info, path, file string) error {
	var content string
	if path != "" {
		var err error
		if content, err = a.documentOf(file); err != nil {
			return err
		}
	}
	return a.withShared(ctx, func(st ledger.Store, p *shareddb.Provider) error {
		by, err := a.actor(ctx, st, who)
		if err != nil {
			return err
		}
		var k shareddb.Kept
		what := fmt.Sprintf("store %q", info.ID)
		if path == "" {
			k, err = p.PutStore(ctx, f.tenant, info, by)
		} else {
			what = fmt.Sprintf("document %q of store %q (%d bytes)", path, info.ID, len(content))
			k, err = p.Put(ctx, f.tenant, info.ID, path, content, by)
		}
		if errors.Is(err, shareddb.ErrNotFound) {
			return fmt.Errorf("%w: make the store first (%s)", err, a.command("shared", "put", info.ID, "--description", "what it is for", "--tenant", f.tenant))
		}
		if err != nil {
			return err
		}
		if k.Redacted {
			fmt.Fprintf(a.err, "ledgerctl: what looked like a secret was taken out: see what is left with %s\n", a.command("shared", "list", info.ID, "--tenant", f.tenant))
		}
		said := "is kept, by " + clean(by)
		if !k.Changed {
			said = "was there already: nothing was changed"
		}
		_, err = fmt.Fprintf(a.out, "%s %s\n", what, said)
		return err
	})
}

// documentOf reads a file, or standard input; not more than could be put.
func (a *app) documentOf(file string) (string, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the person named it
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, sharedmemory.MaxRead+1))
	if err != nil {
		return "", fmt.Errorf("read the document: %w", err)
	}
	if len(b) > sharedmemory.MaxRead {
		return "", fmt.Errorf("the document has more than %d bytes, and agents read no more: divide it", sharedmemory.MaxRead)
	}
	return string(b), nil
}

func (a *app) sharedRemoveCommand() *cobra.Command {
	var f sharedFlags
	var who acting
	c := &cobra.Command{
		Use:   "rm STORE [PATH]",
		Short: "Removes a document, or a store with all its documents",
		Long: `Removes a document, or without PATH a store with all its documents, which wants --yes.
That it was there and who removed it stays on record (ledgerctl shared log); the text does not.
` + whoActs,
		Example: `  ledgerctl shared rm team /guides/old.md --tenant acme
  ledgerctl shared rm team --tenant acme --yes`,
		Args: storeAndPath(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			path := pathIn(args)
			switch {
			case path == "" && len(args) == 2:
				return usagef("the path is empty: leave it out to remove the store")
			case path == "":
				if err := a.confirm(fmt.Sprintf("the removal of store %q, with all its documents,", args[0])); err != nil {
					return err
				}
			}
			ctx := c.Context()
			return a.withShared(ctx, func(st ledger.Store, p *shareddb.Provider) error {
				by, err := a.actor(ctx, st, who)
				if err != nil {
					return err
				}
				said := fmt.Sprintf("document %q of store %q is removed, by %s", path, args[0], clean(by))
				if path != "" {
					err = p.Remove(ctx, f.tenant, args[0], path, by)
				} else {
					var n int64
					n, err = p.RemoveStore(ctx, f.tenant, args[0], by)
					said = fmt.Sprintf("store %q is removed with its %d documents, by %s", args[0], n, clean(by))
				}
				if err != nil {
					return a.noShared(f, args, err)
				}
				_, err = fmt.Fprintln(a.out, said)
				return err
			})
		},
	}
	f.add(c)
	who.person(c)
	a.changes(c)
	return c
}
