// Package openai is the client of OpenAI's two wire formats, Responses and Chat
// Completions, and so of whatever server speaks one of them. It makes one wire
// call for each request and never retries; see docs/models.md for how servers
// differ and what becomes of that.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
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
	secrets []string
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
	if cfg.Key != "" {
		opts = append(opts, option.WithAPIKey(cfg.Key))
		m.secrets = append(m.secrets, cfg.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) {
		opts = append(opts, option.WithHeader(name, cfg.Headers[name]))
		m.secrets = append(m.secrets, cfg.Headers[name])
	}
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

// Call implements [model.Model].
func (m *Model) Call(ctx context.Context, r model.Request) (model.Response, error) {
	return m.Stream(ctx, r, nil)
}

// Stream implements [model.Streamer]. told may be nil.
func (m *Model) Stream(ctx context.Context, r model.Request, told func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	if told == nil {
		told = func(model.Delta) {}
	}
	path, body := "chat/completions", m.chatBody(r)
	if m.cfg.API == Responses {
		path, body = "responses", m.responsesBody(r)
	}
	maps.Copy(body, rawFields(m.cfg.Fields))
	b, err := json.Marshal(body)
	if err != nil {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: fmt.Errorf("encode request: %w", err)}
	}
	watched, watch := wire.NewWatch(ctx, m.cfg.Idle)
	defer watch.Stop()
	var res *http.Response
	var opts []option.RequestOption
	if r.AttemptID != "" {
		opts = append(opts, option.WithHeader("X-Client-Request-Id", r.AttemptID))
	}
	err = m.client.Post(watched, path, b, &res, opts...)
	if res != nil {
		defer res.Body.Close() // refused ones are read, and held in memory
	}
	switch {
	case res == nil:
		return model.Response{}, wire.Broken(ctx, watched, m.hide(err))
	case res.StatusCode != http.StatusOK:
		text, readErr := io.ReadAll(res.Body)
		if readErr != nil && ctx.Err() != nil {
			return model.Response{}, ctx.Err()
		}
		return model.Response{}, m.refusal(res, text)
	}
	a := m.answer(r, told)
	if err := m.read(res, a); err != nil && (isAnswer(err) || !a.complete()) {
		return model.Response{}, m.failed(ctx, watched, res, a, err)
	}
	resp, err := a.finish()
	if err != nil {
		return model.Response{}, m.failed(ctx, watched, res, a, err)
	}
	if resp.Model == "" {
		resp.Model = m.name(r)
	}
	resp.RequestID = res.Header.Get("X-Request-Id")
	return resp, nil
}

func rawFields(fs map[string]json.RawMessage) map[string]any {
	out := make(map[string]any, len(fs))
	for k, v := range fs {
		out[k] = v
	}
	return out
}

func (m *Model) name(r model.Request) string {
	if m.cfg.Model != "" {
		return m.cfg.Model
	}
	return r.Model
}

func (m *Model) thinking(r model.Request) string {
	if r.Thinking != "" {
		return r.Thinking
	}
	return m.cfg.Thinking
}

// answer is what is put together from a stream.
type answer interface {
	// event takes the next event, and reports whether it was the last. A whole
	// answer that was not streamed comes as one event.
	event(data []byte, whole bool) (last bool, err error)
	// finish returns the answer, or why there is none.
	finish() (model.Response, error)
	// complete reports whether the answer is there, though the stream broke off:
	// it is paid for, and only its usage may be missing.
	complete() bool
	// spent is what is known of usage so far: the model that served, and nil if nothing.
	spent() (string, *accounts)
}

func (m *Model) answer(r model.Request, told func(model.Delta)) answer {
	if m.cfg.API == Responses {
		return &responsesAnswer{told: told}
	}
	return &chatAnswer{told: told}
}

func (m *Model) read(res *http.Response, a answer) error {
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); strings.HasSuffix(kind, "json") {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		_, err = a.event(b, true)
		return err
	}
	d := ssestream.NewDecoder(res)
	for d.Next() {
		data := bytes.TrimSpace(d.Event().Data)
		if bytes.Equal(data, []byte("[DONE]")) {
			data = nil
		}
		if last, err := a.event(data, false); err != nil || last {
			return err
		}
	}
	return d.Err()
}

// hide keeps headers out of the words of a transport.
func (m *Model) hide(err error) error {
	text := err.Error()
	for _, s := range m.secrets {
		if s != "" && strings.Contains(text, s) {
			return fmt.Errorf("%s", strings.ReplaceAll(text, s, "[withheld]"))
		}
	}
	return err
}

// failed says why a call gave no answer after it had begun to give one.
func (m *Model) failed(ctx, watched context.Context, res *http.Response, a answer, err error) error {
	var out *model.Error
	switch e := err.(type) {
	case *inStream:
		out = wire.Refusal{Status: e.status, Header: res.Header, Code: e.code, Message: e.message}.Error(m.cfg.Now(), m.secrets...)
	case *model.Error:
		out = e
	default:
		broken := wire.Broken(ctx, watched, m.hide(fmt.Errorf("read answer: %w", err)))
		var ok bool
		if out, ok = broken.(*model.Error); !ok {
			return broken
		}
	}
	served, acc := a.spent()
	out.Model = served
	if acc != nil {
		u := acc.usage()
		out.Usage = &u
	}
	return out
}

// isAnswer reports whether an error is something that the server said.
func isAnswer(err error) bool {
	switch err.(type) {
	case *inStream, *model.Error:
		return true
	}
	return false
}

// inStream is a refusal inside a stream.
type inStream struct {
	status        int
	code, message string
}

func (e *inStream) Error() string { return e.message }

// refusal reads an answer that is none.
func (m *Model) refusal(res *http.Response, text []byte) error {
	r := wire.Refusal{Status: res.StatusCode, Header: res.Header}
	r.Code, r.Message = readError(text)
	if r.Message == "" && !json.Valid(text) && strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		r.Message = string(text)
	}
	return r.Error(m.cfg.Now(), m.secrets...)
}

// readError finds code and message of an error object, as servers write it:
// {"error": {…}}, {"error": "…"}, the object itself, {"detail": …}.
func readError(b []byte) (code, message string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(b, &outer) != nil {
		var list []json.RawMessage
		if json.Unmarshal(b, &list) == nil && len(list) == 1 {
			return readError(list[0])
		}
		return "", ""
	}
	inner := b
	switch {
	case len(outer.Error) > 0 && string(outer.Error) != "null":
		inner = outer.Error
	case len(outer.Message) == 0 && len(outer.Detail) > 0:
		inner = outer.Detail
	}
	var s string
	if json.Unmarshal(inner, &s) == nil {
		return "", s
	}
	var e struct {
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(inner, &e) != nil {
		return "", string(inner)
	}
	if c, ok := e.Code.(string); ok && c != "" {
		return c, e.Message
	}
	return e.Type, e.Message
}
