package ledgertest

import (
	"encoding/json"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Sample is a run of an owner and what belongs to it: one of everything that a
// ledger shows of a run, for tests of who may see it.
type Sample struct {
	Run ledger.Run
	// Child was begun for it and has nothing.
	Child    ledger.Run
	Effect   events.Hash // in doubt; the run is parked on it
	Approval events.ID   // nobody has decided
	Blob     events.Hash // content of an artifact
}

// FillSample makes a sample in a migrated ledger. It also has two readonly calls,
// a model call, a version of an artifact and a fact that has no number yet.
func FillSample(t tb, st Store, tenant, owner string) Sample {
	t.Helper()
	return FillSampleSaying(t, st, tenant, owner, `{}`)
}

// FillSampleSaying is FillSample with a call whose arguments, a JSON object, are args.
func FillSampleSaying(t tb, st Store, tenant, owner, args string) Sample {
	t.Helper()
	h := Harness{Store: st}
	a := start(t, h, ofTenant(tenant), ownedBy(owner))
	s := Sample{Run: a.run}
	a.opening()
	a.turn(1, 2)
	a.note(events.ToolExecutionBlocked{Call: events.CallID{Turn: 1, Index: 9}, Tool: "note", Reason: "unknown_tool", Arguments: json.RawMessage(args), Result: events.ToolResult{Status: "failed", Error: "no"}})
	var err error
	if s.Blob, err = st.PutBlob(t.Context(), tenant, "text/plain", []byte("notes of "+owner+" of "+tenant+" in "+a.run.ID.String())); err != nil {
		t.Fatalf("put blob: %v", err)
	}
	a.note(events.ArtifactValidationFinished{Turn: 1, Artifact: "notes", OK: true, Content: s.Blob, Bytes: 3})
	v := a.want(ledger.Execute, refund(call(2, 0)))
	s.Effect = v.Ref.OpKey
	a.end(v.Ref.Token, ledger.Unclear)
	s.Approval = a.asked(refund(ask, order(8), call(2, 1))).Approval
	s.Child = a.mustSpawn(5)
	if err := a.park(events.ParkInDoubt, s.Effect); err != nil {
		t.Fatalf("park: %v", err)
	}
	if err := st.Signal(t.Context(), a.run.ID, ledger.Signal{Name: "note", From: "ada", Data: json.RawMessage(`{}`)}); err != nil {
		t.Fatalf("signal: %v", err)
	}
	for range 100 { // it takes the runs in turn
		n, err := st.FoldBehind(t.Context(), 0, 100)
		if err != nil {
			t.Fatalf("fold: %v", err)
		}
		if n == 0 {
			return s
		}
	}
	t.Fatalf("fold: no end to it")
	return s
}

// Shared is an effect that runs of two owners have attempted, which the second has.
func Shared(t tb, st Store, tenant, first, second string) (effect events.Hash, one, two ledger.Run) {
	t.Helper()
	h := Harness{Store: st}
	of := func(in *ledger.Intent) { in.Scope, in.Window = ledger.ScopeTenant, time.Hour }
	a, b := start(t, h, ofTenant(tenant), ownedBy(first)), start(t, h, ofTenant(tenant), ownedBy(second))
	a.opening()
	b.opening()
	v := a.want(ledger.Execute, refund(of, order(9)))
	a.end(v.Ref.Token, ledger.NotApplied)
	w := b.want(ledger.Execute, refund(of, order(9)))
	if v.Ref.OpKey != w.Ref.OpKey {
		t.Fatalf("two effects where one was to be shared")
	}
	b.end(w.Ref.Token, ledger.Unclear)
	return w.Ref.OpKey, a.run, b.run
}

// Awaited is an effect in doubt that a run of the first owner has, and a run of the
// second is parked on.
func Awaited(t tb, st Store, tenant, first, second string) (effect events.Hash, one, two ledger.Run) {
	t.Helper()
	h := Harness{Store: st}
	of := func(in *ledger.Intent) { in.Scope, in.Window = ledger.ScopeTenant, time.Hour }
	a, b := start(t, h, ofTenant(tenant), ownedBy(first)), start(t, h, ofTenant(tenant), ownedBy(second))
	a.opening()
	b.opening()
	v := a.want(ledger.Execute, refund(of, order(9)))
	a.end(v.Ref.Token, ledger.Unclear)
	if err := b.park(events.ParkEffectBusy, v.Ref.OpKey); err != nil {
		t.Fatalf("park: %v", err)
	}
	return v.Ref.OpKey, a.run, b.run
}
