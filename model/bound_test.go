package model_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

func TestAtMostIsNeverBelowTheCost(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ps := model.DefaultPrices()
	for _, m := range []string{"claude-sonnet-4-5", "claude-opus-4-5", "gpt-5", "gpt-4o-mini", "scripted/x"} {
		for range 2000 {
			input, output := random.Int64N(400_000), random.Int64N(10_000)
			most := ps.AtMost(m, day("2026-01-02"), input, output)
			if most == nil {
				t.Fatalf("%s: no bound", m)
			}
			read := random.Int64N(input + 1)
			cost, _ := ps.Price(m, day("2026-01-02"), events.Usage{Input: input - read, CacheRead: read, Output: random.Int64N(output + 1)})
			if cost == nil || *cost > *most {
				t.Fatalf("%s with %d and %d tokens costs %v, at most %s", m, input, output, cost, most)
			}
		}
	}
}

func TestAtMost(t *testing.T) {
	for _, tt := range []struct {
		name, model   string
		input, output int64
		want          string // empty = no bound
	}{
		{"the dearest rate for input", "claude-opus-4-5", 1_000_000, 1_000_000, "31.25"}, // a cache write
		{"below a tier", "claude-sonnet-4-5", 200_000, 0, "0.75"},
		{"in a tier", "claude-sonnet-4-5", 200_001, 0, "1.5000075"},
		{"unknown model", "gpt-99", 1, 1, ""},
		{"more than an int64", "gpt-5", 1 << 60, 1, ""},
		{"negative", "gpt-5", -1, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if p := model.DefaultPrices().AtMost(tt.model, day("2026-01-02"), tt.input, tt.output); p != nil {
				got = p.String()
			}
			if got != tt.want {
				t.Errorf("at most %q, want %q", got, tt.want)
			}
		})
	}
}

func TestInputBoundCountsEveryText(t *testing.T) {
	empty := model.Request{}.InputBound()
	long := strings.Repeat("x", 1000)
	for name, r := range map[string]model.Request{
		"system":    {System: long},
		"text":      {Messages: []model.Message{{Text: long}}},
		"arguments": {Messages: []model.Message{{Calls: []model.Call{{Arguments: json.RawMessage(long)}}}}},
		"result":    {Messages: []model.Message{{Results: []model.Result{{Text: long}}}}},
		"reasoning": {Messages: []model.Message{{Blocks: []events.Block{{Kind: events.BlockReasoning, Text: long}}}}},
		"opaque":    {Messages: []model.Message{{Blocks: []events.Block{{Kind: events.BlockReasoning, Data: json.RawMessage(long)}}}}},
		"format":    {Format: &model.Format{Schema: json.RawMessage(long)}},
		"schema":    {Tools: []model.Spec{{Schema: json.RawMessage(long)}}},
		"about":     {Tools: []model.Spec{{Description: long}}},
	} {
		if n := r.InputBound() - empty; n < 1000 || n > 1064 {
			t.Errorf("%s of 1000 bytes counts as %d tokens", name, n)
		}
	}
}
