// Package deploy is configuration for those who run Daybook. Its tests read it as the
// programs do that it is for.
package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

type dashboard struct {
	UID, Title, Description string
	Panels                  []panel
	Templating              struct {
		List []struct {
			Name       string
			Query      struct{ Query string }
			Datasource datasource
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               datasource
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
	}
	Targets []struct {
		Expr, LegendFormat string
		Datasource         datasource
	}
}

type datasource struct{ Type, UID string }

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := map[string]dashboard{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[filepath.Base(f)] = d
	}
	return all
}

var (
	valuesOf = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	variable = regexp.MustCompile(`\$\{?(\w+)`)
)

// TestDashboardsAskForWhatIsServed: every metric, label and value in a dashboard is
// one that a real worker served, and whatever is served is on one of them.
func TestDashboardsAskForWhatIsServed(t *testing.T) {
	all := metrics(t)
	shown := map[string]bool{}
	for file, d := range dashboards(t) {
		vars := map[string]bool{"__rate_interval": true, "__range": true}
		for _, v := range d.Templating.List {
			vars[v.Name] = true
			m := valuesOf.FindStringSubmatch(v.Query.Query)
			if m == nil {
				t.Errorf("%s: variable %s asks %q", file, v.Name, v.Query.Query)
				continue
			}
			if _, ok := all[m[1]].labels[m[2]]; !ok {
				t.Errorf("%s: variable %s: %s has no label %s", file, v.Name, m[1], m[2])
			}
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				for _, f := range faults(all, q.Expr) {
					t.Errorf("%s: %q: %s\n%s", file, p.Title, f, q.Expr)
				}
				for _, m := range variable.FindAllStringSubmatch(q.Expr, -1) {
					if !vars[m[1]] {
						t.Errorf("%s: %q: there is no variable %s", file, p.Title, m[1])
					}
				}
				for _, m := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
					if !regexp.MustCompile(`by \([^)]*\b` + m[1] + `\b`).MatchString(q.Expr) {
						t.Errorf("%s: %q: the legend shows %s, which the question leaves out", file, p.Title, m[1])
					}
				}
				for _, name := range asks(t, q.Expr) {
					for _, part := range []string{"_bucket", "_sum", "_count"} {
						shown[strings.TrimSuffix(name, part)] = true
					}
					shown[name] = true
				}
			}
		}
	}
	for name := range all {
		base := name
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, part)
		}
		if !shown[base] && !shown[name] {
			t.Errorf("%s is on no dashboard", name)
		}
	}
}

// seconds are questions whose answer is a time.
var seconds = regexp.MustCompile(`^(max|max by \(\w+\)) ?\(\w+_seconds|^histogram_quantile\(.*_seconds_bucket`)

// TestDashboardsCanBeRead: units fit the questions, thresholds rise, panels say what
// they show and do not lie upon each other.
func TestDashboardsCanBeRead(t *testing.T) {
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if uids[d.UID] != "" || d.UID == "" || d.Title == "" || d.Description == "" {
			t.Errorf("%s: uid %q (also of %q), title %q, description %q", file, d.UID, uids[d.UID], d.Title, d.Description)
		}
		uids[d.UID] = file
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if p.Title == "" || p.Description == "" || ids[p.ID] || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d %q: wants an id of its own, title, description and questions", file, p.ID, p.Title)
			}
			ids[p.ID] = true
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %q leaves the 24 columns", file, p.Title)
			}
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if taken[at] != "" && taken[at] != p.Title {
						t.Errorf("%s: %q lies upon %q", file, p.Title, taken[at])
					}
					taken[at] = p.Title
				}
			}
			steps := p.FieldConfig.Defaults.Thresholds.Steps
			for i, s := range steps {
				if (i == 0) != (s.Value == nil) || i > 1 && *s.Value <= *steps[i-1].Value {
					t.Errorf("%s: %q: thresholds do not rise from none", file, p.Title)
				}
			}
			for _, q := range p.Targets {
				want := "short"
				switch {
				case seconds.MatchString(q.Expr):
					want = "s"
				case strings.Contains(q.Expr, "daybook_model_cost_total"):
					want = "currencyUSD"
				}
				if got := p.FieldConfig.Defaults.Unit; got != want {
					t.Errorf("%s: %q has unit %q, want %q for %s", file, p.Title, got, want, q.Expr)
				}
			}
		}
	}
}

// TestGrafanaIsProvisioned: what the dashboards name is there.
func TestGrafanaIsProvisioned(t *testing.T) {
	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			IsDefault      bool `yaml:"isDefault"`
		}
	}
	readYAML(t, "grafana/provisioning/datasources/daybook.yml", &sources)
	known := map[datasource]bool{}
	for _, s := range sources.Datasources {
		known[datasource{s.Type, s.UID}] = true
	}
	for file, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if !known[v.Datasource] {
				t.Errorf("%s: variable %s asks %v", file, v.Name, v.Datasource)
			}
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				if !known[p.Datasource] || !known[q.Datasource] {
					t.Errorf("%s: %q asks %v, %v", file, p.Title, p.Datasource, q.Datasource)
				}
			}
		}
	}
	var providers struct {
		Providers []struct {
			Options struct{ Path string }
		}
	}
	readYAML(t, "grafana/provisioning/dashboards/daybook.yml", &providers)
	if len(providers.Providers) != 1 || !mounted(t, "grafana", "deploy/grafana/dashboards", providers.Providers[0].Options.Path) {
		t.Errorf("dashboards are looked for in %v, and mounted elsewhere", providers.Providers)
	}
	if !mounted(t, "grafana", "deploy/grafana/provisioning", "/etc/grafana/provisioning") {
		t.Error("Grafana does not find its provisioning")
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
