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

// explained is a database that explains every statement it is asked to read.
type explained struct {
	sqlstore.DB
	plan *strings.Builder
}

func (d explained) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, explainedTx{tx, d.plan}) })
}

type explainedTx struct {
	sqlstore.Tx
	plan *strings.Builder
}

func (t explainedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	rows, err := t.Tx.Query(ctx, "EXPLAIN QUERY PLAN "+q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int64
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return nil, err
		}
		fmt.Fprintln(t.plan, detail)
	}
	return t.Tx.Query(ctx, q, args...)
}

// A list of artifacts by tenant, name or verdict reads the rows of its index alone.
func TestArtifactsAreFoundByIndex(t *testing.T) {
	h := harness(t)
	ids := events.NewIDs(nil, nil)
	rows := make([][]any, 1000)
	for i := range rows {
		verdict := ledger.VersionAccepted
		if i%100 == 0 {
			verdict = ledger.VersionRefused
		}
		rows[i] = []any{ids.Run(), 9, fmt.Sprint("t", i%50), fmt.Sprint("n", i%50), 0, 1, verdict, "", json.RawMessage(`[]`), 0, time.Now()}
	}
	err := h.DB.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.InsertMany(ctx, "artifact_versions", []string{"run_id", "seq", "tenant", "name", "revision", "turn", "verdict", "validator", "issues", "bytes", "at"}, rows, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for index, f := range map[string]ledger.ArtifactFilter{
		"artifact_versions_tenant": {Tenant: "t7"}, "artifact_versions_name": {Name: "n7", BeforeRun: ids.Run(), BeforeSeq: 1}, "artifact_versions_verdict": {Verdict: ledger.VersionRefused},
	} {
		var plan strings.Builder
		s := sqlstore.New(explained{h.DB, &plan}, sqlstore.Config{Redactor: redact.New(redact.Config{})})
		vs, err := s.Artifacts(t.Context(), f)
		if err != nil || len(vs) == 0 {
			t.Fatalf("%+v: %d, %v", f, len(vs), err)
		}
		if got := plan.String(); !strings.Contains(got, "USING INDEX "+index+" ") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%+v is answered by %s", f, got)
		}
	}
}
