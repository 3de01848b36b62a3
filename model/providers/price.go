package providers

import (
	"math/big"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
)

// readPrice is what the file says that a model costs, under the name that agents
// write, what the server calls the model, and the names that it may answer with.
func readPrice(m *strictyaml.Map, name, server string) (es []model.PriceEntry) {
	if !m.Has("price") {
		return nil
	}
	pm := m.Map("price")
	if pm == nil {
		return nil
	}
	million := int64(1)
	switch per := pm.Text("per"); per {
	case "", "1M":
	case "1K":
		million = 1000
	default:
		pm.Fault("per", "want 1M or 1K: how many tokens the price is for; got %q", per)
	}
	e := model.PriceEntry{From: time.Unix(0, 0).UTC(), Table: "model-config:" + name, Window: model.Window{Input: pm.Int("context", 1), Output: pm.Int("max_output", 1)}}
	t := model.PriceTier{
		Input: readRate(pm, "input", million), Output: readRate(pm, "output", million),
		CacheRead: readRate(pm, "cache_read", million), CacheWrite: readRate(pm, "cache_write", million),
	}
	for _, k := range []string{"input", "output"} {
		if !pm.Has(k) {
			pm.Fault(k, `missing; write dollars in quotes, such as "0.25"; "0" is free`)
		}
	}
	names := append([]string{name, server}, pm.Texts("names")...)
	pm.Done("a price")
	e.Tiers = []model.PriceTier{t}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		e.Model = n
		es = append(es, e)
	}
	return es
}

func readRate(m *strictyaml.Map, key string, times int64) *events.PicoUSD {
	if !m.Has(key) {
		return nil
	}
	s := m.Text(key)
	if s == "" {
		return nil // not a text: said already
	}
	v, err := events.ParsePico(s)
	if err != nil || v.Sign() < 0 {
		m.Fault(key, `want dollars in quotes, such as "0.25", got %q`, s)
		return nil
	}
	v.Mul(v, big.NewInt(times))
	if !v.IsInt64() || v.Int64()%1_000_000 != 0 {
		m.Fault(key, "want six decimals at most for a million tokens, and no more than anybody asks; got %q", s)
		return nil
	}
	r := events.PicoUSD(v.Int64())
	return &r
}
