package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
)

// paths are all pages of a story.
func paths(s ledgertest.Story) []string {
	all := []string{"/runs", "/nothing", "/inbox", "/costs", "/costs?by=tool", "/costs?by=owner", "/queues", "/record?check=newest"}
	for _, r := range []string{s.Done.String(), s.Doubt.String(), s.Asks.String(), s.Hostile.String(), s.Parent.String(), s.Failed.String(), s.Queued.String()} {
		for _, t := range runTabs {
			all = append(all, strings.TrimSuffix("/runs/"+r+"/"+t.path, "/waterfall"))
		}
	}
	for _, r := range []string{s.Done.String(), s.Doubt.String(), s.Hostile.String(), s.Asks.String()} {
		all = append(all, "/runs/"+r+"/calls/t1.c0", "/runs/"+r+"/events/3", "/runs/"+r+"/events/5")
	}
	return all
}

// tags are the elements that the page itself has; nothing a run says adds one.
var (
	element   = regexp.MustCompile(`<[a-zA-Z!/][^>]*>`)
	forbidden = regexp.MustCompile(`(?i)\son\w+\s*=|\sstyle\s*=|javascript:|<img|<iframe|<object|<style`)
)

func TestNothingThatARunSaysActs(t *testing.T) {
	both(t, func(t *testing.T, h ledgertest.Harness) {
		story := ledgertest.Tell(t, h)
		s := open(t, h)
		seen := false
		for _, path := range paths(story) {
			r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			page := body(t, r)
			if n := strings.Count(page, "<script"); n != 1 {
				t.Errorf("%s: %d scripts, want our own", path, n)
			}
			for _, e := range element.FindAllString(page, -1) {
				if forbidden.MatchString(e) {
					t.Errorf("%s: %s", path, e)
				}
			}
			if i := strings.IndexFunc(page, func(r rune) bool { return r != '\n' && r != '\t' && !shows(r) }); i >= 0 {
				t.Errorf("%s: a hidden character at %q", path, page[max(i-30, 0):i+8])
			}
			seen = seen || strings.Contains(page, "U+202E") && strings.Contains(page, "&lt;script&gt;")
		}
		if !seen {
			t.Error("nothing hostile was shown at all")
		}
	})
}

// TestOnlyTextComesFromRuns reads the templates: raw markup has no place in them.
func TestOnlyTextComesFromRuns(t *testing.T) {
	for _, pattern := range []string{"*.templ", "*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			for _, raw := range []string{"templ.Raw", "templ.Unsafe", "templ.JSUnsafe", "templ.SafeURL", "templ.SafeCSS", "<style", "onclick"} {
				if bytes.Contains(b, []byte(raw)) {
					t.Errorf("%s has %s", f, raw)
				}
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	s := open(t, openSQLite(t))
	for _, path := range []string{"/runs", "/nothing", "/assets/page.css", "/theme/dark"} {
		r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		csp := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s %q", path, name, got)
			}
		}
		if path == "/runs" && r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("a page may be kept: %q", r.Header.Get("Cache-Control"))
		}
	}
}

func TestAssets(t *testing.T) {
	s := open(t, openSQLite(t))
	page := s.get("/runs")
	link := regexp.MustCompile(`/assets/htmx-[^"]+`).FindString(page)
	r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, link, nil))
	content := body(t, r)
	if !strings.Contains(r.Header.Get("Cache-Control"), "immutable") || !strings.Contains(r.Header.Get("Content-Type"), "javascript") {
		t.Errorf("%v", r.Header)
	}
	again := httptest.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	again.Header.Set("If-None-Match", r.Header.Get("ETag"))
	if r := s.ask(again); r.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: %d", r.StatusCode)
	}
	if r := s.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/assets/page.css?v=old", nil)); r.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("another content may be kept for ever: %v", r.Header)
	}
	sum := sha256.Sum256([]byte(content))
	note, err := os.ReadFile("assets/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(note, []byte(hex.EncodeToString(sum[:]))) {
		t.Errorf("assets/README.md names another htmx than %x", sum)
	}
}

func TestTheme(t *testing.T) {
	s := open(t, openSQLite(t), func(o *Options) { o.Base = "/daybook" })
	for back, want := range map[string]string{
		"/daybook/runs?state=failed": "/daybook/runs?state=failed", "//evil.example/daybook/": "/daybook/runs", "https://evil.example/daybook/": "/daybook/runs",
		`/\evil.example/daybook/`: "/daybook/runs", "/elsewhere": "/daybook/runs", "": "/daybook/runs",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/theme/dark", nil)
		q := r.URL.Query()
		q.Set("back", back)
		r.URL.RawQuery = q.Encode()
		got := s.ask(r)
		if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
			t.Errorf("back to %q: %d %s", back, got.StatusCode, got.Header.Get("Location"))
		}
	}
	root := open(t, openSQLite(t))
	for back, want := range map[string]string{
		"/%2fevil.example/login": "/runs", "/%5cevil.example/login": "/runs", "//evil.example/": "/runs", "/\tevil.example": "/runs",
		"/runs/a%2fb?state=failed": "/runs/a%2fb?state=failed", "/costs": "/costs",
	} {
		q := url.Values{"back": {back}}
		got := root.ask(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/theme/dark?"+q.Encode(), nil))
		if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
			t.Errorf("at the root, back to %q: %d %s", back, got.StatusCode, got.Header.Get("Location"))
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs", nil)
	r.AddCookie(&http.Cookie{Name: themeCookie, Value: "dark"})
	says(t, body(t, s.ask(r)), `data-theme="dark"`, `href="/daybook/runs"`)
	r = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/runs", nil)
	r.AddCookie(&http.Cookie{Name: themeCookie, Value: "<script>"})
	says(t, body(t, s.ask(r)), `data-theme=""`)
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a page without a ledger")
	}
	st, ok := openSQLite(t).Store.(ledger.Store)
	if !ok {
		t.Fatal("no whole ledger")
	}
	for _, base := range []string{"daybook", "/daybook/", "/a b", `/"`} {
		if _, err := New(Options{Store: st, Base: base}); !errors.Is(err, ErrOptions) {
			t.Errorf("base %q: %v", base, err)
		}
	}
}
