package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/internal/strictyaml"
)

// MaxSchemaBytes bounds the schema of an agent's output: it goes along with each request.
const MaxSchemaBytes = 64 << 10

var levels = []string{"off", "minimal", "low", "medium", "high"}

// readOutput reads how the model is to answer: thinking, and the schema of output, which
// stands here or in a file of the agent's folder.
func (l Loader) readOutput(m *strictyaml.Map, a *Agent) {
	if a.Thinking = m.Text("thinking"); a.Thinking != "" && !slices.Contains(levels, a.Thinking) {
		m.Fault("thinking", "want off, minimal, low, medium or high, got %q", a.Thinking)
	}
	var schema any
	switch {
	case m.IsMap("output"):
		schema = m.JSON("output", func(_ int, _, s string) any { return s })
	case m.Has("output"):
		name := m.Text("output")
		if name == "" {
			return // said already
		}
		b, err := readBeside(l.file, name)
		if err == nil {
			err = json.Unmarshal(b, &schema)
		}
		if err != nil {
			m.Fault("output", "want a JSON Schema, or a file with one in the agent's folder: %v", err)
			return
		}
		schema = json.RawMessage(b)
	default:
		return
	}
	raw, err := canonical.Marshal(schema)
	switch {
	case err != nil:
		m.Fault("output", "this is no JSON: %v", err)
	case len(raw) > MaxSchemaBytes:
		m.Fault("output", "the schema has %d bytes, want %d at most", len(raw), MaxSchemaBytes)
	case len(raw) == 0 || raw[0] != '{':
		m.Fault("output", "want a JSON Schema, an object, got %.40s", raw)
	default:
		a.Output = json.RawMessage(raw)
		if l.Schema != nil {
			if err := l.Schema(a.Output); err != nil {
				m.Fault("output", "%v", err)
			}
		}
	}
}

// readBeside reads a file in the folder of another one. Links do not lead out of it.
func readBeside(file, name string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(name)
}
