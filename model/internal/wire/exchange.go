package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

// Answer is what is put together from a stream.
type Answer interface {
	// Event takes the next event, and reports whether it was the last. A whole
	// answer that was not streamed comes as one event; no data is the stream's own end.
	Event(data []byte, whole bool) (last bool, err error)
	// Complete reports whether the answer is there, though the stream broke off:
	// it is paid for, and only its usage may be missing.
	Complete() bool
	// Finish returns the answer, or why there is none.
	Finish() (model.Response, error)
	// Spent is what is known of usage so far: the model that served, and nil if nothing.
	Spent() (string, *events.Usage)
}

// Decoder reads the events of a stream, as the SDKs' do.
type Decoder interface {
	Next() bool
	Err() error
}

// Exchange is one wire call.
type Exchange struct {
	// Post sends the request; the response is there also if it is a refusal.
	Post func(ctx context.Context) (*http.Response, error)
	// Decode reads a stream; data returns the event that Next has read.
	Decode  func(*http.Response) (d Decoder, data func() []byte)
	Idle    time.Duration
	Now     func() time.Time
	Secrets redact.Values // never in an error, in no encoding
}

// Do makes the call and has a put its answer together.
func (x Exchange) Do(ctx context.Context, a Answer) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	watched, watch := NewWatch(ctx, x.Idle)
	defer watch.Stop()
	res, err := x.Post(watched)
	if res != nil {
		defer res.Body.Close()
	}
	switch {
	case res == nil:
		return model.Response{}, Broken(ctx, watched, x.hide(err))
	case res.StatusCode != http.StatusOK:
		text, readErr := io.ReadAll(res.Body)
		if readErr != nil && ctx.Err() != nil {
			return model.Response{}, ctx.Err()
		}
		return model.Response{}, x.refused(res, text)
	}
	heard, err := x.read(watched, res, a)
	var r model.Response
	if err == nil || a.Complete() { // what goes wrong after the answer takes at most its usage away
		r, err = a.Finish()
	}
	if err != nil {
		return model.Response{}, x.failed(ctx, watched, res, a, heard, err)
	}
	r.Recordable()
	r.LimitedFor = RetryAfter(res.Header, x.Now())
	for _, name := range []string{"X-Request-Id", "Request-Id"} {
		if id := res.Header.Get(name); id != "" && r.RequestID == "" {
			r.RequestID = short(id)
		}
	}
	return r, nil
}

// read feeds the answer, and reports whether anything of one came.
func (x Exchange) read(ctx context.Context, res *http.Response, a Answer) (heard bool, err error) {
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); strings.HasSuffix(kind, "json") {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return false, err
		}
		_, err = a.Event(b, true)
		return err == nil, err
	}
	d, event := x.Decode(res)
	for d.Next() {
		if ctx.Err() != nil { // what is buffered already goes on for long
			return heard, context.Cause(ctx)
		}
		data := bytes.TrimSpace(event())
		if bytes.Equal(data, []byte("[DONE]")) {
			data = nil
		} else if len(data) == 0 {
			continue
		}
		last, err := a.Event(data, false)
		if err != nil || last {
			return heard || err == nil && data != nil, err
		}
		heard = true
	}
	return heard, d.Err()
}

// hide keeps secrets out of the words of a transport.
func (x Exchange) hide(err error) error {
	text := err.Error()
	if clean := x.Secrets.Replace(text, withheld); clean != text {
		return errors.New(clean)
	}
	return err
}

// failed says why a call gave no answer after the server had taken it. Once
// anything was heard there is a bill, if only nobody knows of how much.
func (x Exchange) failed(ctx, watched context.Context, res *http.Response, a Answer, heard bool, err error) error {
	var out *model.Error
	switch e := err.(type) {
	case *Failure:
		out = Refusal{Status: e.Status, Header: res.Header, Code: e.Code, Message: e.Message}.Error(x.Now(), x.Secrets)
	case *malformed:
		// Cut only after secrets are out: half of one would be left.
		said := fmt.Errorf("the server sent %.60q: %w", x.Secrets.Replace(string(e.data), withheld), x.hide(e.err))
		out = &model.Error{Kind: "malformed_answer", Retryable: true, Err: said}
	case *model.Error:
		e.Err = x.hide(e.Err)
		out = e
	default:
		broken := Broken(ctx, watched, x.hide(fmt.Errorf("read answer: %w", err)))
		var ok bool
		if out, ok = broken.(*model.Error); !ok {
			if _, known := a.Spent(); known == nil && !heard {
				return broken
			}
			// The caller's end, after something was billed: that stays known.
			out = &model.Error{Kind: "timeout", Retryable: true, Err: broken}
		}
	}
	out.Model, out.Usage = a.Spent()
	if out.Usage == nil && heard {
		out.Usage = &events.Usage{Missing: true}
	}
	return out
}

// Failure is a refusal inside a stream.
type Failure struct {
	Status        int // of HTTP, if the server gives one; else 0
	Code, Message string
}

func (e *Failure) Error() string { return e.Message }

// NewFailure reads an error object inside a stream.
func NewFailure(raw json.RawMessage) *Failure {
	e := &Failure{}
	e.Code, e.Message = readError(raw)
	if e.Code == "error" { // an event's own type
		e.Code = ""
	}
	// One may be a number and the other a word: {"code": 400, "status": "INVALID_ARGUMENT"}.
	var said struct{ Code, Status any }
	_ = json.Unmarshal(raw, &said) // what is no object says neither
	for _, v := range []any{said.Code, said.Status} {
		switch v := v.(type) {
		case float64:
			if v >= 300 && v < 600 {
				e.Status = max(e.Status, int(v))
			}
		case string:
			if e.Code == "" {
				e.Code = v
			}
		}
	}
	return e
}

// Malformed is the error for data that is not what the format has there.
func Malformed(data []byte, err error) error {
	return &malformed{data: bytes.Clone(data), err: err}
}

type malformed struct {
	data []byte
	err  error
}

func (e *malformed) Error() string { return e.err.Error() }

// refused reads an answer that is none.
func (x Exchange) refused(res *http.Response, text []byte) error {
	r := Refusal{Status: res.StatusCode, Header: res.Header}
	r.Code, r.Message = readError(text)
	if r.Message == "" && !json.Valid(text) && strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		r.Message = string(text)
	}
	return r.Error(x.Now(), x.Secrets)
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
