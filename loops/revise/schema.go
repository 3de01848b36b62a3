package revise

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daybookhq/daybook/events"
)

// maxSchemaIssues bounds what one refusal names; the rest is counted.
const maxSchemaIssues = 30

// Schema returns a validator that wants values to fit a JSON Schema (draft 2020-12
// unless it names another). An issue's path is a JSON pointer. References to other
// documents are refused, so that no schema makes a worker read files or the
// network.
func Schema(schema []byte) (Validator, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	const url = "artifact.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return func(_ context.Context, _ Context, value any) (Verdict, error) {
		v, err := plain(value)
		if err != nil {
			return Verdict{}, err
		}
		err = s.Validate(v)
		var bad *jsonschema.ValidationError
		switch {
		case err == nil:
			return Verdict{OK: true}, nil
		case errors.As(err, &bad):
			return Refuse(schemaIssues(bad)...), nil
		}
		return Verdict{}, fmt.Errorf("validate against the schema: %w", err)
	}, nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded: write the schema in one")
}

// plain is a value as JSON has it: a parser of the host's may make structs.
func plain(value any) (any, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}
	b, err := Encode(value)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON, which a schema is about; use the parser %q: %w", JSONParser, err)
	}
	return v, nil
}

// Encode returns the bytes of a value that a parser made, as validators that look
// at bytes get them: text and bytes as they are, anything else as JSON. What is
// stored of it is redacted.
func Encode(value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return []byte(v), nil
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("encode a value of type %T: %w", value, err)
	}
	return b.Bytes(), nil
}

// schemaIssues are the leaves of a refusal, in the order of their paths.
func schemaIssues(e *jsonschema.ValidationError) []events.ArtifactIssue {
	var all []events.ArtifactIssue
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			leaf := e.DetailedOutput()
			all = append(all, events.ArtifactIssue{Path: leaf.InstanceLocation, Message: leaf.Error.String()})
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(e)
	// The library goes through maps: the same value gets the same words, also from a
	// worker that looks at it again after a crash.
	slices.SortFunc(all, func(a, b events.ArtifactIssue) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	if n := len(all) - maxSchemaIssues; n > 0 {
		all = append(all[:maxSchemaIssues], events.ArtifactIssue{Message: fmt.Sprintf("and %d more", n)})
	}
	return all
}
