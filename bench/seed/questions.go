package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// question is what somebody asks a ledger: of the store, by a command, on the page.
type question struct {
	name string
	ask  func(context.Context, *sqlstore.Store) error // nil: the store has no such question
	args []string                                     // of ledgerctl; nil: it has no such question
	path string                                       // of the page; empty: it has no such side
}

// known are the runs and names of a ledger that questions are about.
type known struct {
	finished, failed, waiting, oldest ledger.Summary
	newest                            time.Time
}

// look finds, of each kind, one of the newest and one that is old.
func look(ctx context.Context, st *sqlstore.Store) (k known, err error) {
	for _, w := range []struct {
		what string
		f    ledger.RunFilter
		to   *ledger.Summary
	}{
		{"finished run", ledger.RunFilter{States: []ledger.State{ledger.Finished}}, &k.finished},
		{"failed run", ledger.RunFilter{States: []ledger.State{ledger.Failed}}, &k.failed},
		{"parked run", ledger.RunFilter{States: []ledger.State{ledger.Parked}}, &k.waiting},
	} {
		list, err := st.Summaries(ctx, w.f)
		if err != nil {
			return k, err
		}
		if len(list) == 0 {
			return k, errors.New("there is no " + w.what)
		}
		*w.to = list[len(list)/2]
	}
	k.newest = k.finished.CreatedAt
	old, err := st.Summaries(ctx, ledger.RunFilter{Before: events.RunID(idOf(k.newest.AddDate(0, 0, -15))), Limit: 1})
	if err != nil || len(old) == 0 {
		return k, errors.Join(errors.New("there is no run that is 15 days older than the newest"), err)
	}
	k.oldest = old[0]
	return k, nil
}

func idOf(t time.Time) (id [16]byte) {
	ms := t.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

func (k known) questions() []question {
	since := k.newest.AddDate(0, 0, -30)
	when := since.Format(time.RFC3339)
	runs := func(f ledger.RunFilter) func(context.Context, *sqlstore.Store) error {
		return func(ctx context.Context, st *sqlstore.Store) error { _, err := st.Summaries(ctx, f); return err }
	}
	calls := func(f ledger.CallFilter) func(context.Context, *sqlstore.Store) error {
		return func(ctx context.Context, st *sqlstore.Store) error { _, err := st.Calls(ctx, f); return err }
	}
	list := func(name string, args ...string) []string { return append([]string{name, "list"}, args...) }
	r := k.oldest
	qs := []question{
		{"runs", runs(ledger.RunFilter{}), list("runs"), "/runs"},
		{"runs of a tenant", runs(ledger.RunFilter{Tenant: r.Tenant}), list("runs", "--tenant", r.Tenant), "/runs?tenant=" + r.Tenant},
		{"runs of an agent", runs(ledger.RunFilter{Agent: "sync"}), list("runs", "--agent", "sync"), "/runs?agent=sync"},
		{"runs of an owner", runs(ledger.RunFilter{Owner: r.Owner}), list("runs", "--owner", r.Owner), "/runs?owner=" + r.Owner},
		{"runs of nobody", runs(ledger.RunFilter{Owner: "nobody"}), nil, ""},
		{"runs of a queue", runs(ledger.RunFilter{Queue: "slow"}), list("runs", "--queue", "slow"), "/runs?queue=slow"},
		{"runs that wait", runs(ledger.RunFilter{States: []ledger.State{ledger.Parked}}), list("runs", "--state", "parked"), "/runs?state=parked"},
		{"runs that failed", runs(ledger.RunFilter{States: []ledger.State{ledger.Failed}}), list("runs", "--state", "failed"), "/runs?state=failed"},
		{"runs from the middle on", runs(ledger.RunFilter{Before: r.ID}), list("runs", "--after", r.ID.String()), "/runs?before=" + r.ID.String()},
		{"runs, 1,000 of them", runs(ledger.RunFilter{Limit: 1000}), list("runs", "--limit", "1000"), ""},
		{"dead runs", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.Dead(ctx, ledger.DeadFilter{})
			return err
		}, []string{"runs", "dead"}, ""},
		{"one run", func(ctx context.Context, st *sqlstore.Store) error { _, err := st.Run(ctx, r.ID); return err }, []string{"runs", "show", r.ID.String()}, "/runs/" + r.ID.String()},
		{"its events", func(ctx context.Context, st *sqlstore.Store) error {
			return st.Events(ctx, r.ID, 1, func(events.Sealed) error { return nil })
		}, []string{"runs", "show", r.ID.String(), "--transcript"}, "/runs/" + r.ID.String() + "/events"},
		{"its model calls", func(ctx context.Context, st *sqlstore.Store) error { _, err := st.ModelCalls(ctx, r.ID); return err }, nil, ""},
		{"its verification", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.Verify(ctx, r.ID, func(ledger.Finding) error { return nil })
			return err
		}, []string{"verify", r.ID.String()}, ""},
		{"why a run waits", nil, []string{"why", k.waiting.ID.String()}, ""},
		{"why a run failed", nil, []string{"why", k.failed.ID.String()}, ""},
		{"why a run finished", nil, []string{"why", r.ID.String()}, ""},
		{"calls", calls(ledger.CallFilter{}), list("calls"), ""},
		{"calls of a tool", calls(ledger.CallFilter{Tool: "read_contact"}), list("calls", "--tool", "read_contact"), ""},
		{"calls of a tool of a tenant", calls(ledger.CallFilter{Tenant: r.Tenant, Tool: "refund"}), list("calls", "--tenant", r.Tenant, "--tool", "refund"), ""},
		{"calls of a tool that nobody called", calls(ledger.CallFilter{Tool: "nothing"}), nil, ""},
		{"calls that were blocked", calls(ledger.CallFilter{Status: "blocked"}), list("calls", "--status", "blocked"), ""},
		{"calls of a run", calls(ledger.CallFilter{Run: r.ID}), list("calls", "--run", r.ID.String()), ""},
		{"calls that are open", calls(ledger.CallFilter{Status: "started"}), list("calls", "--status", "started"), ""},
		{"how tools were used", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.ToolUses(ctx, ledger.ToolFilter{})
			return err
		}, []string{"tools", "used"}, ""},
		{"how tools were used, 30 days", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.ToolUses(ctx, ledger.ToolFilter{Since: since})
			return err
		}, []string{"tools", "used", "--since", when}, ""},
		{"effects in doubt", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.Effects(ctx, ledger.EffectFilter{States: []events.EffectState{events.EffectInDoubt}})
			return err
		}, []string{"indoubt"}, "/inbox"},
		{"approvals", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.Approvals(ctx, ledger.ApprovalFilter{Open: true})
			return err
		}, []string{"approvals"}, ""},
		{"what stands still", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.Stuck(ctx, ledger.StuckFilter{})
			return err
		}, []string{"stuck"}, ""},
		{"queues", func(ctx context.Context, st *sqlstore.Store) error { _, err := st.QueueStats(ctx, ""); return err }, list("queues"), "/queues"},
		{"how the ledger stands", func(ctx context.Context, st *sqlstore.Store) error { _, err := st.Vitals(ctx); return err }, nil, ""},
		{"artifacts", func(ctx context.Context, st *sqlstore.Store) error {
			_, err := st.Artifacts(ctx, ledger.ArtifactFilter{})
			return err
		}, list("artifacts"), ""},
	}
	for _, by := range []string{"", "day", "agent", "owner", "tool", "model", "queue", "run"} {
		name := "costs"
		args := []string{"costs"}
		if by != "" {
			name, args = "costs by "+by, append(args, "--by", by)
		}
		cost := func(f ledger.CostFilter) func(context.Context, *sqlstore.Store) error {
			f.By = by
			return func(ctx context.Context, st *sqlstore.Store) error { _, err := st.Costs(ctx, f); return err }
		}
		path := ""
		if by != "" && by != "run" && by != "day" { // the page shows days beside each of them
			path = "/costs?by=" + by
		}
		all := path
		if all != "" {
			all += "&since="
			path += "&since=" + since.Format(time.DateOnly)
		}
		qs = append(qs,
			question{name, cost(ledger.CostFilter{}), args, all},
			question{name + ", 30 days", cost(ledger.CostFilter{Since: since}), append(args[:len(args):len(args)], "--since", when), path},
		)
		if by == "day" || by == "tool" {
			qs = append(qs, question{name + ", of an owner", cost(ledger.CostFilter{Owner: r.Owner}), append(args[:len(args):len(args)], "--owner", r.Owner), ""})
		}
	}
	return append(qs, question{name: fmt.Sprintf("costs of a run of %d calls", r.ToolCalls), ask: func(ctx context.Context, st *sqlstore.Store) error {
		_, err := st.Costs(ctx, ledger.CostFilter{Run: r.ID, Lineage: true})
		return err
	}, args: []string{"costs", "--run", r.ID.String(), "--lineage"}})
}
