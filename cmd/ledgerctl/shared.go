package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/shareddb"
)

func (a *app) sharedCommand() *cobra.Command {
	c := group("shared", "Lists and changes the documents that a team shares with its agents")
	c.AddCommand(a.sharedListCommand(), a.sharedShowCommand(), a.sharedPutCommand(), a.sharedRemoveCommand(), a.sharedLogCommand())
	return c
}

// sharedFlags name the tenant of a store.
type sharedFlags struct{ tenant string }

func (f *sharedFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.tenant, "tenant", "default", "tenant of the store")
}

// withShared runs do on the shared documents of the ledger.
func (a *app) withShared(ctx context.Context, do func(ledger.Store, *shareddb.Provider) error) error {
	return withDB(ctx, a, "shared documents", func(db sqlstore.DB, r *redact.Redactor) (*shareddb.Provider, error) {
		return shareddb.New(db, shareddb.Config{Redactor: r})
	}, do)
}

// storeAndPath wants a store, and if the command has documents also a path.
func storeAndPath(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most || len(args) > 0 && args[0] == "" {
			return usagef("%s wants %s, got %d arguments (see %s -h)", c.CommandPath(), strings.TrimPrefix(c.Use, c.Name()+" "), len(args), c.CommandPath())
		}
		return nil
	}
}

func pathIn(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return args[1]
}

// noShared says what to type where a store or a document is not there.
func (a *app) noShared(f sharedFlags, args []string, err error) error {
	if !errors.Is(err, shareddb.ErrNotFound) {
		return err
	}
	words := []string{"shared", "list", "--tenant", f.tenant}
	if len(args) > 1 {
		words = []string{"shared", "list", args[0], "--tenant", f.tenant}
	}
	return hint(err, a.command(words...))
}

type sharedStoreView struct {
	ID          string    `json:"id"`
	Description string    `json:"description"`
	Writable    bool      `json:"writable"`
	Documents   int64     `json:"documents"`
	Bytes       int64     `json:"bytes"`
	PutBy       string    `json:"put_by"`
	PutAt       time.Time `json:"put_at"`
}

type sharedDocumentView struct {
	Store   string    `json:"store"`
	Path    string    `json:"path"`
	Bytes   int64     `json:"bytes"`
	PutBy   string    `json:"put_by"`
	PutAt   time.Time `json:"put_at"`
	Content *string   `json:"content,omitempty"`
}

func viewOfShared(d shareddb.Document) sharedDocumentView {
	return sharedDocumentView{Store: d.Store, Path: d.Path, Bytes: d.Bytes, PutBy: d.By, PutAt: d.At}
}

func (a *app) sharedListCommand() *cobra.Command {
	var f sharedFlags
	var after string
	c := &cobra.Command{
		Use:   "list [STORE [FOLDER]]",
		Short: "Lists the stores of a tenant, or the documents in one",
		Example: `  ledgerctl shared list --tenant acme
  ledgerctl shared list team /guides --tenant acme`,
		Args: storeAndPath(0, 2),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withShared(ctx, func(_ ledger.Store, p *shareddb.Provider) error {
				if len(args) == 0 {
					return a.sharedStores(ctx, p, f)
				}
				folder := pathIn(args)
				if folder == "" {
					folder = "/"
				}
				page, err := p.Documents(ctx, f.tenant, args[0], folder, after)
				if err != nil {
					return a.noShared(f, nil, err)
				}
				views := make([]sharedDocumentView, len(page))
				for i, d := range page {
					views[i] = viewOfShared(d)
				}
				if err := list(a, views, a.sharedDocumentColumns(), "no documents ("+a.command("shared", "put", "-h")+")"); err != nil || len(page) < shareddb.PageSize {
					return err
				}
				a.more(c, args, page[len(page)-1].Path)
				return nil
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&after, "after", "", "goes on after this path (as the last page said)")
	listFlags[sharedDocumentView](a, c)
	return c
}

func (a *app) sharedStores(ctx context.Context, p *shareddb.Provider, f sharedFlags) error {
	all, err := p.Stores(ctx, f.tenant)
	if err != nil {
		return err
	}
	views := make([]sharedStoreView, len(all))
	for i, s := range all {
		views[i] = sharedStoreView{s.ID, s.Description, s.Writable, s.Documents, s.Bytes, s.By, s.At}
	}
	number := func(of func(sharedStoreView) int64) func(sharedStoreView) string {
		return func(v sharedStoreView) string { return strconv.FormatInt(of(v), 10) }
	}
	return list(a, views, []column[sharedStoreView]{
		{name: "store", keep: true, text: func(v sharedStoreView) string { return v.ID }},
		{name: "documents", right: true, text: number(func(v sharedStoreView) int64 { return v.Documents })},
		{name: "bytes", right: true, text: number(func(v sharedStoreView) int64 { return v.Bytes }), drop: 1},
		{name: "description", text: func(v sharedStoreView) string { return v.Description }, want: 30},
		{name: "put_by", text: func(v sharedStoreView) string { return v.PutBy }, drop: 2},
		{name: "put_at", text: func(v sharedStoreView) string { return stamp(v.PutAt) }, raw: func(v sharedStoreView) string { return exact(v.PutAt) }, drop: 3},
	}, "no stores ("+a.command("shared", "put", "-h")+")")
}

func (a *app) sharedDocumentColumns() []column[sharedDocumentView] {
	return []column[sharedDocumentView]{
		{name: "path", keep: true, text: func(v sharedDocumentView) string { return v.Path }},
		{name: "bytes", right: true, text: func(v sharedDocumentView) string { return strconv.FormatInt(v.Bytes, 10) }},
		{name: "put_by", text: func(v sharedDocumentView) string { return v.PutBy }, drop: 2},
		{name: "put_at", text: func(v sharedDocumentView) string { return stamp(v.PutAt) }, raw: func(v sharedDocumentView) string { return exact(v.PutAt) }, drop: 1},
	}
}

func (a *app) sharedShowCommand() *cobra.Command {
	var f sharedFlags
	var raw bool
	c := &cobra.Command{
		Use:   "show STORE PATH",
		Short: "Shows a document, and who put it there",
		Example: `  ledgerctl shared show team /guides/style.md --tenant acme
  ledgerctl shared show team /guides/style.md --raw > style.md`,
		Args: storeAndPath(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withShared(ctx, func(_ ledger.Store, p *shareddb.Provider) error {
				d, err := p.Document(ctx, f.tenant, args[0], args[1])
				if err != nil {
					return a.noShared(f, args, err)
				}
				if raw {
					_, err = fmt.Fprint(a.out, d.Content)
					return err
				}
				v := viewOfShared(d)
				if a.output == formatTable {
					a.fields([]field{
						{"store", v.Store}, {"path", v.Path}, {"bytes", strconv.FormatInt(v.Bytes, 10)}, {"put by", clean(v.PutBy)}, {"put at", stamp(v.PutAt)},
					})
					fmt.Fprintln(a.out)
					for line := range strings.Lines(d.Content) {
						fmt.Fprintln(a.out, clean(strings.TrimRight(line, "\r\n")))
					}
					return nil
				}
				v.Content = &d.Content
				if a.output == formatJSONL {
					return a.jsonLine(v)
				}
				return a.json(v)
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&raw, "raw", false, "the document alone, byte for byte")
	a.outputFlag(c, showFormats...)
	return c
}

type sharedChangeView struct {
	ID    int64     `json:"id"`
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	Verb  string    `json:"verb"`
	Store string    `json:"store"`
	Path  string    `json:"path,omitempty"`
	Bytes int64     `json:"bytes,omitempty"`
	// SHA256 of what was put.
	SHA256 string `json:"sha256,omitempty"`
}

func (a *app) sharedLogCommand() *cobra.Command {
	var f sharedFlags
	var after int64
	c := &cobra.Command{
		Use:     "log STORE",
		Short:   "Lists who changed a store and its documents, and when, the newest first",
		Example: `  ledgerctl shared log team --tenant acme`,
		Args:    oneArg("a store"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withShared(ctx, func(_ ledger.Store, p *shareddb.Provider) error {
				all, err := p.Changes(ctx, f.tenant, args[0], after)
				if err != nil {
					return err
				}
				views := make([]sharedChangeView, len(all))
				for i, v := range all {
					views[i] = sharedChangeView{v.ID, v.At, v.By, v.Verb, v.Store, v.Path, v.Bytes, hex.EncodeToString(v.Digest)}
				}
				err = list(a, views, []column[sharedChangeView]{
					{name: "at", keep: true, text: func(v sharedChangeView) string { return stamp(v.At) }, raw: func(v sharedChangeView) string { return exact(v.At) }},
					{name: "verb", keep: true, text: func(v sharedChangeView) string { return v.Verb }},
					{name: "path", keep: true, text: func(v sharedChangeView) string { return v.Path }},
					{name: "bytes", right: true, text: func(v sharedChangeView) string { return strconv.FormatInt(v.Bytes, 10) }, drop: 1},
					{name: "by", text: func(v sharedChangeView) string { return v.By }},
				}, "no changes ("+a.command("shared", "list", "--tenant", f.tenant)+")")
				if err != nil || len(all) < shareddb.PageSize {
					return err
				}
				a.more(c, args, strconv.FormatInt(all[len(all)-1].ID, 10))
				return nil
			})
		},
	}
	f.add(c)
	c.Flags().Int64Var(&after, "after", 0, "goes on after this change (as the last page said)")
	listFlags[sharedChangeView](a, c)
	return c
}
