package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// NPM installs the packages of dir, which has a package.json and the lock file
// beside it, and returns the node_modules directory. It is done once for a lock
// file and shared between processes; scripts of packages do not run. Without npm,
// or with npm unable to install them, the test fails.
func NPM(t testing.TB, dir string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("npm is not installed: install Node.js 20 or newer with npm (Debian: apt-get install nodejs npm)")
	}
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
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
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
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = place
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install the packages of %s: %v\n%s", dir, err, out)
	}
	if err := os.WriteFile(whole, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return modules
}
