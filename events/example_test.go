package events_test

import (
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// The holder of a run's lease numbers an event, chains it to the one before and
// seals it; whoever reads the stored bytes gets the typed event back.
func ExampleSeal() {
	run, err := events.ParseRunID("01JDX000000000000000000007")
	if err != nil {
		panic(err)
	}
	id, err := events.ParseID("01JDX000000000000000000009")
	if err != nil {
		panic(err)
	}
	payload := events.TurnStarted{Turn: 1}
	data, err := redact.New(redact.Config{}).JSON(payload)
	if err != nil {
		panic(err)
	}
	sealed, err := events.Seal(events.Envelope{
		ID: id, RunID: run, Seq: 1, Epoch: 1, Type: events.TypeOf(payload), Version: 1,
		Time: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Tenant: "acme", Prev: events.Genesis(run),
	}, data)
	if err != nil {
		panic(err)
	}

	stored, err := events.Parse(sealed.Bytes(), sealed.Hash())
	if err != nil {
		panic(err)
	}
	event, err := stored.Decode()
	if err != nil {
		panic(err)
	}
	fmt.Println(event.Seq, event.Type, event.Data.(events.TurnStarted).Turn)
	fmt.Println(string(sealed.Bytes()[:70]) + "…")
	// Output:
	// 1 turn_started 1
	// {"data":{"turn":1},"epoch":1,"id":"01JDX000000000000000000009","prev":…
}

func ExampleChain() {
	run := events.RunID{1}
	var chain events.Chain
	for seq := uint64(1); seq <= 3; seq++ {
		_, prev := chain.Head()
		if seq == 1 {
			prev = events.Genesis(run)
		}
		data, err := redact.New(redact.Config{}).JSON(events.TurnStarted{Turn: int(seq)})
		if err != nil {
			panic(err)
		}
		s, err := events.Seal(events.Envelope{
			ID: events.ID{byte(seq)}, RunID: run, Seq: seq, Epoch: 1, Type: "turn_started", Version: 1,
			Time: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Tenant: "acme", Prev: prev,
		}, data)
		if err != nil {
			panic(err)
		}
		if err := chain.Add(s); err != nil {
			fmt.Println(err)
		}
	}
	seq, _ := chain.Head()
	fmt.Println(seq)
	// Output: 3
}
