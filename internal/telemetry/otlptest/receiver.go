// Package otlptest receives OTLP for tests, over HTTP and gRPC, and keeps what
// came in.
package otlptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it came in.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is empty for a root
	Name              string
	Kind              string
	Start, End        time.Time
	Attrs             map[string]any // string, int64, float64, bool, []any
	Links             []string       // ids of spans
	Events            []string       // names
	Failed            bool
	Message           string
}

// Receiver keeps what it is sent. Safe for concurrent use.
type Receiver struct {
	URL  string // of the HTTP side
	GRPC string // host:port

	mu      sync.Mutex
	spans   []Span
	metrics []string // names
	texts   []string // everything, as JSON
}

// New starts a receiver that ends with the test.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	srv := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(srv.Close)
	r.URL = srv.URL
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	traces.RegisterTraceServiceServer(g, traceService{r: r})
	metrics.RegisterMetricsServiceServer(g, metricsService{r: r})
	logs.RegisterLogsServiceServer(g, logsService{r: r})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	r.GRPC = l.Addr().String()
	return r
}

// Spans returns those that came in, in that order.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Metrics returns the names that came in, sorted.
func (r *Receiver) Metrics() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Clone(r.metrics)
	slices.Sort(names)
	return slices.Compact(names)
}

// Text is all that came in, as JSON, for searches.
func (r *Receiver) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.texts)
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	var in io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in = z
	}
	b, err := io.ReadAll(in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch req.URL.Path {
	case "/v1/traces":
		m := new(traces.ExportTraceServiceRequest)
		if err = proto.Unmarshal(b, m); err == nil {
			r.addTraces(m)
		}
	case "/v1/metrics":
		m := new(metrics.ExportMetricsServiceRequest)
		if err = proto.Unmarshal(b, m); err == nil {
			r.addMetrics(m)
		}
	case "/v1/logs":
		m := new(logs.ExportLogsServiceRequest)
		if err = proto.Unmarshal(b, m); err == nil {
			r.keep(m)
		}
	default:
		http.NotFound(w, req)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *Receiver) keep(m proto.Message) {
	b, err := protojson.Marshal(m)
	if err != nil {
		b = []byte(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, string(b))
}

func (r *Receiver) addTraces(m *traces.ExportTraceServiceRequest) {
	r.keep(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range m.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				got := Span{
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Name: s.GetName(), Kind: s.GetKind().String(), Start: time.Unix(0, int64(s.GetStartTimeUnixNano())).UTC(), End: time.Unix(0, int64(s.GetEndTimeUnixNano())).UTC(), //nolint:gosec // a time
					Attrs: attributes(s.GetAttributes()), Failed: s.GetStatus().GetCode() == 2, Message: s.GetStatus().GetMessage(),
				}
				for _, l := range s.GetLinks() {
					got.Links = append(got.Links, hex.EncodeToString(l.GetSpanId()))
				}
				for _, e := range s.GetEvents() {
					got.Events = append(got.Events, e.GetName())
				}
				r.spans = append(r.spans, got)
			}
		}
	}
}

func (r *Receiver) addMetrics(m *metrics.ExportMetricsServiceRequest) {
	r.keep(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rm := range m.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			for _, one := range sm.GetMetrics() {
				r.metrics = append(r.metrics, one.GetName())
			}
		}
	}
}

func attributes(kvs []*common.KeyValue) map[string]any {
	as := map[string]any{}
	for _, kv := range kvs {
		as[kv.GetKey()] = value(kv.GetValue())
	}
	return as
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_ArrayValue:
		var all []any
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, value(one))
		}
		return all
	}
	return nil
}

type traceService struct {
	traces.UnimplementedTraceServiceServer
	r *Receiver
}

func (s traceService) Export(_ context.Context, m *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	s.r.addTraces(m)
	return &traces.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	metrics.UnimplementedMetricsServiceServer
	r *Receiver
}

func (s metricsService) Export(_ context.Context, m *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	s.r.addMetrics(m)
	return &metrics.ExportMetricsServiceResponse{}, nil
}

type logsService struct {
	logs.UnimplementedLogsServiceServer
	r *Receiver
}

func (s logsService) Export(_ context.Context, m *logs.ExportLogsServiceRequest) (*logs.ExportLogsServiceResponse, error) {
	s.r.keep(m)
	return &logs.ExportLogsServiceResponse{}, nil
}
