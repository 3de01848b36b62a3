package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv/browser"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// TestInABrowser opens the pages in a headless Chromium: it says nothing on its
// console (no error, nothing that the policy had to refuse), and what a run says
// does not become elements.
func TestInABrowser(t *testing.T) {
	tab := browser.Open(t).Page()
	h := openSQLite(t)
	story := ledgertest.Tell(t, h)
	s := open(t, h)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.h.ServeHTTP(w, r.WithContext(access.With(r.Context(), s.who)))
	}))
	defer srv.Close()
	dom := func(url string) string {
		tab.Go(url)
		return string(tab.Do(`() => document.documentElement.innerHTML.replaceAll('"', "'")`))
	}
	for path, want := range map[string]string{
		"/runs": "for <bdi>u-19", "/inbox": "Wants an approval", "/costs": "Cost of each day", "/queues": "Workers that hold runs",
		"/runs/" + story.Doubt.String(): "takeover", "/runs/" + story.Done.String() + "/artifacts": "d-add",
		"/runs/" + story.Hostile.String(): "U+202E", "/runs/" + story.Hostile.String() + "/transcript": "U+202E",
	} {
		text := dom(srv.URL + path)
		if !strings.Contains(text, want) {
			t.Errorf("%s does not show %q", path, want)
		}
		for _, no := range []string{"<img", "<script>window"} {
			if strings.Contains(strings.ToLower(text), no) {
				t.Errorf("%s has %s", path, no)
			}
		}
		for _, line := range tab.Said() {
			t.Errorf("%s: %s", path, line)
		}
	}
	// The test can fail: a page with an inline script says so on the console.
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write([]byte("<!DOCTYPE html><title>x</title><script>1</script>"))
	}))
	defer bad.Close()
	dom(bad.URL)
	if said := tab.Said(); !strings.Contains(strings.Join(said, ""), "Content Security Policy") {
		t.Errorf("a refusal is not seen: %q", said)
	}
}
