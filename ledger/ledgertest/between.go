package ledgertest

import (
	"context"
	"sync/atomic"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// Between is a store with something between it and its worker, which sees every
// call that moves a run: a bad network, for one. Reading goes straight to the store.
type Between struct {
	*sqlstore.Store
	// Call stands for one call. It may ask the store any number of times, also
	// after it has returned. The worker hears what came last by then, or the error
	// that Call returns and nothing else. The run is zero where it is about several.
	Call func(ctx context.Context, what string, run events.RunID, ask func(context.Context) error) error
}

// through makes a call that has an answer.
func through[T any](ctx context.Context, b Between, what string, run events.RunID, ask func(context.Context) (T, error)) (T, error) {
	var last atomic.Pointer[T]
	err := b.Call(ctx, what, run, func(ctx context.Context) error {
		answer, err := ask(ctx)
		last.Store(&answer)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return *last.Load(), nil
}

// Claim implements ledger.Runs.
func (b Between) Claim(ctx context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	return through(ctx, b, "claim", events.RunID{}, func(ctx context.Context) ([]ledger.Claim, error) { return b.Store.Claim(ctx, r) })
}

// Base implements ledger.Runs.
func (b Between) Base(ctx context.Context, l ledger.Lease) (ledger.Base, error) {
	return through(ctx, b, "base", l.RunID, func(ctx context.Context) (ledger.Base, error) { return b.Store.Base(ctx, l) })
}

// Heartbeat implements ledger.Runs.
func (b Between) Heartbeat(ctx context.Context, worker string, ls []ledger.Lease) ([]ledger.Beat, error) {
	return through(ctx, b, "heartbeat", events.RunID{}, func(ctx context.Context) ([]ledger.Beat, error) { return b.Store.Heartbeat(ctx, worker, ls) })
}

// Flush implements ledger.Barriers.
func (b Between) Flush(ctx context.Context, l ledger.Lease, p ledger.Prefix) ([]events.Fact, error) {
	return through(ctx, b, "flush", l.RunID, func(ctx context.Context) ([]events.Fact, error) { return b.Store.Flush(ctx, l, p) })
}

// Park implements ledger.Barriers.
func (b Between) Park(ctx context.Context, l ledger.Lease, p ledger.Prefix, park ledger.Parking) error {
	return b.Call(ctx, "park", l.RunID, func(ctx context.Context) error { return b.Store.Park(ctx, l, p, park) })
}

// Finish implements ledger.Barriers.
func (b Between) Finish(ctx context.Context, l ledger.Lease, p ledger.Prefix, e ledger.Ending) error {
	return b.Call(ctx, "finish", l.RunID, func(ctx context.Context) error { return b.Store.Finish(ctx, l, p, e) })
}

// Release implements ledger.Barriers.
func (b Between) Release(ctx context.Context, l ledger.Lease, p ledger.Prefix) error {
	return b.Call(ctx, "release", l.RunID, func(ctx context.Context) error { return b.Store.Release(ctx, l, p) })
}

// Begin implements ledger.Effects.
func (b Between) Begin(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	return through(ctx, b, "begin", l.RunID, func(ctx context.Context) (ledger.Verdict, error) { return b.Store.Begin(ctx, l, p, in) })
}

// End implements ledger.Effects.
func (b Between) End(ctx context.Context, l ledger.Lease, p ledger.Prefix, out ledger.Outcome) (ledger.Settlement, error) {
	return through(ctx, b, "end", l.RunID, func(ctx context.Context) (ledger.Settlement, error) { return b.Store.End(ctx, l, p, out) })
}

// Resolve implements ledger.Effects.
func (b Between) Resolve(ctx context.Context, r ledger.Resolution) (ledger.Settlement, error) {
	return through(ctx, b, "resolve", events.RunID{}, func(ctx context.Context) (ledger.Settlement, error) { return b.Store.Resolve(ctx, r) })
}
