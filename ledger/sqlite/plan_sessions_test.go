package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// explainedWrites also explains what is read in order to write.
type explainedWrites struct{ explained }

func (d explainedWrites) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, explainedTx{tx, d.plan}) })
}

func (t explainedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	rows, err := t.Query(ctx, q, args...)
	return sqlstore.First(rows, err)
}

// Whose turn it is in a long session is looked up, and the runs that have ended are not
// read; nor are those of others for the list of one owner.
func TestSessionsAreFoundByIndex(t *testing.T) {
	h := harness(t)
	ids := events.NewIDs(nil, nil)
	rows := make([][]any, 2000)
	for i := range rows {
		id := ids.Run()
		rows[i] = []any{
			id, "acme", "q", "a", fmt.Sprint("o", i%200), id, fmt.Sprint("e", i), []byte{}, json.RawMessage(`{}`), time.Now(), time.Now(), "finished", time.Now(), "long", i + 1, []string{},
		}
	}
	err := h.DB.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO sessions (tenant, session_id, places, created_at, last_at) VALUES ('acme', 'long', 2000, 1, 1)`); err != nil {
			return err
		}
		_, err := tx.InsertMany(ctx, "runs", []string{
			"id", "tenant", "queue", "agent", "owner", "root_id", "client_key", "input_mac", "input", "created_at", "due_at", "state", "ended_at", "session_id", "session_place", "requires",
		}, rows, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	r := redact.New(redact.Config{})
	s := sqlstore.New(explainedWrites{explained{h.DB, &plan}}, sqlstore.Config{Redactor: r})
	input, err := r.JSON("hello")
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := s.Submit(t.Context(), ledger.Submission{Tenant: "acme", Queue: "q", Agent: "a", ClientKey: "k", SessionID: "long", Continue: true, Input: input, InputMAC: []byte("mac")})
	if err != nil || run.SessionPlace != 2001 || !run.BehindAt.IsZero() {
		t.Fatalf("%+v, %v", run, err)
	}
	if got := plan.String(); !strings.Contains(got, "runs_session_turn") || strings.Contains(got, "runs_sessions ") {
		t.Errorf("whose turn it is says %s", got)
	}
	plan.Reset()
	if list, err := s.Summaries(t.Context(), ledger.RunFilter{Tenant: "acme", Owner: "o7"}); err != nil || len(list) != 10 {
		t.Fatalf("%d runs, %v", len(list), err)
	}
	if got := plan.String(); !strings.Contains(got, "runs_owner ") {
		t.Errorf("the runs of an owner are listed by %s", got)
	}
}
