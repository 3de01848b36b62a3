package netguard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// RoundTrip makes c the [http.RoundTripper] of a protocol whose answers are
// streams. The URL is judged as by [Client.Do], the request is sent once, and a
// redirect is the answer, for whoever called to judge. Of the limits only Idle
// holds: how long an answer may be, in bytes and in time, is up to the caller.
// Packed answers are refused. Errors, also while the body is read, are [*Error].
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	t, refused := c.judge(r.URL.String())
	if refused != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, refused
	}
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	out := r.Clone(ctx)
	out.URL, out.Host, out.GetBody = t.url, "", nil // without GetBody it is never sent a second time
	out.Header.Set("User-Agent", "daybook")
	out.Header.Set("Accept-Encoding", "identity")
	for k, v := range c.headersFor(t) {
		out.Header[k] = v
	}
	resp, err := c.transport.RoundTrip(out)
	if err != nil {
		e := fold(r.Context(), t.host, err)
		if d := (*dialError)(nil); errors.As(err, &d) && e.Reason == Broken {
			e.Reason, e.text = Unreachable, t.host+" cannot be reached"
		}
		e.Sent = sent.Load()
		return nil, e
	}
	if p := strings.ToLower(resp.Header.Get("Content-Encoding")); p != "" && p != "identity" {
		_ = resp.Body.Close()
		return nil, &Error{Reason: BadEncoding, Host: t.host, Sent: true, text: "the answer of " + t.host + " is packed in a way that is not unpacked here"}
	}
	resp.Body = &stream{ReadCloser: resp.Body, ctx: r.Context(), host: t.host}
	return resp, nil
}

// stream folds the errors of a body.
type stream struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // of the request, which Read has none of
	host string
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		e := fold(s.ctx, s.host, err)
		e.Sent = true
		err = e
	}
	return n, err
}
