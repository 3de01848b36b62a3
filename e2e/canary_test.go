//go:build daybook_faults

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/runtime"
)

// encodings are the forms in which a secret could lie in a file: as it is,
// base64 in three alignments and two alphabets, hexadecimal, percent, JSON.
func encodings(secret string) map[string][]byte {
	forms := map[string][]byte{"raw": []byte(secret)}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for shift := range 3 {
			// Whole groups of three bytes inside: their digits are the same
			// whatever stands around the secret.
			skip := (3 - shift) % 3
			inner := secret[skip : skip+(len(secret)-skip)/3*3]
			forms[fmt.Sprintf("%s+%d", name, shift)] = []byte(enc.EncodeToString([]byte(inner)))
		}
	}
	forms["hex"] = []byte(hex.EncodeToString([]byte(secret)))
	forms["HEX"] = bytes.ToUpper(forms["hex"])
	forms["query"] = []byte(url.QueryEscape(secret))
	forms["path"] = []byte(url.PathEscape(secret))
	var percent, unicode strings.Builder
	for _, b := range []byte(secret) {
		fmt.Fprintf(&percent, "%%%02X", b)
		fmt.Fprintf(&unicode, `\u%04x`, b)
	}
	forms["percent"], forms["unicode"] = []byte(percent.String()), []byte(unicode.String())
	quoted, _ := json.Marshal(secret) // a string always encodes
	forms["json"] = bytes.Trim(quoted, `"`)
	twice, _ := json.Marshal(string(forms["json"]))
	forms["json twice"] = bytes.Trim(twice, `"`)
	return forms
}

// leaks looks for secrets below dirs and lists where they are.
func leaks(t testing.TB, secrets map[string]string, dirs ...string) (found []string, files int) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // a server's temporary file
			}
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, inboxFile) {
				return err
			}
			b, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				return nil
			}
			files++
			for name, secret := range secrets {
				for form, text := range encodings(secret) {
					if bytes.Contains(b, text) {
						found = append(found, fmt.Sprintf("%s as %s in %s", name, form, path))
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(found)
	return found, files
}

// inboxFile is where the customers' words come from; it is not ours.
const inboxFile = "inbox/requests.csv"

// canaries are made here, so that no token-shaped text stands in the repository.
func canaries() map[string]string {
	return map[string]string{
		"API key in a note":    strings.Join([]string{"sk", "live", rand.Text() + "x"}, "_"),
		"registered secret":    "p4ss/" + rand.Text() + "+é\"\\&" + rand.Text(),
		"password under a key": rand.Text() + "/" + rand.Text(),
	}
}

// TestCanarySearchCanFail plants a secret in each form and finds it.
func TestCanarySearchCanFail(t *testing.T) {
	for name, secret := range canaries() {
		for form, text := range encodings(secret) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), slices.Concat([]byte("\x00before"), text, []byte("after\xff")), 0o600); err != nil {
				t.Fatal(err)
			}
			if found, n := leaks(t, map[string]string{name: secret}, dir); len(found) == 0 || n != 1 {
				t.Errorf("%s as %s was not found in %d files", name, form, n)
			}
		}
		for shift := range 3 {
			whole := base64.StdEncoding.EncodeToString([]byte("abc"[:shift] + secret + "xyz"))
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(whole), 0o600); err != nil {
				t.Fatal(err)
			}
			if found, _ := leaks(t, map[string]string{name: secret}, dir); len(found) == 0 {
				t.Errorf("%s in the middle of base64, %d bytes in, was not found", name, shift)
			}
		}
	}
}

// TestCanary lets customers and tools say secrets and searches every store for them.
// open-multi-agent/open-multi-agent#339
// n8n-io/n8n#34740
// langgenius/dify#37047
func TestCanary(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		s := embeddedSite(t)
		secrets := s.leaky(t)
		s.noLeak(t, secrets, s.dir)
	})
	t.Run("postgres+nats", func(t *testing.T) {
		pg := testenv.StartPostgres(t)
		s := distributedOn(t, pg.DSN("postgres"))
		secrets := s.leaky(t)
		conn, err := pgx.Connect(t.Context(), s.dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		var data string
		if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		dump := filepath.Join(t.TempDir(), "dump.sql")
		if out, err := exec.Command(pgDump(t), "--dbname", s.dsn, "--file", dump).CombinedOutput(); err != nil {
			t.Fatalf("pg_dump: %v: %s", err, out)
		}
		s.noLeak(t, secrets, data, filepath.Dir(dump), s.nats.StoreDir())

		// The search can fail here too: the same store with the secret in it.
		if _, err := conn.Exec(t.Context(), `CREATE TABLE planted AS SELECT $1::text AS secret`, secrets["registered secret"]); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		if found, _ := leaks(t, secrets, data); len(found) == 0 {
			t.Error("a secret planted in the database was not found in its files")
		}
	})
}

// leaky works off runs whose input and tools are full of secrets.
func (s *site) leaky(t *testing.T) map[string]string {
	t.Helper()
	secrets := canaries()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secrets["registered secret"]), 0o600); err != nil {
		t.Fatal(err)
	}
	s.red = redactorWith(t, secrets["registered secret"])
	p := s.provider(t, fenced)
	c := runtime.NewClient(s.store, s.red, nil)
	r, _, err := c.Submit(t.Context(), runtime.Submit{
		Tenant: "canary", Queue: "q", Agent: "canary", ClientKey: "1", Owner: "support",
		Input: map[string]any{
			"note":     "My key is " + secrets["API key in a note"] + ", please call " + secrets["registered secret"],
			"password": secrets["password under a key"],
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	refund := s.submit(t, "canary", "q", "ORD-1001")
	// The first worker panics outside of any tool on the way, and is killed later.
	first := s.start(t, p, worker{embeds: true, ttl: 3 * time.Second, faults: "projector.before_commit=err:timeout@2;journal.after_send=err:reset@2;begin.after_commit=kill@2", more: []string{"--secret", file}})
	until(t, "be killed or done", func() error {
		if first.ended() {
			return nil
		}
		return s.resting(t, r.ID, true)
	})
	first.kill()
	second := s.start(t, p, worker{embeds: true, more: []string{"--secret", file}})
	until(t, "the run to be in doubt", func() error { return s.resting(t, r.ID, true) })
	until(t, "the refund to end", func() error { return s.resting(t, refund.ID, false) })
	until(t, "be whole", func() error { return s.whole(t, events.RunID{}) })
	until(t, "be in the feed", func() error { return s.fed(t) })
	second.stop(t)
	words := ""
	for _, e := range s.history(t, r.ID) {
		words += string(e.Type) + " "
	}
	for _, want := range []string{"tool_execution_error", "tool_execution_in_doubt", "run_parked"} {
		if !strings.Contains(words, want) {
			t.Fatalf("void: the history has no %s: %s", want, words)
		}
	}
	// A crash that nobody catches, in a worker that works on these runs.
	again, _, err := c.Submit(t.Context(), runtime.Submit{
		Tenant: "canary", Queue: "q", Agent: "canary", ClientKey: "2", Input: map[string]any{"note": secrets["API key in a note"]},
	})
	if err != nil {
		t.Fatal(err)
	}
	crash := s.start(t, p, worker{embeds: true, faults: "projector.before_tx=panic@2", more: []string{"--secret", file}})
	until(t, "crash", func() error {
		if !crash.ended() {
			return fmt.Errorf("it has not: %w", s.resting(t, again.ID, true))
		}
		return nil
	})
	if err := crash.says("goroutine "); err != nil {
		t.Errorf("void: no crash output: %v", err)
	}
	return secrets
}

// noLeak searches the stores, the logs, and what ledgerctl prints.
func (s *site) noLeak(t *testing.T, secrets map[string]string, dirs ...string) {
	t.Helper()
	dirs = append(dirs, s.logs, s.ledgerctl(t))
	found, files := leaks(t, secrets, dirs...)
	if len(found) > 0 {
		t.Errorf("%d leaks:\n%s", len(found), strings.Join(found, "\n"))
	}
	if files < 10 {
		t.Errorf("void: only %d files were searched", files)
	}
	t.Logf("%d files searched below %s", files, strings.Join(dirs, " "))
	s.leakscan(t, secrets)
}

// leakscan has the auditor's tool search for the same secrets, in tables and streams.
func (s *site) leakscan(t *testing.T, secrets map[string]string) {
	t.Helper()
	where := []string{"--dir", s.dir}
	if s.dir == "" {
		where = []string{"--postgres", s.dsn, "--nats", s.nats.URL()}
	}
	var lines strings.Builder
	for _, secret := range secrets {
		lines.WriteString(secret + "\n")
	}
	c := exec.CommandContext(t.Context(), binary(t, "cmd/ledgerctl"), append(where, "leakscan", "--secrets", "-", "--no-rules")...)
	c.Stdin = strings.NewReader(lines.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("ledgerctl leakscan: %v: %s", err, out)
	}
}

// ledgerctl writes down what the auditor's tool prints, and returns where.
func (s *site) ledgerctl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	where := []string{"--dir", s.dir}
	if s.dir == "" {
		where = []string{"--postgres", s.dsn}
	}
	bin := binary(t, "cmd/ledgerctl")
	for i, args := range [][]string{{"runs", "list"}, {"calls", "list", "--all"}, {"costs"}, {"indoubt"}, {"runs", "list", "-o", "json"}, {"calls", "list", "-o", "json"}, {"export"}, {"export", "--what", "calls", "-o", "csv"}, {"export", "-o", "cloudevents"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, bin, append(where, args...)...).CombinedOutput()
		cancel()
		if err != nil {
			t.Logf("ledgerctl %v: %v: %s", args, err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("ledgerctl-%d.txt", i)), out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pgDump is the newest pg_dump beside the servers.
func pgDump(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("pg_dump"); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump") // a good pattern
	if len(found) == 0 {
		t.Fatal("no pg_dump; install it (Debian: apt-get install postgresql-client)")
	}
	return found[len(found)-1]
}
