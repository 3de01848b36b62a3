package loops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/redact"
)

// DivergedError says that the code of a script asks for something else than the
// code did that made the history. Nothing is done then: with that code, or with
// newer code that says where it differs, the run goes on.
type DivergedError struct {
	Loop string
	Step int
	Seq  uint64 // of the step that is recorded
	// Recorded and Asked are words for a person. They hold what the code wrote, not redacted.
	Recorded, Asked string
	// Where they begin to differ, if they are long; empty otherwise.
	Where string
}

// Diverge is the error for code that asks for something else than the step recorded.
func Diverge(loop string, p *Planned, asked events.StepPlanned) *DivergedError {
	return &DivergedError{Loop: loop, Step: p.Step, Seq: p.Seq, Recorded: DescribeStep(p.StepPlanned), Asked: DescribeStep(asked), Where: differ(p.Text, asked.Text)}
}

// differ says where two texts begin to differ. It quotes the recorded one alone,
// which is redacted: a piece of the other may be half a secret.
func differ(recorded, asked string) string {
	if len(recorded) <= maxShort && len(asked) <= maxShort || recorded == "" || asked == "" {
		return ""
	}
	n := 0
	for n < len(recorded) && n < len(asked) && recorded[n] == asked[n] {
		n++
	}
	from, to := max(n-30, 0), min(n+30, len(recorded))
	return fmt.Sprintf(" (they begin to differ in line %d, where %q is recorded)", 1+strings.Count(recorded[:n], "\n"), strings.ToValidUTF8(recorded[from:to], ""))
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("script %q diverged at step %d: recorded at seq %d is %s; the code now asks for %s%s. "+
		"Nothing was done. Roll the code back, or keep the old way for runs that have passed here (Script.Patched): the run then goes on",
		e.Loop, e.Step, e.Seq, e.Recorded, e.Asked, e.Where)
}

// SameStep reports whether code asks for the step that is recorded. What was
// redacted in the record may be anything in the code.
func SameStep(recorded, asked events.StepPlanned) bool {
	if recorded.Op != asked.Op || recorded.Name != asked.Name || recorded.Continue != asked.Continue || recorded.Tools != asked.Tools ||
		recorded.Parser != asked.Parser || !slices.Equal(recorded.Validators, asked.Validators) || !sameText(recorded.Text, asked.Text) {
		return false
	}
	return slices.EqualFunc(recorded.Calls, asked.Calls, func(r, a events.ToolCall) bool {
		return r.Name == a.Name && sameArguments(r.Arguments, a.Arguments)
	})
}

// DescribeStep says a step of a script in words.
func DescribeStep(p events.StepPlanned) string {
	switch p.Op {
	case events.OpModel:
		how := ""
		if p.Continue {
			how += " in the conversation so far"
		}
		if p.Tools {
			how += " with tools"
		}
		return "a question to the model" + how + ": " + short(p.Text)
	case events.OpCalls:
		calls := make([]string, len(p.Calls))
		for i, c := range p.Calls {
			calls[i] = describePlannedCall(c)
		}
		return strings.Join(calls, " and ")
	case events.OpArtifact:
		text := fmt.Sprintf("the artifact %q (%s): %s", p.Name, p.Parser, short(p.Text))
		if len(p.Validators) > 0 {
			text += ", judged by " + strings.Join(p.Validators, ", ")
		}
		return text
	case events.OpPatch:
		return fmt.Sprintf("the patch %q", p.Name)
	}
	return fmt.Sprintf("a step %q", p.Op)
}

func describePlannedCall(c events.ToolCall) string {
	switch c.Name {
	case SleepTool:
		return "a sleep " + string(c.Arguments)
	case SignalTool:
		return "a wait for a signal " + string(c.Arguments)
	case ChildTool:
		return "a child run " + short(string(c.Arguments))
	}
	return fmt.Sprintf("a call of %s %s", c.Name, short(string(c.Arguments)))
}

const maxShort = 300

// short is a text, or what tells it from others. It is never cut: half a secret is
// not found by a redactor.
func short(s string) string {
	if len(s) <= maxShort {
		if strings.HasPrefix(s, "{") {
			return s
		}
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%d bytes, digest %s", len(s), digest([]byte(s)))
}

var marker = regexp.MustCompile(`\[REDACTED:[A-Za-z0-9_.-]{1,64}:[0-9a-f]{8}\]`)

// sameText reports whether recorded is asked with parts of it redacted, perhaps.
func sameText(recorded, asked string) bool {
	if recorded == asked {
		return true
	}
	if !redact.HasMarker([]byte(recorded)) {
		return false
	}
	parts := marker.Split(recorded, -1)
	if len(parts) < 2 || !strings.HasPrefix(asked, parts[0]) {
		return false
	}
	rest := asked[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

func sameArguments(recorded, asked json.RawMessage) bool {
	if bytes.Equal(recorded, asked) {
		return true
	}
	r, errR := canonical.JSON(recorded)
	a, errA := canonical.JSON(asked)
	if errR != nil || errA != nil {
		return false
	}
	if bytes.Equal(r, a) {
		return true
	}
	if !redact.HasMarker(r) {
		return false
	}
	x, okX := value(r)
	y, okY := value(a)
	return okX && okY && sameValue(x, y)
}

func value(raw []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

func sameValue(recorded, asked any) bool {
	switch r := recorded.(type) {
	case string:
		if a, ok := asked.(string); ok {
			return sameText(r, a)
		}
		return marker.FindString(r) == r && r != "" // of a name that is never shown
	case []any:
		a, ok := asked.([]any)
		return ok && slices.EqualFunc(r, a, sameValue)
	case map[string]any:
		a, ok := asked.(map[string]any)
		if !ok || len(a) != len(r) {
			return false
		}
		for name, v := range r {
			w, ok := a[name]
			if !ok && marker.MatchString(name) {
				continue
			}
			if !ok || !sameValue(v, w) {
				return false
			}
		}
		return true
	}
	return recorded == asked
}
