package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// project is docker-compose.yml as Compose itself reads it: checked against its
// schema, with the services of these profiles alone.
func project(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(root, "docker-compose.yml")}},
		// As Compose has it when COMPOSE_PROFILES is set.
		Environment: map[string]string{"COMPOSE_PROFILES": strings.Join(profiles, ",")},
	}, func(o *loader.Options) { o.SetProjectName("daybook", true); o.Profiles = profiles })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mounted reports whether a service has a path of the repository at a place.
func mounted(t *testing.T, service, source, target string) bool {
	t.Helper()
	p := project(t, "observe")
	s, err := p.GetService(service)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Type == types.VolumeTypeBind && v.Source == filepath.Join(p.WorkingDir, source) && v.Target == target && v.ReadOnly
	})
}

func TestComposeStaysSmall(t *testing.T) {
	if got, want := project(t).ServiceNames(), []string{"migrate", "nats", "postgres", "projector", "worker"}; !slices.Equal(got, want) {
		t.Errorf("docker compose up starts %v, want %v", got, want)
	}
	if got, want := project(t, "observe").ServiceNames(), []string{"collector", "grafana", "jaeger", "migrate", "nats", "postgres", "projector", "prometheus", "worker"}; !slices.Equal(got, want) {
		t.Errorf("with the profile observe it starts %v, want %v", got, want)
	}
}

func TestComposeRunsOurCommands(t *testing.T) {
	p := project(t)
	for name, want := range map[string]string{"worker": "runner worker", "projector": "runner projector", "migrate": "ledgerctl migrate"} {
		s := p.Services[name]
		if got := strings.Join(s.Command, " "); got != want {
			t.Errorf("%s runs %q, want %q", name, got, want)
			continue
		}
		if s.Build == nil || s.Build.Context != p.WorkingDir {
			t.Errorf("%s is not built from here", name)
		}
		for _, variable := range []string{"DAYBOOK_NATS_URL", "DAYBOOK_POSTGRES_URL"} {
			if v := s.Environment[variable]; v == nil || *v == "" {
				t.Errorf("%s: %s is not set", name, variable)
			}
		}
		checkCommand(t, s.Command)
		if name == "migrate" {
			continue
		}
		if got := s.DependsOn["migrate"].Condition; got != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s starts although migrate is %q", name, got)
		}
		port, _ := strings.CutPrefix(*s.Environment["DAYBOOK_HEALTH"], ":")
		if s.HealthCheck == nil || !strings.Contains(strings.Join(s.HealthCheck.Test, " "), "http://127.0.0.1:"+port+"/readyz") {
			t.Errorf("%s is asked for its health at %v, and serves it on port %s", name, s.HealthCheck, port)
		}
	}
}

// checkCommand: a command is a file of its name in its binary's folder.
func checkCommand(t *testing.T, command []string) {
	t.Helper()
	file := filepath.Join("..", "cmd", command[0], command[1]+".go")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s has no command %s: %v", command[0], command[1], err)
		return
	}
	use := regexp.MustCompile(fmt.Sprintf(`"%s\b`, regexp.QuoteMeta(command[1])))
	if !use.Match(src) {
		t.Errorf("%s does not name its command %q", file, command[1])
	}
}

func TestComposeKeepsWhatIsAcknowledged(t *testing.T) {
	p := project(t)
	if !mounted(t, "nats", "deploy/nats.conf", "/etc/nats/nats.conf") || !slices.Contains(p.Services["nats"].Command, "/etc/nats/nats.conf") {
		t.Error("nats does not run on deploy/nats.conf") // internal/embedded reads that file as the server does
	}
	conf, err := os.ReadFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\s*sync_interval:\s*always$`).Match(conf) {
		t.Error("nats.conf does not say sync_interval: always")
	}
	if got := p.Services["worker"].Environment["DAYBOOK_NATS_SYNC"]; got == nil || *got != "always" {
		t.Error("worker is not told that the broker syncs always")
	}
	for service, target := range map[string]string{"nats": "/data", "postgres": "/var/lib/postgresql/data"} {
		if _, ok := p.Volumes[service]; !ok || !slices.ContainsFunc(p.Services[service].Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Type == types.VolumeTypeVolume && v.Source == service && v.Target == target
		}) {
			t.Errorf("%s does not keep its data in a volume at %s", service, target)
		}
	}
	for name, s := range p.Services {
		if strings.Contains(strings.Join(s.Command, " "), "fsync=off") {
			t.Errorf("%s does not fsync", name)
		}
	}
}

func TestComposeMountsWhatThereIs(t *testing.T) {
	p := project(t, "observe")
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			switch v.Type {
			case types.VolumeTypeBind:
				if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
					t.Errorf("%s mounts %s (%v), read only: %v", name, v.Source, err, v.ReadOnly)
				}
			case types.VolumeTypeVolume:
				if _, ok := p.Volumes[v.Source]; !ok {
					t.Errorf("%s mounts the volume %s, which there is not", name, v.Source)
				}
			}
		}
	}
	for service, file := range map[string]string{"prometheus": "/etc/prometheus/prometheus.yml", "collector": "/etc/otelcol/collector.yml"} {
		if !strings.Contains(strings.Join(p.Services[service].Command, " "), file) {
			t.Errorf("%s is not started with %s", service, file)
		}
	}
	if !mounted(t, "prometheus", "deploy/prometheus", "/etc/prometheus") || !mounted(t, "collector", "deploy/collector/collector.yml", "/etc/otelcol/collector.yml") {
		t.Error("Prometheus or the collector does not find its configuration")
	}
}

func TestComposeIsClosedToOtherHosts(t *testing.T) {
	version := regexp.MustCompile(`^[\w./-]+:v?[0-9][\w.-]*$`)
	for name, s := range project(t, "observe").Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s to everyone", name, port.Published)
			}
		}
		if s.Build == nil && !version.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
	}
}

func TestComposePostgresIsRecentEnough(t *testing.T) {
	var major int
	image := project(t).Services["postgres"].Image
	if _, err := fmt.Sscanf(image, "postgres:%d", &major); err != nil || major < 15 {
		t.Errorf("image %q: want PostgreSQL 15 or later", image)
	}
}
