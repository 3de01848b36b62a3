package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
)

// Reading is a value as it stands: of a queue, of the ledger.
type Reading struct {
	Name, Unit, What string
	Value            float64
	Queue, State     string // attributes; empty = without
}

// gaugesFor is how long readings stand for new: whoever looks more often sees the
// same ones, and the database is asked once.
const gaugesFor = 5 * time.Second

// gaugesTimeout bounds the asking; a database that is away leaves the gauges out.
const gaugesTimeout = 5 * time.Second

// Gauges tells what read says whenever metrics are collected. names are all the
// readings that there can be. It ends with t.
func (t *Telemetry) Gauges(names []Reading, read func(ctx context.Context) ([]Reading, error)) error {
	if t == nil || t.metrics == nil {
		return nil
	}
	m := t.metrics.Meter(scope)
	instruments := map[string]api.Float64ObservableGauge{}
	var all []api.Observable
	for _, n := range names {
		g, err := m.Float64ObservableGauge(n.Name, api.WithUnit(n.Unit), api.WithDescription(n.What))
		if err != nil {
			return err
		}
		instruments[n.Name] = g
		all = append(all, g)
	}
	var mu sync.Mutex
	var last []Reading
	var at time.Time
	_, err := m.RegisterCallback(func(ctx context.Context, o api.Observer) error {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(at) >= gaugesFor {
			ctx, cancel := context.WithTimeout(ctx, gaugesTimeout)
			defer cancel()
			got, err := read(ctx)
			if err != nil {
				return err
			}
			last, at = got, now
		}
		for _, r := range last {
			g, ok := instruments[r.Name]
			if !ok {
				continue
			}
			var as []attribute.KeyValue
			if r.Queue != "" {
				as = append(as, attribute.String("daybook.queue", r.Queue))
			}
			if r.State != "" {
				as = append(as, attribute.String("daybook.state", r.State))
			}
			o.ObserveFloat64(g, r.Value, api.WithAttributes(as...))
		}
		return nil
	}, all...)
	return err
}
