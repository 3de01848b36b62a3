package netguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ServiceConfig says where an API is that the operator has chosen.
type ServiceConfig struct {
	// Name is how errors call it.
	Name string
	// BaseURL is what paths are appended to. Nothing outside its origin is asked.
	BaseURL string
	// Header is sent with every request: the key.
	Header http.Header
	Limits Limits
	Net    Net
}

// Service is an API that speaks JSON, asked through a [Pinned] client. Each
// request is sent once. What it sends back of its key is withheld, as
// [Client.Withhold] has it. Safe for concurrent use.
type Service struct {
	name   string
	base   string
	header http.Header
	client *Client
}

// NewService checks the configuration; errors name no key.
func NewService(c ServiceConfig) (*Service, error) {
	client, err := Pinned(c.BaseURL, c.Limits, c.Net)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	var secrets []string
	for name, values := range c.Header {
		for _, v := range values {
			if !ValidHeader(name) || !validValue(v) {
				return nil, fmt.Errorf("%s: the header %q, or what is in it, is not valid", c.Name, name)
			}
			secrets = append(secrets, Credentials(name, v)...)
		}
	}
	client.withhold(secrets)
	return &Service{name: c.Name, base: strings.TrimRight(c.BaseURL, "/"), header: c.Header, client: client}, nil
}

// ServiceError is every error of a [Service]. Its text quotes nothing of what
// the service said.
type ServiceError struct {
	Service    string
	Status     int           // 0 if there was no answer
	RetryAfter time.Duration // what the service asks to wait; 0 if it did not say
	text       string
	err        error
}

func (e *ServiceError) Error() string { return e.Service + " " + e.text }

// Unwrap returns the cause, if there was no answer.
func (e *ServiceError) Unwrap() error { return e.err }

// Get asks for path with a query, and decodes the answer.
func (s *Service) Get(ctx context.Context, path string, query url.Values, into any) error {
	u := s.base + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	return s.do(ctx, Request{URL: u}, into)
}

// Post sends body as JSON to path, and decodes the answer.
func (s *Service) Post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return &ServiceError{Service: s.name, text: "could not be asked: the request has no JSON form", err: err}
	}
	return s.do(ctx, Request{Method: http.MethodPost, URL: s.base + path, Header: http.Header{"Content-Type": {"application/json"}}, Body: b}, into)
}

func (s *Service) do(ctx context.Context, r Request, into any) error {
	h := s.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Accept", "application/json")
	for k, v := range r.Header {
		h[k] = v
	}
	r.Header = h
	resp, err := s.client.Do(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := &ServiceError{Service: s.name, err: err, text: "cannot be reached"}
		if g := (*Error)(nil); errors.As(err, &g) {
			e.text = map[Reason]string{
				TimedOut: "did not answer in time", TooLarge: "answered too much", Bomb: "answered too much",
				Broken: "broke off its answer", BadEncoding: "answered something unreadable", NotAllowed: "redirects to another host",
			}[g.Reason]
			if e.text == "" {
				e.text = "cannot be reached"
			}
		}
		return e
	}
	if resp.Status != http.StatusOK {
		return &ServiceError{Service: s.name, Status: resp.Status, RetryAfter: resp.RetryAfter, text: statusText(resp)}
	}
	if err := json.Unmarshal(resp.Body, into); err != nil {
		return &ServiceError{Service: s.name, Status: resp.Status, text: "answered something unreadable", err: err}
	}
	return nil
}

func statusText(r *Response) string {
	var what string
	switch {
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		what = "refused the key, or wants one"
	case r.Status == http.StatusPaymentRequired:
		what = "wants to be paid first"
	case r.Status == http.StatusTooManyRequests:
		what = "has had too many requests"
	case r.Status >= 500:
		what = "is out of order"
	case r.Status >= 400:
		what = "refused the request"
	default:
		what = "gave no answer"
	}
	what += fmt.Sprintf(" (status %d)", r.Status)
	if r.RetryAfter > 0 {
		what += fmt.Sprintf("; it asks to wait %d seconds", int64(r.RetryAfter.Seconds()))
	}
	return what
}
