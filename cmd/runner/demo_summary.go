package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/system"
)

// summary is what a demo came to. Its JSON names are a contract.
type summary struct {
	Rows             int            `json:"rows"`
	Rejected         int            `json:"rejected"`
	Runs             int            `json:"runs"`
	Finished         int            `json:"finished"`
	Parked           int            `json:"parked"`
	Failed           int            `json:"failed"`
	Cancelled        int            `json:"cancelled"`
	Forgotten        int            `json:"forgotten"`
	Kills            int            `json:"kills"`
	ToolCalls        int64          `json:"tool_calls"`
	DestructiveCalls int64          `json:"destructive_calls"`
	ProviderEffects  int            `json:"provider_effects"`
	DuplicateEffects int            `json:"duplicate_effects"`
	Replayed         int64          `json:"replayed"`
	InDoubt          int            `json:"in_doubt"`
	Unpriced         int64          `json:"unpriced"`
	CostUSD          string         `json:"cost_usd"`
	Void             bool           `json:"void"`
	Recovery         string         `json:"recovery"`
	Seed             uint64         `json:"seed"`
	StoppedBy        map[string]int `json:"stopped_by"`
	ProviderLog      string         `json:"provider_log"`
	DataDir          string         `json:"data_dir"`
	Seconds          float64        `json:"seconds"`
	RejectedRows     []rejected     `json:"rejected_rows"`
	Doubts           []doubt        `json:"doubts"`

	ledgerctl string // the beginning of the next command to type
}

// doubt is an effect that a person has to look at.
type doubt struct {
	Run     string `json:"run"`
	Order   string `json:"order_id"`
	Resolve string `json:"resolve"`
}

// summary reads what happened: from the ledger, and money from the provider's own log.
func (s *supervisor) summary(ctx context.Context, took time.Duration) (*summary, error) {
	o := s.app.opts
	next := ledgerctl() + " --dir " + quote(s.flags.dataDir)
	if !o.Embedded() {
		next = ledgerctl() + " --postgres URL" // it may hold a password
	}
	sum := &summary{
		Rows: len(s.rows) + len(s.bad), Rejected: len(s.bad), RejectedRows: s.bad, Kills: len(s.kills), StoppedBy: map[string]int{},
		Void: len(s.kills) < min(wantKills, s.flags.kills) || s.flags.kills < wantKills, Recovery: s.flags.recovery, Seed: s.flags.seed,
		ProviderLog: s.logPath(), DataDir: s.flags.dataDir, Seconds: took.Seconds(), ledgerctl: next,
	}
	if s.bad == nil {
		sum.RejectedRows = []rejected{}
	}
	st, _, err := system.OpenLedger(ctx, o)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := catchUp(ctx, st); err != nil {
		return nil, err
	}
	if err := sum.runs(ctx, st, s.tenant); err != nil {
		return nil, err
	}
	sum.Forgotten = sum.Rows - sum.Rejected - sum.Finished - sum.Parked - sum.Failed - sum.Cancelled
	if err := sum.doubts(ctx, st, s.tenant); err != nil {
		return nil, err
	}
	effects, err := payments.ReadLog(s.logPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	sum.ProviderEffects, sum.DuplicateEffects = len(effects), payments.Duplicates(effects)
	return sum, nil
}

// catchUp folds what barriers put into the archive after the last message.
func catchUp(ctx context.Context, st ledger.Store) error {
	for {
		n, err := st.FoldBehind(ctx, 0, 1000)
		if err != nil || n == 0 {
			return err
		}
	}
}

func (sum *summary) runs(ctx context.Context, st ledger.Store, tenant string) error {
	cost := new(big.Int)
	var before events.RunID
	for {
		rs, err := st.Summaries(ctx, ledger.RunFilter{Tenant: tenant, Limit: 500, Before: before})
		if err != nil {
			return err
		}
		if len(rs) == 0 {
			break
		}
		for _, r := range rs {
			sum.Runs++
			switch r.State {
			case ledger.Finished:
				sum.Finished++
			case ledger.Cancelled:
				sum.Cancelled++
			case ledger.Parked:
				if r.ParkReason == "" {
					break // waits for nothing that has a name
				}
				sum.Parked++
			case ledger.Failed:
				sum.Failed++
			}
			switch {
			case r.State == ledger.Parked:
				sum.StoppedBy["parked: "+string(r.ParkReason)]++
			case r.State.Ended():
				sum.StoppedBy[string(r.StoppedBy)]++
			}
			sum.ToolCalls += r.ToolCalls
			sum.DestructiveCalls += r.Destructive
			sum.Replayed += r.Repeated
			sum.Unpriced += r.Unpriced
			if r.Cost != nil {
				cost.Add(cost, r.Cost)
			}
		}
		before = rs[len(rs)-1].ID
	}
	sum.CostUSD = events.FormatPico(cost)
	return nil
}

func (sum *summary) doubts(ctx context.Context, st ledger.Store, tenant string) error {
	sum.Doubts = []doubt{}
	es, err := st.Effects(ctx, ledger.EffectFilter{Tenant: tenant, States: []events.EffectState{events.EffectInDoubt}, Limit: 1000})
	if err != nil {
		return err
	}
	sum.InDoubt = len(es)
	for _, e := range es {
		var id struct {
			Order string `json:"order_id"`
		}
		_ = json.Unmarshal(e.Identity, &id) // shown to a person; empty if it is something else
		sum.Doubts = append(sum.Doubts, doubt{
			Run: e.Run.String(), Order: id.Order,
			Resolve: fmt.Sprintf("%s resolve %s --applied|--not-applied --note WHY", sum.ledgerctl, e.OpKey.String()[:16]),
		})
	}
	return nil
}

func (a *app) printSummary(sum *summary, output string) error {
	if output == "json" {
		return json.NewEncoder(a.out).Encode(sum)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(name string, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(a.out, "\n%s\n\n", sum.headline())
	line("refund requests", "%d rows: %d runs, %d rejected", sum.Rows, sum.Runs, sum.Rejected)
	line("runs", "%d finished, %d parked, %d failed, %d forgotten", sum.Finished, sum.Parked, sum.Failed+sum.Cancelled, sum.Forgotten)
	for _, k := range sortedKeys(sum.StoppedBy) {
		line("", "%d %s", sum.StoppedBy[k], k)
	}
	line("workers killed", "%s", killed(sum.Kills))
	line("tool calls", "%d, of them %d destructive; %d answered with an earlier result", sum.ToolCalls, sum.DestructiveCalls, sum.Replayed)
	line("refunds at the provider", "%d, on %d orders more than one", sum.ProviderEffects, sum.DuplicateEffects)
	line("in doubt", "%d", sum.InDoubt)
	cost := sum.CostUSD + " USD"
	if sum.Unpriced > 0 {
		cost += fmt.Sprintf(", and %d model calls without a price", sum.Unpriced)
	}
	line("model cost", "%s", cost)
	line("time", "%.1f s", sum.Seconds)
	line("provider's own log", "%s", sum.ProviderLog)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range sum.RejectedRows {
		fmt.Fprintf(a.out, "\nrejected: %s", r.Error)
	}
	if len(sum.RejectedRows) > 0 {
		fmt.Fprintln(a.out)
	}
	if len(sum.Doubts) > 0 {
		fmt.Fprintf(a.out, "\nDaybook cannot know whether these refunds happened. Look into the provider's log, then say so:\n")
		for _, d := range sum.Doubts {
			fmt.Fprintf(a.out, "  %s (run %s)\n    %s\n", d.Order, d.Run, d.Resolve)
		}
	}
	fmt.Fprintf(a.out, "\nAsk the ledger:\n")
	for _, next := range []string{"runs list", "verify", "calls list --tool refund", "costs"} {
		fmt.Fprintf(a.out, "  %s %s\n", sum.ledgerctl, next)
	}
	return nil
}

// shown says whether the demo has shown what it is there to show.
func (sum *summary) shown() bool {
	return sum.DuplicateEffects == 0 && sum.Forgotten == 0 && sum.Failed+sum.Cancelled == 0 && !sum.Void
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func killed(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, each while the provider held its request", n)
}

// headline is the one line to remember.
func (sum *summary) headline() string {
	switch {
	case sum.DuplicateEffects > 0:
		return fmt.Sprintf("%s made more than once. This is a bug in Daybook: please report it with seed %d.", count(sum.DuplicateEffects, "refund was", "refunds were"), sum.Seed)
	case sum.Forgotten > 0:
		return fmt.Sprintf("Nobody was refunded twice, but %s forgotten. This is a bug in Daybook: please report it with seed %d.", count(sum.Forgotten, "run was", "runs were"), sum.Seed)
	case sum.Failed+sum.Cancelled > 0:
		return fmt.Sprintf("Nobody was refunded twice, but %s: see %s runs list --state failed", count(sum.Failed+sum.Cancelled, "run failed", "runs failed"), sum.ledgerctl)
	case sum.Void:
		return fmt.Sprintf("Void: a demo needs %d killed workers to show anything, this one had %d. The backlog makes %s, and --kills says how many are hit.",
			wantKills, sum.Kills, count(sum.ProviderEffects, "refund", "refunds"))
	case sum.InDoubt > 0:
		return fmt.Sprintf("Nobody was refunded twice and nobody was forgotten; %s in doubt and for a person to settle.", count(sum.InDoubt, "refund is", "refunds are"))
	default:
		return "Nobody was refunded twice, and nobody was forgotten."
	}
}

// sortedKeys returns the most frequent first, then by name.
func sortedKeys(m map[string]int) []string {
	ks := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(ks, func(a, b string) int { return m[b] - m[a] })
	return ks
}
