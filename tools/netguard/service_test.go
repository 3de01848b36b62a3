package netguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
)

func TestServiceThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := netguardtest.New(t)
		raw(in, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		s, err := netguard.NewService(netguard.ServiceConfig{Name: "slow", BaseURL: "https://site.example.com/v1/", Net: in.Net()})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = s.Get(t.Context(), "/x", nil, new(any))
		if err == nil || err.Error() != "slow did not answer in time" || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Get(ctx, "/x", nil, new(any)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("past the caller's deadline: %v", err)
		}
	})
}

func TestServicePosts(t *testing.T) {
	in := netguardtest.New(t)
	in.HandleFunc("api.example.com", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		key := strings.Replace(r.Header.Get("Authorization"), "s3cret", "the key", 1)
		_ = json.NewEncoder(w).Encode([]string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), key, string(b)})
	})
	s, err := netguard.NewService(netguard.ServiceConfig{
		Name: "api", BaseURL: "https://api.example.com/v1", Header: http.Header{"Authorization": {"Bearer s3cret"}}, Net: in.Net(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := s.Post(t.Context(), "/do", map[string]int{"a": 1}, &got); err != nil || strings.Join(got, " ") != `POST /v1/do application/json Bearer the key {"a":1}` {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := netguard.NewService(netguard.ServiceConfig{Name: "api", BaseURL: "https://x.org", Header: http.Header{"K": {"s3cret\n"}}}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a key that breaks the request: %v", err)
	}
}

func TestMicroUSD(t *testing.T) {
	for _, tt := range []struct {
		usd  json.Number
		want int64
		ok   bool
	}{
		{"0.001", 1000, true},
		{"1e-4", 100, true},
		{"0", 0, true},
		{"0.0000004", 0, true},
		{"0.0000005", 1, true},
		{"0.29", 290000, true},
		{"1000000", 1_000_000_000_000, true},
		{"1000001", 0, false},
		{"-0.1", 0, false},
		{"1e999999999", 0, false},
		{"", 0, false},
		{"free", 0, false},
		{"NaN", 0, false},
		{json.Number(strings.Repeat("9", 100)), 0, false},
	} {
		if got, ok := netguard.MicroUSD(tt.usd); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %d, %v, want %d, %v", tt.usd, got, ok, tt.want, tt.ok)
		}
	}
}
