package ledger

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachDay(t *testing.T) {
	day := func(key string) CostRow { return CostRow{Key: key, ModelCost: big.NewInt(1), ToolCost: big.NewInt(2)} }
	keys := func(rows []CostRow) (ks []string) {
		for _, r := range rows {
			ks = append(ks, r.Key)
			_ = r.ModelCost.Sign() + r.ToolCost.Sign() // never nil
		}
		return ks
	}
	for _, tt := range []struct {
		name       string
		rows, want []string
	}{
		{"none", nil, nil},
		{"one", []string{"2026-02-27"}, []string{"2026-02-27"}},
		{"over the end of a month", []string{"2026-02-27", "2026-03-02"}, []string{"2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"}},
		{"a clock that was wrong once", []string{"1970-01-01", "2026-03-02"}, []string{"1970-01-01", "2026-03-02"}},
		{"not a day", []string{"10889-01-01", "2026-03-02"}, []string{"10889-01-01", "2026-03-02"}},
	} {
		var rows []CostRow
		for _, k := range tt.rows {
			rows = append(rows, day(k))
		}
		if d := cmp.Diff(tt.want, keys(EachDay(rows))); d != "" {
			t.Errorf("%s: wanted -, got +\n%s", tt.name, d)
		}
	}
}
