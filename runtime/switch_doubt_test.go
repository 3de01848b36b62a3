package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

// TestKeyedCallInDoubtGoesOnWhenItsToolIsOnAgain switches a tool off while nobody
// knows what became of its call: it waits, says for what, and is made again under
// the same key once the tool is on.
func TestKeyedCallInDoubtGoesOnWhenItsToolIsOnAgain(t *testing.T) {
	var p provider
	in, out := make(chan struct{}), make(chan struct{})
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: 30 * time.Second, Recovery: tools.Keyed(time.Hour)},
		func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
			if p.apply(inv.OpKey) == 1 {
				close(in)
				<-out
				return "", errors.New("connection reset")
			}
			return "paid", nil
		}))
	w.start()
	id := w.submit("go").ID
	<-in
	w.setSwitch(ledger.SwitchOff)
	close(out)
	w.until("it waits in doubt", func() bool {
		r, err := w.store.Run(t.Context(), id)
		return err == nil && r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt
	})
	if park := last[events.RunParked](w, id); !strings.Contains(park.Detail, "ledgerctl tools on pay") || park.OpKey.IsZero() {
		t.Errorf("parked: %+v", park)
	}
	w.setSwitch(ledger.SwitchOn)
	r := w.wait(id, false)
	if r.State != ledger.Finished || len(p.keys) != 2 || p.keys[0] != p.keys[1] {
		t.Errorf("run is %s, keys %v\n%s", r.State, p.keys, w.story(id))
	}
	w.whole()
}
