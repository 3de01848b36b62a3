package ui

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// TestInABrowser opens the pages in a headless Chromium: it says nothing on its
// console (no error, nothing that the policy had to refuse), and what a run says
// does not become elements. CI has Chromium (.ci/run installs it); where there is
// none, DAYBOOK_TEST_BROWSER=1 makes this a failure.
func TestInABrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("DAYBOOK_TEST_BROWSER") != "" || os.Getenv("CI") != "" {
			t.Fatal("no chromium: apt-get install chromium")
		}
		t.Skip("NOT RUN: no chromium here; apt-get install chromium")
	}
	h := openSQLite(t)
	story := ledgertest.Tell(t, h)
	s := open(t, h)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.h.ServeHTTP(w, r.WithContext(access.With(r.Context(), s.who)))
	}))
	defer srv.Close()
	profile := t.TempDir()
	for path, want := range map[string]string{
		"/runs": "for <bdi>u-19", "/inbox": "Wants an approval", "/costs": "Cost of each day", "/queues": "Workers that hold runs",
		"/runs/" + story.Doubt.String(): "takeover", "/runs/" + story.Done.String() + "/artifacts": "d-add",
		"/runs/" + story.Hostile.String(): "U+202E", "/runs/" + story.Hostile.String() + "/transcript": "U+202E",
	} {
		dom, log := dump(t, chromium, profile, srv.URL+path)
		if !strings.Contains(dom, want) {
			t.Errorf("%s does not show %q", path, want)
		}
		for _, no := range []string{"<img", "<script>window"} {
			if strings.Contains(strings.ToLower(dom), no) {
				t.Errorf("%s has %s", path, no)
			}
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, "CONSOLE") {
				t.Errorf("%s: %s", path, line)
			}
		}
	}
	// The test can fail: a page with an inline script says so on the console.
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write([]byte("<!DOCTYPE html><title>x</title><script>1</script>"))
	}))
	defer bad.Close()
	if _, log := dump(t, chromium, profile, bad.URL); !strings.Contains(log, "CONSOLE") {
		t.Errorf("a refusal is not seen:\n%s", log)
	}
}

// dump is a page after it was loaded, and what the browser logged.
func dump(t *testing.T, chromium, profile, url string) (dom, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
		"--user-data-dir="+profile, "--dump-dom", url)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", url, err, errs.String())
	}
	return out.String(), errs.String()
}
