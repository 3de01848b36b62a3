package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/litellm"
)

// priceChange is how a list differs from what is known, for one model and size.
type priceChange struct {
	Model  string `json:"model"`
	Above  int64  `json:"above,omitempty"`
	Change string `json:"change"` // new, changed, same
	What   string `json:"what"`
}

type importFlags struct {
	files            priceFiles
	out, table, from string
	source           string
	patterns         []string
	everybody        bool
}

func (a *app) pricesImportCommand() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Makes a price file of LiteLLM's list, and shows what it changes",
		Long: `Makes a price file of LiteLLM's model_prices_and_context_window.json, for "runner worker
--prices", and shows what it changes. FILE may be - for standard input; nothing is fetched.

Only what is new or changed is written, valid from a day on: earlier prices go on counting for
earlier calls. Amounts are exact, and a model whose price is not is left out, as is one whose
price is 0 (there that is "free" and "unknown" alike), and one whose reasoning tokens have a price of
their own. Prices of batches, of other service tiers and of longer cache lifetimes are not taken.
A file that is there is not overwritten: a table that rows were priced with is never edited.`,
		Example: `  ledgerctl prices import model_prices_and_context_window.json --dry-run
  ledgerctl prices import model_prices_and_context_window.json --model 'gpt-5*' --out litellm-2026-11-30.yaml`,
		Args: oneArg("a file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.pricesImport(f, args[0]) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.out, "out", "", "the file to write (required without --dry-run)")
	fs.StringVar(&f.from, "from", "", "day from which on the prices are valid; default today (UTC)")
	fs.StringVar(&f.table, "table", "", "name of the table, kept on every row that it prices; default litellm- and the day")
	fs.StringVar(&f.source, "source", "LiteLLM model_prices_and_context_window.json", "where the list is from")
	fs.StringSliceVar(&f.patterns, "model", nil, "only models of this pattern, such as 'gpt-5*' (repeatable)")
	fs.BoolVar(&f.everybody, "all", false, "show models that do not change, too")
	f.files.add(c)
	listFlags[priceChange](a, c)
	a.changesItself(c)
	return c
}

func (a *app) pricesImport(f importFlags, file string) error {
	if f.out == "" && !a.dry {
		return usagef("--out FILE is required, or --dry-run to see what would change")
	}
	from := a.now().UTC().Truncate(24 * time.Hour)
	if f.from != "" {
		var err error
		if from, err = time.Parse(time.DateOnly, f.from); err != nil {
			return usagef("--from %q: want a day such as 2026-01-31", f.from)
		}
	}
	for _, p := range f.patterns {
		if _, err := path.Match(p, ""); err != nil {
			return usagef("--model %q: %w", p, err)
		}
	}
	known, err := f.files.load()
	if err != nil {
		return err
	}
	in := a.in
	if file != "-" {
		o, err := os.Open(file)
		if err != nil {
			return usageError{err}
		}
		defer o.Close()
		in = o
	}
	es, skipped, err := litellm.Read(in, from, f.patterns...)
	if err != nil {
		return err
	}
	changes, write := comparePrices(known, es, from)
	if !f.everybody {
		changes = changed(changes)
	}
	if err := list(a, changes, changeColumns(), "nothing changes"); err != nil {
		return err
	}
	for _, s := range skipped {
		fmt.Fprintf(a.err, "left out: %s: %s\n", clean(s.Model), s.Why)
	}
	table := f.table
	if table == "" {
		table = "litellm-" + from.Format(time.DateOnly)
	}
	return a.writePrices(f, table, write)
}

func (a *app) writePrices(f importFlags, table string, es []model.PriceEntry) error {
	if a.dry || len(es) == 0 {
		fmt.Fprintf(a.err, "nothing is written; %d models would be\n", len(es))
		return nil
	}
	text := model.PriceFile(table, f.source, es)
	if _, err := model.DefaultPrices().With(filepath.Base(f.out), text); err != nil {
		return fmt.Errorf("the list makes no price file: %w", err)
	}
	out, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usagef("--out %s: there is such a file, and rows may be priced with it; choose another name", f.out)
	}
	if err != nil {
		return usageError{err}
	}
	if _, err = out.Write(text); err == nil {
		err = out.Sync()
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", f.out, err)
	}
	fmt.Fprintf(a.err, "%s has the prices of %d models, table %s: give it to workers as --prices %s\n", f.out, len(es), table, f.out)
	return nil
}

// comparePrices says what is new, and which entries have to be written. What a list
// does not say of a model that otherwise costs the same, it does not change.
func comparePrices(known *model.Prices, es []model.PriceEntry, at time.Time) (changes []priceChange, write []model.PriceEntry) {
	for _, e := range es {
		was, ok := known.Entry(e.Model, at)
		differs := !ok
		for _, t := range e.Tiers {
			c := priceChange{Model: e.Model, Above: t.Above, Change: "new", What: rates(t)}
			if ok {
				c.Change, c.What = "same", rates(t)
				if d := difference(tierOf(was, t.Above), t); len(d) > 0 {
					c.Change, c.What, differs = "changed", strings.Join(d, ", "), true
				}
			}
			changes = append(changes, c)
		}
		for _, t := range was.Tiers {
			if _, still := find(e, t.Above); !still {
				changes = append(changes, priceChange{Model: e.Model, Above: t.Above, Change: "changed", What: "no longer a price of its own"})
				differs = true
			}
		}
		wider := e.Window.Input != 0 && e.Window.Input != was.Window.Input || e.Window.Output != 0 && e.Window.Output != was.Window.Output
		if ok && wider {
			changes = append(changes, priceChange{Model: e.Model, Change: "changed", What: fmt.Sprintf(
				"context %d → %d, max_output %d → %d", was.Window.Input, cmp.Or(e.Window.Input, was.Window.Input), was.Window.Output, cmp.Or(e.Window.Output, was.Window.Output))})
		}
		switch {
		case differs:
			write = append(write, e)
		case wider: // the price stays, with all that is known of it
			e.Tiers = was.Tiers
			write = append(write, e)
		}
	}
	return changes, write
}

func find(e model.PriceEntry, above int64) (model.PriceTier, bool) {
	for _, t := range e.Tiers {
		if t.Above == above {
			return t, true
		}
	}
	return model.PriceTier{}, false
}

// tierOf is what an entry has for inputs over a size.
func tierOf(e model.PriceEntry, above int64) model.PriceTier {
	t, _ := find(e, above)
	return t
}

// difference is what a tier changes; an unknown rate changes nothing by itself.
func difference(was, is model.PriceTier) (d []string) {
	for _, r := range []struct {
		name    string
		was, is *events.PicoUSD
	}{{"input", was.Input, is.Input}, {"output", was.Output, is.Output}, {"cache_read", was.CacheRead, is.CacheRead}, {"cache_write", was.CacheWrite, is.CacheWrite}} {
		if r.is != nil && (r.was == nil || *r.was != *r.is) {
			d = append(d, fmt.Sprintf("%s %s → %s", r.name, rateText(r.was), rateText(r.is)))
		}
	}
	if len(d) == 0 {
		return nil
	}
	for _, r := range []struct {
		name    string
		was, is *events.PicoUSD
	}{{"cache_read", was.CacheRead, is.CacheRead}, {"cache_write", was.CacheWrite, is.CacheWrite}} {
		if r.is == nil && r.was != nil { // the whole entry is a new one
			d = append(d, fmt.Sprintf("%s %s → -", r.name, r.was))
		}
	}
	return d
}

func rates(t model.PriceTier) string {
	s := fmt.Sprintf("input %s, output %s", rateText(t.Input), rateText(t.Output))
	if t.CacheRead != nil || t.CacheWrite != nil {
		s += fmt.Sprintf(", cache_read %s, cache_write %s", rateText(t.CacheRead), rateText(t.CacheWrite))
	}
	return s
}

func changed(cs []priceChange) (some []priceChange) {
	for _, c := range cs {
		if c.Change != "same" {
			some = append(some, c)
		}
	}
	return some
}

func changeColumns() []column[priceChange] {
	return []column[priceChange]{
		{name: "model", keep: true, text: func(c priceChange) string { return c.Model }},
		{name: "above", keep: true, right: true, mixed: true, text: func(c priceChange) string {
			if c.Above == 0 {
				return ""
			}
			return fmt.Sprint(c.Above)
		}},
		{name: "change", keep: true, text: func(c priceChange) string { return c.Change }, style: func(c priceChange) style {
			switch c.Change {
			case "new":
				return green
			case "changed":
				return yellow
			}
			return plain
		}},
		{name: "what", want: 60, text: func(c priceChange) string { return c.What }},
	}
}
