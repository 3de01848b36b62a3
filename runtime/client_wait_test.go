package runtime_test

import (
	"context"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

// A parked run whose awaited thing has come is not where it will stay: who waits
// for it is told what became of it, also if no worker has taken it yet.
func TestWaitGoesOnOnceAPersonHasDecided(t *testing.T) {
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "", errLost
	}))
	first := w.start()
	id := w.submit("go").ID
	r := w.wait(id, true)
	first.stop(t)
	if r.ParkReason != events.ParkInDoubt {
		t.Fatalf("run = %s %s, want in doubt", r.State, r.ParkReason)
	}
	if _, err := w.store.Resolve(t.Context(), ledger.Resolution{OpKey: r.ParkKey, State: events.EffectApplied, By: "ann", Note: "seen"}); err != nil {
		t.Fatal(err)
	}
	client := w.client()
	told := make(chan ledger.Run)
	go func() {
		defer close(told)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if r, err := client.Wait(ctx, id, true); err == nil {
			told <- r
		}
	}()
	w.start()
	if r, ok := <-told; !ok || r.State != ledger.Finished {
		t.Errorf("told of a run in state %q (%s), %t; want the finished one\n%s", r.State, r.ParkReason, ok, w.story(id))
	}
}
