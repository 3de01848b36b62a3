package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// TestDiskFull fills the database while effects begin and end: what has no room
// was not done and is said to be unavailable, and is done when there is room.
// RELIABILITY row 23.
func TestDiskFull(t *testing.T) {
	ctx, d := t.Context(), openTest(t)
	if _, err := d.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	red := redact.New(redact.Config{})
	st := sqlstore.New(d, sqlstore.Config{Redactor: red})
	pages := func(q string) (n int64) {
		err := d.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return tx.QueryRow(ctx, q).Scan(&n) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	fill := func() { pages(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages(`PRAGMA page_count`))) }
	empty := func() { pages(`PRAGMA max_page_count = 1000000`) }
	input, err := red.JSON("go")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.Submit(ctx, ledger.Submission{Tenant: "acme", Queue: "q", Agent: "clerk", ClientKey: "k", Input: input, InputMAC: []byte("m")}); err != nil {
		t.Fatal(err)
	}
	cs, err := st.Claim(ctx, ledger.ClaimRequest{Worker: "w", Queues: []string{"q"}, TTL: time.Hour})
	if err != nil || len(cs) != 1 {
		t.Fatalf("claimed %d, %v", len(cs), err)
	}
	args := json.RawMessage(`{"note":"` + strings.Repeat("x", 64<<10) + `"}`)
	in := ledger.Intent{
		Token: events.NewIDs(nil, bytes.NewReader(bytes.Repeat([]byte{7}, 64))).Event(), Call: events.CallID{Turn: 1}, Tool: "refund",
		Identity: json.RawMessage(`{"order":7}`), Arguments: args, Timeout: time.Minute,
	}
	fill()
	if v, err := st.Begin(ctx, cs[0].Lease, nil, in); !errors.Is(err, ledger.ErrUnavailable) || v.Kind != 0 {
		t.Fatalf("begun without room: verdict %d, %v", v.Kind, err)
	}
	effects := func() []ledger.Effect {
		es, err := st.Effects(ctx, ledger.EffectFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return es
	}
	if es := effects(); len(es) != 0 {
		t.Fatalf("effects %+v", es)
	}
	empty()
	if v, err := st.Begin(ctx, cs[0].Lease, nil, in); err != nil || v.Kind != ledger.Execute {
		t.Fatalf("begin: verdict %d, %v", v.Kind, err)
	}
	fill()
	out := ledger.Outcome{Token: in.Token, Kind: ledger.Applied, Result: events.ToolResult{Status: "completed", Output: strings.Repeat("y", 64<<10)}}
	if _, err := st.End(ctx, cs[0].Lease, nil, out); !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("ended without room: %v", err)
	}
	if es := effects(); len(es) != 1 || es[0].State != events.EffectStarted {
		t.Fatalf("effects %+v", es)
	}
	empty()
	if set, err := st.End(ctx, cs[0].Lease, nil, out); err != nil || set.State != events.EffectApplied {
		t.Fatalf("end: %+v, %v", set.State, err)
	}
}
