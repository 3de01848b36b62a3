package revise

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/daybookhq/daybook/internal/canonical"
)

// Text is the parser of artifacts that are the answer as it stands.
func Text(_ context.Context, _ Context, text string) (any, error) { return text, nil }

// JSON is the parser of artifacts that are one JSON value. A fence of three
// backticks around the whole answer, which models like to put there, is taken off;
// words beside the value are an error. Numbers stay as they are written
// ([json.Number]). What would be stored as something else than is judged is an
// error too: a name that an object has twice, text that is no UTF-8, and numbers
// that are too large or too exact for a float64 unless they are integers.
func JSON(_ context.Context, _ Context, text string) (any, error) {
	text = unfence(text)
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if err == io.EOF { //nolint:errorlint // Decode returns it as it is
			return nil, fmt.Errorf("the answer is empty, want one JSON value")
		}
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	end := d.InputOffset()
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // Token returns it as it is
		return nil, fmt.Errorf("the answer goes on after the JSON value, from byte %d on: write nothing else", end)
	}
	if _, err := canonical.JSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("the answer can be read in more than one way: %w", err)
	}
	if n, ok := inexact(v); ok {
		return nil, fmt.Errorf("the number %s is too large or too exact to be kept: write it shorter, or as a string", shortened(n))
	}
	return v, nil
}

// unfence takes a fence off that goes around the whole text.
func unfence(text string) string {
	s := strings.TrimSpace(text)
	const fence = "```"
	inner, opened := strings.CutPrefix(s, fence)
	inner, closed := strings.CutSuffix(inner, fence)
	_, body, lines := strings.Cut(inner, "\n")
	if !opened || !closed || !lines || strings.Contains(body, fence) {
		return s
	}
	return body
}

// Issues is the repairer that hands the model what was found, and asks for the
// whole artifact again.
func Issues(_ context.Context, at Context, _ any, refused Verdict) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Your answer was not accepted as %s. What is wrong with it:\n", at.Artifact)
	for _, i := range refused.Issues {
		b.WriteString("- ")
		if i.Path != "" {
			b.WriteString(i.Path + ": ")
		}
		b.WriteString(i.Message + "\n")
	}
	if len(refused.Issues) == 0 {
		b.WriteString("- no reason was given\n")
	}
	b.WriteString("Answer with the whole of it again, corrected, and with nothing else.")
	return b.String(), nil
}
