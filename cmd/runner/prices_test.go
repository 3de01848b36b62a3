package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

func configText(t *testing.T, w *workerFlags, text string) error {
	t.Helper()
	w.modelConfig = filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(w.modelConfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return w.configuredModels(map[string]model.Model{})
}

// TestPricesOfOwnModels: a price stands under every name that an answer may carry,
// takes the place of what the table has, and says so on the row.
func TestPricesOfOwnModels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte("table: own\nmodels: [{name: lamp, prices: [{valid_from: 2020-01-01, input: \"4\", output: \"4\"}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &workerFlags{prices: []string{file}}
	err := configText(t, w, `models:
  - name: local
    api: openai/chat
    base_url: http://127.0.0.1:1/v1
    model: qwen3
    price: {input: "0.25", output: "2", per: 1M, cache_read: "0.025", context: 32768, max_output: 4096, names: [/models/qwen3.gguf]}
  - name: gpt-5
    api: openai/responses
    price: {input: "0.001", output: "0.008", per: 1K}
  - {name: bare, api: openai/chat}
`)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{
		"local": "0.000000775 model-config:local", "qwen3": "0.000000775 model-config:local", "/models/qwen3.gguf": "0.000000775 model-config:local",
		"gpt-5": "unpriced", "lamp": "unpriced", "bare": "unpriced", "gpt-5-mini": "0.000000775 daybook-list-2026-01",
	} {
		got := "unpriced"
		if c, r := w.table.Price(name, now, events.Usage{Input: 2, CacheRead: 11}); c != nil {
			got = c.String() + " " + r.Table
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if c, r := w.table.Price("gpt-5", now, events.Usage{Input: 1}); c == nil || *c != events.MicroUSD || r.Table != "model-config:gpt-5" {
		t.Errorf("gpt-5 costs %v of %+v", c, r)
	}
	if c, r := w.table.Price("lamp", now, events.Usage{Input: 1}); c == nil || *c != 4*events.MicroUSD || r.Table != "own" {
		t.Errorf("lamp costs %v of %+v", c, r)
	}
	if got := w.table.Window("qwen3"); got != (model.Window{Input: 32768, Output: 4096}) {
		t.Errorf("window %+v", got)
	}
}

func TestFaultsOfPrices(t *testing.T) {
	for _, tt := range []struct{ price, want string }{
		{`{input: 0.25, output: "1"}`, `price.input: want a text; put it in quotes`},
		{`{input: "-1", output: "1"}`, `want dollars in quotes, such as "0.25", got "-1"`},
		{`{input: "1"}`, `price.output: missing; write dollars in quotes`},
		{`{input: "1", output: "1", per: 1}`, `price.per: want a text`},
		{`{input: "1", output: "1", per: token}`, `price.per: want 1M or 1K`},
		{`{input: "0.0000001", output: "1"}`, `six decimals at most for a million tokens`},
		{`{input: "1", output: "1", tiers: []}`, `a price has no such field`},
	} {
		err := configText(t, &workerFlags{}, "models: [{name: m, api: openai/chat, price: "+tt.price+"}]\n")
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, new(usageError)) {
			t.Errorf("%s: %v, want %q", tt.price, err, tt.want)
		}
	}
	for _, w := range []*workerFlags{{prices: []string{"none.yaml"}}, {prices: []string{"prices.go"}}} {
		if err := w.configuredModels(nil); err == nil || !strings.HasPrefix(err.Error(), "--prices: ") {
			t.Errorf("%v", err)
		}
	}
}
