package redact

import (
	"fmt"
	"io"
)

// Error returns an error with the redacted text of err; nil stays nil. No
// formatting verb shows more than that text, but [errors.Is] and [errors.As]
// still reach err, so what they take out of it must be redacted in its turn.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*redactedError); ok && e.by() == r.state() { //nolint:errorlint // only the outermost is complete
		return e
	}
	return &redactedError{text: r.String(errorText(err)), by: r.state, cause: func() error { return err }}
}

// errorText survives an Error method that panics.
func errorText(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("%T: its text cannot be read", err)
		}
	}()
	return err.Error()
}

// redactedError keeps the original behind a function, where nothing that
// prints values by reflection can reach it.
type redactedError struct {
	text  string
	by    func() *state
	cause func() error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.cause() }

// MarshalText makes the error show in JSON as its text.
func (e *redactedError) MarshalText() ([]byte, error) { return []byte(e.text), nil }

func (e *redactedError) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		_, _ = fmt.Fprintf(f, "%q", e.text)
		return
	}
	_, _ = io.WriteString(f, e.text)
}
