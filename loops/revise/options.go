package revise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/loops"
)

// Options are what an agent, or a submission, says beside the loop's name.
type Options struct {
	// Artifact names what is made: 1 to 64 letters, digits, "_", "-" and ".". Empty
	// means "artifact".
	Artifact string `json:"artifact,omitempty"`
	// Parser makes the value of an answer. Empty means "text".
	Parser string `json:"parser,omitempty"`
	// Validators judge the value, one after the other, until one refuses it. At
	// least one is required.
	Validators []string `json:"validators"`
	// Repairer says what to ask of the model. Empty means "issues".
	Repairer string `json:"repairer,omitempty"`
	// MaxRevisions bounds the revisions: the model is asked at most once more than
	// that. Nil means 3; 0 means that the first answer counts.
	MaxRevisions *int `json:"max_revisions,omitempty"`
}

// Defaults of [Options], and the most that may be asked for.
const (
	DefaultArtifact     = "artifact"
	DefaultMaxRevisions = 3
	maxMaxRevisions     = 100
	maxValidators       = 20
)

var artifactName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// fields are the names of the options, in the order in which faults are told.
var fields = [...]string{"artifact", "parser", "validators", "repairer", "max_revisions"}

// ParseOptions reads options and fills in the defaults. An error joins one
// [*loops.OptionError] for each fault.
func ParseOptions(raw json.RawMessage) (Options, error) {
	o := Options{Artifact: DefaultArtifact, Parser: TextParser, Repairer: IssuesRepairer, MaxRevisions: new(int)}
	*o.MaxRevisions = DefaultMaxRevisions
	var errs []error
	fault := func(field, format string, args ...any) {
		errs = append(errs, &loops.OptionError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	given := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			fault("", "want a JSON object: %v", err)
			return o, errors.Join(errs...)
		}
	}
	text := func(field string, to *string) {
		v, ok := given[field]
		if !ok {
			return
		}
		if err := json.Unmarshal(v, to); err != nil || *to == "" {
			fault(field, "want a text, got %s", shorten(v))
		}
	}
	text("artifact", &o.Artifact)
	if !artifactName.MatchString(o.Artifact) && o.Artifact != "" {
		fault("artifact", `want 1 to 64 letters, digits, "_", "-" and ".", got %q`, o.Artifact)
	}
	text("parser", &o.Parser)
	checkValidators(given["validators"], &o, fault)
	text("repairer", &o.Repairer)
	if v, ok := given["max_revisions"]; ok {
		if err := json.Unmarshal(v, o.MaxRevisions); err != nil || bytes.Equal(v, []byte("null")) || *o.MaxRevisions < 0 || *o.MaxRevisions > maxMaxRevisions {
			fault("max_revisions", "want a whole number from 0 to %d, got %s", maxMaxRevisions, shorten(v))
			*o.MaxRevisions = DefaultMaxRevisions
		}
	}
	var unknown []string
	for name := range given {
		if !slices.Contains(fields[:], name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		fault(name, "the loop %s has no such option; known options: %s", Name, strings.Join(fields[:], ", "))
	}
	return o, errors.Join(errs...)
}

func checkValidators(raw json.RawMessage, o *Options, fault func(string, string, ...any)) {
	const want = "want a list of names of validators, such as [schema]"
	switch err := json.Unmarshal(raw, &o.Validators); {
	case len(raw) == 0:
		fault("validators", "missing; write the names of one validator or more, such as [schema]")
	case err != nil || slices.Contains(o.Validators, ""):
		fault("validators", "%s, got %s", want, shorten(raw))
	case len(o.Validators) == 0:
		fault("validators", "empty; write the names of one validator or more, such as [schema]")
	case len(o.Validators) > maxValidators:
		fault("validators", "%d of them, want %d at most", len(o.Validators), maxValidators)
	default:
		for i, v := range o.Validators {
			if slices.Contains(o.Validators[:i], v) {
				fault("validators", "%q is written twice; keep one", v)
			}
		}
	}
}

// shorten is what a message quotes of a value.
func shorten(raw json.RawMessage) string {
	if len(raw) > 80 {
		return strings.ToValidUTF8(string(raw[:80]), "") + "…"
	}
	return string(raw)
}
