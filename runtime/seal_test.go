package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// exactLedger keeps what replays hand back.
type exactLedger struct {
	*sqlstore.Store
	exact atomic.Value
}

func (l *exactLedger) Begin(ctx context.Context, le ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	v, err := l.Store.Begin(ctx, le, p, in)
	if err == nil && v.Kind == ledger.Replay {
		l.exact.Store(append([]byte{}, v.Exact...))
	}
	return v, err
}

// What a tool returned comes back byte for byte in another run of the session on
// another worker, and stays redacted wherever it is recorded.
func TestSealedResultIsReplayedExactly(t *testing.T) {
	const secret = "sk-very-secret-value-1"
	paid := atomic.Int64{}
	w := newWorld(t, scripted.Script(payOnce, finish, payOnce, finish), pay(tools.Definition{Scope: tools.ScopeSession}, func(context.Context, *tools.Invocation, text) (string, error) {
		paid.Add(1)
		return "paid with " + secret, nil
	}))
	if err := w.red.Register("card", secret); err != nil {
		t.Fatal(err)
	}
	sealer, err := ledger.NewSealer(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	st := w.sealed(sealer)
	first := w.startOn(st)
	submit := func() ledger.Run {
		r, _, err := w.client().Submit(t.Context(), runtime.Submit{Agent: "tester", Input: "go", ClientKey: events.NewIDs(nil, nil).Event().String(), SessionID: "s", Owner: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		return w.wait(r.ID, false)
	}
	one := submit()
	first.stop(t)
	l := &exactLedger{Store: st}
	w.startOn(l)
	two := submit()
	if paid.Load() != 1 || two.State != ledger.Finished {
		t.Fatalf("paid %d times, run %s\n%s", paid.Load(), two.State, w.story(two.ID))
	}
	if got, _ := l.exact.Load().([]byte); string(got) != "paid with "+secret {
		t.Errorf("replayed %q", got)
	}
	for _, r := range []ledger.Run{one, two} {
		if strings.Contains(w.story(r.ID), secret) {
			t.Errorf("the history holds the secret\n%s", w.story(r.ID))
		}
	}
	w.whole()
}

// sealed is the world's ledger, opened with a seal key.
func (w *world) sealed(s *ledger.Sealer) *sqlstore.Store {
	w.t.Helper()
	st, err := sqlite.Open(w.t.Context(), sqlite.Config{Path: w.path, Store: sqlstore.Config{Redactor: w.red, Sealer: s}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = st.Close() })
	return st
}

var marker = regexp.MustCompile(`\[REDACTED:card:([0-9a-f]{8})\]`)

func TestFingerprintsAreThoseOfTheRunsTenant(t *testing.T) {
	const secret = "sk-very-secret-value-2"
	answers := []scripted.Answer{}
	for range 3 {
		answers = append(answers, payOnce, finish)
	}
	w := newWorld(t, scripted.Script(answers...), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "paid with " + secret, nil
	}))
	if err := w.red.Register("card", secret); err != nil {
		t.Fatal(err)
	}
	w.start()
	print := func(tenant string) string {
		r, _, err := w.client().Submit(t.Context(), runtime.Submit{
			Tenant: tenant, Agent: "tester", Input: json.RawMessage(`{"use":"` + secret + `"}`), ClientKey: events.NewIDs(nil, nil).Event().String(),
		})
		if err != nil {
			t.Fatal(err)
		}
		w.wait(r.ID, false)
		found := map[string]bool{}
		n := 0
		for _, m := range marker.FindAllStringSubmatch(w.story(r.ID)+string(r.Input), -1) {
			found[m[1]] = true
			n++
		}
		if len(found) != 1 || n < 2 { // of the input and of the result
			t.Fatalf("%d markers with fingerprints %v\n%s", n, found, w.story(r.ID))
		}
		for f := range found {
			return f
		}
		return ""
	}
	a, again, b := print("acme"), print("acme"), print("globex")
	if a != again || a == b {
		t.Errorf("fingerprints %s, %s in acme and %s in globex", a, again, b)
	}
}
