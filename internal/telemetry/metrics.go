package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/trace"
)

// Names of metrics. The first four are the conventions'.
const (
	MetricModelDuration = "gen_ai.client.operation.duration"
	MetricTokens        = "gen_ai.client.token.usage"
	MetricToolDuration  = "gen_ai.execute_tool.duration"
	MetricRunDuration   = "gen_ai.invoke_agent.duration"
	MetricCost          = "daybook.model.cost"
	MetricUnpriced      = "daybook.model.unpriced"
	MetricToolCalls     = "daybook.tool.calls"
	MetricRuns          = "daybook.runs.ended"
	MetricQueueWait     = "daybook.queue.wait"
	MetricTakeovers     = "daybook.takeovers"
	MetricDoubts        = "daybook.in_doubt.entered"
)

// views give histograms the borders that the conventions name.
func views() []metric.View {
	seconds := []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokens := []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	long := append(append([]float64{}, seconds...), 300, 900, 3600, 4*3600, 24*3600)
	borders := func(name string, b []float64) metric.View {
		return metric.NewView(metric.Instrument{Name: name}, metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: b}})
	}
	return []metric.View{
		borders(MetricModelDuration, seconds), borders(MetricTokens, tokens), borders(MetricToolDuration, seconds),
		borders(MetricRunDuration, long), borders(MetricQueueWait, long),
	}
}

// meters count spans. Every span is of one event, and every event is told once by
// whoever holds the feed, so that sums over processes are right.
type meters struct {
	model, tokens, tool, run, wait               api.Float64Histogram
	cost                                         api.Float64Counter
	unpriced, toolCalls, runs, takeovers, doubts api.Int64Counter
}

func (t *Telemetry) newMeters() *meters {
	var m api.Meter = noop.Meter{}
	if t.metrics != nil {
		m = t.metrics.Meter(scope)
	}
	seconds := func(name, what string) api.Float64Histogram {
		h, err := m.Float64Histogram(name, api.WithUnit("s"), api.WithDescription(what))
		t.report(err)
		return h
	}
	count := func(name, unit, what string) api.Int64Counter {
		c, err := m.Int64Counter(name, api.WithUnit(unit), api.WithDescription(what))
		t.report(err)
		return c
	}
	ms := &meters{
		model:     seconds(MetricModelDuration, "Duration of model calls, each attempt by itself."),
		tool:      seconds(MetricToolDuration, "Duration of executions of tools."),
		run:       seconds(MetricRunDuration, "From the submission of a run to its end, waits included."),
		wait:      seconds(MetricQueueWait, "From the submission of a run to its first worker."),
		unpriced:  count(MetricUnpriced, "{call}", "Model calls whose price nobody knows: not part of the cost."),
		toolCalls: count(MetricToolCalls, "{call}", "Tool calls by outcome."),
		runs:      count(MetricRuns, "{run}", "Runs that ended, by what stopped them."),
		takeovers: count(MetricTakeovers, "{takeover}", "Leases whose worker was lost."),
		doubts:    count(MetricDoubts, "{call}", "Calls that nobody could know about."),
	}
	var err error
	ms.tokens, err = m.Float64Histogram(MetricTokens, api.WithUnit("{token}"), api.WithDescription("Tokens of model calls, cached input included."))
	t.report(err)
	ms.cost, err = m.Float64Counter(MetricCost, api.WithUnit("{USD}"), api.WithDescription("Cost of model calls that have a price. The ledger has it to the pico-dollar."))
	t.report(err)
	ms.takeovers.Add(context.Background(), 0) // there from the start: Prometheus cannot see an increase from nothing
	return ms
}

func (t *Telemetry) report(err error) {
	if err != nil {
		t.log.Warn("a metric cannot be told", "error", err)
	}
}

// count adds a span to the metrics.
func (m *meters) count(s *trace.Span) {
	ctx := context.Background()
	took := s.End.Sub(s.Start).Seconds()
	op, _ := s.Attr(trace.OperationName).(string)
	switch {
	case op == trace.Chat:
		m.countModel(ctx, s, took)
	case op == trace.ExecuteTool:
		set := with(s, trace.OperationName, trace.ToolName, trace.Effect, trace.ErrorType)
		m.tool.Record(ctx, took, set)
		outcome := "finished"
		switch {
		case s.Attr(trace.Blocked) != nil:
			outcome = "blocked"
		case s.Attr(trace.Repeated) != nil:
			outcome = "repeated"
		case s.ErrorType == "in_doubt":
			outcome = "in_doubt"
			m.doubts.Add(ctx, 1, with(s, trace.ToolName, trace.DoubtCause))
		case s.ErrorType != "":
			outcome = "error"
		}
		m.toolCalls.Add(ctx, 1, with(s, trace.ToolName), api.WithAttributes(attribute.String("daybook.outcome", outcome)))
	case op == trace.InvokeAgent:
		set := with(s, trace.OperationName, trace.AgentName, trace.ErrorType)
		m.run.Record(ctx, took, set)
		m.runs.Add(ctx, 1, with(s, trace.AgentName, trace.Queue, trace.StoppedBy))
	case s.Attr(trace.Worker) != nil && s.ErrorType == "worker_lost":
		m.takeovers.Add(ctx, 1)
	case s.Attr(trace.Queue) != nil:
		m.wait.Record(ctx, took, with(s, trace.Queue))
	}
}

func (m *meters) countModel(ctx context.Context, s *trace.Span, took float64) {
	set := with(s, trace.OperationName, trace.ProviderName, trace.ServerAddress, trace.RequestModel, trace.ResponseModel, trace.ErrorType)
	m.model.Record(ctx, took, set)
	for kind, key := range map[string]string{"input": trace.InputTokens, "output": trace.OutputTokens} {
		if n, ok := s.Attr(key).(int64); ok {
			m.tokens.Record(ctx, float64(n), with(s, trace.OperationName, trace.ProviderName, trace.ServerAddress, trace.RequestModel, trace.ResponseModel),
				api.WithAttributes(attribute.String("gen_ai.token.type", kind)))
		}
	}
	switch usd, ok := dollars(s); {
	case ok:
		m.cost.Add(ctx, usd, with(s, trace.ProviderName, trace.RequestModel, trace.ResponseModel))
	case s.Attr(trace.InputTokens) != nil || s.Attr(trace.UsageMissing) != nil:
		m.unpriced.Add(ctx, 1, with(s, trace.ProviderName, trace.RequestModel, trace.ResponseModel))
	}
}

// with are those of the span's attributes: of low cardinality, no run and no owner.
func with(s *trace.Span, keys ...string) api.MeasurementOption {
	var as []trace.Attr
	for _, k := range keys {
		v := s.Attr(k)
		if k == trace.ToolName && s.Attr(trace.Blocked) == string(events.BlockedUnknownTool) {
			v = "(unknown)" // what a model makes up is no label
		}
		if v != nil {
			as = append(as, trace.Attr{Key: k, Value: v})
		}
	}
	return api.WithAttributes(keyValues(as)...)
}
