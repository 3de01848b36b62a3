package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is what a process serves: its type, and its labels with the values that
// they have where there are few.
type metric struct {
	kind   string
	labels map[string][]string
}

// metrics are those that real workers and projectors served (e2e/metrics_test.go
// holds the file against them), as Prometheus stores them, and its own.
func metrics(t *testing.T) map[string]metric {
	t.Helper()
	b, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{
		"up":                      {kind: "gauge", labels: map[string][]string{}},
		"scrape_duration_seconds": {kind: "gauge", labels: map[string][]string{}},
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(fields) == 0 {
			continue
		}
		m := metric{kind: fields[1], labels: map[string][]string{}}
		for _, f := range fields[2:] {
			name, values, _ := strings.Cut(f, "=")
			m.labels[name] = nil
			if values != "" {
				m.labels[name] = strings.Split(values, "|")
			}
		}
		if m.kind != "histogram" {
			all[fields[0]] = m
			continue
		}
		for _, part := range []string{"_sum", "_count", "_bucket"} {
			all[fields[0]+part] = metric{kind: "counter", labels: m.labels}
		}
		bucket := metric{kind: "counter", labels: map[string][]string{"le": nil}}
		for name, values := range m.labels {
			bucket.labels[name] = values
		}
		all[fields[0]+"_bucket"] = bucket
	}
	for _, m := range all {
		m.labels["job"], m.labels["instance"] = nil, nil // Prometheus adds them
	}
	return all
}

// variables are what Grafana puts into a question.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$queue", ".*", "$agent", ".*", "$model", ".*", "$tool", ".*")

var alternatives = regexp.MustCompile(`^[a-z_]+(\|[a-z_]+)*$`)

// faults says what is wrong with a question to Prometheus: metrics, labels and values
// that no process serves, and functions that do not fit a metric's type.
func faults(all map[string]metric, expr string) (fs []string) {
	e, err := parser.ParseExpr(variables.Replace(expr))
	if err != nil {
		return []string{err.Error()}
	}
	fault := func(s ...string) { fs = append(fs, strings.Join(s, " ")) }
	// within are the labels that the aggregations and matchings around ask for.
	var look func(n parser.Node, within []string, call string)
	look = func(n parser.Node, within []string, call string) {
		switch n := n.(type) {
		case *parser.VectorSelector:
			m, ok := all[n.Name]
			if !ok {
				fault(n.Name, "is served by nobody")
				return
			}
			for _, l := range within {
				if _, ok := m.labels[l]; !ok {
					fault(n.Name, "has no label", l)
				}
			}
			for _, match := range n.LabelMatchers {
				if match.Name == labels.MetricName {
					continue
				}
				values, ok := m.labels[match.Name]
				if !ok {
					fault(n.Name, "has no label", match.Name)
				}
				if len(values) == 0 || match.Type != labels.MatchEqual && !alternatives.MatchString(match.Value) {
					continue
				}
				for v := range strings.SplitSeq(match.Value, "|") {
					if !slices.Contains(values, v) {
						fault(n.Name, "never has", match.Name, "=", v)
					}
				}
			}
			counts := call == "rate" || call == "increase"
			switch {
			case counts && m.kind != "counter":
				fault(n.Name, "is a", m.kind+":", call, "is of counters")
			case !counts && m.kind == "counter" && call != "offset":
				fault(n.Name, "is a counter: ask for its rate or increase")
			}
			return
		case *parser.AggregateExpr:
			if n.Without {
				fault("without says nothing about which labels there are: use by")
			}
			for _, l := range within {
				if !slices.Contains(n.Grouping, l) {
					fault(l, "is asked for and was aggregated away")
				}
			}
			within = n.Grouping // what is around sees these alone
		case *parser.Call:
			call = n.Func.Name
			if call == "histogram_quantile" {
				within = append(slices.Clone(within), "le")
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				within = append(slices.Clone(within), n.VectorMatching.MatchingLabels...)
			}
		}
		for _, c := range parser.Children(n) {
			look(c, within, call)
		}
	}
	// What compares a counter with itself an hour ago is a rate, too.
	call := ""
	if strings.Contains(expr, " offset ") {
		call = "offset"
	}
	look(e, nil, call)
	return fs
}

// asks are the metrics that a question names.
func asks(t *testing.T, expr string) (names []string) {
	t.Helper()
	e, err := parser.ParseExpr(variables.Replace(expr))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

func TestFaultsAreFound(t *testing.T) {
	all := metrics(t)
	for expr, want := range map[string]string{
		`max(daybook_in_doubt_oldest_seconds)`:                                                          "",
		`max(daybook_in_doubt_oldest)`:                                                                  "is served by nobody",
		`max by (daybook_queue) (daybook_in_doubt)`:                                                     "has no label daybook_queue",
		`daybook_queue_runs{queue="x"}`:                                                                 "has no label queue",
		`daybook_queue_runs{daybook_state="died"}`:                                                      "never has daybook_state = died",
		`daybook_queue_runs{daybook_state=~"dead|lost"}`:                                                "never has daybook_state = lost",
		`rate(daybook_in_doubt[$__rate_interval])`:                                                      "rate is of counters",
		`sum(daybook_takeovers_total)`:                                                                  "ask for its rate",
		`sum(rate(daybook_takeovers[5m]))`:                                                              "is served by nobody",
		`sum(rate(daybook_model_cost_USD_total[5m]))`:                                                   "is served by nobody",
		`histogram_quantile(0.9, rate(daybook_queue_wait_seconds[5m]))`:                                 "is served by nobody",
		`daybook_in_doubt > on (daybook_queue) daybook_queue_lapsed_lease_seconds`:                      "has no label daybook_queue",
		`max(daybook_in_doubt`:                                                                          "unclosed",
		`histogram_quantile(0.9, sum by (daybook_queue) (rate(daybook_queue_wait_seconds_bucket[5m])))`: "le is asked for and was aggregated away",
		`histogram_quantile(0.9, rate(daybook_queue_wait_seconds_count[5m]))`:                           "has no label le",
		`sum by (daybook_state) (max by (daybook_queue) (daybook_queue_runs))`:                          "daybook_state is asked for",
	} {
		got := strings.Join(faults(all, expr), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
