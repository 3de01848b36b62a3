package revise

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
)

// Context says for which version of which artifact host code is called. What it
// holds is redacted, as is everything that the code is given.
type Context struct {
	Session  string // empty = none
	Run      events.RunID
	Tenant   string
	Turn     int // of the answer, from 1
	Artifact string
	Revision int // 0 = the first answer
	// Input is what the run was submitted with: its metadata, where it has any.
	Input json.RawMessage
}

// Verdict is what a validator found. Issues of an accepted version are notes.
type Verdict struct {
	OK     bool
	Issues []events.ArtifactIssue
	// Metadata is recorded with the verdict: anything that encodes to JSON; nil for
	// none.
	Metadata any
}

// Refuse is the verdict that names what is wrong.
func Refuse(issues ...events.ArtifactIssue) Verdict { return Verdict{Issues: issues} }

// The code of a host. Each may be called by several runs at once, and again for
// the same answer after a crash. It has to come back when ctx ends, which is when
// its time is up or the run is no longer its worker's; one that does not is left
// behind, and its run fails. A panic fails the run, not the worker.
type (
	// Parser makes the value of an answer. An error is one of the answer: it says to
	// the model what does not parse. A string, []byte or [json.RawMessage] is stored as
	// it is, but for what is redacted, anything else as JSON in canonical form, where
	// numbers that are no integers are rounded to a float64. A value that has no such
	// form, a RawMessage with a name twice too, fails the run.
	Parser func(ctx context.Context, at Context, text string) (any, error)
	// Validator judges a value that the parser made. An error means that there is no
	// verdict, and fails the run.
	Validator func(ctx context.Context, at Context, value any) (Verdict, error)
	// Repairer says what the model is told after a refusal. value is nil if there was
	// nothing to parse. An error fails the run.
	Repairer func(ctx context.Context, at Context, value any, refused Verdict) (string, error)
)

// Callbacks are a host's code by the names that [Options] use. The zero value is
// what ships: the parsers "text" and "json", the repairer "issues", no validator.
// A host's own win over these. It is read only.
type Callbacks struct {
	Parsers    map[string]Parser
	Validators map[string]Validator
	Repairers  map[string]Repairer
}

// Names of what ships.
const (
	TextParser     = "text"   // the answer as it is
	JSONParser     = "json"   // see [JSON]
	IssuesRepairer = "issues" // see [Issues]
)

// WithShipped returns the callbacks together with what ships.
func (c Callbacks) WithShipped() Callbacks {
	out := Callbacks{
		Parsers:    map[string]Parser{TextParser: Text, JSONParser: JSON},
		Validators: map[string]Validator{},
		Repairers:  map[string]Repairer{IssuesRepairer: Issues},
	}
	maps.Copy(out.Parsers, c.Parsers)
	maps.Copy(out.Validators, c.Validators)
	maps.Copy(out.Repairers, c.Repairers)
	return out
}

// Lacks names what a loop needs and these callbacks do not have, as in "validator
// \"schema\""; empty if it has all.
func (c Callbacks) Lacks(n loops.Needs) []string {
	var out []string
	missing := func(kind string, names, have []string) {
		for _, name := range names {
			if !slices.Contains(have, name) {
				out = append(out, kind+" \""+name+"\"")
			}
		}
	}
	missing("parser", n.Parsers, slices.Collect(maps.Keys(c.Parsers)))
	missing("validator", n.Validators, slices.Collect(maps.Keys(c.Validators)))
	missing("repairer", n.Repairers, slices.Collect(maps.Keys(c.Repairers)))
	return out
}
