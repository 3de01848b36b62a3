package netguard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

func TestWithhold(t *testing.T) {
	c, err := netguard.New(netguard.Policy{Allow: []string{"*"}, Headers: []netguard.Header{
		{Host: "a.example.com", Name: "Authorization", Value: "Bearer abc/d+f=="},
		{Host: "b.example.com", Name: "X-Key", Value: "abc/d+f==more"},
		{Host: "b.example.com", Name: "X-Quoted", Value: `k"<e>y`},
		{Host: "b.example.com", Name: "X-Version", Value: "2"},
		{Host: "b.example.com", Name: "Accept", Value: "application/json"},
		{Host: "c.example.com", Name: "Authorization", Value: "Basic dXNlcjpwYXNzL3dvcmQ5"}, // user:pass/word9
		{Host: "c.example.com", Name: "Cookie", Value: "lang=en; session=0123456789abcdef"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"version 2 of a Bear":                        "version 2 of a Bear",
		"Bearer tokens in application/json":          "Bearer tokens in application/json",
		"user:pass/word9 is pass/word9":              "[withheld] is [withheld]",
		"session 0123456789abcdef":                   "session [withheld]",
		"abc/ d+f==more":                             "[withheld]",
		"Authorization: Bearer abc/d+f==":            "Authorization: [withheld]",
		"token abc/d+f==":                            "token [withheld]",
		"key abc/d+f==more":                          "key [withheld]", // and not only its beginning
		`{"token":"abc\/d+f=="}`:                     `{"token":"[withheld]"}`,
		`{"k":"k\"\u003ce\u003ey"} k"<e>y`:           `{"k":"[withheld]"} [withheld]`,
		"https://b.example.com/?t=abc%2Fd%2Bf%3D%3D": "https://b.example.com/?t=[withheld]",
		"https://b.example.com/abc%2Fd+f==":          "https://b.example.com/[withheld]",
	} {
		if got := c.Withhold(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	pinned, err := netguard.Pinned("http://search:8080", netguard.Limits{}, netguard.Net{})
	if err != nil || pinned.Withhold("text") != "text" {
		t.Errorf("without headers: %v", err)
	}
}

// A client shows nothing of its credentials, whatever a host makes of them: not in
// its answers, and not in its errors.
func TestAnswersAndErrorsAreWithoutCredentials(t *testing.T) {
	header := http.Header{"Authorization": {"Bearer " + netguardtest.Canary}}
	for name, form := range netguardtest.Echoes(netguardtest.Canary) {
		t.Run(name, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("site.example.com", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", fmt.Sprintf("text/plain; charset=%q", form))
				w.Header().Set("Location", "/?as="+url.QueryEscape(form))
				switch r.URL.Path {
				case "/moved":
					w.WriteHeader(http.StatusFound)
				case "/away":
					w.Header().Set("Location", "https://"+strings.Trim(strings.Map(hostByte, form), "-.")+".example.org/")
					w.WriteHeader(http.StatusFound)
				}
				_, _ = io.WriteString(w, "you are "+form+".")
			})
			policy := netguard.Policy{Allow: []string{"site.example.com"}, Net: in.Net()}
			for n, v := range header {
				policy.Headers = append(policy.Headers, netguard.Header{Host: "site.example.com", Name: n, Value: v[0]})
			}
			c, err := netguard.New(policy)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/", "/moved"} {
				r, err := c.Do(t.Context(), netguard.Request{Method: map[string]string{"/": "POST", "/moved": "GET"}[path], URL: "https://site.example.com" + path})
				if err != nil {
					t.Fatal(err)
				}
				said := fmt.Sprintf("%+v %s", *r, r.Body)
				if leaks := netguardtest.Leaks(netguardtest.Canary, said); leaks != nil || !strings.Contains(string(r.Body), netguard.Withheld) {
					t.Errorf("%s: %v in %s", path, leaks, said)
				}
			}
			_, err = c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/away"})
			if g := (*netguard.Error)(nil); !errors.As(err, &g) || netguardtest.Leaks(netguardtest.Canary, g.Error()+g.Host) != nil {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("in a host name", func(t *testing.T) {
		in := netguardtest.New(t)
		in.HandleFunc("site.example.com", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://s3cretk3y.example.org/")
			w.WriteHeader(http.StatusFound)
		})
		c, err := netguard.New(netguard.Policy{
			Allow: []string{"site.example.com"}, Net: in.Net(),
			Headers: []netguard.Header{{Host: "site.example.com", Name: "X-Key", Value: "S3cretK3y"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(t.Context(), netguard.Request{URL: "https://site.example.com/"})
		if g := (*netguard.Error)(nil); !errors.As(err, &g) || strings.Contains(g.Error()+g.Host, "s3cretk3y") || !strings.Contains(g.Error(), netguard.Withheld) {
			t.Errorf("%v", err)
		}
	})
}

// hostByte keeps what may stand in the name of a host.
func hostByte(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

func TestServiceIsWithoutItsKey(t *testing.T) {
	for name, form := range netguardtest.Echoes(netguardtest.Canary) {
		t.Run(name, func(t *testing.T) {
			in := netguardtest.New(t)
			in.HandleFunc("api.example.com", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/bad" {
					fmt.Fprintf(w, `{"you": %q`, form)
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]string{"you": "are " + form + "."})
			})
			s, err := netguard.NewService(netguard.ServiceConfig{
				Name: "api", BaseURL: "https://api.example.com/v1", Header: http.Header{"X-Key": {netguardtest.Canary}}, Net: in.Net(),
			})
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ You string }
			if err := s.Get(t.Context(), "/x", nil, &got); err != nil {
				t.Fatal(err)
			}
			if leaks := netguardtest.Leaks(netguardtest.Canary, got.You); leaks != nil || !strings.Contains(got.You, netguard.Withheld) {
				t.Errorf("%v in %s", leaks, got.You)
			}
			for err := s.Get(t.Context(), "/bad", nil, &got); err != nil; err = errors.Unwrap(err) {
				if leaks := netguardtest.Leaks(netguardtest.Canary, err.Error()); leaks != nil {
					t.Errorf("%v in %v", leaks, err)
				}
			}
		})
	}
}
