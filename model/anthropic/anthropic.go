// Package anthropic is the client of Anthropic's Messages API. It makes one wire
// call for each request and never retries; see docs/models.md.
package anthropic

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

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/ssestream"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
	"github.com/daybookhq/daybook/redact"
)

// Messages is the wire format, which [events.Block.Format] names. Stored; never renamed.
const Messages = "anthropic/messages"

// DefaultIdle is how long the provider may be silent.
const DefaultIdle = 5 * time.Minute

// DefaultMaxTokens bounds an answer where a request does not: the API wants a bound.
const DefaultMaxTokens = 8192

// Config says whom to ask, and how. It never prints its key.
type Config struct {
	// BaseURL is the address of the API without "v1/messages"; empty = Anthropic's own.
	BaseURL string
	// Key is sent as a bearer token; empty = none. Nothing is taken from the
	// environment. Servers that want x-api-key get it as one of Headers.
	Key string
	// Model is what the server calls the model; empty = the request's model.
	Model string
	// Thinking is used where a request says nothing: see [model.Request.Thinking].
	Thinking string
	// NoCache leaves out the marks that have the provider cache the transcript's
	// beginning for five minutes. Other lifetimes have other prices.
	NoCache bool
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
func (c Config) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "anthropic.Config("+c.BaseURL+")")
}

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
	if cfg.BaseURL != "" {
		if u, err := url.Parse(cfg.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("anthropic: base URL %q: want one such as http://127.0.0.1:8080", cfg.BaseURL)
		}
	}
	if cfg.Idle == 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	// The SDK's constructor looks for addresses and credentials in the environment
	// and in files; what is not written here is not meant.
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithEnvironmentProduction(),
		option.WithMaxRetries(0),
		option.WithOpenTelemetryTraces(false),
		option.WithHTTPClient(wire.Client(cfg.Transport)),
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
	_, _ = io.WriteString(f, "anthropic.Model("+m.cfg.Model+")")
}

// Provider implements [model.Provided].
func (m *Model) Provider() model.Provider { return model.ProviderAt(m.cfg.BaseURL, "anthropic") }

// Call implements [model.Model].
func (m *Model) Call(ctx context.Context, r model.Request) (model.Response, error) {
	return m.Stream(ctx, r, nil)
}

// Stream implements [model.Streamer]. told may be nil.
func (m *Model) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	if told == nil {
		told = func(model.Delta) {}
	}
	body := m.body(r)
	for k, v := range m.cfg.Fields {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: fmt.Errorf("encode request: %w", err)}
	}
	resp, err := wire.Exchange{
		Post: func(ctx context.Context) (res *http.Response, err error) {
			err = m.client.Post(ctx, "v1/messages", b, &res)
			return res, err
		},
		Decode: func(res *http.Response) (wire.Decoder, func() []byte) {
			d := ssestream.NewDecoder(res)
			return d, func() []byte { return d.Event().Data }
		},
		Idle: m.cfg.Idle, Now: m.cfg.Now, Secrets: m.secrets,
	}.Do(ctx, &answer{told: told})
	if err == nil && resp.Model == "" {
		resp.Model = m.name(r)
	}
	return resp, err
}

func (m *Model) name(r model.Request) string {
	return cmp.Or(m.cfg.Model, r.Model)
}
