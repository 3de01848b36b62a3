// Package wire is what the clients of model providers share: watching a call,
// saying what a refusal means, and putting text together from its pieces.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

// MaxBody is how much of an answer is read, its envelope included.
const MaxBody = 32 << 20

// ErrSilent: nothing came for too long.
var ErrSilent = errors.New("the provider was silent for too long")

// ErrTooLong: an answer over [MaxBody].
var ErrTooLong = fmt.Errorf("the answer is over %d bytes", MaxBody)

// Client returns an HTTP client for model calls: it follows no redirects, since
// a request with a key and a transcript belongs to the host that was named. next
// nil means a transport of its own with the proxy of the environment.
func Client(next http.RoundTripper) *http.Client {
	if next == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64
		next = t
	}
	return &http.Client{
		Transport:     transport{next},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type transport struct{ next http.RoundTripper }

// RoundTrip lets what watches the call see each byte of the body.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err == nil {
		w, _ := r.Context().Value(watchKey{}).(*Watch)
		res.Body = &body{ReadCloser: res.Body, watch: w, left: MaxBody}
	}
	return res, err
}

type body struct {
	io.ReadCloser
	watch *Watch
	left  int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if n > 0 && b.watch != nil {
		b.watch.timer.Reset(b.watch.idle)
	}
	return n, err
}

type watchKey struct{}

// Watch ends a call that has been silent for too long. It belongs to one call.
type Watch struct {
	idle   time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// NewWatch returns a context for one call, which ends with [ErrSilent] as its
// cause once idle has passed without a byte. Stop it when the call is over.
func NewWatch(ctx context.Context, idle time.Duration) (context.Context, *Watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{idle: idle, cancel: cancel}
	w.timer = time.AfterFunc(idle, func() { cancel(ErrSilent) })
	return context.WithValue(ctx, watchKey{}, w), w
}

// Stop releases what the watch holds.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// Broken says what an error of the transport means. watched is the context of
// the call's [Watch], and ctx the caller's, whose end is returned as its error.
func Broken(ctx, watched context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case context.Cause(watched) == ErrSilent:
		return &model.Error{Kind: "timeout", Retryable: true, Err: ErrSilent}
	case errors.Is(err, ErrTooLong):
		return &model.Error{Kind: "malformed_answer", Err: err}
	}
	return &model.Error{Kind: "unavailable", Retryable: true, Err: err}
}

// Refusal is what a provider said instead of answering.
type Refusal struct {
	Status        int // of HTTP; 0 = said inside a stream
	Header        http.Header
	Code, Message string
}

// quota are codes for a limit that waiting does not lift.
var quota = []string{"insufficient_quota", "billing_", "credit balance", "quota_exceeded"}

// withheld stands where a secret was.
const withheld = "[withheld]"

// Error says what a refusal means. Secrets are taken out of the provider's words
// before they are cut: half of one would be left.
func (r Refusal) Error(now time.Time, secrets redact.Values) *model.Error {
	r.Code = secrets.Replace(r.Code, withheld)
	text := short(secrets.Replace(r.Message, withheld))
	e := &model.Error{}
	switch code := strings.ToLower(r.Code); {
	case r.Status == http.StatusTooManyRequests, strings.Contains(code, "rate_limit"):
		e.Kind, e.Retryable = "rate_limited", true
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden, r.Status == http.StatusPaymentRequired:
		e.Kind = "unauthorized"
	case r.Status == http.StatusRequestTimeout, r.Status == http.StatusGatewayTimeout, code == "timeout_error":
		e.Kind, e.Retryable = "timeout", true
	case r.Status == http.StatusServiceUnavailable, r.Status == 529, strings.Contains(code, "overloaded"):
		e.Kind, e.Retryable = "overloaded", true
	case r.Status == http.StatusNotImplemented:
		e.Kind = "invalid_request"
	case r.Status >= 500, r.Status == http.StatusConflict, r.Status == http.StatusTooEarly, strings.Contains(code, "server_error"), code == "api_error":
		e.Kind, e.Retryable = "unavailable", true
	case r.tooLong(text):
		e.Kind = events.KindContextFull
	case r.Status >= 400, strings.Contains(code, "invalid"), strings.Contains(code, "not_found"), strings.Contains(code, "content"), strings.Contains(code, "context_length"):
		e.Kind = "invalid_request"
	case r.Status >= 300:
		e.Kind, text = "invalid_request", "the address redirects, which is not followed: correct base_url. "+text
	default:
		e.Kind, e.Retryable = "unavailable", true // inside a stream, for a reason we do not know
	}
	said := strings.ToLower(r.Code + " " + text)
	for _, q := range quota {
		if e.Kind == "rate_limited" && strings.Contains(said, q) {
			e.Retryable = false
		}
	}
	switch r.Header.Get("x-should-retry") {
	case "true":
		e.Retryable = true
	case "false":
		e.Retryable = false
	}
	if e.Retryable {
		e.RetryAfter = RetryAfter(r.Header, now)
	}
	e.Err = errors.New(describe(r.Status, r.Code, text))
	return e
}

// tooLong reports whether the request did not fit the model's window. There is a
// code for that, which not every server sends; some say it in words alone.
func (r Refusal) tooLong(text string) bool {
	if code := strings.ToLower(r.Code); strings.Contains(code, "context_length") || code == "exceed_context_size_error" {
		return true
	}
	if r.Status != 0 && r.Status != http.StatusBadRequest && r.Status != http.StatusRequestEntityTooLarge && r.Status != http.StatusUnprocessableEntity {
		return false
	}
	text = strings.ToLower(text)
	for _, said := range []string{
		"prompt is too long", "maximum context length", "exceeds the context window", "exceed context limit", "exceeds the available context size", "context window of this model",
	} {
		if strings.Contains(text, said) {
			return true
		}
	}
	return false
}

func describe(status int, code, text string) string {
	var parts []string
	if status != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status))))
	}
	for _, s := range []string{short(code), text} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return "the provider refused without a word"
	}
	return strings.Join(parts, ": ")
}

// short cuts what a provider says to what a row should hold.
func short(s string) string {
	const most = 500
	s = strings.ToValidUTF8(strings.TrimSpace(s), "\ufffd")
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
