package netguard_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/netguard"
)

func pinned(t *testing.T, h http.HandlerFunc) (*netguard.Client, string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := netguard.Pinned(s.URL, netguard.Limits{}, netguard.Net{})
	if err != nil {
		t.Fatal(err)
	}
	return c, s.URL
}

func roundTrip(t *testing.T, c *netguard.Client, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.RoundTrip(r)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

func reasonOf(err error) (netguard.Reason, bool) {
	e := (*netguard.Error)(nil)
	if !errors.As(err, &e) {
		return "", false
	}
	return e.Reason, e.Sent
}

func TestRoundTripStreams(t *testing.T) {
	next := make(chan struct{})
	c, url := pinned(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"one", "two"} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	resp, err := roundTrip(t, c, url)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "one" { // the answer goes on
		t.Fatalf("%q, %v", b, err)
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "two" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestRoundTripRefusals(t *testing.T) {
	asked := 0
	c, url := pinned(t, func(http.ResponseWriter, *http.Request) { asked++ })
	for _, other := range []string{"http://127.0.0.1:1/", "http://example.com/", "ftp" + strings.TrimPrefix(url, "http"), strings.Replace(url, "//", "//me@", 1)} {
		_, err := roundTrip(t, c, other)
		if e := (*netguard.Error)(nil); !errors.As(err, &e) || !e.Refused() || e.Sent {
			t.Errorf("%s: %v, want it refused", other, err)
		}
	}
	if asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

func TestRoundTripAnswers(t *testing.T) {
	c, url := pinned(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
		case "/elsewhere":
			http.Redirect(w, r, "http://example.com/", http.StatusTemporaryRedirect)
		case "/broken":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		}
	})
	if _, err := roundTrip(t, c, url+"/packed"); err == nil {
		t.Error("a packed answer was taken")
	} else if reason, sent := reasonOf(err); reason != netguard.BadEncoding || !sent {
		t.Errorf("packed: %v", err)
	}
	if resp, err := roundTrip(t, c, url+"/elsewhere"); err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("a redirect: %v, want it as the answer", err)
	}
	resp, err := roundTrip(t, c, url+"/broken")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(resp.Body)
	if reason, sent := reasonOf(err); reason != netguard.Broken || !sent {
		t.Errorf("broken off: %v", err)
	}
}

func TestRoundTripAway(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	c, err := netguard.Pinned(s.URL, netguard.Limits{}, netguard.Net{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = roundTrip(t, c, s.URL)
	if reason, sent := reasonOf(err); reason != netguard.Unreachable || sent {
		t.Errorf("%v, want it unreachable and nothing sent", err)
	}
}
