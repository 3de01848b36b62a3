// Package openai is the client of OpenAI's two wire formats, Responses and Chat
// Completions, and so of whatever server speaks one of them. It makes one wire
// call for each request and never retries; see docs/models.md for how servers
// differ and what becomes of that.
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
	"github.com/daybookhq/daybook/redact"
)

// Wire formats, which [events.Block.Format] names. Stored; never renamed.
const (
	Responses = "openai/responses"
	Chat      = "openai/chat"
)

// DefaultIdle is how long a provider may be silent, before its first byte and
// between any two.
const DefaultIdle = 5 * time.Minute

// Config says whom to ask, and how. It never prints its key.
type Config struct {
	// API is [Responses] or [Chat]; empty = Responses.
	API string
	// BaseURL is the address of the API without its last part, such as
	// http://127.0.0.1:8080/v1; empty = OpenAI's own.
	BaseURL string
	// Key is sent as a bearer token; empty = none. Nothing is taken from the environment.
	Key string
	// Model is what the server calls the model; empty = the request's model.
	Model string
	// Thinking is used where a request says nothing: see [model.Request.Thinking].
	Thinking string
	// Headers are sent with each request; their values are as secret as the key.
	Headers map[string]string
	// Fields are set in the body of each request, over what the client puts there.
	Fields map[string]json.RawMessage
	// Idle bounds the silence of the provider; zero means [DefaultIdle].
	Idle time.Duration
	// Transport carries the requests; nil = one of its own. Redirects are never followed.
	Transport http.RoundTripper
	// Now tells how far away a date in a header is; nil = time.Now.
	Now func() time.Time
}

// Format keeps what is secret in a config from being printed.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "openai.Config("+c.BaseURL+")") }

// Model is a client for one model. Safe for concurrent use. It implements
// [model.Streamer].
type Model struct {
	cfg     Config
	client  sdk.Client
	secrets redact.Values
}

var _ model.Streamer = (*Model)(nil)

// New returns a client. It connects to nothing.
func New(cfg Config) (*Model, error) {
	switch cfg.API {
	case "":
		cfg.API = Responses
	case Responses, Chat:
	default:
		return nil, fmt.Errorf("openai: API %q: want %s or %s", cfg.API, Responses, Chat)
	}
	if cfg.BaseURL != "" {
		if u, err := url.Parse(cfg.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("openai: base URL %q: want one such as http://127.0.0.1:8080/v1", cfg.BaseURL)
		}
	}
	if cfg.Idle == 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	// The SDK's constructor reads addresses, keys and headers from the
	// environment; what is not written here is not meant.
	opts := []option.RequestOption{
		option.WithMaxRetries(0),
		option.WithHTTPClient(wire.Client(cfg.Transport)),
		option.WithEnvironmentProduction(),
		option.WithHeader("Accept", "text/event-stream, application/json"),
	}
	if cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(cfg.BaseURL))
	}
	m := &Model{cfg: cfg}
	var secrets []string
	if cfg.Key != "" {
		opts = append(opts, option.WithAPIKey(cfg.Key))
		secrets = append(secrets, cfg.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) {
		opts = append(opts, option.WithHeader(name, cfg.Headers[name]))
		secrets = append(secrets, cfg.Headers[name])
	}
	m.secrets = redact.NewValues(secrets...)
	m.client = sdk.Client{Options: opts}
	return m, nil
}

// Format keeps what is secret in the client from being printed.
func (m *Model) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "openai.Model("+m.cfg.Model+")")
}

// official reports whether it is OpenAI's own server that is asked, which takes
// fields that others refuse.
func (m *Model) official() bool { return m.cfg.BaseURL == "" }

// Provider implements [model.Provided].
func (m *Model) Provider() model.Provider { return model.ProviderAt(m.cfg.BaseURL, "openai") }

// Call implements [model.Model].
func (m *Model) Call(ctx context.Context, r model.Request) (model.Response, error) {
	return m.Stream(ctx, r, nil)
}

// Stream implements [model.Streamer]. told may be nil.
func (m *Model) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	if told == nil {
		told = func(model.Delta) {}
	}
	path, body := "chat/completions", m.chatBody(r)
	if m.cfg.API == Responses {
		path, body = "responses", m.responsesBody(r)
	}
	for k, v := range m.cfg.Fields {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: fmt.Errorf("encode request: %w", err)}
	}
	var opts []option.RequestOption
	if r.AttemptID != "" {
		opts = append(opts, option.WithHeader("X-Client-Request-Id", r.AttemptID))
	}
	resp, err := wire.Exchange{
		Post: func(ctx context.Context) (res *http.Response, err error) {
			err = m.client.Post(ctx, path, b, &res, opts...)
			return res, err
		},
		Decode: func(res *http.Response) (wire.Decoder, func() []byte) {
			d := ssestream.NewDecoder(res)
			return d, func() []byte { return d.Event().Data }
		},
		Idle: m.cfg.Idle, Now: m.cfg.Now, Secrets: m.secrets,
	}.Do(ctx, m.answer(told))
	if err == nil && resp.Model == "" {
		resp.Model = m.name(r)
	}
	return resp, err
}

func (m *Model) name(r model.Request) string {
	return cmp.Or(m.cfg.Model, r.Model)
}

func (m *Model) thinking(r model.Request) string {
	return cmp.Or(r.Thinking, m.cfg.Thinking)
}

func (m *Model) answer(told func(model.Delta)) wire.Answer {
	if m.cfg.API == Responses {
		return &responsesAnswer{told: told}
	}
	return &chatAnswer{told: told}
}
