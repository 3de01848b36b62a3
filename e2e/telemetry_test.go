//go:build daybook_faults

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/telemetry/otlptest"
	"github.com/daybookhq/daybook/internal/testenv"
)

// TestDemoAsATrace runs the demo, whose workers are killed, and looks at what a
// collector got: one trace for each run, no span missing that the record has, each
// token once.
func TestDemoAsATrace(t *testing.T) {
	for _, tt := range []struct {
		name        string
		distributed bool
	}{{"embedded", false}, {"PostgreSQL and NATS", true}} {
		t.Run(tt.name, func(t *testing.T) {
			r := otlptest.New(t)
			dir := t.TempDir()
			args := []string{"demo", "-o", "json", "--data", dir}
			where := []string{"--dir", dir}
			if tt.distributed {
				pg := testenv.Postgres(t)
				args = append(args, "--nats", testenv.StartNATSProcess(t).URL(), "--postgres", pg, "--nats-sync", "always")
				where = []string{"--postgres", pg}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, binary(t, "cmd/runner"), args...)
			c.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL)
			var out, said bytes.Buffer
			c.Stdout, c.Stderr = &out, &said
			if err := c.Run(); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			var sum demoSummary
			if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
				t.Fatal(err)
			}
			// Whoever was killed last may have had more to tell: the next holder of the feed does.
			rest := []string{"dev", "--dir", dir, "--agents", "../examples/hello", "--policy", "hello=../examples/hello/policy.yaml"}
			if tt.distributed {
				rest = append([]string{"projector", "--nats-sync", "always"}, args[len(args)-6:len(args)-2]...)
			}
			p := start(t, filepath.Join(t.TempDir(), "rest.log"), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL}, binary(t, "cmd/runner"), rest...)
			until(t, "every run has its root span", func() error {
				if n := countRoots(r); n < *sum.Runs {
					return fmt.Errorf("%d of %d runs, process: %s", n, *sum.Runs, p.tail())
				}
				return p.says(" started")
			})
			p.stop(t)
			spans := map[string]otlptest.Span{} // what is sent twice is one span
			for _, s := range r.Spans() {
				spans[s.Trace+s.ID] = s
			}
			traces := map[string]map[string]int{} // by run: spans by the first word of their name
			traceOf := map[string]string{}
			tokens, lost := map[string]int64{}, 0
			for _, s := range spans {
				run, _ := s.Attrs["daybook.run.id"].(string)
				if was := traceOf[run]; was != "" && was != s.Trace {
					t.Errorf("run %s has the traces %s and %s", run, was, s.Trace)
				}
				traceOf[run] = s.Trace
				if traces[run] == nil {
					traces[run] = map[string]int{}
				}
				word, _, _ := strings.Cut(s.Name, " ")
				traces[run][word]++
				if n, ok := s.Attrs["gen_ai.usage.input_tokens"].(int64); ok {
					if word != "chat" {
						t.Errorf("%s has usage", s.Name)
					}
					tokens[run] += n
				}
				if s.Attrs["error.type"] == "worker_lost" {
					lost++
				}
				if s.Parent != "" {
					if _, ok := spans[s.Trace+s.Parent]; !ok {
						t.Errorf("the parent of %s is missing", s.Name)
					}
				}
			}
			if len(traces) != *sum.Runs || lost < *sum.Kills {
				t.Errorf("%d traces of %d runs, %d lost leases of %d kills", len(traces), *sum.Runs, lost, *sum.Kills)
			}
			for _, s := range summariesOf(t, where) {
				got := traces[s.Run]
				if got["invoke_agent"] != 1 || got["lease"] < 1 || got["chat"] < s.Totals.ModelCalls || got["execute_tool"] < s.Totals.ToolCalls {
					t.Errorf("run %s: spans %v, record %+v", s.Run, got, s.Totals)
				}
				if tokens[s.Run] != s.Totals.InputTokens {
					t.Errorf("run %s: %d input tokens in spans, %d in the ledger", s.Run, tokens[s.Run], s.Totals.InputTokens)
				}
			}
			var metrics []string
			for _, m := range r.Metrics() {
				if strings.HasPrefix(m, "daybook.") || strings.HasPrefix(m, "gen_ai.") {
					metrics = append(metrics, m)
				}
			}
			if !slices.Contains(metrics, "gen_ai.client.token.usage") || !slices.Contains(metrics, "daybook.ledger.lag") {
				t.Errorf("metrics %v", metrics)
			}
		})
	}
}

func countRoots(r *otlptest.Receiver) int {
	runs := map[any]bool{}
	for _, s := range r.Spans() {
		if strings.HasPrefix(s.Name, "invoke_agent ") {
			runs[s.Attrs["daybook.run.id"]] = true
		}
	}
	return len(runs)
}

type runLine struct {
	Run    string
	Totals struct {
		ModelCalls  int   `json:"model_calls"`
		ToolCalls   int   `json:"tool_calls"`
		InputTokens int64 `json:"input_tokens"`
	}
}

func summariesOf(t *testing.T, where []string) (all []runLine) {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary(t, "cmd/ledgerctl"), append([]string{"runs", "list", "-o", "json", "--limit", "500"}, where...)...)
	c.Stderr = os.Stderr
	b, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil || len(all) == 0 {
		t.Fatalf("%v: %s", err, b)
	}
	return all
}
