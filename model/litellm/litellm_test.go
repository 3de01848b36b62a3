package litellm_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/litellm"
)

// Models and amounts are made up; fields are those of the list.
const list = `{
  "sample_spec": {"mode": "one of: chat, embedding", "max_input_tokens": "max input tokens"},
  "lamp-1": {
    "mode": "chat", "litellm_provider": "lamps", "max_input_tokens": 200000, "max_output_tokens": "64000",
    "input_cost_per_token": 3e-06, "output_cost_per_token": 0.000015, "cache_read_input_token_cost": 3e-07,
    "cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06,
    "input_cost_per_token_above_200k_tokens": 6e-06, "output_cost_per_token_above_200k_tokens": 2.25e-05,
    "input_cost_per_token_batches": 1.5e-06, "input_cost_per_token_priority": 9e-06, "input_cost_per_audio_token": 1e-4
  },
  "lamp-mini": {"mode": "responses", "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6E-7, "max_tokens": 4096},
  "lamp-ranges": {"mode": "chat", "tiered_pricing": [
    {"range": [0, 32000.0], "input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06},
    {"range": [32000.0, 1e6], "input_cost_per_token": 2e-06}]},
  "noise": {"mode": "chat", "input_cost_per_token": 1.0000000000000002e-06, "output_cost_per_token": 1e-6},
  "huge": {"mode": "chat", "input_cost_per_token": 1e999999999, "output_cost_per_token": 1e-6},
  "below-zero": {"mode": "chat", "input_cost_per_token": -1e-6, "output_cost_per_token": 1e-6},
  "free-or-not": {"mode": "chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0},
  "thinker": {"mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "output_cost_per_reasoning_token": 4e-6},
  "by-the-hour": {"mode": "chat", "input_cost_per_second": 0.1},
  "half": {"mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": null},
  "vectors": {"mode": "embedding", "input_cost_per_token": 1e-6}
}`

var from = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func TestRead(t *testing.T) {
	es, skipped, err := litellm.Read(strings.NewReader(list), from)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range es {
		got += fmt.Sprintf("%s %d/%d:", e.Model, e.Window.Input, e.Window.Output)
		for _, r := range e.Tiers {
			got += fmt.Sprintf(" >%d %v %v %v %v", r.Above, r.Input, r.Output, r.CacheRead, r.CacheWrite)
		}
		got += "\n"
	}
	want := `lamp-1 200000/64000: >0 3 15 0.3 3.75 >200000 6 22.5 <nil> <nil>
lamp-mini 0/0: >0 0.15 0.6 <nil> <nil>
lamp-ranges 0/0: >0 1 5 <nil> <nil> >32000 2 5 <nil> <nil>
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
	whys := map[string]string{}
	for _, s := range skipped {
		whys[s.Model] = s.Why
	}
	if d := cmp.Diff(map[string]string{
		"noise":       "input_cost_per_token is 1.0000000000000002e-06: a token has to cost a whole number of pico-dollars",
		"huge":        "input_cost_per_token is 1e999999999: a token has to cost a whole number of pico-dollars",
		"below-zero":  "input_cost_per_token is -1e-6: a token has to cost a whole number of pico-dollars",
		"free-or-not": `its price is 0, which stands there for "free" and for "unknown"`,
		"thinker":     "its reasoning tokens have a price of their own",
		"by-the-hour": "it has no price per token",
		"half":        "it has no price per token",
	}, whys); d != "" {
		t.Errorf("left out (-want +got):\n%s", d)
	}
}

// TestPriceFileHasWhatWasRead: the file that is written prices as the list does,
// to the pico-dollar, and leaves earlier days alone.
func TestPriceFileHasWhatWasRead(t *testing.T) {
	es, _, err := litellm.Read(strings.NewReader(list), from, "lamp-*")
	if err != nil || len(es) != 3 {
		t.Fatalf("%d entries, %v", len(es), err)
	}
	old := fstest.MapFS{"a.yaml": {Data: []byte("table: a\nmodels: [{name: lamp-1, context: 1000, max_output: 7, prices: [{valid_from: 2025-01-01, input: \"1\", output: \"1\"}]}]\n")}}
	p, err := model.LoadPrices(old, fstest.MapFS{"b.yaml": {Data: model.PriceFile("litellm-2026-11-30", "here", es)}})
	if err != nil {
		t.Fatal(err)
	}
	cost := func(name string, at time.Time, u events.Usage) string {
		c, r := p.Price(name, at, u)
		if c == nil {
			return "unpriced"
		}
		return c.String() + " " + r.Table
	}
	for _, tt := range []struct {
		name, model string
		at          time.Time
		usage       events.Usage
		want        string
	}{
		{"the day before", "lamp-1", from.Add(-time.Second), events.Usage{Input: 1}, "0.000001 a"},
		{"the day", "lamp-1", from, events.Usage{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}, "0.00002205 litellm-2026-11-30"},
		{"over a size", "lamp-1", from, events.Usage{Input: 200_001}, "1.200006 litellm-2026-11-30"},
		{"a cache's price over a size is not guessed", "lamp-1", from, events.Usage{Input: 200_001, CacheRead: 1}, "unpriced"},
		{"less than a micro-dollar", "lamp-mini", from, events.Usage{Input: 1}, "0.00000015 litellm-2026-11-30"},
		{"a range", "lamp-ranges", from, events.Usage{Input: 32_001}, "0.064002 litellm-2026-11-30"},
	} {
		if got := cost(tt.model, tt.at, tt.usage); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if w := p.Window("lamp-1"); w != (model.Window{Input: 200_000, Output: 64_000}) {
		t.Errorf("window %+v", w)
	}
	if e, _ := p.Entry("lamp-1", from); e.Source != "here" {
		t.Errorf("source %q", e.Source)
	}
}

func TestReadRefusesWhatIsNoList(t *testing.T) {
	for _, in := range []string{"", "[]", `{"a": 1}`} {
		if _, _, err := litellm.Read(strings.NewReader(in), from); err == nil || !strings.Contains(err.Error(), "model_prices_and_context_window.json") {
			t.Errorf("Read(%q) = %v", in, err)
		}
	}
	if _, _, err := litellm.Read(strings.NewReader("{}"), from, "["); err == nil {
		t.Error("a bad pattern is taken")
	}
}

// FuzzRead: whatever a list says, it is read or refused, no rate is below zero or has a part of a
// pico-dollar in it, and the file made of it can be loaded.
func FuzzRead(f *testing.F) {
	f.Add([]byte(list))
	f.Fuzz(func(t *testing.T, b []byte) {
		es, _, err := litellm.Read(strings.NewReader(string(b)), from)
		if err != nil || len(es) == 0 {
			return
		}
		for _, e := range es {
			for _, r := range e.Tiers {
				if *r.Input < 0 || *r.Output < 0 || *r.Input%1_000_000 != 0 {
					t.Fatalf("%q costs %s", e.Model, r.Input)
				}
			}
		}
		if _, err := model.DefaultPrices().With("x.yaml", model.PriceFile("t", "s", es)); err != nil && !strings.Contains(err.Error(), "name:") {
			t.Fatalf("%v", err)
		}
	})
}
