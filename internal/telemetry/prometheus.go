package telemetry

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// Prometheus is a way out for metrics that is scraped.
type Prometheus struct {
	Reader  metric.Reader
	Handler http.Handler
}

// NewPrometheus returns one with a registry of its own: nothing of the process that
// embeds Daybook is in it.
func NewPrometheus() (Prometheus, error) {
	reg := prometheus.NewRegistry()
	r, err := exporter.New(exporter.WithRegisterer(reg))
	if err != nil {
		return Prometheus{}, err
	}
	return Prometheus{Reader: r, Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{})}, nil
}
