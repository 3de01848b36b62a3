package pgserver

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// TestMain makes this binary its own child: one that starts a server, says where
// it is and waits to be killed.
func TestMain(m *testing.M) {
	if os.Getenv("DAYBOOK_PGSERVER_CHILD") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	s, err := Start(Config{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pid, _ := s.PID()
	fmt.Println(pid, s.dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1) // without Close, as after log.Fatal
}

func startServer(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func query(t *testing.T, s *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var out string
	if err := conn.QueryRow(t.Context(), sql).Scan(&out); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func TestCommittedRowsSurvive(t *testing.T) {
	s := startServer(t, Config{Settings: map[string]string{"application_name": "it's set"}})
	if got := query(t, s, "SHOW fsync"); got != "on" {
		t.Errorf("fsync = %s, want on", got)
	}
	if got := query(t, s, "SHOW application_name"); got != "it's set" {
		t.Errorf("application_name = %q", got)
	}
	ends := []struct {
		name string
		end  func() error
	}{
		{"a fast stop", func() error { return s.Stop(Fast) }},
		{"an immediate stop", func() error { return s.Stop(Immediate) }},
		{"a kill", s.Kill},
		{"another kill", s.Kill},
	}
	for i, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			if _, err := conn.Exec(t.Context(), fmt.Sprintf("CREATE TABLE t%d AS SELECT 'kept' AS word", i)); err != nil {
				t.Fatal(err)
			}
			if err := e.end(); err != nil {
				t.Fatal(err)
			}
			if s.Running() {
				t.Error("still running")
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if got := query(t, s, fmt.Sprintf("SELECT word FROM t%d", i)); got != "kept" {
				t.Errorf("row = %q", got)
			}
		})
	}
}

func TestServerEndsWithItsProcess(t *testing.T) {
	for _, how := range []string{"killed", "exits without Close"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "DAYBOOK_PGSERVER_CHILD=1")
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var pid int
			var dir string
			if _, err := fmt.Sscan(line, &pid, &dir); err != nil {
				t.Fatal(err)
			}
			if !alive(pid) {
				t.Fatal("server does not run")
			}
			if how == "killed" {
				_ = cmd.Process.Kill()
			} else {
				_ = stdin.Close()
			}
			_ = cmd.Wait()
			gone := func() bool {
				_, err := os.Stat(dir)
				return !alive(pid) && os.IsNotExist(err)
			}
			deadline := time.After(2 * time.Minute)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for !gone() {
				select {
				case <-deadline:
					t.Fatalf("server %d or its directory %s is still there", pid, dir)
				case <-tick.C:
				}
			}
		})
	}
}

func TestBinariesAreFoundNewestFirst(t *testing.T) {
	if got := version("/usr/lib/postgresql/15/bin"); got != 15 {
		t.Errorf("version = %d", got)
	}
	if got := version("/usr/pgsql-17/bin"); got != 17 {
		t.Errorf("version = %d", got)
	}
	dir := t.TempDir()
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if complete(dir) {
			t.Errorf("complete without %s", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if !complete(dir) {
		t.Error("not complete with all of them")
	}
	t.Setenv("PATH", dir)
	if got, err := binDir(); err != nil || got != dir {
		t.Errorf("binDir = %q, %v, want the one in PATH", got, err)
	}
}
