package netguard_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

func redirect(to string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{to}
		w.WriteHeader(status)
	}
}

// Part E: what changes between the check and the connection.
func TestRedirectsAreJudgedAgain(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, tt := range []struct {
			to     string
			reason netguard.Reason
		}{
			{"https://127.0.0.1/", netguard.NotPublic},
			{"https://[::1]/", netguard.NotPublic},
			{"//169.254.169.254/latest", netguard.NotPublic},
			{"https://metadata.google.internal/", netguard.NotPublic},
			{"https://inside.example.com/", netguard.NotPublic}, // resolves to 10.0.0.1
			{"http://site.example.com/", netguard.BadScheme},
			{"file:///etc/passwd", netguard.BadURL},
			{"gopher://site.example.com/", netguard.BadScheme},
			{"https://user:pw@site.example.com/", netguard.BadURL},
			{"https://site.example.com:22/", netguard.NotAllowed},
			{"https://other.org/", netguard.NotAllowed},
			{`https://127.1.1.1:443\@site.example.com/`, netguard.BadURL},
		} {
			t.Run(fmt.Sprintf("SG-73 %d to %s", status, tt.to), func(t *testing.T) {
				in := netguardtest.New(t)
				in.Handle("site.example.com", redirect(tt.to, status))
				in.HandleFunc("other.org", func(http.ResponseWriter, *http.Request) { t.Error("reached") })
				in.Resolve("inside.example.com", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
				p := netguard.Policy{Allow: []string{".example.com", "127.0.0.1", "169.254.169.254"}}
				refused(t, in, p, "https://site.example.com/", 1, tt.reason)
			})
		}
	}
	t.Run("SG-73 a name that flips after its first answer", func(t *testing.T) {
		in := netguardtest.New(t)
		public := in.Handle("site.example.com", redirect("https://site.example.com/again", 302))
		in.Resolve("site.example.com", []netip.Addr{public}, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
		refused(t, in, everything, "https://site.example.com/", 1, netguard.NotPublic)
	})
	t.Run("SG-73 the address that is judged is the one that is dialled", func(t *testing.T) {
		in := netguardtest.New(t)
		public := in.HandleFunc("site.example.com", func(http.ResponseWriter, *http.Request) {})
		in.Resolve("site.example.com", []netip.Addr{public}, []netip.Addr{netip.MustParseAddr("127.0.0.1")})
		c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: in.Net()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"}); err != nil {
			t.Fatal(err)
		}
		if got := in.Dialled(); len(got) != 1 || got[0] != netip.AddrPortFrom(public, 443) {
			t.Errorf("dialled %v", got)
		}
	})
	t.Run("SG-73 a loop ends after five", func(t *testing.T) {
		in := netguardtest.New(t)
		in.Handle("site.example.com", redirect("/", 302))
		refused(t, in, everything, "https://site.example.com/", 6, netguard.TooManyRedirects)
	})
	t.Run("SG-73 five are followed", func(t *testing.T) {
		in := netguardtest.New(t)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, r *http.Request) {
			if len(r.URL.Path) > 5 {
				_, _ = io.WriteString(w, "arrived")
				return
			}
			redirect(r.URL.Path+"x", 302)(w, r)
		})
		c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: in.Net()})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"})
		if err != nil || string(resp.Body) != "arrived" || resp.URL != "https://site.example.com/xxxxx" {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// SG-74: a credential goes to the host it is for, and nowhere else.
func TestHeadersStayWithTheirHost(t *testing.T) {
	in := netguardtest.New(t)
	type seen struct{ auth, key, extra string }
	got := map[string]seen{}
	note := func(r *http.Request) {
		got[r.Host+r.URL.Path] = seen{r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("X-Extra")}
	}
	in.HandleFunc("api.example.com", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		redirect("https://evil.example.com/b", 307)(w, r)
	})
	in.HandleFunc("evil.example.com", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		redirect("https://api.example.com:8443/c", 307)(w, r)
	})
	c, err := netguard.New(netguard.Policy{
		Allow: []string{".example.com", "api.example.com:8443"}, Net: in.Net(), Limits: netguard.Limits{Redirects: 2},
		Headers: []netguard.Header{
			{Host: "api.example.com", Name: "Authorization", Value: "Bearer s3cret"},
			{Host: "api.example.com", Name: "X-Api-Key", Value: "k"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Do(t.Context(), netguard.Request{URL: "https://api.example.com/a", Header: http.Header{"x-extra": {"1"}}})
	want := map[string]seen{
		"api.example.com/a":      {"Bearer s3cret", "k", "1"},
		"evil.example.com/b":     {},
		"api.example.com:8443/c": {}, // another port is another server
	}
	t.Run("SG-74 redirects", func(t *testing.T) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("headers arrived as %v, want %v", got, want)
		}
	})
	t.Run("SG-74 what would be for everybody, or would break the request, is refused", func(t *testing.T) {
		for _, h := range []netguard.Header{
			{Host: "*", Name: "Authorization", Value: "x"},
			{Host: "", Name: "Authorization", Value: "x"},
			{Host: "api.example.com", Name: "X\r\nY", Value: "x"},
			{Host: "api.example.com", Name: "X", Value: "a\r\nHost: evil"},
			{Host: "api.example.com", Name: "Host", Value: "127.0.0.1"},
			{Host: "api.example.com", Name: "transfer-encoding", Value: "chunked"},
			{Host: "api.example.com", Name: "", Value: "x"},
		} {
			if _, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Headers: []netguard.Header{h}}); err == nil {
				t.Errorf("header %+v is accepted", h)
			} else if strings.Contains(err.Error(), "evil") {
				t.Errorf("the error quotes the value: %v", err)
			}
		}
	})
}

func TestOtherMethodsFollowNothing(t *testing.T) {
	in := netguardtest.New(t)
	n := 0
	in.HandleFunc("api.example.com", func(w http.ResponseWriter, r *http.Request) {
		n++
		redirect("/again", 307)(w, r)
	})
	c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Net: in.Net()})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(t.Context(), netguard.Request{Method: "POST", URL: "https://api.example.com/", Body: []byte("x")})
	if err != nil || resp.Status != 307 || resp.Location != "/again" || n != 1 {
		t.Errorf("%+v, %v, %d requests", resp, err, n)
	}
}

func TestPinnedStaysAtItsOrigin(t *testing.T) {
	in := netguardtest.New(t)
	in.HandleFunc("search.internal", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/out" {
			redirect("https://other.internal/", 302)(w, r)
			return
		}
		_, _ = io.WriteString(w, "hits")
	})
	in.HandleFunc("other.internal", func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	in.Resolve("search.internal", []netip.Addr{netip.MustParseAddr("93.184.216.1")})
	c, err := netguard.Pinned("https://search.internal", netguard.Limits{}, in.Net())
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(t.Context(), netguard.Request{URL: "https://search.internal/search?q=x"}); err != nil || string(resp.Body) != "hits" {
		t.Errorf("%+v, %v", resp, err)
	}
	for _, url := range []string{"https://search.internal/out", "https://other.internal/", "http://search.internal/", "https://search.internal:444/"} {
		_, err := c.Do(t.Context(), netguard.Request{URL: url})
		if e := (*netguard.Error)(nil); !errors.As(err, &e) || e.Reason != netguard.NotAllowed {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, origin := range []string{"", "search.internal", "ftp://x", "https://u:s3cret@x.org", "https://"} {
		if _, err := netguard.Pinned(origin, netguard.Limits{}, netguard.Net{}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
}
