package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// A composeFile is the part of docker-compose.yml that has to be right for the
// promises of the README.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	Build       string            `yaml:"build"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
}

func compose(t *testing.T) composeFile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	if err := yaml.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeRunsOurCommands(t *testing.T) {
	c := compose(t)
	commands := map[string]string{
		"worker":    "runner worker",
		"projector": "runner projector",
		"migrate":   "ledgerctl migrate",
	}
	for name, want := range commands {
		s, ok := c.Services[name]
		if !ok {
			t.Errorf("service %s is missing", name)
			continue
		}
		if got := strings.Join(s.Command, " "); got != want {
			t.Errorf("%s runs %q, want %q", name, got, want)
		}
		if s.Build != "." {
			t.Errorf("%s is not built from here", name)
		}
		for _, variable := range []string{"DAYBOOK_NATS_URL", "DAYBOOK_POSTGRES_URL"} {
			if s.Environment[variable] == "" {
				t.Errorf("%s: %s is not set", name, variable)
			}
		}
		checkCommand(t, s.Command)
	}
	for _, name := range []string{"worker", "projector"} {
		s := c.Services[name]
		if got := s.DependsOn["migrate"].Condition; got != "service_completed_successfully" {
			t.Errorf("%s starts although migrate is %q", name, got)
		}
	}
}

// checkCommand: a command is a file of its name in its binary's folder.
func checkCommand(t *testing.T, command []string) {
	t.Helper()
	dir := filepath.Join(root, "cmd", command[0])
	if _, err := os.Stat(filepath.Join(dir, "main.go")); os.IsNotExist(err) {
		t.Logf("cmd/%s is not written yet", command[0])
		return
	}
	file := filepath.Join(dir, command[1]+".go")
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
	c := compose(t)
	nats := c.Services["nats"]
	if !slices.Contains(nats.Volumes, "./deploy/nats.conf:/etc/nats/nats.conf:ro") || !slices.Contains(nats.Command, "/etc/nats/nats.conf") {
		t.Error("nats does not run on deploy/nats.conf") // internal/embedded reads that file as the server does
	}
	conf, err := os.ReadFile(filepath.Join(root, "deploy/nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\s*sync_interval:\s*always$`).Match(conf) {
		t.Error("deploy/nats.conf does not say sync_interval: always")
	}
	if got := c.Services["worker"].Environment["DAYBOOK_NATS_SYNC"]; got != "always" {
		t.Errorf("worker is told that the broker syncs %q", got)
	}
	for service, volume := range map[string]string{"nats": "nats:/data", "postgres": "postgres:/var/lib/postgresql/data"} {
		name, _, _ := strings.Cut(volume, ":")
		if _, ok := c.Volumes[name]; !ok || !slices.Contains(c.Services[service].Volumes, volume) {
			t.Errorf("%s does not keep its data in the volume %s", service, volume)
		}
	}
	for name, s := range c.Services {
		if strings.Contains(strings.Join(s.Command, " "), "fsync=off") {
			t.Errorf("%s does not fsync", name)
		}
	}
}

func TestComposeIsClosedToOtherHosts(t *testing.T) {
	for name, s := range compose(t).Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s opens %s to everyone", name, port)
			}
		}
		if s.Build == "" && !strings.Contains(s.Image, ":") {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
	}
}

func TestComposePostgresIsRecentEnough(t *testing.T) {
	var major int
	image := compose(t).Services["postgres"].Image
	if _, err := fmt.Sscanf(image, "postgres:%d", &major); err != nil || major < 15 {
		t.Errorf("image %q: want PostgreSQL 15 or later", image)
	}
}
