package redact

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// Handler returns a handler that redacts messages and attributes before h sees
// them. Values that are neither plain nor errors reach h as redacted JSON.
func (r *Redactor) Handler(h slog.Handler) slog.Handler { return &handler{r, h} }

type handler struct {
	r    *Redactor
	next slog.Handler
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, rec slog.Record) error {
	m := h.r.state().matcher()
	out := slog.NewRecord(rec.Time, rec.Level, m.text(rec.Message, textOptions{}), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(m, a, ""))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h *handler) WithAttrs(as []slog.Attr) slog.Handler {
	m := h.r.state().matcher()
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		out[i] = h.attr(m, a, "")
	}
	return &handler{h.r, h.next.WithAttrs(out)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.r, h.next.WithGroup(h.r.state().matcher().secretsIn(name))}
}

func (h *handler) attr(m *matcher, a slog.Attr, denied string) slog.Attr {
	key := m.secretsIn(a.Key)
	verdict := m.keys.judge(key, key == a.Key)
	if denied == "" && verdict.denied {
		denied = markerName(strings.ToLower(key))
	}
	w := walker{m: m}
	p := place{denied: denied, hint: verdict.hint}
	v := resolve(a.Value)
	switch v.Kind() {
	case slog.KindString:
		return slog.String(key, w.text(v.String(), p))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, inner := range v.Group() {
			group = append(group, h.attr(m, inner, denied))
		}
		return slog.Attr{Key: key, Value: slog.GroupValue(group...)}
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64:
		s := v.String()
		if v.Kind() == slog.KindFloat64 {
			s = strconv.FormatFloat(v.Float64(), 'f', -1, 64)
		}
		if denied != "" || m.secretsIn(s) != s {
			return slog.String(key, w.text(s, p))
		}
	case slog.KindAny:
		return h.any(m, key, v.Any(), p)
	}
	return slog.Attr{Key: key, Value: v}
}

// resolve survives a LogValue method that panics.
func resolve(v slog.Value) (out slog.Value) {
	defer func() {
		if p := recover(); p != nil {
			out = slog.StringValue(fmt.Sprintf("log value: panic: %v", p))
		}
	}()
	return v.Resolve()
}

func (h *handler) any(m *matcher, key string, v any, p place) slog.Attr {
	w := walker{m: m}
	switch v := v.(type) {
	case nil:
		return slog.Any(key, nil)
	case *slog.Source:
		return slog.Any(key, v)
	case error:
		return slog.String(key, w.text(errorText(v), p))
	case []byte:
		return slog.String(key, w.text(string(v), p))
	case json.Marshaler:
	case encoding.TextMarshaler, fmt.Stringer:
		return slog.String(key, w.text(printed(v), p))
	}
	// The key decides over the value, so both are redacted together.
	out, err := h.r.JSON(map[string]any{keyOf(p, key): v})
	if err != nil {
		return slog.String(key, w.text(fmt.Sprintf("%+v", v), p))
	}
	var one map[string]json.RawMessage
	if json.Unmarshal(out.Bytes(), &one) == nil {
		for _, raw := range one {
			return slog.Any(key, raw)
		}
	}
	return slog.String(key, "")
}

// keyOf returns a key that says what p says.
func keyOf(p place, key string) string {
	if p.denied != "" {
		return "password"
	}
	return key
}

func printed(v any) string {
	if t, ok := v.(encoding.TextMarshaler); ok {
		if b, err := t.MarshalText(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v)
}
