package torture

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
)

func effectsLog(dir string) string { return filepath.Join(dir, "provider-effects.jsonl") }
func invoiceLog(dir string) string { return filepath.Join(dir, "provider-invoice.jsonl") }

// step is one turn of a run: the calls its model asks for.
type step []call

type call struct {
	Tool string `json:"tool"`
	Item string `json:"item"`
}

// order is the input of a run: what its model will ask for, turn by turn.
type order struct {
	Steps []step `json:"steps"`
}

// planRun makes the n-th run of a seed. Every item belongs to one run, so that
// two effects with the same item are a duplicate whatever their keys say.
func planRun(seed uint64, n int) order {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	var o order
	var done []call
	for i := range 1 + r.IntN(3) {
		var look step
		for j := range r.IntN(4) {
			look = append(look, call{"look", fmt.Sprintf("r%06d-look-%d-%d", n, i, j)})
		}
		if len(look) > 0 {
			o.Steps = append(o.Steps, look)
		}
		act := call{string(kinds[r.IntN(len(kinds))]), fmt.Sprintf("r%06d-%d", n, i)}
		o.Steps = append(o.Steps, step{act})
		done = append(done, act)
		if r.IntN(10) == 0 { // a model that asks again for what was done
			o.Steps = append(o.Steps, step{done[r.IntN(len(done))]})
		}
	}
	return o
}

// clientKey names the n-th run.
func clientKey(n int) string { return fmt.Sprintf("torture-%06d", n) }
