package ledger_test

import (
	"encoding/json"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func TestDeclinedBecause(t *testing.T) {
	for result, want := range map[string]string{
		`"unsafe"`: "unsafe", `{"because":"not_covered","detail":"paid in EUR"}`: "not_covered", `{"declined_because":"No.","output":{"because":"x"}}`: "No.",
		``: "", `7`: "", `{"because":7}`: "", `[]`: "",
	} {
		r := ledger.Run{StoppedBy: events.StoppedByDeclined, Result: json.RawMessage(result)}
		if got := r.DeclinedBecause(); got != want {
			t.Errorf("%s: %q, want %q", result, got, want)
		}
		if r.StoppedBy = events.StoppedByFinish; r.DeclinedBecause() != "" {
			t.Errorf("%s: a run that finished declined because %q", result, r.DeclinedBecause())
		}
	}
}
