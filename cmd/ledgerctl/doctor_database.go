package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/runtime/system"
)

func (d *doctor) reach(ctx context.Context, st *sqlstore.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return d.ask(ctx, st, `SELECT 1`, func(r sqlstore.Rows) error { return nil })
}

// ask runs one question and calls each with its rows.
func (d *doctor) ask(ctx context.Context, st *sqlstore.Store, q string, each func(sqlstore.Rows) error, args ...any) error {
	return st.DB().Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		rows, err := tx.Query(ctx, q, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// texts is ask for rows of texts; what it could not ask is a warning.
func (d *doctor) texts(ctx context.Context, st *sqlstore.Store, check, q string, n int, args ...any) (all [][]string, ok bool) {
	err := d.ask(ctx, st, q, func(r sqlstore.Rows) error {
		row, dest := make([]string, n), make([]any, n)
		for i := range row {
			dest[i] = &row[i]
		}
		err := r.Scan(dest...)
		all = append(all, row)
		return err
	}, args...)
	if err != nil {
		d.bad(checkWarning, check, "", "ask with a role that may", "could not be asked: %v", d.r.Error(err))
	}
	return all, err == nil
}

func (d *doctor) settings(ctx context.Context, o system.Options, st *sqlstore.Store) {
	if o.Embedded() {
		d.embedded(ctx, o.Dir, st)
		return
	}
	rows, ok := d.texts(ctx, st, "postgres settings", `SELECT name, coalesce(reset_val, setting) FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'server_version_num', 'server_version', 'max_connections', 'synchronous_standby_names')`, 2)
	if !ok {
		return
	}
	is := map[string]string{}
	for _, r := range rows {
		is[r[0]] = r[1]
	}
	if n, _ := strconv.Atoi(is["server_version_num"]); n < 140000 {
		d.bad(checkWarning, "postgres version", promiseOnce, "upgrade to 14 or later", "version %s: not tested", is["server_version"])
	} else {
		d.ok("postgres version", "%s", is["server_version"])
	}
	for _, s := range []string{"fsync", "full_page_writes"} {
		if is[s] == "on" {
			d.ok("postgres "+s, "on")
		} else {
			d.bad(checkFailed, "postgres "+s, promiseOnce+"; "+promiseDoubt, "ALTER SYSTEM SET "+s+" = on; SELECT pg_reload_conf();", "%s: a power cut loses what was committed before an effect", is[s])
		}
	}
	// Our connections set it on for themselves, whatever the server says. reset_val is theirs.
	d.ok("postgres synchronous_commit", "%s on our connections; standbys that are waited for: %s", is["synchronous_commit"], either("", is["synchronous_standby_names"], map[bool]string{true: "none"}[is["synchronous_standby_names"] == ""]))
	if rows, ok := d.texts(ctx, st, "postgres role", `SELECT current_user::text, pg_is_in_recovery()::text`, 2); ok && len(rows) == 1 {
		if rows[0][1] == "true" {
			d.bad(checkFailed, "postgres role", promiseLost, "connect to the primary", "this server is a standby: nothing can be written")
		}
		d.permissions(ctx, st, rows[0][0])
	}
	d.load(ctx, st, is["max_connections"])
}

// permissions asks what the role may do with each table. Tables are those that are there.
func (d *doctor) permissions(ctx context.Context, st *sqlstore.Store, role string) {
	rows, ok := d.texts(ctx, st, "postgres permissions", `
		SELECT c.relname::text, p.name FROM pg_class c CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) p (name)
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND NOT has_table_privilege(c.oid, p.name) ORDER BY 2 DESC, 1`, 2)
	if !ok {
		return
	}
	var read, write []string
	for _, r := range rows {
		if r[1] == "SELECT" {
			read = append(read, r[0])
		} else {
			write = append(write, r[1]+" on "+r[0])
		}
	}
	grant := "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role
	switch {
	case len(read) > 0:
		d.bad(checkFailed, "postgres permissions", promiseProof, grant, "role %s may not read %s", role, some(read))
	case len(write) > 0:
		d.bad(checkWarning, "postgres permissions", promiseLost, grant+" (not for a role that only reads)", "role %s may read everything; as a worker it lacks %s", role, some(write))
	default:
		d.ok("postgres permissions", "role %s may do all that workers, projectors and ledgerctl do", role)
	}
	if rows, ok := d.texts(ctx, st, "postgres partitions", `SELECT has_schema_privilege(current_schema(), 'CREATE')::text`, 1); ok && rows[0][0] != "true" && len(write) == 0 {
		d.bad(checkWarning, "postgres partitions", promiseProof, "GRANT CREATE ON SCHEMA public TO "+role, "role %s cannot make next month's partitions; rows go to the default ones", role)
	}
}

func some(list []string) string {
	if len(list) > 4 {
		return strings.Join(list[:4], ", ") + fmt.Sprintf(" and %d more", len(list)-4)
	}
	return strings.Join(list, ", ")
}

func (d *doctor) load(ctx context.Context, st *sqlstore.Store, limit string) {
	if rows, ok := d.texts(ctx, st, "postgres connections", `SELECT count(*)::text FROM pg_stat_activity WHERE backend_type = 'client backend'`, 1); ok {
		n, _ := strconv.Atoi(rows[0][0])
		most, _ := strconv.Atoi(limit)
		if most > 0 && n*10 > most*8 {
			d.bad(checkWarning, "postgres connections", promiseLost, "raise max_connections, or stop what holds them", "%d of %d are taken", n, most)
		} else {
			d.ok("postgres connections", "%d of %d", n, most)
		}
	}
	if rows, ok := d.texts(ctx, st, "postgres transactions", `SELECT pid::text, extract(epoch FROM clock_timestamp() - xact_start)::bigint::text FROM pg_stat_activity
		WHERE xact_start < clock_timestamp() - interval '5 minutes' AND pid <> pg_backend_pid() AND datname = current_database() ORDER BY xact_start LIMIT 5`, 2); ok {
		if len(rows) > 0 {
			d.bad(checkWarning, "postgres transactions", promiseLost, "SELECT pg_terminate_backend("+rows[0][0]+") if nobody needs it", "a transaction is open since %s seconds (pid %s): rows that are dead stay", rows[0][1], rows[0][0])
		} else {
			d.ok("postgres transactions", "none is open for over 5 minutes")
		}
	}
	if rows, ok := d.texts(ctx, st, "postgres slots", `SELECT slot_name::text FROM pg_replication_slots WHERE NOT active ORDER BY 1 LIMIT 5`, 1); ok {
		if len(rows) > 0 {
			d.bad(checkWarning, "postgres slots", promiseLost, "SELECT pg_drop_replication_slot('"+rows[0][0]+"') if its standby does not come back", "slot %s has no standby: the disk fills with its log", rows[0][0])
		} else {
			d.ok("postgres slots", "none is idle")
		}
	}
}

// diskLow is how much room makes a warning, diskOut a failure.
const (
	diskLow = 1 << 30
	diskOut = 64 << 20
)

func (d *doctor) embedded(ctx context.Context, dir string, st *sqlstore.Store) {
	if rows, ok := d.texts(ctx, st, "sqlite log", `PRAGMA journal_mode`, 1); ok {
		if rows[0][0] == "wal" {
			d.ok("sqlite log", "write-ahead, synced at each commit")
		} else {
			d.bad(checkFailed, "sqlite log", promiseOnce, "stop everything that holds the file open and start the worker", "journal_mode is %s, want wal", rows[0][0])
		}
	}
	open := ""
	for _, name := range []string{"ledger.db", "ledger.db-wal"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			open += fmt.Sprintf("%s has mode %o; ", name, info.Mode().Perm())
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			open += err.Error() + "; "
		}
	}
	if open != "" {
		d.bad(checkWarning, "sqlite permissions", promiseSafe, "chmod 600 "+quote(dir)+"/ledger.db*", "others may read it: %s", strings.TrimSuffix(open, "; "))
	} else {
		d.ok("sqlite permissions", "its owner alone may read it")
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil {
		free := int64(fs.Bavail) * fs.Bsize //nolint:gosec // no disk is that large
		switch status := (map[bool]string{true: checkFailed, false: checkWarning})[free < diskOut]; {
		case free < diskLow:
			d.bad(status, "disk", promiseLost, "make room", "%s bytes are free in %s", thousands(free), dir)
		default:
			d.ok("disk", "%s bytes are free", thousands(free))
		}
	}
	switch alive, err := system.WorkerAlive(dir); {
	case err != nil:
		d.bad(checkWarning, "worker", promiseLost, "look at worker.lock in "+quote(dir), "whether a worker holds the directory cannot be seen: %v", err)
	case alive:
		d.ok("worker", "one holds the directory")
	default:
		d.bad(checkWarning, "worker", promiseLost, "runner dev or runner worker --dir "+quote(dir), "none holds the directory: runs wait")
	}
}

func (d *doctor) schema(ctx context.Context, st *sqlstore.Store) bool {
	if err := st.Check(ctx); err != nil {
		do := d.a.command("migrate")
		d.bad(checkFailed, "schema", promiseLost, do+" (or the version that made it, if it is newer)", "%v", d.r.Error(err))
		return false
	}
	d.ok("schema", "it is this version's")
	before := d.a.now()
	v, err := st.Vitals(ctx)
	after := d.a.now()
	if err != nil {
		d.bad(checkFailed, "ledger", promiseProof, "", "%v", d.r.Error(err))
		return false
	}
	d.clock("database clock", v.Now, before, after)
	d.vitals(v)
	return true
}

func (d *doctor) vitals(v ledger.Vitals) {
	late := func(b ledger.Backlog) time.Duration {
		if b.Count == 0 || b.Since.IsZero() {
			return 0
		}
		return v.Now.Sub(b.Since)
	}
	if age := late(v.Unfolded); age > time.Minute {
		d.bad(checkWarning, "projector", promiseProof, "start runner projector; ledgerctl rebuild if it does not help", "%s not folded, since %s", plural(v.Unfolded.Count, "event"), span(age))
	} else {
		d.ok("projector", "%s not folded yet", plural(v.Unfolded.Count, "event"))
	}
	if age := late(v.Facts); age > 5*time.Minute {
		d.bad(checkFailed, "pending facts", promiseDoubt+"; effects are refused", "start workers: ledgerctl stuck says which run", "%s, the oldest since %s", plural(v.Facts.Count, "fact"), span(age))
	} else {
		d.ok("pending facts", "%d", v.Facts.Count)
	}
	if v.Quarantined > 0 {
		d.bad(checkWarning, "quarantine", promiseProof, "docs/operations.md; ledgerctl reconcile", "%s could not be projected", plural(v.Quarantined, "message"))
	}
	if v.InDoubt.Count > 0 {
		d.bad(checkWarning, "in doubt", promiseDoubt, d.a.command("indoubt"), "%s", plural(v.InDoubt.Count, "effect"))
	}
}

// state looks at leases and at runs that stand still.
func (d *doctor) state(ctx context.Context, st *sqlstore.Store) {
	var live, lapsed int64
	workers := map[string]bool{}
	err := st.DB().Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT worker, lease_until FROM runs WHERE lease_until IS NOT NULL LIMIT 10000`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var worker string
			var until time.Time
			if err := rows.Scan(&worker, &until); err != nil {
				return err
			}
			if until.After(now) {
				live++
				workers[worker] = true
			} else {
				lapsed++
			}
		}
		return rows.Err()
	})
	switch {
	case err != nil:
		d.bad(checkFailed, "leases", promiseLost, "", "%v", d.r.Error(err))
	case lapsed > 0:
		d.bad(checkWarning, "leases", promiseLost, "start a worker: it takes them over", "%s lapsed; %s hold %s", plural(lapsed, "lease"), plural(int64(len(workers)), "worker"), plural(live, "run"))
	default:
		d.ok("leases", "%s hold %s", plural(int64(len(workers)), "worker"), plural(live, "run"))
	}
	stuck, err := st.Stuck(ctx, ledger.StuckFilter{})
	switch {
	case err != nil:
		d.bad(checkFailed, "stuck", promiseLost, "", "%v", d.r.Error(err))
	case len(stuck) > 0:
		d.bad(checkFailed, "stuck", promiseLost, d.a.command("stuck"), "%s: the oldest %s", plural(int64(len(stuck)), "run"), stuck[0].Text)
	default:
		d.ok("stuck", "no run stands still without a reason")
	}
}

// keys checks the keys that fingerprints are made with, and that of sealed results.
func (d *doctor) keys(ctx context.Context, st *sqlstore.Store, file string) {
	err := d.ask(ctx, st, `SELECT tenant, length(key) FROM tenant_keys`, func(r sqlstore.Rows) error {
		var tenant string
		var n int
		if err := r.Scan(&tenant, &n); err != nil {
			return err
		}
		if n != 32 {
			return fmt.Errorf("that of tenant %s has %d bytes, want 32", tenant, n)
		}
		return nil
	})
	if err != nil {
		d.bad(checkFailed, "fingerprint keys", promiseSafe, "restore tenant_keys from a backup", "%v", d.r.Error(err))
	} else {
		d.ok("fingerprint keys", "each has 32 bytes")
	}
	if file == "" {
		return
	}
	b, err := os.ReadFile(file)
	var s *ledger.Sealer
	if err == nil {
		s, err = ledger.ParseSealKey(string(b))
	}
	if err == nil {
		err = d.ask(ctx, st, `SELECT tenant, owner, wrapped FROM owner_keys WHERE wrapped IS NOT NULL LIMIT 20`, func(r sqlstore.Rows) error {
			var tenant, owner string
			var wrapped []byte
			if err := r.Scan(&tenant, &owner, &wrapped); err != nil {
				return err
			}
			if _, err := s.Seal(tenant, owner, wrapped, events.Hash{}, events.ID{}, nil); err != nil {
				return fmt.Errorf("it does not open the key of an owner of tenant %s: %w", tenant, err)
			}
			return nil
		})
	}
	switch info, serr := os.Stat(file); {
	case err != nil:
		d.bad(checkFailed, "seal key", promiseOnce+": what is handed back is the redacted outcome", "give the file that the workers have", "%v", d.r.Error(err))
	case serr == nil && info.Mode().Perm()&0o077 != 0:
		d.bad(checkWarning, "seal key", promiseSafe, "chmod 600 "+quote(file), "others may read %s", file)
	default:
		d.ok("seal key", "it opens the owners' keys")
	}
}
