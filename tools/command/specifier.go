//go:build unix

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/internal/canonical"
)

// Reason says why an entry does not admit a call.
type Reason string

// Reasons.
const (
	Unenforced Reason = "unenforced" // specifiers are enforced for commands only
	Unreadable Reason = "unreadable" // the arguments hold no command
	Unsafe     Reason = "unsafe"     // the command is not one that [Parse] reads
	Uncovered  Reason = "uncovered"  // the specifier does not cover the command
)

// RejectionError is why an entry does not admit a call; its text is for people and models.
type RejectionError struct {
	Entry  Entry
	Reason Reason
	Err    error // more, for some reasons
}

func (e *RejectionError) Error() string {
	switch e.Reason {
	case Unenforced:
		return fmt.Sprintf("%q admits nothing: what stands in parentheses is enforced for commands only, not for %s", e.Entry.Raw, e.Entry.Name)
	case Unreadable:
		return fmt.Sprintf("%q does not admit the call: its command cannot be read: %v", e.Entry.Raw, e.Err)
	case Unsafe:
		return fmt.Sprintf("%q does not admit the command: %v", e.Entry.Raw, e.Err)
	}
	if e.Err != nil {
		return fmt.Sprintf("%q admits nothing: %v", e.Entry.Raw, e.Err)
	}
	return fmt.Sprintf("%q does not cover the command", e.Entry.Raw)
}

func (e *RejectionError) Unwrap() error { return e.Err }

// Enforced reports whether specifiers are enforced for the tool of this name,
// which must then take a shell-like command as its argument "command".
func Enforced(name string) bool { return slices.Contains([]string{Name, "Bash"}, name) }

// Rejection says why e does not admit a call with these arguments, as a
// [*RejectionError]; nil means that it does. It is the caller's to see that the
// call is one of e.Name.
func (e Entry) Rejection(args json.RawMessage) error {
	if e.Specifier == "" {
		return nil
	}
	if !Enforced(e.Name) {
		return &RejectionError{Entry: e, Reason: Unenforced}
	}
	command, err := commandIn(args)
	if err != nil {
		return &RejectionError{Entry: e, Reason: Unreadable, Err: err}
	}
	l, err := parse(command)
	if err != nil {
		return &RejectionError{Entry: e, Reason: Unsafe, Err: err}
	}
	ok, err := covers(e.Specifier, l)
	if !ok || err != nil {
		return &RejectionError{Entry: e, Reason: Uncovered, Err: err}
	}
	return nil
}

// commandIn reads the command, and refuses arguments that two readers could
// understand differently.
func commandIn(args json.RawMessage) (string, error) {
	plain, err := canonical.JSON(args) // no duplicate names
	if err != nil {
		return "", err
	}
	var members map[string]json.RawMessage // a struct would take "Command" too
	if err := json.Unmarshal(plain, &members); err != nil {
		return "", err
	}
	var command *string
	if err := json.Unmarshal(members["command"], &command); err != nil || command == nil {
		return "", errors.New(`there is no text "command"`)
	}
	return *command, nil
}

// covers reports whether a specifier covers a command.
func covers(specifier string, l line) (bool, error) {
	// A command is compared as it was written, with one space between words: spaces
	// in quotes are no runs between words, so a specifier with several does not match.
	spec := collapse(specifier)
	if prefix, ok := strings.CutSuffix(spec, ":*"); ok {
		parts := pieces(prefix)
		if len(parts) != 1 || parts[0] == "" {
			return false, errors.New(`what stands before ":*" must be the beginning of a command, without another "*"`)
		}
		return l.normal == parts[0] || strings.HasPrefix(l.normal, parts[0]+" "), nil
	}
	return matches(pieces(spec), l.normal), nil
}

// collapse makes one space of each run of spaces and tabs.
func collapse(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// pieces splits a pattern at its stars; \* is a star of the text.
func pieces(pattern string) []string {
	var all []string
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern) && pattern[i+1] == '*':
			i++
			b.WriteByte('*')
		case c == '*':
			all = append(all, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(all, b.String())
}

// matches reports whether s is the pieces in their order with anything between
// them. Each piece is looked for once, from where the last one ended: linear.
func matches(pieces []string, s string) bool {
	last := len(pieces) - 1
	if last == 0 {
		return s == pieces[0]
	}
	s, ok := strings.CutPrefix(s, pieces[0])
	if !ok {
		return false
	}
	for _, p := range pieces[1:last] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, pieces[last])
}
