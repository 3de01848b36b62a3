// Package testenv gives tests the servers they need: databases on a PostgreSQL
// server that a whole test run shares, servers of their own to stop and kill,
// and NATS servers in this process or beside it. It never skips: a test that
// cannot have its server fails and says what to install.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Root is the root directory of the module that the test runs in.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Build builds a command of this module, named by its path from the root such as
// "cmd/runner", with flags for go build such as "-race" or "-tags=daybook_faults",
// and returns the path of its binary. Same command and flags: same binary, built
// once and brought up to date when sources change, also across processes.
func Build(t testing.TB, command string, flags ...string) string {
	t.Helper()
	dir := filepath.Join(cacheDir(t), "bin", digest(append([]string{Root(t), command}, flags...)...))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, filepath.Base(command))
	args := append([]string{"build", "-o", binary}, flags...)
	cmd := exec.Command("go", append(args, "./"+filepath.ToSlash(command))...)
	cmd.Dir = Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, out)
	}
	return binary
}

func cacheDir(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "daybook-testenv")
}
