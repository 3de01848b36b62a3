package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// collector is all that the collector's configuration may hold; a key beyond it fails.
type collector struct {
	Extensions map[string]struct{ Endpoint string } `yaml:"extensions"`
	Receivers  map[string]struct {
		Protocols map[string]struct{ Endpoint string } `yaml:"protocols"`
	} `yaml:"receivers"`
	Processors map[string]struct {
		CheckInterval string `yaml:"check_interval"`
		Limit         int    `yaml:"limit_mib"`
		Spike         int    `yaml:"spike_limit_mib"`
		Timeout       string `yaml:"timeout"`
	} `yaml:"processors"`
	Exporters map[string]struct {
		Endpoint string `yaml:"endpoint"`
		TLS      struct {
			Insecure bool `yaml:"insecure"`
		} `yaml:"tls"`
		Resource struct {
			Enabled bool `yaml:"enabled"`
		} `yaml:"resource_to_telemetry_conversion"`
	} `yaml:"exporters"`
	Service struct {
		Extensions []string `yaml:"extensions"`
		Pipelines  map[string]struct {
			Receivers  []string `yaml:"receivers"`
			Processors []string `yaml:"processors"`
			Exporters  []string `yaml:"exporters"`
		} `yaml:"pipelines"`
		Telemetry struct {
			Metrics struct {
				Readers []struct {
					Pull struct {
						Exporter struct {
							Prometheus struct {
								Host string `yaml:"host"`
								Port int    `yaml:"port"`
							} `yaml:"prometheus"`
						} `yaml:"exporter"`
					} `yaml:"pull"`
				} `yaml:"readers"`
			} `yaml:"metrics"`
		} `yaml:"telemetry"`
	} `yaml:"service"`
}

func collectorConfig(t *testing.T) (c collector) {
	t.Helper()
	b, err := os.ReadFile("collector/collector.yml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatalf("collector.yml: %v", err)
	}
	return c
}

// collectorPorts is where the collector serves metrics, within the compose network.
func collectorPorts(t *testing.T) (all []string) {
	c := collectorConfig(t)
	for _, r := range c.Service.Telemetry.Metrics.Readers {
		all = append(all, fmt.Sprintf("collector:%d", r.Pull.Exporter.Prometheus.Port))
	}
	_, port, err := net.SplitHostPort(c.Exporters["prometheus"].Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, "collector:"+port)
}

// TestCollectorIsWhole: what pipelines name is defined, what is defined is used, and
// traces and metrics have a way through.
func TestCollectorIsWhole(t *testing.T) {
	c := collectorConfig(t)
	used := map[string]bool{}
	check := func(pipeline, kind string, names []string, defined []string) {
		if len(names) == 0 {
			t.Errorf("pipeline %s has no %s", pipeline, kind)
		}
		for _, n := range names {
			used[kind+n] = true
			if !slices.Contains(defined, n) {
				t.Errorf("pipeline %s: %s %s is not defined", pipeline, kind, n)
			}
		}
	}
	receivers, processors, exporters := slices.Collect(maps.Keys(c.Receivers)), slices.Collect(maps.Keys(c.Processors)), slices.Collect(maps.Keys(c.Exporters))
	for name, p := range c.Service.Pipelines {
		check(name, "receiver", p.Receivers, receivers)
		check(name, "processor", p.Processors, processors)
		check(name, "exporter", p.Exporters, exporters)
		if len(p.Processors) > 0 && p.Processors[0] != "memory_limiter" {
			t.Errorf("pipeline %s: memory_limiter is not first", name)
		}
	}
	check("service", "extension", c.Service.Extensions, slices.Collect(maps.Keys(c.Extensions)))
	for kind, names := range map[string][]string{"receiver": receivers, "processor": processors, "exporter": exporters, "extension": slices.Collect(maps.Keys(c.Extensions))} {
		for _, n := range names {
			if !used[kind+n] {
				t.Errorf("%s %s is used by no pipeline", kind, n)
			}
		}
	}
	for _, signal := range []string{"traces", "metrics"} {
		if _, ok := c.Service.Pipelines[signal]; !ok {
			t.Errorf("%s have no pipeline", signal)
		}
	}
}

// TestTracesFindTheirWay: workers send to the collector's own port, over the protocol
// that is the default; the collector to one of Jaeger.
func TestTracesFindTheirWay(t *testing.T) {
	c, p := collectorConfig(t), project(t, "observe")
	_, port, err := net.SplitHostPort(c.Receivers["otlp"].Protocols["http"].Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"worker", "projector"} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if e := s.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; e == nil || *e != "http://collector:"+port {
			t.Errorf("%s sends to %v, the collector listens on %s", name, e, port)
		}
		if e := s.Environment["OTEL_METRICS_EXPORTER"]; e == nil || *e != "none" {
			t.Errorf("%s is scraped and sends metrics as well: they count twice", name)
		}
		if s, err := project(t).GetService(name); err != nil || *s.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" {
			t.Errorf("%s sends to a collector that is not there (%v)", name, err)
		}
	}
	host, port, err := net.SplitHostPort(c.Exporters["otlp/jaeger"].Endpoint)
	if _, missing := p.GetService(host); err != nil || missing != nil || port != "4317" {
		t.Errorf("traces go to %q: %v %v", c.Exporters["otlp/jaeger"].Endpoint, err, missing)
	}
	b, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "http://collector:4318") {
		t.Error("docs/operating.md does not name where the collector is")
	}
}
