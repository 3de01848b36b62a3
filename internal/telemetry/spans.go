package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/daybookhq/daybook/internal/trace"
)

// given hands out the ids that a span has already: they follow from the record, so
// that a span that is sent twice is one span.
type given struct{}

type idsKey struct{}

type ids struct {
	trace oteltrace.TraceID
	span  oteltrace.SpanID
}

// NewIDs implements the SDK's IDGenerator, for a span without a parent.
func (given) NewIDs(ctx context.Context) (oteltrace.TraceID, oteltrace.SpanID) {
	v, _ := ctx.Value(idsKey{}).(ids)
	return v.trace, v.span
}

// NewSpanID implements it for a span with one.
func (given) NewSpanID(ctx context.Context, _ oteltrace.TraceID) oteltrace.SpanID {
	v, _ := ctx.Value(idsKey{}).(ids)
	return v.span
}

// send hands a span to the SDK, which samples, batches and drops.
func (t *Telemetry) send(s trace.Span) {
	if t.traces == nil {
		return
	}
	var flags oteltrace.TraceFlags
	if s.Sampled {
		flags = oteltrace.FlagsSampled
	}
	ctx := context.WithValue(context.Background(), idsKey{}, ids{oteltrace.TraceID(s.Trace), oteltrace.SpanID(s.ID)})
	if !s.Parent.IsZero() {
		ctx = oteltrace.ContextWithRemoteSpanContext(ctx, oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
			TraceID: oteltrace.TraceID(s.Trace), SpanID: oteltrace.SpanID(s.Parent), TraceFlags: flags, Remote: true,
		}))
	}
	kind := oteltrace.SpanKindInternal
	if s.Kind == trace.Client {
		kind = oteltrace.SpanKindClient
	}
	opts := []oteltrace.SpanStartOption{
		oteltrace.WithTimestamp(s.Start), oteltrace.WithSpanKind(kind),
		oteltrace.WithAttributes(keyValues(append(s.Attrs, t.profile.attrs(&s)...))...),
	}
	for _, l := range s.Links {
		opts = append(opts, oteltrace.WithLinks(oteltrace.Link{
			SpanContext: oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID(l.Trace), SpanID: oteltrace.SpanID(l.Span), TraceFlags: flags}),
			Attributes:  []attribute.KeyValue{attribute.String("daybook.link", l.Why)},
		}))
	}
	_, span := t.traces.Tracer(scope).Start(ctx, s.Name, opts...)
	for _, m := range s.Moments {
		span.AddEvent(m.Name, oteltrace.WithTimestamp(m.At), oteltrace.WithAttributes(keyValues(m.Attrs)...))
	}
	if s.ErrorType != "" {
		span.SetStatus(codes.Error, s.Message)
	}
	span.End(oteltrace.WithTimestamp(s.End))
}

func keyValues(as []trace.Attr) []attribute.KeyValue {
	kvs := make([]attribute.KeyValue, 0, len(as))
	for _, a := range as {
		switch v := a.Value.(type) {
		case string:
			kvs = append(kvs, attribute.String(a.Key, v))
		case int64:
			kvs = append(kvs, attribute.Int64(a.Key, v))
		case float64:
			kvs = append(kvs, attribute.Float64(a.Key, v))
		case bool:
			kvs = append(kvs, attribute.Bool(a.Key, v))
		case []string:
			kvs = append(kvs, attribute.StringSlice(a.Key, v))
		}
	}
	return kvs
}

// fan sends each record two ways.
type fan [2]slog.Handler

func (f fan) Enabled(ctx context.Context, l slog.Level) bool {
	return f[0].Enabled(ctx, l)
}

func (f fan) Handle(ctx context.Context, r slog.Record) error {
	_ = f[1].Handle(ctx, r.Clone()) // it queues or drops
	return f[0].Handle(ctx, r)
}

func (f fan) WithAttrs(as []slog.Attr) slog.Handler {
	return fan{f[0].WithAttrs(as), f[1].WithAttrs(as)}
}

func (f fan) WithGroup(name string) slog.Handler {
	return fan{f[0].WithGroup(name), f[1].WithGroup(name)}
}
