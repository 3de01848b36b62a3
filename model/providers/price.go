package providers

import (
	"cmp"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
)

// priced are the prices of a file by name, each with the entry that gives it.
type priced map[string]model.PriceEntry

// read is what the file says that a model costs, under the name that agents write,
// what the server calls the model at each endpoint, and the names that it may answer
// with. One name has one price: whoever reads a row cannot tell which entry was asked.
func (all priced) read(m *strictyaml.Map, name, server string, endpoints []endpoint, before *model.Prices) {
	for _, e := range readPrice(m, name, server, endpoints) {
		was, twice := all[e.Model]
		if !twice && before != nil { // a file that was read before this one
			was, twice = before.Entry(e.Model, e.From)
			twice = twice && was.Model == e.Model && strings.HasPrefix(was.Table, tablePrefix)
		}
		if twice && !samePrice(was, e) {
			m.Fault("price", "%q has another price in the entry of %s; a price holds for a name wherever it is served: write the same, or have the servers answer with names of their own",
				e.Model, strings.TrimPrefix(was.Table, tablePrefix))
			continue
		}
		if twice {
			e.Window = model.Window{Input: cmp.Or(e.Window.Input, was.Window.Input), Output: cmp.Or(e.Window.Output, was.Window.Output)}
		}
		all[e.Model] = e
	}
}

// samePrice reports whether two entries say the same of what one model costs.
func samePrice(a, b model.PriceEntry) bool { return reflect.DeepEqual(a.Tiers, b.Tiers) }

const tablePrefix = "model-config:"

func readPrice(m *strictyaml.Map, name, server string, endpoints []endpoint) (es []model.PriceEntry) {
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
	e := model.PriceEntry{From: time.Unix(0, 0).UTC(), Table: tablePrefix + name, Window: model.Window{Input: pm.Int("context", 1), Output: pm.Int("max_output", 1)}}
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
	for _, e := range endpoints {
		names = append(names, e.cfg.Model)
	}
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
