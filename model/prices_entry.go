package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
)

// PriceEntry is what a model costs from a day on.
type PriceEntry struct {
	Model string
	From  time.Time // a day, UTC
	Table string    // that it stands in
	// Source is where the table's numbers were read; empty = not said.
	Source string
	// Tiers are by size, the smallest first, which is for all sizes above 0.
	Tiers  []PriceTier
	Window Window // of the model, whatever the day
}

// PriceTier is what each token of a request costs whose input is over Above
// tokens: dollars per million tokens. Nil is unknown, which is not free.
type PriceTier struct {
	Above      int64
	Input      *events.PicoUSD
	Output     *events.PicoUSD
	CacheRead  *events.PicoUSD
	CacheWrite *events.PicoUSD
}

// Entries returns the whole table, by name and day. Aliases are names.
func (p *Prices) Entries() []PriceEntry {
	var es []PriceEntry
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		for _, pr := range p.names[name] {
			es = append(es, pr.entry(name, p.windows[name]))
		}
	}
	return es
}

// Entry returns what a model costs at a time, under the name that its price
// stands under; false if it has no price then.
func (p *Prices) Entry(model string, at time.Time) (PriceEntry, bool) {
	name, _ := p.resolve(model)
	pr := p.find(model, at)
	if pr == nil {
		return PriceEntry{}, false
	}
	return pr.entry(name, p.windows[name]), true
}

func (pr price) entry(name string, w Window) PriceEntry {
	e := PriceEntry{Model: name, From: pr.from, Table: pr.table, Source: pr.source, Window: w}
	for _, t := range slices.Backward(pr.tiers) {
		e.Tiers = append(e.Tiers, PriceTier{Above: max(t.above, 0), Input: t.input, Output: t.output, CacheRead: t.cacheRead, CacheWrite: t.cacheWrite})
	}
	return e
}

// WithEntries returns p and the entries, which go behind those of the same name,
// and take the place of one of the same day. p is not changed. Entries without a
// tier are no prices, and a rate of which a token costs less than a pico-dollar, or
// a part of one, is refused.
func (p *Prices) WithEntries(es ...PriceEntry) (*Prices, error) {
	return p.with(es, func(before []price, e price) []price { return continued(before, []price{e}) })
}

// Replaced is [Prices.WithEntries], except that each entry replaces all that is known
// of what its model costs.
func (p *Prices) Replaced(es ...PriceEntry) (*Prices, error) {
	return p.with(es, func(_ []price, e price) []price { return []price{e} })
}

func (p *Prices) with(es []PriceEntry, put func(before []price, e price) []price) (*Prices, error) {
	more := &Prices{names: maps.Clone(p.names), windows: maps.Clone(p.windows)}
	for _, e := range es {
		pr := price{from: e.From, table: e.Table, source: e.Source}
		for _, t := range slices.Backward(e.Tiers) {
			for _, r := range []*events.PicoUSD{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
				if r != nil && (*r < 0 || *r%perMillion != 0) {
					return nil, fmt.Errorf("price of %s: %s a million tokens: want six decimals at most, and no less than 0", e.Model, *r)
				}
			}
			above := t.Above
			if above == 0 {
				above = -1
			}
			pr.tiers = append(pr.tiers, tier{above: above, input: t.Input, output: t.Output, cacheRead: t.CacheRead, cacheWrite: t.CacheWrite})
		}
		if len(pr.tiers) == 0 {
			return nil, fmt.Errorf("price of %s: no rates", e.Model)
		}
		more.names[e.Model] = put(more.names[e.Model], pr)
		was := more.windows[e.Model]
		more.windows[e.Model] = Window{Input: cmp.Or(e.Window.Input, was.Input), Output: cmp.Or(e.Window.Output, was.Output)}
	}
	more.order()
	return more, nil
}

// PriceFile returns the text of a file for [LoadPrices] that adds entries to what is
// known before: a table of that name. What the entries say of their own table is
// not in it.
func PriceFile(table, source string, es []PriceEntry) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# US dollars per million tokens. Earlier prices count until valid_from.\ntable: %q\nsource: %q\ncontinues: true\n\nmodels:\n", table, source)
	for i, e := range es {
		if i == 0 || es[i-1].Model != e.Model {
			fmt.Fprintf(&b, "  - name: %q\n", e.Model)
			line(&b, "    context", e.Window.Input)
			line(&b, "    max_output", e.Window.Output)
			b.WriteString("    prices:\n")
		}
		fmt.Fprintf(&b, "      - valid_from: %s\n", e.From.Format(time.DateOnly))
		for j, t := range e.Tiers {
			lead := "        "
			if j == 1 {
				b.WriteString("        tiers:\n")
			}
			if j > 0 {
				fmt.Fprintf(&b, "          - above: %d\n", t.Above)
				lead = "            "
			}
			for _, r := range []struct {
				name string
				rate *events.PicoUSD
			}{{"input", t.Input}, {"output", t.Output}, {"cache_read", t.CacheRead}, {"cache_write", t.CacheWrite}} {
				if r.rate != nil {
					fmt.Fprintf(&b, "%s%s: %q\n", lead, r.name, r.rate.String())
				}
			}
		}
	}
	return []byte(b.String())
}

func line(b *strings.Builder, name string, n int64) {
	if n > 0 {
		fmt.Fprintf(b, "%s: %d\n", name, n)
	}
}
