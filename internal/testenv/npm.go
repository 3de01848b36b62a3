package testenv

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// minNode is the oldest Node.js that the packages say they run on; .ci/run asks
	// for the same.
	minNode = 18
	// installTime bounds one installation.
	installTime = 5 * time.Minute
)

// Node returns the path of Node.js. Without it, or with one that is too old, the
// test fails.
func Node(t testing.TB) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is not installed: install Node.js %d or newer with npm", minNode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", node, err)
	}
	if err := newEnough(string(out)); err != nil {
		t.Fatalf("%s: %v", node, err)
	}
	return node
}

// newEnough holds what node --version says against minNode.
func newEnough(version string) error {
	version = strings.TrimSpace(version)
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < minNode {
		return fmt.Errorf("found Node.js %q, want %d or newer, first on the PATH", version, minNode)
	}
	return nil
}

// NPM installs the packages of dir, which has a package.json and the lock file
// beside it, and returns the node_modules directory. It is done once for a lock
// file and shared between processes; scripts of packages do not run. Without npm,
// or with npm unable to install them, the test fails.
func NPM(t testing.TB, dir string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatalf("npm is not installed: install Node.js %d or newer with npm", minNode)
	}
	Node(t)
	var files []string
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(b))
	}
	place := filepath.Join(cacheDir(t), "npm", digest(files...))
	if err := os.MkdirAll(place, 0o750); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(place, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		t.Logf("waiting for another process, which installs the packages of %s", dir)
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	modules, whole := filepath.Join(place, "node_modules"), filepath.Join(place, "whole")
	if _, err := os.Stat(whole); err == nil {
		return modules
	}
	for i, name := range []string{"package.json", "package-lock.json"} {
		if err := os.WriteFile(filepath.Join(place, name), []byte(files[i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), installTime, fmt.Errorf("it took more than %v", installTime))
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
		"--fetch-retries=2", "--fetch-retry-maxtimeout=10000", "--fetch-timeout=60000")
	cmd.Dir, cmd.WaitDelay = place, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install the packages of %s: %v\n%s", dir, cmp.Or(context.Cause(ctx), err), out)
	}
	if err := os.WriteFile(whole, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return modules
}
