package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/daybookhq/daybook/tools/netguard"
)

const (
	// streamIdle is how long an answer may be silent; the call's own time is shorter.
	streamIdle = time.Hour
	// resumes is how often the rest of an answer is asked for, by its number, when a
	// stream breaks that can be resumed. It asks for the answer, not for the work.
	resumes = 3

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// overHTTP returns the transport to a server on the network.
func (l *link) overHTTP() (sdk.Transport, error) {
	u, err := url.Parse(l.s.cfg.URL)
	if err != nil {
		return nil, errors.New("its url cannot be read")
	}
	guard, err := netguard.Pinned(u.Scheme+"://"+u.Host, netguard.Limits{Idle: streamIdle, Total: streamIdle}, l.s.host.Net)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, v := range l.s.cfg.Headers {
		v, err := l.s.secret(v)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		header.Set(name, v)
		l.s.hide(netguard.Credentials(name, v)...)
	}
	l.conn = &conn{l: l}
	l.stop = func() error { return nil }
	return &sdk.StreamableClientTransport{
		Endpoint: l.s.cfg.URL,
		HTTPClient: &http.Client{
			Transport:     &roundTrip{l: l, guard: guard, header: header},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		MaxRetries: resumes,
		// It is for what a server says unasked. A stream that a proxy cuts again and
		// again would end the session, and put calls in doubt that have nothing to do
		// with it.
		DisableStandaloneSSE: true,
		MaxEventSize:         maxMessage,
	}, nil
}

// roundTrip sends requests, each once, and keeps a call's bad answer from ending
// the session, with all other calls in it.
type roundTrip struct {
	l      *link
	guard  *netguard.Client
	header http.Header
}

// RoundTrip sends r.
func (t *roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if x != nil && r.Method == http.MethodPost && !x.post() {
		return nil, errTwice
	}
	r = r.Clone(r.Context())
	for name, v := range t.header {
		r.Header[name] = v
	}
	if v, ok := t.l.version.Load().(string); ok && r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, v)
	}
	if x != nil && r.Method != http.MethodPost {
		return t.rest(r, x)
	}
	resp, err := t.guard.RoundTrip(r)
	if err != nil {
		if e := (*netguard.Error)(nil); x != nil && (!errors.As(err, &e) || e.Sent) {
			x.reached()
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusNotFound && r.Header.Get(sessionHeader) != "" {
		// The session is gone. With an error of the protocol in it the SDK would take
		// it for a word about this one message, and keep the session.
		_ = resp.Body.Close()
		resp.Body = http.NoBody
	}
	if x == nil {
		resp.Body = &limited{ReadCloser: resp.Body, left: maxMessage}
		return resp, nil
	}
	x.statusIs(resp.StatusCode)
	return answerOf(r, resp, x)
}

var errNoRest = errors.New("the answer broke off, and its rest is not to be had")

// rest asks for the rest of a call's answer. What goes wrong with it ends that
// call alone: the SDK would end the session, and all other calls with it.
func (t *roundTrip) rest(r *http.Request, x *exchange) (*http.Response, error) {
	give := func(err error) (*http.Response, error) {
		if x.giveUp == nil {
			return nil, err
		}
		x.giveUp(err)
		<-r.Context().Done()
		return nil, err
	}
	if !x.resumed(r.Header.Get("Last-Event-Id")) {
		return give(errNoRest)
	}
	resp, err := t.guard.RoundTrip(r)
	if err != nil {
		if x.last() {
			return give(fmt.Errorf("%w: %w", errNoRest, err))
		}
		return nil, err
	}
	typ, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode != http.StatusOK || !strings.EqualFold(strings.TrimSpace(typ), "text/event-stream") {
		_ = resp.Body.Close()
		return give(fmt.Errorf("%w: %s", errNoRest, statusText(resp.StatusCode)))
	}
	resp.Body = newEventStream(r.Context(), &limited{ReadCloser: resp.Body, left: 4 * maxMessage}, x)
	return resp, nil
}

// answerOf looks at the answer to a call before the SDK does.
func answerOf(r *http.Request, resp *http.Response, x *exchange) (*http.Response, error) {
	typ, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	typ = strings.ToLower(strings.TrimSpace(typ))
	switch {
	case resp.StatusCode == http.StatusNotFound && r.Header.Get(sessionHeader) != "":
		return resp, nil // the session is gone: the SDK ends it
	case resp.StatusCode >= 200 && resp.StatusCode < 300 && typ == "text/event-stream":
		resp.Body = newEventStream(r.Context(), &limited{ReadCloser: resp.Body, left: 4 * maxMessage}, x)
		return resp, nil
	}
	body, err := io.ReadAll(&limited{ReadCloser: resp.Body, left: maxMessage})
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("its answer broke off: %w", err)
	}
	m, err := jsonrpc.DecodeMessage(body)
	answer, ok := m.(*jsonrpc.Response)
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		if ok && err == nil && answer.Error != nil {
			x.answered(answer)
		}
		return nil, errors.New(statusText(resp.StatusCode))
	}
	if err != nil || !ok || typ != "application/json" {
		return nil, errors.New("its answer is not what the protocol has")
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// limited ends a body that is too long.
type limited struct {
	io.ReadCloser
	left int64
}

var errTooLong = errors.New("the answer is too long")

func (b *limited) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
