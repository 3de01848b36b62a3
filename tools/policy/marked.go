package policy

import (
	"bytes"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/redact"
)

// CheckRedaction finds rules that would be others once they are recorded, since r
// takes a text in them for a secret, in [*Fault]s. These don't show the text.
func (l *List) CheckRedaction(r *redact.Redactor) (errs []error) {
	for i, x := range l.Record().Rules {
		for field, alone := range map[string]events.PolicyRule{"when": {When: x.When}, "because": {Because: x.Because}} {
			if redact.HasMarker([]byte(alone.When+alone.Because)) || changed(r, alone) {
				errs = append(errs, &Fault{Rule: i + 1, Line: l.rules[i].Line, Field: field, Message: "holds what looks like a secret: a run keeps its rules, and would keep a marker in its place, " +
					`which is another rule. Leave the secret out: a call is recorded with a marker too, which args.key contains "[REDACTED:" finds`})
			}
		}
	}
	return errs
}

func changed(r *redact.Redactor, x events.PolicyRule) bool {
	plain, err := canonical.Marshal(x)
	if err != nil {
		return true
	}
	kept, err := r.JSON(x)
	return err != nil || !bytes.Equal(plain, kept.Bytes())
}

// compileRecorded is compile for a rule that a run kept. Of one whose condition was
// redacted nobody knows which calls it was about: it denies those that come to it.
func (r Rule) compileRecorded() (condition, []*Fault) {
	if redact.HasMarker([]byte(r.When)) {
		return condition{eval: func(*state) (any, error) {
			return nil, trouble("a text in the rule looked like a secret and was redacted in the record")
		}}, nil
	}
	if redact.HasMarker([]byte(r.Because)) {
		r.Because = r.Because[:min(len(r.Because), MaxBecause)] // markers may have made it longer
	}
	return r.compile()
}
