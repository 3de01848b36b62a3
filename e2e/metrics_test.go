//go:build daybook_faults

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/daybookhq/daybook/runtime"
)

var update = flag.Bool("update", false, "write deploy/testdata/metrics.txt")

// metricsFile lists what workers and projectors serve under /metrics. The tests of
// deploy/ hold dashboards and alerts against it.
const metricsFile = "../deploy/testdata/metrics.txt"

// TestMetricsAreThoseThatDashboardsKnow: workers and projectors that have something of
// everything to tell serve just the metrics and labels of metricsFile, embedded and
// on PostgreSQL.
func TestMetricsAreThoseThatDashboardsKnow(t *testing.T) {
	for name, where := range map[string]func(testing.TB) *site{"embedded": embeddedSite, "PostgreSQL and NATS": distributedSite} {
		t.Run(name, func(t *testing.T) {
			s := where(t)
			processes, told := s.eventful(t)
			seen := &served{families: map[string]family{}}
			read := func() string {
				for _, p := range processes {
					seen.read(t, p)
				}
				return seen.String()
			}
			until(t, "every run to be told", func() error {
				read()
				if n := seen.runs; n < told {
					return fmt.Errorf("%v of %v runs ended", n, told)
				}
				return nil
			})
			if *update {
				pause(12 * time.Second) // readings are made anew every 5 s
				if err := os.WriteFile(metricsFile, []byte(read()), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			b, err := os.ReadFile(metricsFile)
			if err != nil {
				t.Fatal(err)
			}
			want := string(b)
			_ = poll(patience/6, func() error { // readings are made anew every 5 s
				if read() != want {
					return errNotYet
				}
				return nil
			})
			if d := cmp.Diff(want, seen.String()); d != "" {
				t.Errorf("%s differs from what is served; dashboards and alerts ask for what it has (go test ./e2e -tags daybook_faults -run %s -update):\n%s", metricsFile, t.Name(), d)
			}
		})
	}
}

var errNotYet = errors.New("not yet")

// eventful has a site go through everything that metrics tell of: runs that finish,
// fail for good, lose their worker, are in doubt, repeat an effect, ask for a tool
// that there is not, and have no price. It returns who serves metrics, and how many
// runs have ended.
func (s *site) eventful(t *testing.T) (processes []*process, ended float64) {
	t.Helper()
	dir := t.TempDir()
	more := []string{"--health", "127.0.0.1:0", "--agents", filepath.Join(dir, "agents"), "--prices", filepath.Join(dir, "prices.yaml")}
	write := func(file, text string) {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("prices.yaml", "table: test\nmodels:\n  - name: scripted/unpriced\n    prices:\n      - { valid_from: 2999-01-01, input: \"1\", output: \"1\" }\n")
	finish := `calls: [{ name: finish, arguments: { answer: done } }]`
	for name, answer := range map[string]string{
		"unpriced": finish,
		"dead":     `error: { kind: invalid_request, message: no }`,
		"wild":     `calls: [{ name: teleport, arguments: {} }, { name: check_refund, arguments: { order_id: ORD-9999, amount: "1.00", currency: EUR } }, { name: calculate, arguments: { expression: 1 + 1 } }]`,
	} {
		write("agents/"+name+"/AGENT.md", fmt.Sprintf("---\nname: %s\ndescription: For a test.\nmodel: scripted/%s\nloop: singleshot\ntools: [finish, calculate, check_refund]\n---\nDo it.\n", name, name))
		write(name+".yaml", fmt.Sprintf("model: scripted/%s\nrules:\n  - name: begin\n    when: { last: user }\n    answer:\n      %s\n  - name: end\n    when: { last: tool }\n    answer:\n      %s\n", name, answer, finish))
		more = append(more, "--policy", name+"="+filepath.Join(dir, name+".yaml"))
	}
	p := s.provider(t, opaque)
	p.set(func(p *provider) { p.lost = "ORD-9999" })
	if s.dir == "" {
		log := filepath.Join(s.logs, "projector.log")
		processes = append(processes, start(t, log, nil, binary(t, "cmd/runner"), append([]string{"projector", "--health", "127.0.0.1:0"}, s.flags()...)...))
	}
	w := worker{apart: s.dir == "", ttl: 5 * time.Second, more: more}
	first := make(chan *process, 1)
	p.set(func(p *provider) {
		p.after = func(r request) {
			if r.N == 1 {
				(<-first).kill()
			}
		}
	})
	doomed := s.start(t, p, w)
	first <- doomed
	lost := s.submit(t, "t", "refunds", "ORD-0001")
	until(t, "be killed", func() error {
		switch {
		case !doomed.ended():
			return errNotYet
		case !doomed.killed():
			return errStop{fmt.Errorf("it ended by itself: %s", doomed.tail())}
		}
		return nil
	})
	processes = append(processes, s.start(t, p, w))
	until(t, "be in doubt", func() error { return s.resting(t, lost.ID, true) })
	c := runtime.NewClient(s.store, s.red, nil)
	for _, r := range []runtime.Submit{
		{Agent: "refunds", ClientKey: "one", Input: map[string]string{"order_id": "ORD-0002", "amount": "49.90", "currency": "EUR"}},
		{Agent: "refunds", ClientKey: "two", Input: map[string]string{"order_id": "ORD-0002", "amount": "49.90", "currency": "EUR"}},
		{Agent: "unpriced", ClientKey: "three", Input: "x"},
		{Agent: "wild", ClientKey: "four", Input: "x"},
		{Agent: "dead", ClientKey: "five", Input: "x"},
	} {
		r.Tenant, r.Queue = "t", "mixed"
		run, _, err := c.Submit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "end", func() error { return s.resting(t, run.ID, false) })
		ended++
	}
	return processes, ended
}

// served is what was served, over all reads: metric → type and labels.
type served struct {
	families map[string]family
	runs     float64 // that were told to have ended
}

type family struct {
	kind   string
	labels map[string]map[string]bool // label → values; no values where anything may stand
}

// closed are the labels whose values dashboards and alerts name.
var closed = []string{"daybook_state", "daybook_outcome", "daybook_effect", "gen_ai_token_type"}

var servedAt = regexp.MustCompile(`msg="health is served" at=(\S+)`)

// read adds what a process serves.
func (v *served) read(t *testing.T, p *process) {
	t.Helper()
	m := servedAt.FindStringSubmatch(tail(p.log, 1<<20))
	if m == nil {
		return // not yet
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m[1]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.tail())
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0.0
	for name, f := range all {
		if !strings.HasPrefix(name, "daybook_") && !strings.HasPrefix(name, "gen_ai_") {
			continue
		}
		was, ok := v.families[name]
		if !ok {
			was = family{strings.ToLower(f.GetType().String()), map[string]map[string]bool{}}
			v.families[name] = was
		}
		for _, metric := range f.GetMetric() {
			was.add(metric)
			if name == "daybook_runs_ended_total" {
				runs += metric.GetCounter().GetValue()
			}
		}
	}
	v.runs = max(v.runs, runs)
}

func (f family) add(m *dto.Metric) {
	for _, l := range m.GetLabel() {
		name := l.GetName()
		if strings.HasPrefix(name, "otel_scope_") {
			continue
		}
		if f.labels[name] == nil {
			f.labels[name] = map[string]bool{}
		}
		if slices.Contains(closed, name) {
			f.labels[name][l.GetValue()] = true
		}
	}
}

// String has a line for each metric: name, type, labels.
func (v *served) String() string {
	var b strings.Builder
	b.WriteString("# What workers and projectors serve under /metrics: name, type, labels.\n# Written by the test that compares them, e2e/metrics_test.go.\n")
	for _, name := range slices.Sorted(maps.Keys(v.families)) {
		f := v.families[name]
		fmt.Fprintf(&b, "%s %s", name, f.kind)
		for _, l := range slices.Sorted(maps.Keys(f.labels)) {
			fmt.Fprintf(&b, " %s", l)
			if values := slices.Sorted(maps.Keys(f.labels[l])); len(values) > 0 {
				fmt.Fprintf(&b, "=%s", strings.Join(values, "|"))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
