package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
	"github.com/daybookhq/daybook/runtime/system"
)

// checked is what doctor says, by check.
func checked(t *testing.T, now func() time.Time, args ...string) (code int, by map[string]checkView, text string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = newApp(strings.NewReader(""), &stdout, &stderr, now).run(t.Context(), append([]string{"doctor", "-o", "json"}, args...))
	var list []checkView
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s%s", err, stdout.String(), stderr.String())
	}
	by = map[string]checkView{}
	for _, c := range list {
		by[c.Check] = c
		if c.Status != checkOK && c.Do == "" {
			t.Errorf("%s is %s, and nothing says what to do: %s", c.Check, c.Status, c.Found)
		}
	}
	return code, by, stdout.String() + stderr.String()
}

// expect is that a check has a status and says something.
func expect(t *testing.T, by map[string]checkView, check, status, says string) {
	t.Helper()
	if c := by[check]; c.Status != status || !strings.Contains(c.Found+c.Do, says) {
		t.Errorf("%s: %+v, want %s with %q", check, c, status, says)
	}
}

func TestDoctorOfServers(t *testing.T) {
	pg := testenv.StartPostgres(t)
	dsn, nats := pg.DSN("postgres"), testenv.NATS(t)
	where := system.Options{Postgres: dsn, NATS: nats.URL(), Sync: "always"}
	args := []string{"--postgres", dsn, "--nats", nats.URL(), "--nats-sync", "always"}

	// Nothing has been migrated.
	code, by, _ := checked(t, time.Now, args...)
	expect(t, by, "schema", checkFailed, "schema version 0")
	expect(t, by, "schema", checkFailed, "ledgerctl migrate")
	expect(t, by, "nats daybook_journal", checkWarning, "start a worker")
	if code != exitTampered {
		t.Errorf("exit code %d", code)
	}
	if _, err := system.Migrate(t.Context(), where); err != nil {
		t.Fatal(err)
	}
	sys, err := system.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()

	// As it should be.
	code, by, text := checked(t, time.Now, args...)
	for name, c := range by {
		if c.Status != checkOK {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if code != exitOK || len(by) < 20 {
		t.Errorf("exit code %d, %d checks: %s", code, len(by), text)
	}

	// Nobody asserts how NATS syncs; a clock that is wrong.
	code, by, _ = checked(t, time.Now, args[:4]...)
	expect(t, by, "nats sync", checkWarning, "sync_interval: always")
	if code != exitIncomplete {
		t.Errorf("exit code %d of a warning", code)
	}
	_, by, _ = checked(t, func() time.Time { return time.Now().Add(-5 * time.Second) }, args...)
	expect(t, by, "database clock", checkWarning, "NTP")
	_, by, _ = checked(t, func() time.Time { return time.Now().Add(90 * time.Minute) }, args...)
	expect(t, by, "database clock", checkFailed, "1h")
	expect(t, by, "nats clock", checkFailed, "1h")

	// Roles that may not do everything, and a password that is not said.
	const password = "hidden-pass-77"
	exec := func(q string) {
		t.Helper()
		if err := execDSN(t, dsn, q); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE reader LOGIN PASSWORD '` + password + `'`)
	as := func(user, pass string) []string {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, pass)
		return append([]string{"--postgres", u.String()}, args[2:]...)
	}
	_, by, text = checked(t, time.Now, as("reader", password)...)
	expect(t, by, "postgres permissions", checkFailed, "role reader may not read")
	exec(`GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`)
	_, by, more := checked(t, time.Now, as("reader", password)...)
	expect(t, by, "postgres permissions", checkWarning, "as a worker it lacks")
	if strings.Contains(text+more, password) {
		t.Error("it says the password")
	}

	// Away.
	nats.Stop()
	code, by, text = checked(t, time.Now, append([]string{"--postgres", "postgres://u:" + password + "@127.0.0.1:1/x"}, args[2:]...)...)
	expect(t, by, "postgres", checkFailed, "cannot be asked")
	expect(t, by, "nats", checkFailed, "cannot be asked")
	if code != exitTampered || strings.Contains(text, password) {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// Settings that break the first promise, as the server has them.
func TestDoctorOfAServerThatDoesNotSync(t *testing.T) {
	dsn := testenv.StartPostgresWith(t, pgserver.Config{Settings: map[string]string{"fsync": "off", "full_page_writes": "off"}}).DSN("postgres")
	code, by, _ := checked(t, time.Now, "--postgres", dsn)
	expect(t, by, "postgres fsync", checkFailed, "ALTER SYSTEM SET fsync = on")
	expect(t, by, "postgres full_page_writes", checkFailed, "ALTER SYSTEM SET full_page_writes = on")
	expect(t, by, "nats", checkWarning, "no URL")
	if code != exitTampered {
		t.Errorf("exit code %d", code)
	}
}

func TestDoctorOfADirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := system.Migrate(t.Context(), system.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	code, by, _ := checked(t, time.Now, "--dir", dir)
	expect(t, by, "worker", checkWarning, "none holds the directory")
	expect(t, by, "sqlite log", checkOK, "")
	expect(t, by, "disk", checkOK, "bytes are free")
	if code != exitIncomplete {
		t.Errorf("exit code %d: %v", code, by)
	}
	sys, err := system.Open(t.Context(), system.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	code, by, _ = checked(t, time.Now, "--dir", dir)
	expect(t, by, "worker", checkOK, "one holds the directory")
	if code != exitOK {
		t.Errorf("exit code %d: %v", code, by)
	}
	sys.Close()
	key := filepath.Join(dir, "seal")
	if err := os.WriteFile(key, []byte("too short"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, by, _ = checked(t, time.Now, "--dir", dir, "--seal-key", key)
	expect(t, by, "seal key", checkFailed, "give the file that the workers have")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, by, _ = checked(t, time.Now, "--dir", dir, "--seal-key", key)
	expect(t, by, "seal key", checkWarning, "chmod 600")
	// A file that others may read, and that keeps no write-ahead log: it is told, and stays so.
	db := filepath.Join(dir, "ledger.db")
	was, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	was[18], was[19] = 1, 1 // as PRAGMA journal_mode = DELETE leaves it
	if err := errors.Join(os.WriteFile(db, was, 0o600), os.Chmod(db, 0o644)); err != nil {
		t.Fatal(err)
	}
	_, by, _ = checked(t, time.Now, "--dir", dir)
	expect(t, by, "sqlite log", checkFailed, "journal_mode is delete")
	expect(t, by, "sqlite permissions", checkWarning, "ledger.db has mode 644")
	is, err := os.ReadFile(db)
	if info, serr := os.Stat(db); err != nil || serr != nil || !bytes.Equal(was, is) || info.Mode().Perm() != 0o644 {
		t.Errorf("doctor changed the file: %v, %v, %v", err, serr, info.Mode())
	}
	_, by, _ = checked(t, time.Now, "--dir", filepath.Join(dir, "nowhere"))
	expect(t, by, "sqlite", checkFailed, "no ledger in")
}
