// Package litellm reads LiteLLM's list of prices and context windows
// (model_prices_and_context_window.json) into ours. Amounts are converted from the
// digits that stand there: no number passes through a float.
package litellm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// MaxBytes bounds a list; the one of November 2026 has 1.6 MB.
const MaxBytes = 64 << 20

// Skipped is a model whose price cannot be taken over, and why.
type Skipped struct {
	Model string `json:"model"`
	Why   string `json:"why"`
}

// Read returns the prices of all models of the list that answer in text and whose
// names match a pattern of [path.Match] (no patterns = all), valid from a day on, and
// the models of these kinds that were left out. What is priced by the picture, the
// hour or the page is not in either.
func Read(r io.Reader, from time.Time, patterns ...string) ([]model.PriceEntry, []Skipped, error) {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, nil, fmt.Errorf("pattern %q: %w", p, err)
		}
	}
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read price list: %w", err)
	}
	if len(b) > MaxBytes {
		return nil, nil, fmt.Errorf("read price list: over %d bytes", MaxBytes)
	}
	var list map[string]map[string]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, nil, fmt.Errorf("read price list: want LiteLLM's model_prices_and_context_window.json, an object of objects: %w", err)
	}
	var es []model.PriceEntry
	var skipped []Skipped
	for _, name := range slices.Sorted(maps.Keys(list)) {
		fields := list[name]
		mode := text(fields["mode"])
		if name == "sample_spec" || mode != "chat" && mode != "completion" && mode != "responses" || !matches(name, patterns) {
			continue
		}
		e, why := entry(fields)
		if why != "" {
			skipped = append(skipped, Skipped{name, why})
			continue
		}
		e.Model, e.From = name, from
		es = append(es, e)
	}
	return es, skipped, nil
}

func matches(name string, patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // the pattern was checked
		return ok
	})
}

// sized are the names of prices for requests over a size. Others with a suffix are of
// other service tiers (batch, flex, priority) or of longer cache lifetimes.
var sized = regexp.MustCompile(`^(input_cost_per_token|output_cost_per_token|cache_read_input_token_cost|cache_creation_input_token_cost)_above_(\d{1,7})k_tokens$`)

func entry(fields map[string]json.RawMessage) (e model.PriceEntry, why string) {
	e.Window = model.Window{Input: tokens(fields["max_input_tokens"]), Output: tokens(fields["max_output_tokens"])}
	sizes := map[int64]map[string]json.RawMessage{0: fields}
	for f, raw := range fields {
		m := sized.FindStringSubmatch(f)
		if m == nil || string(raw) == "null" {
			continue
		}
		above, _ := strconv.ParseInt(m[2]+"000", 10, 64) // digits
		if sizes[above] == nil {
			sizes[above] = map[string]json.RawMessage{}
		}
		sizes[above][m[1]] = raw
	}
	if raw, ok := fields["tiered_pricing"]; ok {
		if len(sizes) > 1 {
			return e, "it has two kinds of tiers"
		}
		if why := ranges(raw, sizes); why != "" {
			return e, why
		}
	}
	for _, above := range slices.Sorted(maps.Keys(sizes)) {
		t, why := tier(sizes[above])
		if why != "" {
			return e, why
		}
		t.Above = above
		if above > 0 { // what a tier does not name has the price of all sizes; a cache's is not guessed
			t.Input, t.Output = cmp.Or(t.Input, e.Tiers[0].Input), cmp.Or(t.Output, e.Tiers[0].Output)
		}
		if t.Input == nil || t.Output == nil {
			return e, "it has no price per token"
		}
		e.Tiers = append(e.Tiers, t)
	}
	if *e.Tiers[0].Input == 0 && *e.Tiers[0].Output == 0 {
		return e, `its price is 0, which stands there for "free" and for "unknown"`
	}
	return e, ""
}

// ranges reads tiers that are written as a list.
func ranges(raw json.RawMessage, sizes map[int64]map[string]json.RawMessage) (why string) {
	var tiers []map[string]json.RawMessage
	if json.Unmarshal(raw, &tiers) != nil {
		return "its tiered_pricing is no list"
	}
	for _, t := range tiers {
		var edges []json.RawMessage
		if json.Unmarshal(t["range"], &edges) != nil || len(edges) == 0 {
			return "a tier of its tiered_pricing has no range"
		}
		above := tokens(edges[0])
		if above > 0 {
			sizes[above] = t
			continue
		}
		for f, v := range t {
			if _, ok := sizes[0][f]; !ok {
				sizes[0][f] = v
			}
		}
	}
	return ""
}

func tier(fields map[string]json.RawMessage) (t model.PriceTier, why string) {
	var reasoning *events.PicoUSD
	for _, f := range []struct {
		name string
		to   **events.PicoUSD
	}{
		{"input_cost_per_token", &t.Input},
		{"output_cost_per_token", &t.Output},
		{"cache_read_input_token_cost", &t.CacheRead},
		{"cache_creation_input_token_cost", &t.CacheWrite},
		{"output_cost_per_reasoning_token", &reasoning},
	} {
		raw, ok := fields[f.name]
		if !ok || string(raw) == "null" {
			continue
		}
		r, ok := perMillion(string(raw))
		if !ok {
			return t, fmt.Sprintf("%s is %.40s: a token has to cost a whole number of pico-dollars", f.name, raw)
		}
		*f.to = &r
	}
	if reasoning != nil && t.Output != nil && *reasoning != *t.Output {
		return t, "its reasoning tokens have a price of their own"
	}
	return t, ""
}

// decimal is a JSON number of which no exponent makes something huge.
var decimal = regexp.MustCompile(`^\d{1,20}(\.\d{1,40})?([eE][+-]?\d{1,2})?$`)

// perMillion turns dollars per token into dollars per million tokens, exactly.
func perMillion(number string) (events.PicoUSD, bool) {
	if !decimal.MatchString(number) {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, false
	}
	r.Mul(r, big.NewRat(1_000_000_000_000, 1)) // pico-dollars per token
	if !r.IsInt() {
		return 0, false
	}
	n := new(big.Int).Mul(r.Num(), big.NewInt(1_000_000))
	if !n.IsInt64() {
		return 0, false
	}
	return events.PicoUSD(n.Int64()), true
}

// tokens reads a count; 0 = there is none. It may be written as a text, or with a point.
func tokens(raw json.RawMessage) int64 {
	s := strings.TrimSpace(string(raw))
	if t := text(raw); t != "" {
		s = strings.TrimSpace(t)
	}
	if !decimal.MatchString(s) {
		return 0
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0
	}
	return r.Num().Int64()
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
