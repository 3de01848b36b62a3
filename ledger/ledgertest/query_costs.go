package ledgertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// costWorld is some runs of several days, tenants, owners, agents and queues.
type costWorld struct {
	t      *testing.T
	h      Harness
	r      *rand.Rand
	actors []*actor
	runs   []ledger.Run
	models map[events.RunID][]ledger.ModelCallRow // as read by check
	calls  map[events.RunID][]ledger.CallRecord
}

// days of the runs; the calls of some go on over midnight.
var costDays = []time.Time{
	time.Date(2026, 1, 30, 10, 0, 0, 0, time.UTC),
	time.Date(2026, 1, 30, 23, 59, 59, 999_000_000, time.UTC),
	time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
	time.Date(2026, 2, 3, 23, 30, 0, 0, time.UTC),
}

// newCostWorld queues runs. Their tellers begin at the moment of their ids: what
// is recorded carries the time that its holder gave it.
func newCostWorld(t *testing.T, h Harness, n int) *costWorld {
	w := &costWorld{t: t, h: h, r: rand.New(rand.NewPCG(7, uint64(n)))} //nolint:gosec // a test that can be repeated
	for i := range n {
		at := costDays[i%len(costDays)]
		id := events.NewIDs(func() time.Time { return at }, nil).Run()
		run := submit(t, h, func(s *ledger.Submission) {
			s.ID, s.Tenant = id, []string{"acme", "globex"}[i%2]
			s.Owner = []string{"ann", "bob", ""}[i%3]
			s.Agent = []string{"clerk", "scout"}[i/2%2]
			s.Queue = fmt.Sprintf("queue-%d", i%3)
		})
		cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: fmt.Sprint("w", i), Queues: []string{run.Queue}, TTL: leaseTTL, Capabilities: []string{"agent/" + run.Agent}})
		if err != nil || len(cs) != 1 || cs[0].Run.ID != run.ID {
			t.Fatalf("claim: %+v, %v", cs, err)
		}
		a := &actor{t: t, h: h, run: cs[0].Run, lease: cs[0].Lease, prev: cs[0].Base.Hash, seen: map[events.ID]bool{}, worker: cs[0].Lease.Worker}
		w.actors, w.runs = append(w.actors, a), append(w.runs, a.run)
		a.last = at
		a.noteAt(events.RunQueued{Agent: a.run.Agent, Owner: a.run.Owner, Root: a.run.Root, Input: a.run.Input, Queue: a.run.Queue, QueuedAt: at})
	}
	return w
}

// noteAt records an event at a.last.
func (a *actor) noteAt(p events.Payload) {
	a.t.Helper()
	j, err := testSeal.JSON(p)
	if err != nil {
		a.t.Fatalf("note: %v", err)
	}
	typ := events.TypeOf(p)
	v, _ := events.CurrentVersion(typ)
	s, err := events.Seal(events.Envelope{
		ID: testIDs.Event(), RunID: a.run.ID, Seq: a.seq + 1, Epoch: a.lease.Epoch, Type: typ, Version: v, Time: events.Timestamp(a.last), Tenant: a.run.Tenant, Prev: a.prev,
	}, j)
	if err != nil {
		a.t.Fatalf("seal %s: %v", typ, err)
	}
	a.seq, a.prev = a.seq+1, s.Hash()
	a.prefix = append(a.prefix, s)
}

// steps lets every run go on by n events that cost something or might have.
func (w *costWorld) steps(n int) {
	for _, a := range w.actors {
		for range n {
			a.last = a.last.Add(time.Duration(w.r.IntN(20)) * time.Minute)
			w.step(a, int(a.seq)) //nolint:gosec // small
		}
	}
}

func (w *costWorld) step(a *actor, turn int) {
	cost := func() *events.PicoUSD {
		if w.r.IntN(4) == 0 {
			return nil
		}
		p := events.PicoUSD(w.r.Int64N(1 << 62))
		return &p
	}
	call := events.CallID{Turn: turn}
	model, tool := fmt.Sprint("m", w.r.IntN(3)), fmt.Sprint("tool", w.r.IntN(3))
	args := json.RawMessage(`{}`)
	switch w.r.IntN(9) {
	case 0: // unsettled for now, or for ever
		a.noteAt(events.ModelCallStarted{Turn: turn, Attempt: 1, Model: model})
	case 1:
		a.noteAt(events.ModelCallStarted{Turn: turn, Attempt: 1, Model: model})
		a.last = a.last.Add(time.Duration(w.r.IntN(60)) * time.Minute)
		a.noteAt(events.ModelCallFinished{Turn: turn, Attempt: 1, Model: model, ServedModel: "served-" + model, Cost: cost(), Usage: events.Usage{Input: w.r.Int64N(1000), Output: 7}})
	case 2: // the outcome of one that was asked for long ago, or that nobody knows
		a.noteAt(events.ModelCallFinished{Turn: w.r.IntN(turn), Attempt: 1, Model: model, Cost: cost(), Usage: events.Usage{Missing: w.r.IntN(2) == 0}})
	case 3:
		a.noteAt(events.ModelCallStarted{Turn: turn, Attempt: 1, Model: model})
		a.noteAt(events.ModelCallError{Turn: turn, Attempt: 1, Model: model, Cost: cost()})
	case 4:
		a.noteAt(events.ToolExecutionBlocked{Call: call, Tool: tool, Arguments: args, Reason: events.BlockedToolDenied, Result: events.ToolResult{Status: "failed"}})
	case 5:
		a.noteAt(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: tool, Effect: "readonly", Arguments: args, At: a.last})
	case 6: // late, or nobody knows of what
		a.noteAt(events.ToolExecutionFinished{Call: events.CallID{Turn: w.r.IntN(turn)}, Attempt: 1, Tool: tool, Result: events.ToolResult{Status: "completed", Cost: cost()}, At: a.last})
	case 7:
		a.noteAt(events.ToolExecutionFinished{Call: call, Attempt: 1, Tool: tool, Repeated: true, Result: events.ToolResult{Status: "completed", Cost: cost()}, At: a.last})
	case 8:
		a.noteAt(events.ToolExecutionError{Call: call, Attempt: 1, Tool: tool, Repeated: true, Result: events.ToolResult{Status: "failed", Cost: cost()}, At: a.last})
	default:
		a.noteAt(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: tool, Effect: "readonly", Arguments: args, At: a.last})
		a.noteAt(events.ToolExecutionError{Call: call, Attempt: 1, Tool: tool, Result: events.ToolResult{Status: "failed", Cost: cost()}, At: a.last})
	}
}

// project projects what every run has recorded, in batches of several.
func (w *costWorld) project() {
	w.t.Helper()
	var all []events.Sealed
	for _, a := range w.actors {
		all = append(all, a.sent()...)
	}
	for len(all) > 0 {
		n := min(len(all), 1+w.r.IntN(40))
		w.h.project(w.t, all[:n]...)
		all = all[n:]
	}
}

// want adds up the single calls that the ledger shows.
func (w *costWorld) want(f ledger.CostFilter) map[string]ledger.CostRow {
	w.t.Helper()
	sums := map[string]ledger.CostRow{}
	row := func(key string, add func(*ledger.CostRow)) {
		r, ok := sums[key]
		if !ok {
			r = ledger.CostRow{Key: key, ModelCost: new(big.Int), ToolCost: new(big.Int)}
		}
		add(&r)
		sums[key] = r
	}
	if f.By == "" {
		row("", func(*ledger.CostRow) {})
	}
	for _, run := range w.runs {
		at := time.UnixMilli(int64(run.ID[0])<<40 | int64(run.ID[1])<<32 | int64(run.ID[2])<<24 | int64(run.ID[3])<<16 | int64(run.ID[4])<<8 | int64(run.ID[5])).UTC()
		if f.Tenant != "" && f.Tenant != run.Tenant || f.Owner != "" && f.Owner != run.Owner ||
			at.Before(f.Since) || !f.Until.IsZero() && !at.Before(f.Until) {
			continue
		}
		key := func(name string, at time.Time) string {
			if f.By == "model" || f.By == "tool" {
				return name
			}
			return map[string]string{
				"run": run.ID.String(), "owner": run.Owner, "agent": run.Agent, "queue": run.Queue, "day": at.UTC().Format(time.DateOnly),
			}[f.By]
		}
		if f.By != "tool" {
			w.addModels(run, key, row)
		}
		if f.By != "model" {
			w.addTools(run, key, row)
		}
	}
	return sums
}

func (w *costWorld) addModels(run ledger.Run, key func(string, time.Time) string, row func(string, func(*ledger.CostRow))) {
	for _, m := range w.models[run.ID] {
		row(key(cmp.Or(m.ServedModel, m.Model), m.At), func(r *ledger.CostRow) {
			r.ModelCalls++
			switch {
			case m.State == "unsettled":
				r.Unsettled++
			case m.Cost != nil:
				r.ModelCost.Add(r.ModelCost, big.NewInt(int64(*m.Cost)))
			case m.Usage != nil:
				r.Unpriced++
			}
			if m.Usage != nil {
				r.InputTokens += m.Usage.Input
				r.OutputTokens += m.Usage.Output
			}
		})
	}
}

func (w *costWorld) addTools(run ledger.Run, key func(string, time.Time) string, row func(string, func(*ledger.CostRow))) {
	for _, c := range w.calls[run.ID] {
		if c.Repeated || c.Status != "finished" && c.Status != "error" && c.Status != "resolved" {
			continue
		}
		row(key(c.Tool, c.At), func(r *ledger.CostRow) {
			r.ToolCalls++
			if c.Cost == nil {
				r.Unmeasured++
				return
			}
			r.ToolCost.Add(r.ToolCost, big.NewInt(int64(*c.Cost)))
		})
	}
}

// check asks for every sum there is, in several times.
func (w *costWorld) check(when string) {
	w.t.Helper()
	w.models, w.calls = map[events.RunID][]ledger.ModelCallRow{}, map[events.RunID][]ledger.CallRecord{}
	for _, r := range w.runs {
		var err error
		if w.models[r.ID], err = w.h.Store.ModelCalls(w.t.Context(), r.ID); err != nil {
			w.t.Fatal(err)
		}
		if w.calls[r.ID], err = w.h.Store.Calls(w.t.Context(), ledger.CallFilter{Run: r.ID, All: true, Limit: 10_000}); err != nil {
			w.t.Fatal(err)
		}
	}
	midnight := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, f := range []ledger.CostFilter{
		{},
		{Tenant: "acme"},
		{Owner: "ann"},
		{Tenant: "globex", Owner: "bob"},
		{Since: midnight},
		{Until: midnight},
		{Since: midnight, Until: midnight.AddDate(0, 0, 1)},
		{Since: midnight.Add(-time.Millisecond)},
		{Since: midnight.Add(time.Millisecond), Tenant: "acme"},
		{Since: midnight.Add(-14 * time.Hour), Until: midnight.Add(12*time.Hour + time.Millisecond)},
		{Since: midnight.Add(time.Hour), Until: midnight.Add(13 * time.Hour)},
		{Since: midnight.Add(-20 * time.Hour), Until: midnight.AddDate(0, 0, 3).Add(23 * time.Hour), Owner: "ann"},
		{Since: midnight.AddDate(1, 0, 0)},
	} {
		for _, by := range []string{"", "run", "owner", "model", "tool", "agent", "queue", "day"} {
			f.By = by
			if d := differentSums(w.want(f), costs(w.t, w.h, f)); d != "" {
				w.t.Errorf("%s: %+v: wanted -, got +\n%s", when, f, d)
			}
		}
	}
}

func differentSums(want, got map[string]ledger.CostRow) string {
	return gocmp.Diff(want, got, gocmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 }))
}

// testCostsAddUp: sums over days, owners and the rest are those of the single
// calls, to the pico-dollar: while calls are open, when late outcomes come, after a
// takeover, and when runs are folded again.
func testCostsAddUp(t *testing.T, h Harness) {
	w := newCostWorld(t, h, 15)
	w.check("before anything was called")
	for round := range 4 {
		w.steps(6)
		w.project()
		w.check(fmt.Sprint("round ", round))
	}
	for i, a := range w.actors {
		if i%2 == 0 {
			a.noteAt(events.RunResumed{Worker: a.worker, Epoch: 1}) // closes what is open: what comes then is late
		}
	}
	w.steps(6)
	w.project()
	w.check("after takeovers")
	for _, r := range w.runs[:5] {
		if err := h.Store.Rebuild(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.check("after five runs were folded again")
	if err := h.Store.Rebuild(t.Context(), events.RunID{}); err != nil {
		t.Fatal(err)
	}
	w.check("after all were")
	if n := h.count(t, `SELECT count(*) FROM cost_days WHERE model_calls < 0 OR tool_calls < 0 OR (model_calls = 0 AND (model_milli <> 0 OR model_pico <> 0)) OR (tool_calls = 0 AND (tool_milli <> 0 OR tool_pico <> 0))`); n > 0 {
		t.Errorf("%d rows are counted out more often than in", n)
	}
	if err := h.Again(costDaysSchema); err != nil {
		t.Fatal(err)
	}
	w.check("after the step that made cost_days of the calls of an earlier version")
	w.steps(3)
	w.project()
	w.check("and as it goes on from there")
	w.tampered()
}

// tampered: sums that were changed are found, and rebuilding makes them right, also
// where it was the calls that were changed.
func (w *costWorld) tampered() {
	w.t.Helper()
	for _, q := range []string{
		`UPDATE cost_days SET model_pico = model_pico + 1 WHERE kind = 'model' AND run_day = '2026-01-30'`,
		`UPDATE cost_days SET run_day = '2026-01-29' WHERE run_day = '2026-01-30'`,
		`DELETE FROM cost_days WHERE run_day = '2026-02-03'`,
		`UPDATE tool_call_records SET cost_pico = cost_pico - 1`,
	} {
		if n := w.h.sql(w.t, q); n == 0 {
			w.t.Fatalf("%s changed nothing", q)
		}
		found := 0
		_, err := w.h.Store.Verify(w.t.Context(), events.RunID{}, func(f ledger.Finding) error {
			if f.Run.IsZero() && f.Kind == ledger.Tampered {
				found++
			}
			return nil
		})
		if err != nil || found == 0 {
			w.t.Errorf("%s: %d findings, %v", q, found, err)
		}
		if err := w.h.Store.Rebuild(w.t.Context(), events.RunID{}); err != nil {
			w.t.Fatal(err)
		}
		w.check("rebuilt after " + q)
		_, err = w.h.Store.Verify(w.t.Context(), events.RunID{}, func(f ledger.Finding) error {
			if f.Run.IsZero() {
				w.t.Errorf("rebuilt after %s: %s", q, f.Text)
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// costDaysSchema is the step that brought cost_days.
const costDaysSchema = 11
