package loops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/internal/canonical"
)

// Selection is a loop and its options: what an agent, or the submission of a run,
// says about how the run works. In JSON it is one object, {"strategy": "revise",
// "max_revisions": 2}, or only the name of a loop without options. The zero value
// selects nothing.
type Selection struct {
	Strategy string
	// Options are a JSON object without "strategy"; nil = none.
	Options json.RawMessage
}

// IsZero reports whether nothing is selected.
func (s Selection) IsZero() bool { return s.Strategy == "" && len(s.Options) == 0 }

// MarshalJSON implements [json.Marshaler].
func (s Selection) MarshalJSON() ([]byte, error) {
	if len(s.Options) == 0 {
		return json.Marshal(s.Strategy)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(s.Options, &fields); err != nil {
		return nil, fmt.Errorf("options of loop %q: want a JSON object: %w", s.Strategy, err)
	}
	if _, ok := fields[strategy]; ok {
		return nil, fmt.Errorf("options of loop %q: %q is no option", s.Strategy, strategy)
	}
	name, err := json.Marshal(s.Strategy)
	if err != nil {
		return nil, err
	}
	fields[strategy] = name
	return json.Marshal(fields)
}

const strategy = "strategy"

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Selection) UnmarshalJSON(raw []byte) error {
	*s = Selection{}
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &s.Strategy); err != nil {
			return err
		}
		return s.check()
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return fmt.Errorf("loop: want a name, or an object with %q: %w", strategy, err)
	}
	if err := json.Unmarshal(fields[strategy], &s.Strategy); err != nil {
		return fmt.Errorf(`loop: "strategy" is %s, want the name of a loop`, fields[strategy])
	}
	delete(fields, strategy)
	if len(fields) > 0 {
		var err error
		if s.Options, err = canonical.Marshal(fields); err != nil {
			return fmt.Errorf("options of loop %q: %w", s.Strategy, err)
		}
	}
	return s.check()
}

func (s *Selection) check() error {
	if s.Strategy == "" {
		return errors.New("loop: the strategy is empty: name a loop")
	}
	return nil
}

// CheckOptions checks options of l and says what they name of the host's code. A
// loop that is not [Configured] takes none.
func CheckOptions(l Loop, options json.RawMessage) (Needs, error) {
	if c, ok := l.(Configured); ok {
		return c.Options(options)
	}
	if len(options) > 0 {
		return Needs{}, &OptionError{Message: fmt.Sprintf("the loop %s has no options", l.Name())}
	}
	return Needs{}, nil
}
