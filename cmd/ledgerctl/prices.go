package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// priceView is what a model costs from a day on, above a size.
type priceView struct {
	Model      string          `json:"model"`
	From       string          `json:"valid_from"`
	Above      int64           `json:"above,omitempty"`
	Input      *events.PicoUSD `json:"input"`
	Output     *events.PicoUSD `json:"output"`
	CacheRead  *events.PicoUSD `json:"cache_read"`
	CacheWrite *events.PicoUSD `json:"cache_write"`
	Context    int64           `json:"context,omitempty"`
	MaxOutput  int64           `json:"max_output,omitempty"`
	Table      string          `json:"table"`
	Source     string          `json:"source,omitempty"`
}

func viewsOfPrices(es []model.PriceEntry) []priceView {
	var vs []priceView
	for _, e := range es {
		for _, t := range e.Tiers {
			vs = append(vs, priceView{
				Model: e.Model, From: e.From.Format(time.DateOnly), Above: t.Above,
				Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite,
				Context: e.Window.Input, MaxOutput: e.Window.Output, Table: e.Table, Source: e.Source,
			})
		}
	}
	return vs
}

func (a *app) pricesCommand() *cobra.Command {
	c := group("prices", "Shows what models cost, and takes over price lists")
	c.Long = `Shows what models cost, in US dollars per million tokens, and takes over price lists.

Workers price each call at its time, by the model that served, and keep the rates on its
row: nothing that is imported here changes what is recorded, or what "ledgerctl costs" says
of it. What has no price is unpriced, never 0.`
	c.AddCommand(a.pricesListCommand(), a.pricesShowCommand(), a.pricesImportCommand())
	return c
}

// priceFiles are tables put upon the one that ships.
type priceFiles []string

func (f *priceFiles) add(c *cobra.Command) {
	var files []string
	if v := os.Getenv("DAYBOOK_PRICES"); v != "" {
		files = strings.Split(v, ",")
	}
	c.Flags().StringSliceVar((*[]string)(f), "prices", files, "price file put upon the table that ships, repeatable: those that workers are given (DAYBOOK_PRICES)")
}

func (f priceFiles) load() (*model.Prices, error) {
	p, err := model.DefaultPricesWith(f...)
	if err != nil {
		return nil, usagef("--prices: %w", err)
	}
	return p, nil
}

func (a *app) pricesListCommand() *cobra.Command {
	var files priceFiles
	var at string
	var history bool
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists what models cost, in US dollars per million tokens",
		Long: `Lists what models cost, in US dollars per million tokens: what is valid now, or --at a day,
or with --history all there is. A row with ABOVE prices the whole request if its input is over
that many tokens. A price that is not known is "-": a call that uses it is unpriced.`,
		Example: `  ledgerctl prices list
  ledgerctl prices list --prices litellm-2026-11-30.yaml --at 2026-12-01 -o csv`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := files.load()
			if err != nil {
				return err
			}
			when, err := a.moment("at", at)
			if err != nil {
				return err
			}
			if when.IsZero() {
				when = a.now()
			}
			es := p.Entries()
			if !history {
				es = slices.DeleteFunc(es, func(e model.PriceEntry) bool {
					now, ok := p.Entry(e.Model, when)
					return !ok || !now.From.Equal(e.From)
				})
			}
			return list(a, viewsOfPrices(es), priceColumns(), "no prices")
		},
	}
	files.add(c)
	c.Flags().StringVar(&at, "at", "", "those of that day: 2026-01-31, 2026-01-31T10:00:00Z or a time ago such as 24h")
	c.Flags().BoolVar(&history, "history", false, "earlier and later prices too")
	listFlags[priceView](a, c)
	return c
}

func (a *app) pricesShowCommand() *cobra.Command {
	var files priceFiles
	c := &cobra.Command{
		Use:   "show MODEL",
		Short: "Shows what a model costs and has cost",
		Long: `Shows what a model costs and has cost, by the name that an answer gives it: as it is listed,
or without a date at its end, or by the longest listed beginning.`,
		Example: `  ledgerctl prices show gpt-5-2025-08-07`,
		Args:    oneArg("a model"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := files.load()
			if err != nil {
				return err
			}
			far := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
			last, ok := p.Entry(args[0], far)
			if !ok {
				return fmt.Errorf("model %q has no price, so calls that it serves are unpriced: give workers one with --prices FILE (ledgerctl prices import -h)", args[0])
			}
			es := slices.DeleteFunc(p.Entries(), func(e model.PriceEntry) bool { return e.Model != last.Model })
			return list(a, viewsOfPrices(es), priceColumns(), "")
		},
	}
	files.add(c)
	listFlags[priceView](a, c)
	return c
}

func priceColumns() []column[priceView] {
	rate := func(name string, f func(priceView) *events.PicoUSD) column[priceView] {
		return column[priceView]{
			name: name, keep: true, right: true,
			text: func(v priceView) string { return rateText(f(v)) },
			raw: func(v priceView) string {
				if f(v) == nil {
					return ""
				}
				return f(v).String()
			},
		}
	}
	count := func(name string, drop int, f func(priceView) int64) column[priceView] {
		return column[priceView]{name: name, keep: true, right: true, drop: drop, mixed: true, text: func(v priceView) string {
			if f(v) == 0 {
				return ""
			}
			return strconv.FormatInt(f(v), 10)
		}}
	}
	return []column[priceView]{
		{name: "model", keep: true, text: func(v priceView) string { return v.Model }},
		{name: "valid_from", keep: true, text: func(v priceView) string { return v.From }},
		count("above", 0, func(v priceView) int64 { return v.Above }),
		rate("input", func(v priceView) *events.PicoUSD { return v.Input }),
		rate("output", func(v priceView) *events.PicoUSD { return v.Output }),
		rate("cache_read", func(v priceView) *events.PicoUSD { return v.CacheRead }),
		rate("cache_write", func(v priceView) *events.PicoUSD { return v.CacheWrite }),
		count("context", 2, func(v priceView) int64 { return v.Context }),
		count("max_output", 3, func(v priceView) int64 { return v.MaxOutput }),
		{name: "table", drop: 4, want: 22, text: func(v priceView) string { return v.Table }},
		{name: "source", drop: 5, mixed: true, text: func(v priceView) string { return v.Source }},
	}
}

func rateText(r *events.PicoUSD) string {
	if r == nil {
		return "-"
	}
	return r.String()
}
