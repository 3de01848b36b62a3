package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/internal/telemetry/otlptest"
	"github.com/daybookhq/daybook/internal/trace"
)

var update = flag.Bool("update", false, "write the golden files")

// sink is a feed that keeps nothing.
type sink struct{ err error }

func (s *sink) Publish(context.Context, ...events.Sealed) error { return s.err }
func (s *sink) Close(context.Context) error                     { return nil }

func nothing(context.Context, events.RunID, uint64, func(events.Sealed) error) error {
	return errors.New("there is no history")
}

// oneRun is a run with everything that has attributes.
func oneRun(t *testing.T) (*eventstest.Run, []events.Sealed) {
	r := eventstest.NewRun(t)
	price := events.PicoUSD(357_000_000)
	ref := events.EffectRef{OpKey: events.Hash{9}, Generation: 1, Attempt: 1, Recovery: "none"}
	call := events.CallID{Turn: 1}
	var es []events.Sealed
	for _, p := range []events.Payload{
		events.RunQueued{Agent: "refunds", Input: json.RawMessage(`"canary-input"`), ClientKey: "k", Queue: "default", Owner: "ada", Root: r.ID},
		events.RunStarted{Worker: "w", Agent: "refunds", Model: "m1", Loop: "singleshot", Tools: []events.ToolBinding{}},
		events.TurnStarted{Turn: 1},
		events.ModelCallStarted{Turn: 1, Attempt: 1, Model: "m1", Tools: []string{"refund"}, Provider: "azure.ai.openai", Server: "shop.openai.azure.com"},
		events.ModelCallFinished{
			Turn: 1, Attempt: 1, Model: "m1", ServedModel: "m1-b", Text: "canary-answer", StopReason: "tool_use", RequestID: "req_1", Cost: &price,
			Usage:     events.Usage{Input: 10, CacheRead: 90, CacheWrite: 4, Output: 5, Reasoning: 2},
			ToolCalls: []events.ToolCall{{Name: "refund", Arguments: json.RawMessage(`{"order":"canary-args"}`)}},
		},
		events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "refund", Effect: "destructive", Ref: &ref, Arguments: json.RawMessage(`{"order":"canary-args"}`)},
		events.ToolExecutionInDoubt{Call: call, Attempt: 1, Tool: "refund", Ref: ref, Cause: "timeout"},
		events.RunParked{Reason: events.ParkInDoubt, Detail: "canary-detail of refund t1.c0"},
		events.EffectResolved{Call: call, Tool: "refund", Ref: ref, State: events.EffectApplied, By: "ann", Result: events.ToolResult{Status: "completed", Output: "canary-result"}},
		events.RunResumed{Worker: "v", Epoch: 2},
		events.ToolExecutionFinished{Call: events.CallID{Turn: 1, Index: 1}, Attempt: 1, Tool: "refund", Repeated: true, Of: &events.CallRef{Run: r.ID, Call: call}, Result: events.ToolResult{Status: "completed", Output: "canary-result"}},
		events.ToolExecutionBlocked{Call: events.CallID{Turn: 1, Index: 2}, Tool: "rm", Reason: events.BlockedToolDenied, Detail: "kill_switch", Result: events.ToolResult{Error: "canary-words"}},
		events.RunFinished{StoppedBy: events.StoppedByFinish, Turns: 1},
	} {
		if resumed, ok := p.(events.RunResumed); ok {
			r.Epoch = resumed.Epoch
		}
		es = append(es, r.Next(p))
	}
	return r, es
}

func env(kv ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return func(k string) string { return m[k] }
}

// start starts telemetry to the receiver, over protocol.
func start(t *testing.T, r *otlptest.Receiver, protocol string, more ...string) *Telemetry {
	t.Helper()
	at := r.URL
	if protocol == "grpc" {
		at = "http://" + r.GRPC
	}
	kv := append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT", at, "OTEL_EXPORTER_OTLP_PROTOCOL", protocol}, more...)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", at) // the exporters read it themselves
	tel, err := Start(t.Context(), Config{Service: "daybook", Instance: "i1", Getenv: env(kv...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return tel
}

func TestOTLP(t *testing.T) {
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			r := otlptest.New(t)
			tel := start(t, r, protocol)
			feed := tel.Feed(&sink{}, nothing)
			run, es := oneRun(t)
			if err := feed.Publish(t.Context(), es...); err != nil {
				t.Fatal(err)
			}
			slog.New(tel.Handler(slog.DiscardHandler)).Info("hello", "run", run.ID) // dropped: nobody listens at this level
			slog.New(tel.Handler(slog.NewTextHandler(&bytes.Buffer{}, nil))).Info("hello log", "run", run.ID)
			if err := tel.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := r.Spans()
			if len(spans) != 10 {
				t.Errorf("%d spans: %v", len(spans), names(spans))
			}
			var in int64
			for _, s := range spans {
				n, ok := s.Attrs[trace.InputTokens].(int64)
				if ok && s.Attrs[trace.OperationName] != trace.Chat {
					t.Errorf("%s has usage", s.Name)
				}
				in += n
				if s.Trace != trace.ID(run.ID).String() {
					t.Errorf("%s is of trace %s", s.Name, s.Trace)
				}
			}
			if in != 104 {
				t.Errorf("%d input tokens in all, want 104", in)
			}
			for _, m := range []string{MetricTokens, MetricModelDuration, MetricCost, MetricToolCalls, MetricRuns, MetricDoubts} {
				if !slices.Contains(r.Metrics(), m) {
					t.Errorf("no %s in %v", m, r.Metrics())
				}
			}
			if strings.Contains(r.Text(), "canary") {
				t.Error("content left the process")
			}
			if !strings.Contains(r.Text(), "hello log") || !strings.Contains(r.Text(), run.ID.String()) {
				t.Error("the log did not come in")
			}
		})
	}
}

func names(ss []otlptest.Span) (all []string) {
	for _, s := range ss {
		all = append(all, s.Name)
	}
	return all
}

// The attributes are what people build their queries on.
func TestAttributes(t *testing.T) {
	for _, tt := range []struct{ name, profile, content string }{{"plain", "", ""}, {"viewers", "openinference,langfuse", ""}, {"content", "", "true"}} {
		t.Run(tt.name, func(t *testing.T) {
			r := otlptest.New(t)
			tel := start(t, r, "http/protobuf", EnvProfile, tt.profile, EnvContent, tt.content)
			run, es := oneRun(t)
			if err := tel.Feed(&sink{}, nothing).Publish(t.Context(), es...); err != nil {
				t.Fatal(err)
			}
			if err := tel.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, s := range r.Spans() {
				fmt.Fprintf(&b, "%s (%s)%s\n", s.Name, strings.TrimPrefix(s.Kind, "SPAN_KIND_"), map[bool]string{true: " failed"}[s.Failed])
				for _, k := range slices.Sorted(maps.Keys(s.Attrs)) {
					fmt.Fprintf(&b, "  %s = %s\n", k, strings.ReplaceAll(fmt.Sprint(s.Attrs[k]), run.ID.String(), "RUN"))
				}
			}
			file := filepath.Join("testdata", tt.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("attributes (-want +got), -update writes them:\n%s", d)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		want settings
		err  string
	}{
		{"nothing is off", nil, settings{}, ""},
		{"an endpoint turns all on", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"}, settings{traces: protocolHTTP, metrics: protocolHTTP, logs: protocolHTTP}, ""},
		{"one endpoint turns one on", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x"}, settings{traces: protocolHTTP}, ""},
		{"an exporter turns one on", []string{"OTEL_METRICS_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, settings{metrics: protocolGRPC}, ""},
		{"none turns one off", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_LOGS_EXPORTER", "none"}, settings{traces: protocolHTTP, metrics: protocolHTTP}, ""},
		{"the signal's protocol wins", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, settings{traces: protocolGRPC}, ""},
		{"disabled", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://x", "OTEL_SDK_DISABLED", "TRUE"}, settings{}, ""},
		{"content", []string{EnvContent, "true"}, settings{content: true}, ""},
		{"an exporter that there is not", []string{"OTEL_TRACES_EXPORTER", "zipkin"}, settings{}, `OTEL_TRACES_EXPORTER="zipkin": want otlp or none`},
		{"a protocol that there is not", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, settings{}, `OTEL_EXPORTER_OTLP_PROTOCOL="http/json"`},
		{"a profile that there is not", []string{EnvProfile, "langfus"}, settings{}, EnvProfile + `="langfus"`},
		{"content maybe", []string{EnvContent, "maybe"}, settings{}, EnvContent},
		{"disabled maybe", []string{"OTEL_SDK_DISABLED", "1"}, settings{}, "OTEL_SDK_DISABLED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readSettings(env(tt.env...))
			switch {
			case tt.err == "" && (err != nil || got != tt.want):
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			case tt.err != "" && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func TestOffIsNothing(t *testing.T) {
	tel, err := Start(t.Context(), Config{Getenv: env()})
	if tel != nil || err != nil {
		t.Fatalf("%v, %v", tel, err)
	}
	next := &sink{}
	if tel.Feed(next, nothing) != events.Feed(next) || tel.Handler(slog.DiscardHandler) != slog.DiscardHandler || tel.On() != "" ||
		tel.Flush(t.Context()) != nil || tel.Shutdown(t.Context()) != nil || tel.Gauges(nil, nil) != nil {
		t.Error("off does something")
	}
}

// A server that is away, or never answers, costs spans and no run its time.
func TestServerAway(t *testing.T) {
	stuck := make(chan struct{})
	srv := httptest.NewServer(handler(func() { <-stuck }))
	defer srv.Close()
	defer close(stuck)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	tel, err := Start(t.Context(), Config{Getenv: env("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)})
	if err != nil {
		t.Fatal(err)
	}
	feed := tel.Feed(&sink{}, nothing)
	for range 50 {
		_, es := oneRun(t)
		if err := feed.Publish(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tel.Shutdown(over); err == nil {
		t.Error("nothing was left unsent")
	}
}

// What the feed could not publish is not told, and what it publishes again is told once.
func TestFeedTellsWhatIsPublished(t *testing.T) {
	r := otlptest.New(t)
	tel := start(t, r, "http/protobuf")
	next := &sink{err: errors.New("away")}
	feed := tel.Feed(next, nothing)
	_, es := oneRun(t)
	if err := feed.Publish(t.Context(), es[:7]...); err == nil {
		t.Fatal("published")
	}
	next.err = nil
	for _, part := range [][]events.Sealed{es[:7], es[3:9], es[8:]} {
		if err := feed.Publish(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tel.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.Spans(); len(got) != 10 {
		t.Errorf("%d spans, want 10: %v", len(got), names(got))
	}
}

// Another process has the feed from now on: it reads what it needs of the past.
func TestFeedChangesHands(t *testing.T) {
	_, es := oneRun(t)
	for cut := range es {
		r := otlptest.New(t)
		for _, part := range [][]events.Sealed{es[:cut], es[cut:]} {
			tel := start(t, r, "http/protobuf")
			feed := tel.Feed(&sink{}, func(_ context.Context, _ events.RunID, from uint64, each func(events.Sealed) error) error {
				for _, e := range es[from-1:] {
					if err := each(e); err != nil {
						return err
					}
				}
				return nil
			})
			if err := feed.Publish(t.Context(), part...); err != nil {
				t.Fatal(err)
			}
			if err := tel.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ids := map[string]bool{}
		for _, s := range r.Spans() {
			ids[s.ID] = true
		}
		if len(r.Spans()) != 10 || len(ids) != 10 {
			t.Errorf("cut at %d: %d spans, %d ids: %v", cut, len(r.Spans()), len(ids), names(r.Spans()))
		}
	}
}

func TestFeedForgetsTheOldest(t *testing.T) {
	tel, err := Start(t.Context(), Config{Getenv: env(), Readers: []metric.Reader{metric.NewManualReader()}})
	if err != nil {
		t.Fatal(err)
	}
	f := tel.Feed(&sink{}, nothing).(*feed)
	f.max = 20
	for range 30 {
		if err := f.Publish(t.Context(), eventstest.NewRun(t).Next(events.RunQueued{Agent: "a", Input: json.RawMessage(`1`)})); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.runs) != 20 || f.recent.Len() != 20 {
		t.Errorf("%d runs, %d in order", len(f.runs), f.recent.Len())
	}
}

func TestGauges(t *testing.T) {
	reader := metric.NewManualReader()
	tel, err := Start(t.Context(), Config{Getenv: env(), Readers: []metric.Reader{reader}})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	err = tel.Gauges([]Reading{{Name: "a", Unit: "s"}}, func(context.Context) ([]Reading, error) {
		asked++
		return []Reading{{Name: "a", Queue: "q", State: "s", Value: 7}, {Name: "unknown"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var rm metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &rm); err != nil {
			t.Fatal(err)
		}
		g := rm.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[float64])
		if len(g.DataPoints) != 1 || g.DataPoints[0].Value != 7 || g.DataPoints[0].Attributes.Len() != 2 {
			t.Errorf("%+v", g)
		}
	}
	if asked != 1 {
		t.Errorf("the database was asked %d times in a moment", asked)
	}
}

// What a model makes up is no label of a metric.
func TestUnknownToolsAreOneLabel(t *testing.T) {
	reader := metric.NewManualReader()
	tel, err := Start(t.Context(), Config{Getenv: env(), Readers: []metric.Reader{reader}})
	if err != nil {
		t.Fatal(err)
	}
	r := eventstest.NewRun(t)
	es := []events.Sealed{r.Next(events.RunQueued{Agent: "a", Input: json.RawMessage(`1`)})}
	for i := range 5 {
		es = append(es, r.Next(events.ToolExecutionBlocked{Call: events.CallID{Turn: 1, Index: i}, Tool: fmt.Sprintf("made_up_%d", i), Reason: events.BlockedUnknownTool}))
	}
	if err := tel.Feed(&sink{}, nothing).Publish(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == MetricToolCalls && (len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != 5) {
			t.Errorf("%+v", sum.DataPoints)
		}
	}
}
