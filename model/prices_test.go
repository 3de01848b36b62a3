package model_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

func day(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestPrice(t *testing.T) {
	const m = 1_000_000
	tests := []struct {
		name  string
		model string
		at    string
		usage events.Usage
		want  string // dollars; empty = unpriced
	}{
		{"one token is exact", "gpt-4o-mini", "2026-01-02", events.Usage{Input: 1}, "0.00000015"},
		{"input and output", "claude-haiku-4-5", "2026-01-02", events.Usage{Input: m, Output: m}, "6"},
		{"a dated name", "claude-haiku-4-5-20251001", "2026-01-02", events.Usage{Output: m}, "5"},
		{"a name with dashes in its date", "gpt-4.1-2025-04-14", "2026-01-02", events.Usage{Output: m}, "8"},
		{"an alias", "openai/gpt-5", "2026-01-02", events.Usage{Output: m}, "10"},
		{"latest", "claude-3-5-haiku-latest", "2026-01-02", events.Usage{Output: m}, "4"},
		{"a listed dated name wins", "gpt-4o-2024-05-13", "2026-01-02", events.Usage{Input: m}, "5"},
		{"cache", "claude-opus-4-5", "2026-01-02", events.Usage{CacheRead: m, CacheWrite: m}, "6.75"},
		{"a tier reprices the whole request", "claude-sonnet-4-5", "2026-01-02", events.Usage{Input: 100_000, CacheRead: 100_001, Output: m}, "23.1600006"},
		{"at the tier's edge", "claude-sonnet-4-5", "2026-01-02", events.Usage{Input: 200_000}, "0.6"},
		{"the old price at the old time", "gpt-4o", "2024-06-01", events.Usage{Input: m}, "5"},
		{"the new price from its day on", "gpt-4o", "2024-10-02", events.Usage{Input: m}, "2.5"},
		{"before the first price", "gpt-4o", "2024-01-01", events.Usage{Input: m}, ""},
		{"reasoning is part of the output", "gpt-5", "2026-01-02", events.Usage{Output: m, Reasoning: m / 2}, "10"},
		{"any scripted model", "scripted/refunds", "2026-01-02", events.Usage{Input: m, Output: m}, "2.5"},
		{"an unknown model", "gpt-99", "2026-01-02", events.Usage{Input: 1}, ""},
		{"another provider's price is not guessed", "resold/gpt-5", "2026-01-02", events.Usage{Input: 1}, ""},
		{"missing usage", "gpt-5", "2026-01-02", events.Usage{Missing: true}, ""},
		{"no known cache price", "gpt-5", "2026-01-02", events.Usage{CacheWrite: 1}, ""},
		{"no tokens", "gpt-5", "2026-01-02", events.Usage{}, "0"},
		{"a negative count", "gpt-5", "2026-01-02", events.Usage{Input: -1}, ""},
		{"more than an int64", "gpt-5", "2026-01-02", events.Usage{Output: 1 << 59}, ""},
		{"a sum of more than an int64", "gpt-5", "2026-01-02", events.Usage{Input: 5_000_000_000_000, Output: 600_000_000_000}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cost, rates := model.DefaultPrices().Price(tt.model, day(tt.at), tt.usage)
			got := ""
			if cost != nil {
				got = cost.String()
			}
			if got != tt.want {
				t.Errorf("Price = %q, want %q", got, tt.want)
			}
			if (cost == nil) != (rates == nil) {
				t.Errorf("cost %v with rates %v", cost, rates)
			}
		})
	}
}

func TestRatesAreThoseOfTheTier(t *testing.T) {
	_, got := model.DefaultPrices().Price("claude-sonnet-4-5", day("2026-01-02"), events.Usage{Input: 200_001})
	want := &events.Rates{Table: "daybook-list-2026-01", Input: 6 * events.USD, Output: 22*events.USD + events.USD/2, CacheRead: 600_000 * events.MicroUSD, CacheWrite: 7*events.USD + events.USD/2}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rates (-want +got):\n%s", d)
	}
}

func TestOwnPricesReplaceTheDefaults(t *testing.T) {
	base := fstest.MapFS{"a.yaml": {Data: []byte("table: a\nmodels: [{name: m, prices: [{valid_from: 2020-01-01, input: \"1\", output: \"1\"}]}]\n")}}
	own := fstest.MapFS{"b.yaml": {Data: []byte("table: b\nmodels: [{name: m, prices: [{valid_from: 2026-01-01, input: \"2\", output: \"0\"}]}]\n")}}
	p, err := model.LoadPrices(base, own)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := p.Price("m", day("2025-01-01"), events.Usage{Input: 1}); c != nil {
		t.Errorf("priced at %s by a replaced entry", c)
	}
	if c, r := p.Price("m", day("2026-01-01"), events.Usage{Input: 1, Output: 9}); c == nil || *c != 2*events.MicroUSD || r.Table != "b" {
		t.Errorf("Price = %v, %+v", c, r)
	}
}

func TestPriceFileFaults(t *testing.T) {
	const text = `table: ""
models:
  - name: m
    alias: [x]
    prices:
      - { valid_from: soon, input: 3, output: "1.2345678" }
      - { valid_from: 2026-01-01, input: "3", output: "4", tiers: [{above: 0, input: "1", output: "-1"}] }
  - name: n
`
	_, err := model.LoadPrices(fstest.MapFS{"p.yaml": {Data: []byte(text)}})
	want := `load prices: p.yaml:1: table: missing; write a name with a date, such as "my-prices-2026-01": it is kept on every row
p.yaml:4: models[0].alias: a model has no such field; did you mean "aliases"?
p.yaml:6: models[0].prices[0].valid_from: want a day such as 2026-01-31, got "soon"
p.yaml:6: models[0].prices[0].input: want a text; put it in quotes, got 3
p.yaml:6: models[0].prices[0].output: want dollars per million tokens with six decimals at most, such as "3.75", got "1.2345678"
p.yaml:7: models[0].prices[1].tiers[0].above: want a whole number of at least 1, got 0
p.yaml:7: models[0].prices[1].tiers[0].output: want dollars per million tokens with six decimals at most, such as "3.75", got "-1"
p.yaml:8: models[1].prices: missing; write a list with at least one entry that has valid_from, input and output`
	if err == nil {
		t.Fatal("no error")
	}
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("error (-want +got):\n%s", d)
	}
}

// Prices behind those of earlier files: what a deployment imports today does not
// change what counted yesterday.
func TestContinuedPrices(t *testing.T) {
	own := fstest.MapFS{"b.yaml": {Data: []byte("table: b\ncontinues: true\nmodels: [{name: gpt-5, max_output: 9, prices: [{valid_from: 2026-06-01, input: \"2\", output: \"0\"}, {valid_from: 2025-08-07, input: \"7\", output: \"0\"}]}]\n")}}
	base, err := fs.Sub(os.DirFS("."), "prices")
	if err != nil {
		t.Fatal(err)
	}
	p, err := model.LoadPrices(base, own)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]events.PicoUSD{"2026-05-31": 7 * events.MicroUSD, "2026-06-01": 2 * events.MicroUSD} {
		if c, r := p.Price("gpt-5", day(at), events.Usage{Input: 1}); c == nil || *c != want || r.Table != "b" {
			t.Errorf("on %s: %v, %+v, want %s of b", at, c, r, want)
		}
	}
	if w := p.Window("gpt-5"); w != (model.Window{Input: 272_000, Output: 9}) {
		t.Errorf("window %+v: what is not given again stays", w)
	}
}

// TestWindows: each model of the table that ships says how much it takes.
func TestWindows(t *testing.T) {
	for _, e := range model.DefaultPrices().Entries() {
		if (e.Window.Input < 100_000 || e.Window.Output < 1000) && e.Model != "scripted/*" {
			t.Errorf("%s takes %+v", e.Model, e.Window)
		}
	}
	ps := model.DefaultPrices()
	for name, want := range map[string]int64{"claude-haiku-4-5-20251001": 200_000, "openai/gpt-5": 272_000, "gpt-99": 0, "scripted/x": 0} {
		if got := ps.Window(name).Input; got != want {
			t.Errorf("%s takes %d tokens, want %d", name, got, want)
		}
	}
}

func TestWithEntriesChangesNothing(t *testing.T) {
	ps := model.DefaultPrices()
	one := events.PicoUSD(1_000_000)
	more, err := ps.WithEntries(model.PriceEntry{Model: "gpt-5", From: day("2026-01-01"), Table: "own", Tiers: []model.PriceTier{{Input: &one, Output: &one}}})
	if err != nil {
		t.Fatal(err)
	}
	if c, r := more.Price("gpt-5", day("2026-01-01"), events.Usage{Input: 1}); c == nil || *c != 1 || r.Table != "own" {
		t.Errorf("%v of %+v", c, r)
	}
	if _, r := ps.Price("gpt-5", day("2026-01-01"), events.Usage{Input: 1}); r.Table != "daybook-list-2026-01" {
		t.Errorf("the table it was made of has changed: %+v", r)
	}
	part := events.PicoUSD(1)
	if _, err := ps.WithEntries(model.PriceEntry{Model: "m", Tiers: []model.PriceTier{{Input: &part}}}); err == nil {
		t.Error("a token of a millionth of a pico-dollar is taken")
	}
}
