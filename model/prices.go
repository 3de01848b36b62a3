package model

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
)

//go:embed prices/*.yaml
var embedded embed.FS

// Prices knows what models cost, and since when. Safe for concurrent use.
type Prices struct {
	names    map[string][]price // by valid_from, oldest first
	prefixes []string           // of names ending in *, longest first
	windows  map[string]Window
}

// Window is how much a model takes and gives, in tokens; 0 = nobody said.
type Window struct {
	// Input is the most that a request may hold.
	Input int64
	// Output is the most that an answer may have.
	Output int64
}

// price is what a model costs from a day on.
type price struct {
	from   time.Time
	table  string
	source string // where it was read; empty = not said
	tiers  []tier // by above, highest first; the last is above -1
}

// tier is what each token of a request costs whose input is above a size.
type tier struct {
	above                                int64
	input, output, cacheRead, cacheWrite rate
}

// rate is per million tokens; nil = unknown, which is not free.
type rate *events.PicoUSD

// DefaultPrices returns the prices this build was made with.
var DefaultPrices = sync.OnceValue(func() *Prices {
	sub, err := fs.Sub(embedded, "prices")
	if err == nil {
		var p *Prices
		if p, err = LoadPrices(sub); err == nil {
			return p
		}
	}
	panic(err) // the files are compiled in and a test reads them
})

// LoadPrices reads every *.yaml file at the root of each file system, in order
// of their names. A model that is named again replaces the one before, whole:
// so a deployment's own prices go behind the defaults. In a file that says
// "continues: true" its prices go behind the earlier ones, which count until then;
// of two that are valid from the same day the later file's is taken. A window that
// is not given again stays. The faults of all files are reported at once, each
// with file, line and field.
func LoadPrices(systems ...fs.FS) (*Prices, error) {
	p := &Prices{names: map[string][]price{}, windows: map[string]Window{}}
	for _, fsys := range systems {
		files, err := fs.Glob(fsys, "*.yaml")
		if err != nil {
			return nil, fmt.Errorf("load prices: %w", err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("load prices: no *.yaml file there")
		}
		for _, name := range files {
			b, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, fmt.Errorf("load prices: %w", err)
			}
			if err := p.add(path.Base(name), b); err != nil {
				return nil, fmt.Errorf("load prices: %w", err)
			}
		}
	}
	p.order()
	return p, nil
}

// With returns p and what text, a price file of that name, says: as [LoadPrices]
// has it where that file comes last. p is not changed.
func (p *Prices) With(name string, text []byte) (*Prices, error) {
	more := &Prices{names: maps.Clone(p.names), windows: maps.Clone(p.windows)}
	if err := more.add(name, text); err != nil {
		return nil, fmt.Errorf("load prices: %w", err)
	}
	more.order()
	return more, nil
}

// DefaultPricesWith returns the table that ships with files put upon it, the last on
// top. Errors name the file, line and field.
func DefaultPricesWith(files ...string) (*Prices, error) {
	p := DefaultPrices()
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if p, err = p.With(filepath.Base(name), b); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// order sorts the prefixes.
func (p *Prices) order() {
	for name := range p.names {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			p.prefixes = append(p.prefixes, prefix)
		}
	}
	slices.SortFunc(p.prefixes, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
}

func (p *Prices) add(file string, b []byte) error {
	f, m := strictyaml.Parse(file, b, 0)
	table := m.Need("table", `a name with a date, such as "my-prices-2026-01": it is kept on every row`)
	source, continues := m.Text("source"), m.Bool("continues")
	seen := map[string]bool{}
	for _, mm := range m.Maps("models") {
		names := append([]string{mm.Need("name", "the model's name as the provider sends it")}, mm.Texts("aliases")...)
		var history []price
		for _, pm := range mm.Maps("prices") {
			history = append(history, readPrice(pm, table, source))
		}
		if len(history) == 0 {
			mm.Fault("prices", "missing; write a list with at least one entry that has valid_from, input and output")
		}
		slices.SortStableFunc(history, func(a, b price) int { return a.from.Compare(b.from) })
		for i := 1; i < len(history); i++ {
			if history[i].from.Equal(history[i-1].from) {
				mm.Fault("prices", "two entries are valid from %s; keep one", history[i].from.Format(time.DateOnly))
			}
		}
		w := Window{Input: mm.Int("context", 1), Output: mm.Int("max_output", 1)}
		mm.Done("a model")
		for _, n := range names {
			if n != "" && seen[n] {
				mm.Fault("name", "%q stands for two models of this file; keep one", n)
			}
			seen[n] = true
			if continues {
				p.names[n] = continued(p.names[n], history)
			} else {
				p.names[n] = history
			}
			was := p.windows[n]
			p.windows[n] = Window{Input: cmp.Or(w.Input, was.Input), Output: cmp.Or(w.Output, was.Output)}
		}
	}
	m.Done("a price file")
	return f.Err()
}

// continued is the history of a model that a later file adds to.
func continued(before, added []price) []price {
	all := slices.DeleteFunc(slices.Clone(before), func(b price) bool {
		return slices.ContainsFunc(added, func(a price) bool { return a.from.Equal(b.from) })
	})
	all = append(all, added...)
	slices.SortStableFunc(all, func(a, b price) int { return a.from.Compare(b.from) })
	return all
}

func readPrice(m *strictyaml.Map, table, source string) price {
	p := price{table: table, source: source}
	if s, ok := m.Scalar("valid_from"); !ok {
		m.Fault("valid_from", "missing; write the first day of this price, such as 2026-01-31")
	} else if t, err := time.Parse(time.DateOnly, s); err != nil {
		m.Fault("valid_from", "want a day such as 2026-01-31, got %q", s)
	} else {
		p.from = t
	}
	p.tiers = append(p.tiers, readTier(m, -1))
	for _, tm := range m.Maps("tiers") {
		above := tm.Int("above", 1)
		if !tm.Has("above") {
			tm.Fault("above", "missing; write the input tokens from which on this tier prices the whole request")
		}
		p.tiers = append(p.tiers, readTier(tm, above))
		tm.Done("a tier")
	}
	m.Done("a price")
	slices.SortStableFunc(p.tiers, func(a, b tier) int { return int(b.above - a.above) })
	return p
}

func readTier(m *strictyaml.Map, above int64) tier {
	t := tier{above: above, input: readRate(m, "input"), output: readRate(m, "output"), cacheRead: readRate(m, "cache_read"), cacheWrite: readRate(m, "cache_write")}
	for _, k := range []string{"input", "output"} {
		if !m.Has(k) {
			m.Fault(k, `missing; write dollars per million tokens in quotes, such as "3.75"`)
		}
	}
	return t
}

// readRate reads dollars per million tokens. With six decimals at most, a
// single token is a whole number of pico-dollars and every sum is exact.
func readRate(m *strictyaml.Map, key string) rate {
	if !m.Has(key) {
		return nil
	}
	s := m.Text(key)
	if s == "" {
		return nil // not a text: said already
	}
	v, err := events.ParsePico(s)
	if err != nil || v.Sign() < 0 || !v.IsInt64() || v.Int64()%perMillion != 0 {
		m.Fault(key, `want dollars per million tokens with six decimals at most, such as "3.75", got %q`, s)
		return nil
	}
	r := events.PicoUSD(v.Int64())
	return &r
}

const perMillion = 1_000_000

// dated is a date that providers put behind the name of a model.
var dated = regexp.MustCompile(`-(20\d{6}|20\d\d-\d\d-\d\d|latest)$`)

// resolve returns the listed name that stands for a model. In this order: the name or an
// alias as it is written; the same without a date at its end ("-20250929",
// "-2025-09-29") or "-latest"; the longest listed "prefix*". Nothing else is
// guessed: the same model behind another provider has that provider's price.
func (p *Prices) resolve(model string) (listed string, ok bool) {
	if _, ok := p.names[model]; ok {
		return model, true
	}
	if bare := dated.ReplaceAllString(model, ""); bare != model {
		if _, ok := p.names[bare]; ok {
			return bare, true
		}
	}
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(model, prefix) {
			return prefix + "*", true
		}
	}
	return "", false
}

// Window returns how much a model takes and gives, by the name that its price
// stands under; the zero value if nobody said.
func (p *Prices) Window(model string) Window {
	name, _ := p.resolve(model)
	return p.windows[name]
}

// find returns the price of a model at a time, nil if it has none then.
func (p *Prices) find(model string, at time.Time) *price {
	name, _ := p.resolve(model)
	history := p.names[name]
	for i := len(history) - 1; i >= 0; i-- {
		if !history[i].from.After(at) {
			return &history[i]
		}
	}
	return nil
}

// Price returns what usage of the model that served costs at a time, and the
// rates it was priced at. Both are nil if that is not known: the model has no
// price at that time, the provider sent no usage, tokens were used that have no
// listed price, a count is below zero, or the amount is over an int64.
// Reasoning tokens are part of the output and priced as such.
func (p *Prices) Price(model string, at time.Time, u events.Usage) (*events.PicoUSD, *events.Rates) {
	pr := p.find(model, at)
	if pr == nil || u.Missing {
		return nil, nil
	}
	counts := []int64{u.Input, u.CacheRead, u.CacheWrite, u.Output}
	size := int64(0)
	for i, n := range counts {
		if n < 0 || n > 1<<60 { // four of these do not overflow
			return nil, nil
		}
		if i < 3 {
			size += n
		}
	}
	t := pr.tier(size)
	total := uint64(0)
	for i, r := range []rate{t.input, t.cacheRead, t.cacheWrite, t.output} {
		if counts[i] == 0 {
			continue
		}
		if r == nil {
			return nil, nil
		}
		hi, lo := bits.Mul64(uint64(counts[i]), uint64(*r)/perMillion)
		sum, carry := bits.Add64(total, lo, 0)
		if hi != 0 || carry != 0 || sum > 1<<63-1 {
			return nil, nil
		}
		total = sum
	}
	cost := events.PicoUSD(total)
	return &cost, &events.Rates{
		Table: pr.table, Input: known(t.input), Output: known(t.output),
		CacheRead: known(t.cacheRead), CacheWrite: known(t.cacheWrite),
	}
}

func (p *price) tier(size int64) *tier {
	for i := range p.tiers {
		if size > p.tiers[i].above {
			return &p.tiers[i]
		}
	}
	return &p.tiers[len(p.tiers)-1]
}

// known is a rate for the record, where unknown and unused are both left out.
func known(r rate) events.PicoUSD {
	if r == nil {
		return 0
	}
	return *r
}
