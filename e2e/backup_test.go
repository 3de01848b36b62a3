//go:build daybook_faults

package e2e

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
	"github.com/daybookhq/daybook/ledger"
)

const operatingPage = "../docs/operating.md"

// pageBlocks are the fenced blocks of a language in a section of docs/operating.md.
func pageBlocks(t *testing.T, section, language string, want int) []string {
	t.Helper()
	b, err := os.ReadFile(operatingPage)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n### "+section+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", operatingPage, section)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	var blocks []string
	for i, part := range strings.Split(text, "\n```") {
		if code, ok := strings.CutPrefix(part, language+"\n"); ok && i%2 == 1 {
			blocks = append(blocks, code+"\n")
		}
	}
	if len(blocks) != want {
		t.Fatalf("section %q has %d blocks of %s, want %d: the test does not understand it", section, len(blocks), language, want)
	}
	return blocks
}

// typed runs what the page says, as a person's shell would.
func typed(t *testing.T, dir, script string, env ...string) (out string, err error) {
	t.Helper()
	bin, err := pgserver.BinDir()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", "-euc", script)
	c.Dir = dir
	c.Env = append(append(os.Environ(), "PATH="+bin+":"+filepath.Dir(binary(t, "cmd/ledgerctl"))+":"+os.Getenv("PATH")), env...)
	b, err := c.CombinedOutput()
	return string(b), err
}

// held has the provider keep all but the first n refunds waiting until release.
func held(t *testing.T, p *provider, n int) (release func()) {
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	p.set(func(p *provider) {
		p.before = func(r request) {
			if r.N > n {
				<-gate
			}
		}
	})
	return release
}

// renamed is a URL of another database on the same server.
func renamed(t *testing.T, dsn, database string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

// TestBackupAndRestore does what docs/operating.md says: pg_dump while refunds are
// being made, others made after it, the database put back. Nobody begins anything
// before reconcile; then each refund was made once, and the record is whole.
func TestBackupAndRestore(t *testing.T) {
	const early, late = 12, 6
	pg := testenv.StartPostgresWith(t, pgserver.Config{DataDir: filepath.Join(openDir(t), "data")})
	s := distributedOn(t, pg.DSN("postgres"))
	p := s.provider(t, opaque)
	p.set(func(p *provider) { p.known = nil }) // after the restore it does not know them
	release := held(t, p, 4)
	w := s.start(t, p, worker{apart: true, ttl: 5 * time.Second})
	pr := s.projector(t)
	all := s.queueRefunds(t, "backup", early)
	until(t, "be in the middle of it", func() error { return atLeast(p.count(), 5) })

	dir := t.TempDir()
	servers := []string{"DAYBOOK_POSTGRES_URL=" + s.dsn, "DAYBOOK_NATS_URL=" + s.nats.URL(), "DAYBOOK_NATS_SYNC=always"}
	if out, err := typed(t, dir, pageBlocks(t, "Backup of PostgreSQL", "sh", 1)[0], servers...); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	release()
	for i := range late { // the backup does not know these at all
		all = append(all, s.submit(t, "backup", "q", fmt.Sprintf("ORD-9%03d", i)))
	}
	until(t, "every refund to be made", func() error {
		for _, r := range all {
			if err := s.resting(t, r.ID, true); err != nil {
				return err
			}
		}
		return nil
	})
	w.stop(t)
	pr.stop(t)
	requests := p.count()

	back := distributedWith(t, restore(t, dir, s, servers, func(out string) {
		if !strings.Contains(out, "would") {
			t.Logf("reconcile said:\n%s", out)
		}
	}, func(restored string) {
		// Whoever is too early waits.
		hasty := distributedWith(t, restored, s.nats)
		w := hasty.start(t, p, worker{apart: true, ttl: 5 * time.Second})
		until(t, "the worker to refuse", func() error { return w.says("ledgerctl reconcile") })
		w.kill()
		if n := p.count(); n != requests {
			t.Errorf("%d requests at the provider before reconcile, there had been %d", n, requests)
		}
	}), s.nats)
	pr = back.projector(t)
	w = back.start(t, p, worker{apart: true, ttl: 5 * time.Second})
	until(t, "come to rest", func() error {
		for _, r := range all {
			if err := back.resting(t, r.ID, true); err != nil {
				return err
			}
		}
		return nil
	})
	doubts, refused := back.settleDoubts(t, p)
	back.healedBut(t, p, all, -1, refused)
	check := pageBlocks(t, "Restore of PostgreSQL", "sh", 2)[1]
	if out, err := typed(t, dir, check, "DAYBOOK_POSTGRES_URL="+back.dsn); err != nil {
		t.Errorf("%s: %v\n%s", check, err, out)
	}
	w.stop(t)
	pr.stop(t)
	t.Logf("%d refunds, %d in doubt after the restore, %d of them not made", len(all), doubts, refused)
}

// restore does the first block of the section, with a look between putting the
// database back and reconcile, and returns the new database.
func restore(t *testing.T, dir string, s *site, servers []string, said func(string), between func(restored string)) string {
	t.Helper()
	restored := renamed(t, s.dsn, "daybook_restored")
	block := pageBlocks(t, "Restore of PostgreSQL", "sh", 2)[0]
	put, reconcile, ok := strings.Cut(block, "export ")
	if !ok || !strings.Contains(put, "pg_restore") || !strings.Contains(reconcile, "ledgerctl reconcile\n") {
		t.Fatalf("the test does not understand\n%s", block)
	}
	env := append(servers, "RESTORED="+restored)
	if out, err := typed(t, dir, put, env...); err != nil {
		t.Fatalf("put back: %v\n%s", err, out)
	}
	between(restored)
	out, err := typed(t, dir, "export "+reconcile, env...)
	if err != nil {
		t.Fatalf("reconcile: %v\n%s", err, out)
	}
	said(out)
	return restored
}

// TestBackupOfADirectory: a copy that SQLite makes while runner dev works, put back
// beside the newest journal as docs/operating.md says.
func TestBackupOfADirectory(t *testing.T) {
	s := embeddedSite(t)
	p := s.provider(t, opaque)
	p.set(func(p *provider) { p.known = nil })
	release := held(t, p, 4)
	w := s.start(t, p, worker{})
	var all []ledger.Run
	for i := range 12 {
		all = append(all, s.submit(t, "backup", "q", fmt.Sprintf("ORD-%04d", i)))
	}
	until(t, "be in the middle of it", func() error { return atLeast(p.count(), 5) })
	path, backup := filepath.Join(s.dir, "ledger.db"), filepath.Join(t.TempDir(), "ledger-backup.db")
	copied(t, path, backup)
	release()
	until(t, "every refund to be made", func() error { return s.ended(t, all) })
	w.stop(t)
	requests := p.count()
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	cp(t, backup, path)
	back := embeddedAt(t, s)
	w = back.start(t, p, worker{})
	until(t, "runner dev to refuse", func() error { return w.says("ledgerctl reconcile") })
	w.kill()
	if n := p.count(); n != requests {
		t.Errorf("%d requests at the provider before reconcile, there had been %d", n, requests)
	}
	if out, err := typed(t, s.dir, "ledgerctl reconcile --dir ."); err != nil {
		t.Fatalf("reconcile: %v\n%s", err, out)
	}
	w = back.start(t, p, worker{})
	until(t, "come to rest", func() error {
		for _, r := range all {
			if err := back.resting(t, r.ID, true); err != nil {
				return err
			}
		}
		return nil
	})
	_, refused := back.settleDoubts(t, p)
	until(t, "all to end", func() error { return back.ended(t, all) })
	if n := p.once(t); n != len(all)-refused {
		t.Errorf("%d refunds, want %d", n, len(all)-refused)
	}
	until(t, "be whole", func() error { return back.whole(t, [16]byte{}) })
	w.stop(t)
}

// copied has SQLite copy a database that is in use, by the statement of the page.
func copied(t *testing.T, path, backup string) {
	t.Helper()
	page, err := os.ReadFile(operatingPage)
	if err != nil {
		t.Fatal(err)
	}
	const statement = "VACUUM INTO 'ledger-backup.db'"
	if !strings.Contains(string(page), statement) {
		t.Fatalf("%s does not say %s", operatingPage, statement)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), strings.ReplaceAll(statement, "ledger-backup.db", backup)); err != nil {
		t.Fatal(err)
	}
}

// TestRolesOfThePage: with the rights that docs/operating.md grants a worker works, a
// reader reads, and neither can do more.
func TestRolesOfThePage(t *testing.T) {
	pg := testenv.StartPostgresWith(t, pgserver.Config{DataDir: filepath.Join(openDir(t), "data")})
	owner := distributedOn(t, pg.DSN("postgres"))
	dir := t.TempDir()
	grants := filepath.Join(dir, "grants.sql")
	if err := os.WriteFile(grants, []byte(pageBlocks(t, "PostgreSQL", "sql", 1)[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := typed(t, dir, `psql -v ON_ERROR_STOP=1 -qf grants.sql "$DSN"`, "DSN="+owner.dsn); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	as := func(role string) string {
		u, err := url.Parse(owner.dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(role)
		return u.String()
	}
	p := owner.provider(t, keyed)
	pr := owner.projector(t)
	lesser := &site{logs: owner.logs, dsn: as("daybook_worker"), nats: owner.nats, store: owner.store, red: owner.red}
	w := lesser.start(t, p, worker{apart: true})
	all := owner.queueRefunds(t, "roles", 3)
	until(t, "all to end", func() error { return owner.ended(t, all) })
	owner.healed(t, p, all, 0)
	run := all[0].ID.String()
	for _, c := range []struct {
		role, command string
		ok            bool
	}{
		{"daybook_reader", "ledgerctl runs list", true},
		{"daybook_reader", "ledgerctl runs show " + run, true},
		{"daybook_reader", "ledgerctl costs --by model", true},
		{"daybook_reader", "ledgerctl indoubt", true},
		{"daybook_reader", "ledgerctl why " + run, true},
		{"daybook_reader", "ledgerctl verify", true},
		{"daybook_reader", "ledgerctl queues pause q --reason x", false},
		{"daybook_worker", "ledgerctl queues pause q --reason x", true},
		{"daybook_worker", `psql -c "DROP TABLE effects" "$DAYBOOK_POSTGRES_URL"`, false},
	} {
		if out, err := typed(t, dir, c.command, "DAYBOOK_POSTGRES_URL="+as(c.role)); (err == nil) != c.ok {
			t.Errorf("%s: %s: %v\n%s", c.role, c.command, err, out)
		}
	}
	w.stop(t)
	pr.stop(t)
}
