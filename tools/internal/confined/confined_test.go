//go:build unix

package confined_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools/internal/confined"
)

// TestMain is also the child. What it is to do it learns from its order.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[1] != "confined-child" {
		os.Exit(m.Run())
	}
	var what string
	body, err := confined.Read(os.Stdin, &what)
	if err != nil {
		os.Exit(1)
	}
	var pid int
	if what == "tree" { // before it is confined
		c := exec.Command("/bin/sleep", "600")
		if err := c.Start(); err != nil {
			os.Exit(1)
		}
		pid = c.Process.Pid
	}
	if err := confined.Confine(confined.Limits{Memory: 64 << 20, CPU: time.Second}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	child(what, body, pid)
	os.Exit(0)
}

func child(what string, body []byte, pid int) {
	switch what {
	case "echo":
		say(string(body))
	case "escape":
		say(escape(string(body)))
	case "environment":
		say(os.Environ())
	case "memory":
		take(2 << 30)
	case "heap":
		go confined.WatchHeap(8<<20, nil)
		take(32 << 20)
		hang()
	case "processor":
		for n := 0; n >= 0; n++ { //nolint:staticcheck // until it is killed
		}
	case "tree":
		say(pid)
		hang()
	case "crash":
		os.Exit(7)
	case "garbage":
		fmt.Println("hello")
	case "flood":
		fmt.Print(`"`)
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<10)); err != nil {
				os.Exit(1)
			}
		}
	case "hang":
		hang()
	}
}

func say(v any) { _ = json.NewEncoder(os.Stdout).Encode(v) }

func hang() {
	for {
		<-time.After(time.Hour)
	}
}

var kept [][]byte

func take(n int) {
	for range n >> 20 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		kept = append(kept, b)
	}
}

// escape tries what a child must not do, and lists what it could. address is
// where somebody listens.
func escape(address string) (could []string) {
	try := func(what string, err error) {
		if err == nil {
			could = append(could, what)
		}
	}
	_, err := os.ReadFile("/etc/passwd")
	try("read a file", err)
	try("write a file", os.WriteFile(filepath.Join(os.TempDir(), "confined"), []byte("x"), 0o600))
	c, err := net.Dial("tcp", address)
	try("connect", err)
	if err == nil {
		_ = c.Close()
	}
	_, err = net.Listen("tcp", "127.0.0.1:0")
	try("listen", err)
	_, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	try("make a socket", err)
	try("start a program", exec.Command("/bin/true").Run())
	try("raise its limits", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 100}))
	if fork != nil {
		try("become another program", syscall.Exec("/bin/true", []string{"true"}, nil))
		try("signal its parent", syscall.Kill(os.Getppid(), 0))
		try("make a directory", os.Mkdir(filepath.Join(os.TempDir(), "confined-dir"), 0o700))
		try("remove a file", os.Remove(filepath.Join(os.TempDir(), "confined-kept")))
		try("fork", fork())
	}
	return could
}

func program(t *testing.T) *confined.Program {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := confined.New([]string{me, "confined-child"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func do(t *testing.T, what, body string, answer any) error {
	t.Helper()
	return program(t).Do(t.Context(), confined.Order{Head: what, Body: []byte(body), Time: time.Minute, MaxAnswer: 1 << 20}, answer)
}

func TestChildComputesAndDoesNothingElse(t *testing.T) {
	t.Setenv("DAYBOOK_SECRET", "s3cret")
	body := strings.Repeat("a line\n", 100_000)
	var said string
	if err := do(t, "echo", body, &said); err != nil || said != body {
		t.Errorf("%d bytes of %d came back, %v", len(said), len(body), err)
	}
	var environment []string
	if err := do(t, "environment", "", &environment); err != nil || len(environment) != 1 || environment[0] != "GOTRACEBACK=none" {
		t.Errorf("it knows %v, %v", environment, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// What it is to remove is there, so that only a limit can keep it from that.
	file := filepath.Join(os.TempDir(), "confined-kept")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	could := []string{"nothing was tried"}
	if err := do(t, "escape", l.Addr().String(), &could); err != nil || len(could) > 0 {
		t.Errorf("it could: %v, %v", could, err)
	}
}

func TestChildrenThatMisbehave(t *testing.T) {
	for what, want := range map[string]error{"memory": confined.ErrMemory, "heap": confined.ErrMemory, "processor": confined.ErrKilled} {
		t.Run(what, func(t *testing.T) {
			var said any
			if err := do(t, what, "", &said); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
	for what, want := range map[string]string{"crash": "exit status 7", "garbage": "invalid character", "flood": "unexpected EOF", "say nothing": "EOF"} {
		t.Run(what, func(t *testing.T) {
			var said any
			if err := do(t, what, "", &said); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	t.Run("hang", func(t *testing.T) {
		var said any
		err := program(t).Do(t.Context(), confined.Order{Head: "hang", Time: 200 * time.Millisecond, MaxAnswer: 1000}, &said)
		if !errors.Is(err, confined.ErrTime) {
			t.Errorf("%v", err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		p, err := confined.New([]string{"/no/such/program"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Do(t.Context(), confined.Order{Time: time.Minute}, new(any)); !errors.Is(err, confined.ErrStart) {
			t.Errorf("%v", err)
		}
	})
}

// A child that has answered is killed with what it started, and the next one waits
// for its place no longer than its caller does.
func TestChildIsKilledAsATree(t *testing.T) {
	var pid int
	if err := do(t, "tree", "", &pid); err != nil || pid == 0 {
		t.Fatal(pid, err)
	}
	for deadline := time.Now().Add(time.Minute); !testenv.Gone(pid); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is left", pid)
		}
	}

	p := program(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- p.Do(ctx, confined.Order{Head: "hang", Time: time.Hour}, new(any)) }()
	why := errors.New("shutdown")
	waiting, stop := context.WithCancelCause(t.Context())
	second := make(chan error, 1)
	go func() { second <- p.Do(waiting, confined.Order{Head: "hang", Time: time.Hour}, new(any)) }()
	stop(why)
	// Whichever of the two has the place: it ends when its caller does.
	if err := <-second; !errors.Is(err, why) {
		t.Errorf("%v, want the cause", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
