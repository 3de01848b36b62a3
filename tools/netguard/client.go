package netguard

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"code.dny.dev/ssrf"

	"github.com/daybookhq/daybook/redact"
)

// Client makes requests under a [Policy]. Safe for concurrent use. It keeps no
// connections, cookies or other state between requests, and sends each request
// once: nothing is tried again behind the caller's back.
type Client struct {
	allow     []rule
	headers   []hostHeader
	withheld  redact.Values // of the headers
	origin    string        // of a pinned client
	limits    Limits
	net       Net
	guardian  *ssrf.Guardian
	transport *http.Transport
}

type hostHeader struct {
	rule        rule
	name, value string
}

// New returns a client for hosts that a model may name.
func New(p Policy) (*Client, error) {
	if len(p.Allow) == 0 {
		return nil, errors.New(`network policy: no hosts are allowed: name them in Allow, or "*" for every public one`)
	}
	c := &Client{guardian: newGuardian()}
	for _, s := range p.Allow {
		r, err := parseRule(s)
		if err != nil {
			return nil, fmt.Errorf("network policy: allow: %w", err)
		}
		c.allow = append(c.allow, r)
	}
	var secrets []string
	for _, h := range p.Headers {
		r, err := parseRule(h.Host)
		if err != nil {
			return nil, fmt.Errorf("network policy: header %q: %w", h.Name, err)
		}
		if r.host == "" {
			return nil, fmt.Errorf(`network policy: header %q: name the hosts that it is for; "*" would give it to everybody`, h.Name)
		}
		if !ValidHeader(h.Name) || !validValue(h.Value) {
			return nil, fmt.Errorf("network policy: header %q: its name or its value is not valid", h.Name)
		}
		c.headers = append(c.headers, hostHeader{r, h.Name, h.Value})
		secrets = append(secrets, Credentials(h.Name, h.Value)...)
	}
	c.withhold(secrets)
	return c.open(p.Limits, p.Net)
}

// Pinned returns a client for one origin, such as http://search:8080, that the
// operator has configured: its address may be private, and http is allowed. It
// never leaves the origin, whatever that redirects to.
func Pinned(origin string, l Limits, n Net) (*Client, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, fmt.Errorf("origin %q: want http://host:port or https://host", redactURL(origin))
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	c := &Client{origin: originOf(u.Scheme, strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)}
	return c.open(l, n)
}

func originOf(scheme, host, port string) string { return scheme + "://" + host + ":" + port }

// redactURL keeps a password in a URL out of an error.
func redactURL(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "…" + s[i:]
	}
	return s
}

func (c *Client) open(l Limits, n Net) (*Client, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("network policy: %w", err)
	}
	c.limits, c.net = l, n.withDefaults(c.guardian)
	c.transport = &http.Transport{
		Proxy:                  nil, // whatever the environment says
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{RootCAs: n.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // unpacked here, with limits
		// A connection serves one request: none is reused under a changed policy,
		// and the transport never sends a request again on a fresh one.
		DisableKeepAlives: true,
		Protocols:         http1(),
	}
	return c, nil
}

func http1() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	return p
}

// Request is one request. The zero Method is GET.
type Request struct {
	Method string
	URL    string
	// Header is sent to the first host alone; redirects do not get it.
	Header http.Header
	Body   []byte
	// Cut: a body over the limit is cut and flagged. Else it is an error.
	Cut bool
}

// Response is an answer, whatever its status.
type Response struct {
	URL         string // after redirects
	Status      int
	ContentType string // in lower case, without parameters; "" if the host said none
	Charset     string // in lower case; "" if the host said none
	Body        []byte
	// Cut is set if the body goes on.
	Cut bool
	// Location is where an answer points that was not followed.
	Location string
	// RetryAfter is what the host asks to wait; 0 if it did not say.
	RetryAfter time.Duration
}

// Refused reports whether the status says that nothing was done: the host's
// refusals, and redirects that ask for the same request elsewhere. 408 and 499
// come from something in front of a host that may be at work.
func (r *Response) Refused() bool {
	switch r.Status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	case http.StatusRequestTimeout, 499:
		return false
	}
	return r.Status >= 400 && r.Status < 500
}

// Check says what of a URL is refused before a name is resolved, as an [*Error];
// nil for nothing. It makes no connection.
func (c *Client) Check(url string) error {
	if _, err := c.judge(url); err != nil {
		return err
	}
	return nil
}

// Do makes a request and reads the whole answer. GET follows redirects, each
// judged like the first URL; of other methods the redirect is the answer.
// Errors are [*Error]. What a host sends back of the client's credentials is
// withheld, see [Client.Withhold].
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	resp, err := c.follow(ctx, r)
	if err != nil {
		return nil, c.hide(err)
	}
	return c.clean(resp), nil
}

func (c *Client) follow(ctx context.Context, r Request) (*Response, *Error) {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.Total, errTotal)
	defer cancel()
	raw, extra := r.URL, r.Header
	for hop := 0; ; hop++ {
		t, refused := c.judge(raw)
		if refused != nil {
			return nil, refused
		}
		resp, err := c.once(ctx, r, t, extra)
		if err != nil {
			return nil, err
		}
		if resp.Location == "" || r.Method != http.MethodGet {
			return resp, nil
		}
		if hop == c.limits.Redirects {
			return nil, refuse(TooManyRedirects, t.host, fmt.Sprintf("more than %d redirects", c.limits.Redirects))
		}
		next, perr := t.url.Parse(resp.Location)
		if perr != nil {
			return nil, refuse(BadURL, t.host, t.host+" redirects to something that is no URL")
		}
		raw, extra = next.String(), nil
	}
}

// once is one request to one host.
func (c *Client) once(ctx context.Context, r Request, t target, extra http.Header) (*Response, *Error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(traced, r.Method, t.url.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, refuse(BadURL, t.host, "want a whole URL, such as https://api.example.com/path")
	}
	req.Header.Set("User-Agent", "daybook")
	req.Header.Set("Accept-Encoding", "gzip")
	for k, v := range extra {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	for k, v := range c.headersFor(t) {
		req.Header[k] = v
	}
	if r.Method != http.MethodGet {
		req.GetBody = nil // never sent a second time
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		e := fold(ctx, t.host, err)
		if d := (*dialError)(nil); errors.As(err, &d) && e.Reason == Broken {
			e.Reason, e.text = Unreachable, t.host+" cannot be reached"
		}
		if strings.Contains(err.Error(), "server response headers exceeded") {
			e.Reason, e.text = TooLarge, "the headers of "+t.host+" are over the limit"
		}
		e.Sent = sent.Load()
		return nil, e
	}
	defer resp.Body.Close()
	out, err := c.read(ctx, r, t, resp)
	if err != nil {
		e := fold(ctx, t.host, err)
		e.Sent = true
		return nil, e
	}
	return out, nil
}

func (c *Client) read(ctx context.Context, r Request, t target, resp *http.Response) (*Response, error) {
	for _, vs := range resp.Header {
		for _, v := range vs {
			if len(v) > maxHeaderLine {
				return nil, &Error{Reason: TooLarge, Host: t.host, text: "a header of " + t.host + " is over the limit"}
			}
		}
	}
	out := &Response{URL: t.url.String(), Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	if typ, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil {
		out.ContentType, out.Charset = typ, strings.ToLower(params["charset"])
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if out.Location = resp.Header.Get("Location"); out.Location != "" && r.Method == http.MethodGet {
			return out, nil // its body is not read
		}
	}
	var err error
	out.Body, out.Cut, err = readBody(resp, t.host, c.limits, r.Cut)
	return out, err
}

// retryAfter is in seconds, or a date that is held against the host's own clock.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// ValidHeader reports whether s is the name of a header that may be set: those
// that frame a request are not.
func ValidHeader(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	switch http.CanonicalHeaderKey(s) {
	case "", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te", "Accept-Encoding":
		return false
	}
	return true
}

func validValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
