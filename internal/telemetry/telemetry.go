// Package telemetry brings what is recorded to OpenTelemetry: traces, metrics and
// logs, over OTLP or to Prometheus. It is the only package that knows the SDK. It
// is off until the standard environment variables say where to; it never makes a
// run wait, and what it sends was redacted before it was recorded.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/daybookhq/daybook/internal/trace"
)

const scope = "github.com/daybookhq/daybook"

// Config of [Start]. The zero value reads the process's environment.
type Config struct {
	// Service is the service.name where OTEL_SERVICE_NAME says none; Instance is
	// service.instance.id, Version service.version.
	Service, Instance, Version string
	// Getenv defaults to os.Getenv. The exporters' own variables (headers,
	// certificates, timeouts) are read by the SDK from the process's environment.
	Getenv func(string) string
	// Readers are further ways out for metrics, such as Prometheus.
	Readers []metric.Reader
	// Spans and Logs are further ways out, for tests.
	Spans []sdktrace.SpanProcessor
	Logs  []sdklog.Processor
	// Logger is told what goes wrong with sending; nil discards.
	Logger *slog.Logger
}

// Telemetry is what was started. A nil one is off: all its methods do nothing.
type Telemetry struct {
	traces  *sdktrace.TracerProvider // nil = no traces
	metrics *metric.MeterProvider    // nil = no metrics
	logs    *sdklog.LoggerProvider   // nil = no logs
	options trace.Options
	profile profile
	log     *slog.Logger
}

// ErrSettings is an environment variable that cannot be meant; its text says which.
var ErrSettings = errors.New("telemetry settings")

// Start reads the settings and starts what they ask for; nil if they ask for nothing.
// Servers that are away are no error: the exporters try again and drop.
func Start(ctx context.Context, c Config) (_ *Telemetry, err error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := readSettings(c.Getenv)
	if err != nil {
		return nil, err
	}
	if !s.any() && len(c.Readers)+len(c.Spans)+len(c.Logs) == 0 {
		return nil, nil //nolint:nilnil // a nil Telemetry is off
	}
	// The SDK has one handler for the whole process; by default it writes to stderr.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { c.Logger.Warn("telemetry could not be sent; it is dropped, runs go on", "error", err) }))
	t := &Telemetry{options: trace.Options{Content: s.content}, profile: s.profile, log: c.Logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Shutdown(ctx))
		}
	}()
	res, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", c.Service), attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Instance),
	), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("%w: resource: %w", ErrSettings, err)
	}
	if err := t.startTraces(ctx, s, c, res); err != nil {
		return nil, err
	}
	if err := t.startMetrics(ctx, s, c, res); err != nil {
		return nil, err
	}
	return t, t.startLogs(ctx, s, c, res)
}

func (t *Telemetry) startTraces(ctx context.Context, s settings, c Config, res *resource.Resource) error {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithIDGenerator(given{})}
	for _, p := range c.Spans {
		opts = append(opts, sdktrace.WithSpanProcessor(p))
	}
	var exp sdktrace.SpanExporter
	var err error
	switch s.traces {
	case protocolHTTP:
		exp, err = otlptracehttp.New(ctx)
	case protocolGRPC:
		exp, err = otlptracegrpc.New(ctx)
	default:
		if len(c.Spans) == 0 {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%w: traces: %w", ErrSettings, err)
	}
	if exp != nil {
		// The queue drops what does not fit: nothing waits for a server.
		opts = append(opts, sdktrace.WithBatcher(exp, sdktrace.WithBatchTimeout(time.Second), sdktrace.WithMaxQueueSize(16384)))
	}
	t.traces = sdktrace.NewTracerProvider(opts...)
	return nil
}

func (t *Telemetry) startMetrics(ctx context.Context, s settings, c Config, res *resource.Resource) error {
	opts := []metric.Option{metric.WithResource(res), metric.WithView(views()...)}
	for _, r := range c.Readers {
		opts = append(opts, metric.WithReader(r))
	}
	var exp metric.Exporter
	var err error
	switch s.metrics {
	case protocolHTTP:
		exp, err = otlpmetrichttp.New(ctx)
	case protocolGRPC:
		exp, err = otlpmetricgrpc.New(ctx)
	default:
		if len(c.Readers) == 0 {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%w: metrics: %w", ErrSettings, err)
	}
	if exp != nil {
		opts = append(opts, metric.WithReader(metric.NewPeriodicReader(exp)))
	}
	t.metrics = metric.NewMeterProvider(opts...)
	return nil
}

func (t *Telemetry) startLogs(ctx context.Context, s settings, c Config, res *resource.Resource) error {
	opts := []sdklog.LoggerProviderOption{sdklog.WithResource(res)}
	for _, p := range c.Logs {
		opts = append(opts, sdklog.WithProcessor(p))
	}
	var exp sdklog.Exporter
	var err error
	switch s.logs {
	case protocolHTTP:
		exp, err = otlploghttp.New(ctx)
	case protocolGRPC:
		exp, err = otlploggrpc.New(ctx)
	default:
		if len(c.Logs) == 0 {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%w: logs: %w", ErrSettings, err)
	}
	if exp != nil {
		opts = append(opts, sdklog.WithProcessor(sdklog.NewBatchProcessor(exp)))
	}
	t.logs = sdklog.NewLoggerProvider(opts...)
	return nil
}

// Handler is h that also sends each record as an OpenTelemetry log. It is to stand
// below a handler that redacts.
func (t *Telemetry) Handler(h slog.Handler) slog.Handler {
	if t == nil || t.logs == nil {
		return h
	}
	return fan{h, otelslog.NewHandler(scope, otelslog.WithLoggerProvider(t.logs))}
}

// On says what is on, for the line that a process starts with; empty = nothing.
func (t *Telemetry) On() string {
	if t == nil {
		return ""
	}
	var on []string
	for _, s := range []struct {
		on   bool
		name string
	}{{t.traces != nil, "traces"}, {t.metrics != nil, "metrics"}, {t.logs != nil, "logs"}} {
		if s.on {
			on = append(on, s.name)
		}
	}
	return strings.Join(on, ", ")
}

// provider is what each signal's of the SDK has.
type provider interface {
	ForceFlush(ctx context.Context) error
	Shutdown(ctx context.Context) error
}

// providers are those of the signals that are on.
func (t *Telemetry) providers() (all []provider) {
	if t == nil {
		return nil
	}
	if t.traces != nil {
		all = append(all, t.traces)
	}
	if t.metrics != nil {
		all = append(all, t.metrics)
	}
	if t.logs != nil {
		all = append(all, t.logs)
	}
	return all
}

// Flush sends what is gathered, as far as ctx lets it.
func (t *Telemetry) Flush(ctx context.Context) (err error) {
	for _, p := range t.providers() {
		err = errors.Join(err, p.ForceFlush(ctx))
	}
	return err
}

// Shutdown sends what is left, as far as ctx lets it, and ends everything.
func (t *Telemetry) Shutdown(ctx context.Context) (err error) {
	for _, p := range t.providers() {
		err = errors.Join(err, p.Shutdown(ctx))
	}
	return err
}
