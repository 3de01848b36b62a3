package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// found is what json_query returns. A value that is null is there: {found:
// true, value: null}; one that is not there has no value.
type found struct {
	Found bool            `json:"found"`
	Value json.RawMessage `json:"value,omitempty"`
	// Missing is how many elements that [*] went through had no such value.
	Missing int `json:"missing,omitempty"`
}

// JSONQuery returns json_query, which takes one value out of a JSON document by
// a path such as invoices[0].total; invoices[*].total is the list of all. The
// value comes back as it is written there, so long numbers stay whole. See
// docs/decisions/0012.
func JSONQuery() tools.Tool {
	return must(tools.New(tools.Definition{
		Name: "json_query",
		Description: "Takes one value out of a JSON document by its path: invoices[0].total, or invoices[*].total for every element's, " +
			`invoices[-1] for the last, ["a key"] for a key that is no word. found is false if nothing is there, which is not the same as a null.`,
		Aliases:  []string{"json", "jsonpath", "extract field", "jq"},
		Effect:   tools.Readonly,
		Trust:    tools.Own,
		Timeout:  10 * time.Second,
		Truncate: tools.Refuse,
	}, func(ctx context.Context, _ *tools.Invocation, in struct {
		Document string `json:"document" jsonschema:"the JSON document as text"`
		Path     string `json:"path" jsonschema:"where the value is, as in invoices[0].total"`
	},
	) (found, error) {
		f, err := queryJSON(ctx, in.Document, in.Path)
		if ctx.Err() != nil {
			return found{}, context.Cause(ctx)
		}
		if err != nil {
			return found{}, &tools.ArgumentError{Tool: "json_query", Problems: []string{err.Error()}}
		}
		return f, nil
	}))
}

func queryJSON(ctx context.Context, document, path string) (found, error) {
	steps, err := parsePath(path)
	if err != nil {
		return found{}, fmt.Errorf("path: %w", err)
	}
	doc := json.RawMessage(document)
	if err := json.Unmarshal(doc, new(json.RawMessage)); err != nil {
		return found{}, fmt.Errorf("document: no JSON: %w", err)
	}
	w := &walk{ctx: ctx}
	if err := w.take(trim(doc), steps); err != nil {
		return found{}, fmt.Errorf("document: %w", err)
	}
	return w.result(), nil
}
