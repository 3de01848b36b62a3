package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

var update = flag.Bool("update", false, "write the outputs that tests compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"runner":    func() { os.Exit(program()) },
		"mcpserver": func() { (&mcptest.Server{Dir: os.Args[1]}).Stdio(os.Stdin, os.Stdout) },
	})
}

// TestScripts runs testdata/*.txtar; $HELLO is the smallest agent and its script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"awaits": awaits},
		Setup: func(e *testscript.Env) error {
			hello, err := filepath.Abs("../../examples/hello")
			e.Setenv("HELLO", hello)
			return err
		},
	})
}

// awaits waits until a file is there: awaits FILE.
func awaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: awaits FILE")
	}
	deadline := time.Now().Add(3 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not come", args[0])
		}
	}
}

// A worker that starts before its servers says so, tries again, and works once
// they are there. A password in a URL is in none of its lines.
func TestWorkerWaitsForItsServers(t *testing.T) {
	db := testenv.Postgres(t)
	srv := testenv.NATS(t)
	srv.Stop()
	pg := strings.Replace(db, "postgres@", "postgres:hunter2@", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	lines := make(chan string, 1000)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(r); in.Scan(); {
			lines <- in.Text()
		}
	}()
	// The schema is not there: that is no reason to wait.
	args := []string{
		"--postgres", pg, "--nats", srv.URL(), "--nats-sync", "always", "worker",
		"--agents", "../../examples/hello", "--policy", "hello=../../examples/hello/policy.yaml",
	}
	var stderr bytes.Buffer
	if code := run(ctx, args, nil, &stderr, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "run ledgerctl migrate") {
		t.Fatalf("not migrated: exit code %d\n%s", code, stderr.String())
	}
	migrate(t, pg)

	stderr.Reset()
	code := run(ctx, append(args, "--no-wait"), nil, &stderr, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "runner: NATS at 127.0.0.1:") || !strings.Contains(stderr.String(), "(--nats) is away: start it, or correct the address") {
		t.Errorf("--no-wait: exit code %d\n%s", code, stderr.String())
	}

	work, stop := context.WithCancel(ctx)
	ended := make(chan int, 1)
	go func() {
		ended <- run(work, args, nil, w, w)
		_ = w.Close()
	}()
	started := false
	for line := range lines {
		if strings.Contains(line, "hunter2") {
			t.Errorf("a password: %s", line)
		}
		switch {
		case strings.Contains(line, "is away, trying again") && strings.Contains(line, "try=2 "):
			srv.Start()
		case strings.Contains(line, "worker started"):
			started = true
			stop()
		}
	}
	stop()
	if code := <-ended; code != exitOK || !started {
		t.Errorf("exit code %d, started %t", code, started)
	}
}

// A projector told to stop while it waits for its database ends in order.
func TestProjectorStopsWhileItWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stderr := untilSaid{text: "is away, trying again", then: cancel}
	code := run(ctx, []string{"projector", "--postgres", "postgres://me:hunter2@127.0.0.1:1/x", "--nats", "nats://127.0.0.1:1"}, nil, &stderr, &stderr)
	out := stderr.String()
	if code != exitOK || !strings.Contains(out, "PostgreSQL is away, trying again\" at=127.0.0.1:1/x") || strings.Contains(out, "hunter2") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// untilSaid calls then once text has been written, in one piece.
type untilSaid struct {
	bytes.Buffer
	text string
	then func()
}

func (u *untilSaid) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(u.text)) {
		defer u.then()
	}
	return u.Buffer.Write(b)
}

func migrate(t *testing.T, pg string) {
	t.Helper()
	if _, err := system.Migrate(t.Context(), system.Options{Postgres: pg}); err != nil {
		t.Fatal(err)
	}
}
