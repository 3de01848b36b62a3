package pathtrust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// world is a trusted folder with a file in it, and a secret beside it.
func world(t *testing.T) (trusted, file, secret string) {
	t.Helper()
	dir := t.TempDir()
	trusted, secret = filepath.Join(dir, "trusted"), filepath.Join(dir, "secret")
	file = filepath.Join(trusted, "sub", "file")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, file, "inside")
	write(t, secret, "outside")
	return trusted, file, secret
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, name string) string {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func policy(t *testing.T, roots ...string) Policy {
	t.Helper()
	p, err := New(roots...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// PR-76: what a path leads to decides, and doubt is no.
func TestTrusts(t *testing.T) {
	trusted, file, secret := world(t)
	dir := filepath.Dir(trusted)
	p := policy(t, trusted)
	if err := os.Mkdir(trusted+"-not", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, trusted+"-not/file", "outside")
	tests := []struct {
		name string
		path string
		want bool
	}{
		{"a file inside", file, true},
		{"the folder itself", trusted, true},
		{"with detours", trusted + "/sub/../sub/./file", true},
		{"a link inside to a file inside", link(t, "sub/file", filepath.Join(trusted, "in")), true},
		{"a link outside to a file inside", link(t, file, filepath.Join(dir, "into")), true},
		{"a file outside", secret, false},
		{"up and out", trusted + "/../secret", false},
		{"a neighbour of nearly the same name", trusted + "-not/file", false},
		{"the folder above", dir, false},
		{"a link that leads out", link(t, secret, filepath.Join(trusted, "out")), false},
		{"a relative link that leads out", link(t, "../secret", filepath.Join(trusted, "out2")), false},
		{"a link to a link that leads out", link(t, "out", filepath.Join(trusted, "out3")), false},
		{"through a linked folder that leads out", filepath.Join(link(t, dir, filepath.Join(trusted, "up")), "secret"), false},
		{"out and in again", filepath.Join(trusted, "up", "trusted", "sub", "file"), true},
		{"a link to itself", link(t, "self", filepath.Join(trusted, "self")), false},
		{"a link to nothing", link(t, "nothing", filepath.Join(trusted, "dangling")), false},
		{"nothing", filepath.Join(trusted, "nothing"), false},
		{"below a file", filepath.Join(file, "x"), false},
		{"empty", "", false},
		{"with a NUL", trusted + "/a\x00b", false},
		{"an endless path", trusted + strings.Repeat("/x", 10000), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := p.Trusts(tt.path); got != tt.want {
				t.Errorf("Trusts(%.100q) = %t", tt.path, got)
			}
			if (Policy{}).Trusts(tt.path) {
				t.Errorf("the zero policy trusts %q", tt.path)
			}
			if b, err := p.Read(tt.path, 100); !tt.want && err == nil {
				t.Errorf("read %q", b)
			}
		})
	}
}

// PR-76: a trusted folder is what it was when it was trusted.
func TestRoots(t *testing.T) {
	trusted, file, _ := world(t)
	dir := filepath.Dir(trusted)
	p := policy(t, link(t, trusted, filepath.Join(dir, "root")))
	if !p.Trusts(file) {
		t.Error("a link as a root does not stand for its folder")
	}
	if err := os.Rename(trusted, trusted+"2"); err != nil {
		t.Fatal(err)
	}
	link(t, dir, trusted) // the name leads elsewhere now
	if p.Trusts(filepath.Join(dir, "secret")) {
		t.Error("a folder whose name was given to a link is trusted as what the link leads to")
	}
	for _, bad := range []string{"", filepath.Join(dir, "nothing"), filepath.Join(dir, "secret")} {
		if _, err := New(dir, bad); err == nil {
			t.Errorf("New(%q): no error", bad)
		}
	}
}

func TestRead(t *testing.T) {
	trusted, file, secret := world(t)
	p := policy(t, trusted)
	pipe := filepath.Join(trusted, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		path string
		max  int
		want error
	}{
		{"a file", file, 6, nil},
		{"too large a file", file, 5, ErrTooLarge},
		{"a folder", trusted, 100, ErrNoFile},
		{"a pipe", pipe, 100, ErrNoFile},
		{"not there", filepath.Join(trusted, "nothing"), 100, fs.ErrNotExist},
		{"outside", secret, 100, ErrUntrusted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := p.Read(tt.path, tt.max)
			if !errors.Is(err, tt.want) || (string(b) == "inside") != (tt.want == nil) {
				t.Errorf("%q %v, want %v", b, err, tt.want)
			}
			b, err = Read(tt.path, tt.max)
			if tt.want == ErrUntrusted {
				tt.want = nil // it does not ask
			}
			if !errors.Is(err, tt.want) || (len(b) > 0) != (tt.want == nil) {
				t.Errorf("without trust: %q %v, want %v", b, err, tt.want)
			}
		})
	}
}

// PR-76: what is put in the way between the check and the opening does not lead out.
func TestLinkAfterTheCheck(t *testing.T) {
	trusted, file, secret := world(t)
	for name, swap := range map[string]func(){
		"the file": func() {
			_ = os.Remove(file)
			link(t, secret, file)
		},
		"its folder": func() {
			_ = os.RemoveAll(filepath.Dir(file))
			link(t, filepath.Dir(secret), filepath.Dir(file))
			write(t, filepath.Join(filepath.Dir(secret), "file"), "outside")
		},
	} {
		root, rel, err := policy(t, trusted).place(file)
		if err != nil {
			t.Fatal(name, err)
		}
		swap()
		if b, err := read(root, rel, 100); err == nil {
			t.Errorf("%s: read %q", name, b)
		}
		_ = os.RemoveAll(filepath.Dir(file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, file, "inside")
	}
}
