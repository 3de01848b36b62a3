package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

type alert struct {
	Alert, Expr         string
	For                 model.Duration
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	readYAML(t, "prometheus/alerts.yml", &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

// runbook is where annotations lead.
const runbook = "https://github.com/daybookhq/daybook/blob/main/docs/operating.md#"

// TestAlertsAskForWhatIsServed: as dashboards do.
func TestAlertsAskForWhatIsServed(t *testing.T) {
	all, names := metrics(t), map[string]bool{}
	for _, a := range alerts(t) {
		for _, f := range faults(all, a.Expr) {
			t.Errorf("%s: %s", a.Alert, f)
		}
		if names[a.Alert] {
			t.Errorf("%s is there twice", a.Alert)
		}
		names[a.Alert] = true
		if s := a.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, s) {
			t.Errorf("%s has severity %q", a.Alert, s)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: wants a summary and a description", a.Alert)
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// TestAlertsHaveARunbook: each leads to a section of docs/operating.md of its own
// that names it and something to type.
func TestAlertsHaveARunbook(t *testing.T) {
	b, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	page := string(b)
	at := heading.FindAllStringSubmatchIndex(page, -1)
	for i, m := range at {
		end := len(page)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		anchor := strings.ReplaceAll(strings.ToLower(regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(page[m[2]:m[3]], "")), " ", "-")
		sections[anchor] = page[m[1]:end]
	}
	for _, a := range alerts(t) {
		anchor, ok := strings.CutPrefix(a.Annotations["runbook_url"], runbook)
		text, there := sections[anchor]
		switch {
		case !ok || !there:
			t.Errorf("%s leads to %q, which is no section of docs/operating.md", a.Alert, a.Annotations["runbook_url"])
		case !strings.Contains(text, a.Alert):
			t.Errorf("section %s does not name %s", anchor, a.Alert)
		case !strings.Contains(text, "ledgerctl ") && !strings.Contains(text, "    "):
			t.Errorf("section %s says nothing to type", anchor)
		}
	}
	for _, name := range regexp.MustCompile(`\bDaybook[A-Z]\w+`).FindAllString(page, -1) {
		if !slices.ContainsFunc(alerts(t), func(a alert) bool { return a.Alert == name }) {
			t.Errorf("docs/operating.md names the alert %s, which there is not", name)
		}
	}
}

// ruleTest is prometheus/alerts_test.yml, in promtool's form.
type ruleTest struct {
	RuleFiles []string       `yaml:"rule_files"`
	Interval  model.Duration `yaml:"evaluation_interval"`
	Tests     []struct {
		Name     string
		Interval model.Duration
		Input    []struct{ Series, Values string } `yaml:"input_series"`
		Expect   []struct {
			At      model.Duration `yaml:"eval_time"`
			Expr    string
			Samples []struct {
				Labels string
				Value  float64
			} `yaml:"exp_samples"`
		} `yaml:"promql_expr_test"`
	}
}

// TestAlertsFire does what prometheus/alerts_test.yml says: which alerts fire when,
// and that no others do.
func TestAlertsFire(t *testing.T) {
	var file ruleTest
	readYAML(t, "prometheus/alerts_test.yml", &file)
	if file.Interval != model.Duration(time.Minute) || !slices.Equal(file.RuleFiles, []string{"alerts.yml"}) {
		t.Fatalf("interval %s, rules %v: the test understands 1m and alerts.yml", file.Interval, file.RuleFiles)
	}
	rules, fired := alerts(t), map[string]bool{}
	for _, tt := range file.Tests {
		t.Run(tt.Name, func(t *testing.T) {
			if tt.Interval != file.Interval {
				t.Fatalf("interval %s", tt.Interval)
			}
			var w world
			for _, in := range tt.Input {
				l, v, err := parser.ParseSeriesDesc(in.Series + " " + in.Values)
				if err != nil {
					t.Fatal(err)
				}
				w = append(w, series{l, v})
			}
			for _, x := range tt.Expect {
				if x.Expr != `ALERTS{alertstate="firing"}` {
					t.Fatalf("expr %s", x.Expr)
				}
				var want []string
				for _, s := range x.Samples {
					l, err := parser.ParseMetric(s.Labels)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, l.String())
					fired[l.Get("alertname")] = true
				}
				got := w.firing(t, rules, time.Duration(x.At))
				slices.Sort(want)
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("at %s:\n%s", x.At, d)
				}
			}
		})
	}
	for _, a := range rules {
		if !fired[a.Alert] {
			t.Errorf("nothing makes %s fire", a.Alert)
		}
	}
}

// firing are the alerts that are true at a moment and have been at each evaluation
// since as long before as they wait.
func (w world) firing(t *testing.T, rules []alert, at time.Duration) (all []string) {
	t.Helper()
	for _, a := range rules {
		e, err := parser.ParseExpr(a.Expr)
		if err != nil {
			t.Fatal(err)
		}
		since := map[string]int{}
		need := int(time.Duration(a.For)/time.Minute) + 1
		for n := range need {
			moment := at - time.Duration(n)*time.Minute
			if moment < 0 {
				break
			}
			for _, s := range w.answer(e, moment) {
				b := labels.NewBuilder(s.labels.DropReserved(reserved))
				b.Set(labels.MetricName, "ALERTS").Set("alertname", a.Alert).Set("alertstate", "firing")
				for name, v := range a.Labels {
					b.Set(name, v)
				}
				since[b.Labels().String()]++
			}
		}
		for l, n := range since {
			if n == need {
				all = append(all, l)
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestPromtoolAgrees has Prometheus itself read configuration and rules and run the
// test file, where its tool is installed.
func TestPromtoolAgrees(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: TestAlertsFire ran the same file without it")
	}
	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yml"},
		{"check", "rules", "prometheus/alerts.yml"},
		{"test", "rules", "prometheus/alerts_test.yml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestPrometheusScrapesWhatIsServed: jobs are called what the alerts ask for, and
// look where docker-compose.yml has somebody serve.
func TestPrometheusScrapesWhatIsServed(t *testing.T) {
	var file struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrape    []struct {
			Job string `yaml:"job_name"`
			DNS []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus/prometheus.yml", &file)
	jobs := map[string]bool{}
	p := project(t, "observe")
	for _, s := range file.Scrape {
		jobs[s.Job] = true
		for _, d := range s.DNS {
			for _, name := range d.Names {
				svc, err := p.GetService(name)
				if err != nil {
					t.Errorf("%s: %v", s.Job, err)
					continue
				}
				if h := svc.Environment["DAYBOOK_HEALTH"]; h == nil || *h != fmt.Sprintf(":%d", d.Port) {
					t.Errorf("%s asks port %d of %s, which does not serve there", s.Job, d.Port, name)
				}
			}
		}
		for _, c := range s.Static {
			for _, target := range c.Targets {
				if !slices.Contains(collectorPorts(t), target) {
					t.Errorf("%s asks %s, where nobody serves", s.Job, target)
				}
			}
		}
	}
	for _, a := range alerts(t) {
		for _, m := range regexp.MustCompile(`job=~?"([^"]+)"`).FindAllStringSubmatch(a.Expr, -1) {
			for job := range strings.SplitSeq(m[1], "|") {
				if !jobs[job] {
					t.Errorf("%s asks of job %s, which is not scraped", a.Alert, job)
				}
			}
		}
	}
	for _, f := range file.RuleFiles {
		if _, err := os.Stat("prometheus/" + f); err != nil {
			t.Error(err)
		}
	}
}
