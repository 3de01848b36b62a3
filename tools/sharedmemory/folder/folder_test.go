package folder_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/sharedmemory/folder"
	"github.com/daybookhq/daybook/tools/sharedmemory/sharedmemorytest"
)

// write makes files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func provider(t *testing.T, c folder.Config) *folder.Provider {
	t.Helper()
	p, err := folder.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// only returns the single store of a provider.
func only(t *testing.T, p *folder.Provider) sharedmemory.Store {
	t.Helper()
	snap, err := p.Snapshot(context.Background(), sharedmemory.Context{})
	if err != nil {
		t.Fatal(err)
	}
	for s := range snap.Stores {
		return s
	}
	t.Fatal("no store")
	return nil
}

func paths(t *testing.T, s sharedmemory.Store, prefix string) string {
	t.Helper()
	var all []string
	for e, err := range s.List(context.Background(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Path)
	}
	return strings.Join(all, " ")
}

func TestConformance(t *testing.T) {
	team := map[string]string{
		"/style.md": "Write plainly.", "/guides/go/errors.md": "Errors are values.", "/guides/empty.md": "", "/guides-old/x.md": "old",
		"/bytes.bin": "\xff\x00\xfe", "/big/edge.txt": strings.Repeat("x", sharedmemory.MaxRead), "/big/over.txt": strings.Repeat("x", sharedmemory.MaxRead+1),
		"/ümläut/ｆull 𝒰.md": "names",
	}
	dir, other := t.TempDir(), t.TempDir()
	write(t, dir, team)
	write(t, other, map[string]string{"/a.md": "other"})
	p := provider(t, folder.Config{
		Stores: []folder.Store{
			{Info: sharedmemory.Info{ID: "team"}, Dir: dir},
			{Info: sharedmemory.Info{ID: "other"}, Dir: other},
			{Info: sharedmemory.Info{ID: "empty"}, Dir: t.TempDir()},
			{Info: sharedmemory.Info{ID: "secret"}, Dir: other},
		},
		Allow: func(c sharedmemory.Context, store string) bool { return store != "secret" || c.Owner == "ada" },
	})
	stores := map[string]map[string]string{"team": team, "other": {"/a.md": "other"}, "empty": {}}
	t.Run("SE-53 everybody", func(t *testing.T) {
		sharedmemorytest.TestProvider(t, sharedmemorytest.Case{Provider: p, Stores: stores})
	})
	t.Run("SE-07 ada sees a store more", func(t *testing.T) {
		stores["secret"] = map[string]string{"/a.md": "other"}
		sharedmemorytest.TestProvider(t, sharedmemorytest.Case{Provider: p, Context: sharedmemory.Context{Owner: "ada"}, Stores: stores})
	})
}

// TestNothingLeadsOut: no link of any kind is followed, and only files are documents.
func TestNothingLeadsOut(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret.md": "secret", "sub/secret.md": "secret"})
	write(t, dir, map[string]string{"in/ok.md": "fine", ".git/config.md": "x", ".env.md": "x"})
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "secret.md"), "file.md")
	link(outside, "parent")
	link("../"+filepath.Base(outside)+"/secret.md", "relative.md")
	link("loop.md", "loop.md")
	link("in/ok.md", "inner.md")
	link("in", "alias")
	link("/proc/self/environ", "environ.md")
	if err := os.Link(filepath.Join(outside, "secret.md"), filepath.Join(dir, "hard.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.md"), 0o750); err != nil {
		t.Fatal(err)
	}
	s := only(t, provider(t, folder.Config{Stores: []folder.Store{{Info: sharedmemory.Info{ID: "s"}, Dir: dir}}}))
	if got := paths(t, s, ""); got != "/in/ok.md" {
		t.Errorf("listed %s, want /in/ok.md alone", got)
	}
	for _, prefix := range []string{"/parent", "/alias", "/parent/sub", "/..", "/in/../.."} {
		if got := paths(t, s, prefix); got != "" {
			t.Errorf("list %s: %s, want nothing", prefix, got)
		}
	}
	for _, p := range []string{
		"/file.md", "/parent/secret.md", "/parent/sub/secret.md", "/relative.md", "/loop.md", "/inner.md", "/alias/ok.md", "/environ.md", "/hard.md",
		"/pipe.md", "/folder.md", "/.git/config.md", "/.env.md", "/../" + filepath.Base(outside) + "/secret.md",
	} {
		if v, err := s.Read(context.Background(), p); err != nil || !v.IsAbsent() {
			t.Errorf("read %s: %+v, %v, want Absent", p, v, err)
		}
	}
}

// TestSwappedLink: a name that turns into a link out of the folder between any two
// steps never shows what is outside.
func TestSwappedLink(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"x.md": "secret"})
	write(t, dir, map[string]string{"d/x.md": "fine", "real/x.md": "fine"})
	s := only(t, provider(t, folder.Config{Stores: []folder.Store{{Info: sharedmemory.Info{ID: "s"}, Dir: dir}}}))
	stop, done := make(chan struct{}), make(chan struct{})
	d, l := filepath.Join(dir, "d"), filepath.Join(dir, "l")
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Symlink(outside, l)
			_ = os.Rename(d, filepath.Join(dir, "kept"))
			_ = os.Rename(l, d)
			_ = os.Remove(d)
			_ = os.Rename(filepath.Join(dir, "kept"), d)
		}
	}()
	fine := 0
	for range 10_000 {
		v, err := s.Read(context.Background(), "/d/x.md")
		if doc, ok := v.Document(); err == nil && ok {
			fine++
			if doc.Content != "fine" {
				t.Errorf("read %q through a link", doc.Content)
				break
			}
		}
	}
	close(stop)
	<-done
	if fine == 0 {
		t.Error("nothing was read at all: the test shows nothing")
	}
}

func TestStoreThatVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	write(t, dir, map[string]string{"a.md": "x"})
	s := only(t, provider(t, folder.Config{Stores: []folder.Store{{Info: sharedmemory.Info{ID: "s"}, Dir: dir}}}))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := s.Read(context.Background(), "/a.md")
	var e *sharedmemory.StoreError
	if !errors.As(err, &e) || e.Kind != sharedmemory.StoreNotFound {
		t.Errorf("read: %v, want store_not_found", err)
	}
	for _, err := range s.List(context.Background(), "") {
		if !errors.As(err, &e) || e.Kind != sharedmemory.StoreNotFound {
			t.Errorf("list: %v, want store_not_found", err)
		}
	}
	write(t, dir, map[string]string{"a.md": "x"})
	if got := paths(t, s, ""); got != "/a.md" {
		t.Errorf("after it came back: %q", got)
	}
}

func TestConfigFaults(t *testing.T) {
	for name, stores := range map[string][]folder.Store{
		"an ID with __": {{Info: sharedmemory.Info{ID: "a__b"}, Dir: "x"}},
		"no folder":     {{Info: sharedmemory.Info{ID: "a"}}},
		"one ID twice":  {{Info: sharedmemory.Info{ID: "a"}, Dir: "x"}, {Info: sharedmemory.Info{ID: "a"}, Dir: "y"}},
	} {
		if _, err := folder.New(folder.Config{Stores: stores}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
