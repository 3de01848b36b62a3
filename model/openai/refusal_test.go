package openai_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/openai"
)

// TestRefusals: what a status and its headers mean, in both formats, and that one
// request goes out whatever the answer: trying again is the runtime's.
func TestRefusals(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name      string
		status    int
		body      string
		header    []string
		kind      string
		retryable bool
		after     time.Duration
		says      string
	}{
		{"bad request", 400, `{"error":{"message":"no such tool","code":"bad"}}`, nil, "invalid_request", false, 0, "400 Bad Request: bad: no such tool"},
		{"bad request with a wish", 400, `{}`, []string{"Retry-After", "5"}, "invalid_request", false, 0, "400"},
		{"too long for the window", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`, nil, "context_full", false, 0, "128000"},
		{"too long, in words alone", 400, `{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000"}}`, nil, "context_full", false, 0, "32768"},
		{"too long, as a local server has it", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, nil, "context_full", false, 0, "context size"},
		{"a limit of tokens a minute is none of the window", 429, `{"error":{"message":"maximum context length is not it"}}`, nil, "rate_limited", true, 0, "not it"},
		{"unknown model", 404, `{"error":{"message":"no model m"}}`, nil, "invalid_request", false, 0, "no model m"},
		{"wrong key", 401, `{"error":{"message":"Incorrect API key provided: ` + canary + `"}}`, nil, "unauthorized", false, 0, "[withheld]"},
		{"not allowed", 403, `{"detail":"no"}`, nil, "unauthorized", false, 0, "no"},
		{"not paid", 402, ``, nil, "unauthorized", false, 0, "402"},
		{"too many", 429, `{"error":{"message":"slow"}}`, []string{"Retry-After", "7"}, "rate_limited", true, 7 * time.Second, "slow"},
		{"too many, in milliseconds", 429, `{}`, []string{"Retry-After-Ms", "1500", "Retry-After", "7"}, "rate_limited", true, 1500 * time.Millisecond, ""},
		{"too many, until a date", 429, `{}`, []string{"Retry-After", now.Add(90 * time.Second).Format(http.TimeFormat)}, "rate_limited", true, 90 * time.Second, ""},
		{"too many, until a date gone by", 429, `{}`, []string{"Retry-After", now.Add(-time.Hour).Format(http.TimeFormat)}, "rate_limited", true, 0, ""},
		{"too many, for ever", 429, `{}`, []string{"Retry-After", "1e9"}, "rate_limited", true, 24 * time.Hour, ""},
		{"too many, until a second since 1970", 429, `{}`, []string{"Retry-After", fmt.Sprint(now.Add(90 * time.Second).Unix())}, "rate_limited", true, 90 * time.Second, ""},
		{"too many, until a millisecond since 1970", 429, `{}`, []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", fmt.Sprint(now.Add(90 * time.Second).UnixMilli())}, "rate_limited", true, 90 * time.Second, ""},
		{"too many, until a second long gone", 429, `{}`, []string{"Retry-After", "1500000000"}, "rate_limited", true, 0, ""},
		{"too many, until the next century", 429, `{}`, []string{"Retry-After", "4500000000"}, "rate_limited", true, 0, ""},
		{"too many, wish below zero", 429, `{}`, []string{"Retry-After", "-3"}, "rate_limited", true, 0, ""},
		{"too many tokens", 429, `{}`, []string{"X-Ratelimit-Remaining-Requests", "5", "X-Ratelimit-Reset-Requests", "1h", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0.5s"}, "rate_limited", true, 360500 * time.Millisecond, ""},
		{"too many of both", 429, `{}`, []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "20ms", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2s"}, "rate_limited", true, 2 * time.Second, ""},
		{"nothing left to spend", 429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, []string{"Retry-After", "5"}, "rate_limited", false, 0, "quota"},
		{"timeout", 408, ``, nil, "timeout", true, 0, ""},
		{"conflict", 409, ``, nil, "unavailable", true, 0, ""},
		{"broken", 500, `oops`, nil, "unavailable", true, 0, "500"},
		{"broken, and says not to try", 500, `{}`, []string{"X-Should-Retry", "false"}, "unavailable", false, 0, ""},
		{"refused, and says to try", 400, `{}`, []string{"X-Should-Retry", "true", "Retry-After", "1"}, "invalid_request", true, time.Second, ""},
		{"gateway", 502, `<html>`, nil, "unavailable", true, 0, "502"},
		{"busy", 503, `{"error":"busy"}`, []string{"Retry-After", "2"}, "overloaded", true, 2 * time.Second, "busy"},
		{"gateway timeout", 504, ``, nil, "timeout", true, 0, ""},
		{"overloaded", 529, ``, nil, "overloaded", true, 0, "529"},
		{"not there", 501, ``, nil, "invalid_request", false, 0, ""},
		{"redirected", 307, ``, []string{"Location", "http://127.0.0.1:1/elsewhere"}, "invalid_request", false, 0, "base_url"},
		{"created", 201, `{}`, nil, "unavailable", true, 0, ""},
		{"a novel", 500, `{"error":{"message":"` + strings.Repeat("ä", 5000) + `"}}`, nil, "unavailable", true, 0, "…"},
	}
	for _, api := range []string{openai.Chat, openai.Responses} {
		for _, tt := range tests {
			t.Run(strings.ReplaceAll(api, "/", " ")+" "+tt.name, func(t *testing.T) {
				s := serve(t, refuse(tt.status, tt.body, tt.header...))
				resp, e := call(t, s.model(t, api, func(c *openai.Config) { c.Now = func() time.Time { return now } }), ask("hello"))
				if e == nil {
					t.Fatalf("answer %+v", resp)
				}
				if e.Kind != tt.kind || e.Retryable != tt.retryable || e.RetryAfter != tt.after || !strings.Contains(e.Error(), tt.says) {
					t.Errorf("%s, retryable %t after %v: %v", e.Kind, e.Retryable, e.RetryAfter, e)
				}
				if len(e.Error()) > 700 {
					t.Errorf("the error has %d bytes", len(e.Error()))
				}
				if e.Usage != nil {
					t.Errorf("usage %+v of a refusal", e.Usage)
				}
				if n := s.count(); n != 1 {
					t.Errorf("%d wire calls", n)
				}
			})
		}
	}
}

// TestKeysStayWhereTheyBelong: the environment gives nothing, and what is secret
// is in no error and prints nowhere.
func TestKeysStayWhereTheyBelong(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"} {
		t.Setenv(name, "sk-from-the-environment-000000")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-From-Env: sk-from-the-environment-000000")
	s := serve(t, refuse(401, `{"error":{"message":"`+canary+` and header-canary-77"}}`))
	var cfg openai.Config
	m := s.model(t, openai.Chat, func(c *openai.Config) {
		c.Headers = map[string]string{"X-Gateway": "header-canary-77"}
		cfg = *c
	})
	_, e := call(t, m, ask("hello"))
	if e == nil {
		t.Fatal("no error")
	}
	for _, text := range []string{e.Error(), fmt.Sprintf("%+v %#v %s", e.Err, e.Err, e.Err), fmt.Sprintf("%v %+v %#v %s", m, m, m, m), fmt.Sprintf("%v %+v %#v", cfg, cfg, &cfg)} {
		if strings.Contains(text, canary) || strings.Contains(text, "header-canary") {
			t.Errorf("a secret in %q", text)
		}
	}
	h := s.Requests()[0].Header
	if h.Get("Authorization") != "Bearer "+canary || h.Get("X-Gateway") != "header-canary-77" || h.Get("X-Client-Request-Id") != "RUN.e1.t1.a1" {
		t.Errorf("headers %v", h)
	}
	for name, vs := range h {
		if strings.Contains(strings.Join(vs, " "), "from-the-environment") {
			t.Errorf("header %s comes from the environment", name)
		}
	}
	if s.Requests()[0].Path != "/v1/chat/completions" {
		t.Errorf("path %s", s.Requests()[0].Path)
	}
	_, err := openai.New(openai.Config{BaseURL: "127.0.0.1:80", Key: canary})
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("New = %v", err)
	}
}

// TestNobodyThere: no server is no answer, and can be tried again.
func TestNobodyThere(t *testing.T) {
	s := serve(t, sse())
	m := s.model(t, openai.Chat)
	s.Close()
	_, e := call(t, m, ask("hello"))
	if e == nil || e.Kind != "unavailable" || !e.Retryable || e.Usage != nil {
		t.Errorf("error %+v", e)
	}
}

// slow is a provider that says what it is given, a line a second, and then falls silent.
type slow struct{ lines []string }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	go func() {
		for _, l := range s.lines {
			time.Sleep(time.Second)
			if _, err := io.WriteString(w, l); err != nil {
				return
			}
		}
		<-r.Context().Done()
		_ = w.CloseWithError(context.Cause(r.Context()))
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

// TestSilence: a provider that says nothing for too long is given up; one that
// only says that it is still there is not.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := []string{"data: " + chatText("hel") + "\n\n"}
		for range 100 {
			lines = append(lines, ": still here\n\n")
		}
		m, err := openai.New(openai.Config{API: openai.Chat, BaseURL: "http://model.test/v1", Idle: 10 * time.Second, Transport: slow{lines}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, e := call(t, m, ask("hello"))
		if e == nil || e.Kind != "timeout" || !e.Retryable {
			t.Fatalf("error %+v", e)
		}
		if took := time.Since(began); took != 111*time.Second {
			t.Errorf("given up after %v", took)
		}
		synctest.Wait()
	})
}

// TestTheCallersEnd: a call that the caller ends is the caller's error, not the provider's.
func TestTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := openai.New(openai.Config{API: openai.Responses, BaseURL: "http://model.test/v1", Transport: slow{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = m.Call(ctx, ask("hello"))
		var e *model.Error
		if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) {
			t.Errorf("Call = %v", err)
		}
		synctest.Wait()
	})
}

// TestKeysAreInNoError: whatever a server does with a key, and wherever its words are cut.
func TestKeysAreInNoError(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString([]byte("x" + canary))
	for name, reply := range map[string]http.HandlerFunc{
		"cut in the middle":     sse(strings.Repeat("x", 40) + canary),
		"in the code":           refuse(400, `{"error":{"code":"`+canary+`","message":"no"}}`),
		"encoded":               refuse(400, `{"error":{"message":"`+b64+`"}}`),
		"two of them":           sse(`{"error":{"message":"` + canary + ` header-canary-77"}}`),
		"in a code in a stream": sse(`{"error":{"code":"` + canary + `","message":"no"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			m := serve(t, reply).model(t, openai.Chat, func(c *openai.Config) {
				c.Headers = map[string]string{"X-Other": "header-canary-77", "X-Short": "no"}
			})
			_, e := call(t, m, ask("hello"))
			if said := e.Error(); strings.Contains(said, canary[:12]) || strings.Contains(said, "header-canary") || strings.Contains(said, b64[4:20]) {
				t.Errorf("a secret in %q", said)
			}
		})
	}
}

// TestTheCallersEndKeepsTheBill: what was billed before the caller's time was up is
// known, if only that nobody knows how much.
func TestTheCallersEndKeepsTheBill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := []string{"data: " + chatUsage + "\n\n"}
		for range 100 {
			lines = append(lines, ": still here\n\n")
		}
		m, err := openai.New(openai.Config{API: openai.Chat, BaseURL: "http://model.test/v1", Transport: slow{lines}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = m.Call(ctx, ask("hello"))
		var e *model.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Usage == nil || e.Usage.Output != 7 || e.Model != "m-1" {
			t.Errorf("Call = %v", err)
		}
		synctest.Wait()
	})
}
