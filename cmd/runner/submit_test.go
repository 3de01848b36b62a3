package main

import (
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  ledger.Run
		code int
	}{
		{"finished", ledger.Run{State: ledger.Finished}, 0},
		{"failed", ledger.Run{State: ledger.Failed, Error: "broken"}, 3},
		{"cancelled", ledger.Run{State: ledger.Cancelled, CancelReason: "wrong customer"}, 4},
		{"waits for somebody", ledger.Run{State: ledger.Parked, ParkReason: events.ParkApproval}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(outcome(tt.run)); got != tt.code {
				t.Errorf("exit code %d, want %d", got, tt.code)
			}
		})
	}
}
