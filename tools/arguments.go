package tools

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// rules check the arguments of one tool.
type rules struct {
	flat   map[string]Arg
	schema *jsonschema.Schema // nil if flat says it all
}

func prepare(d *Definition) (*rules, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	return &rules{}, nil
}

func precheckOf(Tool) func(json.RawMessage) error { return nil }

func joinProblems(p []string) string { return "" }
