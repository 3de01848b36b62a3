package system

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/daybookhq/daybook/internal/telemetry"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// Telemetry says what is told to OpenTelemetry. The zero value tells nothing.
type Telemetry struct {
	// Environment sends traces, metrics and logs over OTLP as OpenTelemetry's
	// environment variables say; while they name no endpoint, nothing.
	Environment bool
	// Prometheus gathers metrics for [System.Metrics].
	Prometheus bool
	// Service is the service.name where OTEL_SERVICE_NAME says none; empty = daybook.
	Service string
	Version string
}

// startTelemetry starts what o asks for, and has it end last of all.
func (s *System) startTelemetry(ctx context.Context, o Options) (err error) {
	c := telemetry.Config{Service: o.Telemetry.Service, Version: o.Telemetry.Version, Instance: instance()}
	if o.Logger != nil { // not s.log, which is to tell telemetry of itself
		c.Logger = slog.New(s.Redactor.Handler(o.Logger.Handler()))
	}
	if c.Service == "" {
		c.Service = "daybook"
	}
	if !o.Telemetry.Environment {
		c.Getenv = func(string) string { return "" }
	}
	if o.Telemetry.Prometheus {
		p, err := telemetry.NewPrometheus()
		if err != nil {
			return err
		}
		c.Readers, s.metrics = append(c.Readers, p.Reader), p.Handler
	}
	if s.telemetry, err = telemetry.Start(ctx, c); err != nil {
		return err
	}
	s.closers = append(s.closers, func() {
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.telemetry.Shutdown(end); err != nil {
			s.log.Warn("what was left of the telemetry could not be sent", "error", err)
		}
	})
	return nil
}

// Metrics serves the metrics in Prometheus's format; nil unless
// [Telemetry].Prometheus was set.
func (s *System) Metrics() http.Handler { return s.metrics }

// Ready returns the server that is away, for people; empty if all are there.
func (s *System) Ready(ctx context.Context) string {
	if err := s.Store.Check(ctx); err != nil {
		return "the database"
	}
	if _, err := s.Bus.Info(ctx); err != nil {
		return "NATS"
	}
	return ""
}

func instance() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// gauges are all the readings that there are.
var gauges = []telemetry.Reading{
	{Name: "daybook.queue.runs", Unit: "{run}", What: "Runs by queue and state."},
	{Name: "daybook.queue.oldest_due", Unit: "s", What: "How long the run has waited that could have been claimed first."},
	{Name: "daybook.queue.oldest_lease", Unit: "s", What: "How long the run has been running that is held longest."},
	{Name: "daybook.queue.lapsed_lease", Unit: "s", What: "How long the lease has been over that lapsed first."},
	{Name: "daybook.in_doubt", Unit: "{effect}", What: "Effects that nobody can know about."},
	{Name: "daybook.in_doubt.oldest", Unit: "s", What: "How long the oldest has been in doubt."},
	{Name: "daybook.approvals.open", Unit: "{approval}", What: "Approvals that nobody has decided."},
	{Name: "daybook.approvals.oldest", Unit: "s", What: "How long the oldest has waited."},
	{Name: "daybook.facts.pending", Unit: "{fact}", What: "Facts that no history has yet."},
	{Name: "daybook.facts.oldest", Unit: "s", What: "How long the oldest has waited."},
	{Name: "daybook.ledger.lag", Unit: "{event}", What: "Events that the projections do not have."},
	{Name: "daybook.ledger.lag.oldest", Unit: "s", What: "How long the oldest has waited."},
	{Name: "daybook.feed.lag", Unit: "{event}", What: "Events that the feed has not got."},
	{Name: "daybook.quarantined", Unit: "{message}", What: "Messages that could not be projected."},
}

// watch tells how queues and ledger stand whenever metrics are collected.
func (s *System) watch() error {
	return s.telemetry.Gauges(gauges, func(ctx context.Context) ([]telemetry.Reading, error) { return readings(ctx, s.Store) })
}

func readings(ctx context.Context, st *sqlstore.Store) ([]telemetry.Reading, error) {
	v, err := st.Vitals(ctx)
	if err != nil {
		return nil, err
	}
	qs, err := st.QueueStats(ctx, "")
	if err != nil {
		return nil, err
	}
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return max(v.Now.Sub(t).Seconds(), 0)
	}
	var rs []telemetry.Reading
	add := func(name, queue, state string, value float64) {
		rs = append(rs, telemetry.Reading{Name: name, Queue: queue, State: state, Value: value})
	}
	for _, q := range qs {
		for state, n := range map[string]int64{"queued": q.Queued, "due": q.Due, "running": q.Running, "parked": q.Parked, "held": q.Held, "dead": q.Dead} {
			add("daybook.queue.runs", q.Queue, state, float64(n))
		}
		add("daybook.queue.oldest_due", q.Queue, "", since(q.OldestDue))
		add("daybook.queue.oldest_lease", q.Queue, "", since(q.OldestLease))
		add("daybook.queue.lapsed_lease", q.Queue, "", since(q.LapsedLease))
	}
	backlog := func(name, oldest string, b ledger.Backlog) {
		add(name, "", "", float64(b.Count))
		add(oldest, "", "", since(b.Since))
	}
	backlog("daybook.in_doubt", "daybook.in_doubt.oldest", v.InDoubt)
	backlog("daybook.approvals.open", "daybook.approvals.oldest", v.Approvals)
	backlog("daybook.facts.pending", "daybook.facts.oldest", v.Facts)
	backlog("daybook.ledger.lag", "daybook.ledger.lag.oldest", v.Unfolded)
	add("daybook.feed.lag", "", "", float64(v.Unfed))
	add("daybook.quarantined", "", "", float64(v.Quarantined))
	return rs, nil
}
