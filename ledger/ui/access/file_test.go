package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

func tokensOf(t *testing.T, path string) []access.Token {
	t.Helper()
	f, err := access.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ts, err := f.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// TestFileKeepsWhatItIsGiven: what is written is read, whatever names and owners there are.
func TestFileKeepsWhatItIsGiven(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		g := access.Grant{
			Name:   rapid.StringOfN(rapid.RuneFrom([]rune("aZ9é世 .@_+-:/'\"#\n(")), 0, 10, -1).Draw(rt, "name"),
			Scopes: rapid.SliceOfN(rapid.SampledFrom(access.Scopes()), 0, 4).Draw(rt, "scopes"),
			Tenant: rapid.SampledFrom([]string{"", "acme", "null", "1.10", "no", "a b"}).Draw(rt, "tenant"),
			Owner:  rapid.StringOfN(rapid.RuneFrom([]rune("a'\":#{}[]&*!|>%@`\\ ~-\u202e\x00\n")), 0, 8, -1).Draw(rt, "owner"),
			Life:   time.Duration(rapid.IntRange(1, 3_000_000).Draw(rt, "life")) * time.Second,
		}
		text, tok, err := g.New(time.Now(), nil)
		if err != nil {
			if !errors.Is(err, access.ErrGrant) {
				rt.Fatal(err)
			}
			return
		}
		if err := access.Add(path, tok); err != nil {
			rt.Fatal(err)
		}
		f, err := access.OpenFile(path)
		if err != nil {
			rt.Fatalf("%+v: %v", g, err)
		}
		ts, err := f.Tokens()
		if err != nil || cmp.Diff([]access.Token{tok}, ts) != "" {
			rt.Fatalf("%v: %s", err, cmp.Diff([]access.Token{tok}, ts))
		}
		if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), text[4:]) {
			rt.Fatalf("the file has the token: %v", err)
		}
	})
}

func TestFileIsChangedByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, tok, err := access.Grant{Name: fmt.Sprintf("t%d", i), Scopes: []access.Scope{access.Read}}.New(time.Now(), nil)
			if err == nil {
				err = access.Add(path, tok)
			}
			if err != nil {
				t.Error(err)
			}
			if i%4 == 0 {
				if _, err := access.Revoke(path, fmt.Sprintf("t%d", i), time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	revoked := 0
	for _, tok := range tokensOf(t, path) {
		if !tok.Revoked.IsZero() {
			revoked++
		}
	}
	if n := len(tokensOf(t, path)); n != 20 || revoked != 5 {
		t.Errorf("%d tokens, %d revoked", n, revoked)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".tokens-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFileIsReadAgain: also where a change has neither another size nor another time.
func TestFileIsReadAgain(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("ann", access.Read)
	changed := time.Now().Add(time.Hour) // so it may have changed since it was read, however slow this machine is
	if err := os.Chtimes(w.path, changed, changed); err != nil {
		t.Fatal(err)
	}
	w.want(200, w.do("GET", "/runs", nil, bearer(tok)))
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path, []byte(strings.ReplaceAll(strings.ReplaceAll(string(text), "2026-11-30T12", "2026-11-30T10"), "2026-12-01T12", "2026-11-30T11")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(w.path, changed, changed); err != nil {
		t.Fatal(err)
	}
	w.want(401, w.do("GET", "/runs", nil, bearer(tok)))
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.want(503, w.do("GET", "/runs", nil, bearer(tok)))
}

// TestFileBehindALink is how secrets are mounted: the link is changed in one step.
func TestFileBehindALink(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("ann", access.Read)
	other := newWorld(t, nil)
	link := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.Symlink(w.path, link); err != nil {
		t.Fatal(err)
	}
	g, err := access.New(access.Options{Listen: "127.0.0.1:1", Tokens: link, Now: func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	w.h = g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w.want(200, w.do("GET", "/runs", nil, bearer(tok)))
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other.path, link); err != nil {
		t.Fatal(err)
	}
	w.want(401, w.do("GET", "/runs", nil, bearer(tok)))
}

func TestFileFaults(t *testing.T) {
	good := "name: ann, hash: 'sha256:" + strings.Repeat("ab", 32) + "', created: '2026-01-01T00:00:00Z', expires: '2026-02-01T00:00:00Z'"
	for text, want := range map[string]string{
		"":                         "nothing here",
		"tokens: 7":                "want a list",
		"token: []":                `did you mean "tokens"?`,
		"tokens: [{" + good + "}]": "read is missing",
		"tokens: [{" + good + ", scopes: [read, write]}]":                                    `there is no scope "write"`,
		"tokens: [{" + good + ", scopes: [read], owner: x}]":                                 "an owner is one of a tenant",
		"tokens: [{" + good + ", scopes: [read], tenant: 'a b'}]":                            "1 to 64 letters",
		"tokens: [{" + good + ", scopes: [read]}, {" + good + ", scopes: [read]}]":           "twice",
		"tokens: [{" + good + ", scopes: [read], revoked: yesterday}]":                       "want a time",
		"tokens: [{" + strings.Replace(good, "2026-02", "2028-02", 1) + ", scopes: [read]}]": "expires",
		"tokens: [{" + strings.Replace(good, "ab", "xy", 1) + ", scopes: [read]}]":           "64 digits",
	} {
		path := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := access.OpenFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	dir := t.TempDir()
	if _, err := access.OpenFile(dir); err == nil {
		t.Error("a directory is no tokens file")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o660} {
		path := filepath.Join(dir, fmt.Sprint(mode))
		if err := os.WriteFile(path, []byte("tokens: []\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := access.OpenFile(path); !errors.Is(err, access.ErrMode) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestFileStaysWhoseItWas: root adds a token, and the service that reads the file
// still may.
func TestFileStaysWhoseItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	w := newWorld(t, nil)
	w.token("ann", access.Read)
	text, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 12345, 23456 // another's
	} else if groups, err := os.Getgroups(); err == nil && len(groups) > 0 {
		gid = groups[len(groups)-1] // maybe not the one that new files get
	}
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	is := func(when string) {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != uid || int(st.Gid) != gid || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: owner %d:%d, mode %04o; it was %d:%d, 0700", when, st.Uid, st.Gid, info.Mode().Perm(), uid, gid)
		}
	}
	_, tok, err := access.Grant{Name: "bob", Scopes: []access.Scope{access.Read}}.New(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := access.Add(path, tok); err != nil {
		t.Fatal(err)
	}
	is("a token more")
	if _, err := access.Revoke(path, "bob", time.Now()); err != nil {
		t.Fatal(err)
	}
	is("a token revoked")
}
