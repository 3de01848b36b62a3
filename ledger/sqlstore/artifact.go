package sqlstore

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/ledger"
)

var versionRowColumns = []string{
	"run_id", "seq", "tenant", "name", "revision", "turn", "verdict", "validator", "issues", "content", "bytes", "at",
}

func versionRow(v ledger.ArtifactVersion) []any {
	return []any{v.Run, v.Seq, v.Tenant, v.Name, v.Revision, v.Turn, v.Verdict, v.Validator, v.Issues, v.Content, v.Bytes, v.At}
}

const versionColumns = `v.run_id, v.seq, v.tenant, v.name, v.revision, v.turn, v.verdict, v.validator, v.issues, v.content, v.bytes, v.at`

func scanVersion(row Row) (v ledger.ArtifactVersion, err error) {
	err = row.Scan(&v.Run, &v.Seq, &v.Tenant, &v.Name, &v.Revision, &v.Turn, &v.Verdict, &v.Validator, &v.Issues, &v.Content, &v.Bytes, &v.At)
	return v, err
}

// Artifacts implements ledger.Artifacts.
func (s *Store) Artifacts(ctx context.Context, f ledger.ArtifactFilter) (list []ledger.ArtifactVersion, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		var w where
		for _, c := range []struct{ column, value string }{{"tenant", f.Tenant}, {"name", f.Name}, {"verdict", f.Verdict}} {
			if c.value != "" {
				w.add("v."+c.column+" = $%d", c.value)
			}
		}
		w.ownedRun("v", f.Owner)
		if !f.Run.IsZero() {
			w.add("v.run_id = $%d", f.Run)
		}
		if !f.BeforeRun.IsZero() {
			w.add("(v.run_id, v.seq) < ($%d, $%d)", f.BeforeRun, f.BeforeSeq)
		}
		n := w.arg(limitOf(f.Limit))
		rows, err := tx.Query(ctx, `SELECT `+versionColumns+` FROM artifact_versions v`+w.String()+
			fmt.Sprintf(` ORDER BY v.run_id DESC, v.seq DESC LIMIT $%d`, n), w.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			v, err := scanVersion(rows)
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	return list, nil
}
