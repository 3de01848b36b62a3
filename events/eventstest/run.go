package eventstest

import (
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// redactor is made once: it is safe for concurrent use and costs milliseconds.
var redactor = sync.OnceValue(func() *redact.Redactor { return redact.New(redact.Config{}) })

// Run makes the events of one run: dense, chained, sealed. It is not safe for
// concurrent use.
type Run struct {
	t      testing.TB
	red    *redact.Redactor
	ids    *events.IDs
	ID     events.RunID
	Tenant string
	Epoch  uint64
	seq    uint64
	head   events.Hash
	now    time.Time
}

// NewRun returns an empty run of tenant "acme".
func NewRun(t testing.TB) *Run {
	ids := events.NewIDs(nil, nil)
	id := ids.Run()
	return &Run{
		t: t, red: redactor(), ids: ids,
		ID: id, Tenant: "acme", Epoch: 1, head: events.Genesis(id), now: time.Now(),
	}
}

// Next seals the next event.
func (r *Run) Next(p events.Payload) events.Sealed {
	r.t.Helper()
	data, err := r.red.JSON(p)
	if err != nil {
		r.t.Fatalf("redact: %v", err)
	}
	typ := events.TypeOf(p)
	version, _ := events.CurrentVersion(typ)
	r.seq++
	r.now = r.now.Add(time.Millisecond)
	s, err := events.Seal(events.Envelope{
		ID: r.ids.Event(), RunID: r.ID, Seq: r.seq, Epoch: r.Epoch, Type: typ, Version: version,
		Time: r.now, Tenant: r.Tenant, Prev: r.head,
	}, data)
	if err != nil {
		r.t.Fatalf("seal: %v", err)
	}
	r.head = s.Hash()
	return s
}

// Turns seals n events of one small type.
func (r *Run) Turns(n int) []events.Sealed {
	r.t.Helper()
	es := make([]events.Sealed, n)
	for i := range es {
		es[i] = r.Next(events.TurnStarted{Turn: i + 1})
	}
	return es
}
