package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools"
)

// Bounds of notes in bytes: of one entry, and of what is read at once.
const (
	maxNote      = 8 << 10
	maxNotesRead = 48 << 10
)

// Notes returns notes, a board on which the model posts entries for itself and
// reads them again. It keeps nothing: an entry is the recorded call that posted
// it, so notes last as long as their run, survive crashes and takeovers, and go
// with a fork. What is posted in a turn is on the board from the next turn on. See
// docs/decisions/0013.
func Notes() tools.Tool {
	return must(tools.New(tools.Definition{
		Name: "notes",
		Description: "A board for your own notes in this task. With post it puts an entry up; without post it returns all entries, the oldest first. " +
			"An entry can be read from the next turn on.",
		Aliases: []string{"scratchpad", "remember", "jot down", "board"},
		Effect:  tools.Readonly,
		Trust:   tools.Own,
		Timeout: 10 * time.Second,
	}, func(_ context.Context, inv *tools.Invocation, in struct {
		Post *string `json:"post,omitempty" jsonschema:"the entry to put up; leave it out to read"`
	},
	) (string, error) {
		if inv.Past == nil {
			return "", errors.New("notes cannot be kept here")
		}
		if in.Post == nil {
			return board(inv.Past.Completed("notes")), nil
		}
		problem := ""
		switch {
		case strings.TrimSpace(*in.Post) == "":
			problem = "post: the entry is empty; leave post out to read"
		case len(*in.Post) > maxNote:
			problem = fmt.Sprintf("post: %d bytes, at most %d are allowed", len(*in.Post), maxNote)
		default:
			return "posted", nil
		}
		return "", &tools.ArgumentError{Tool: "notes", Problems: []string{problem}}
	}))
}

// board lists the entries. Of more than can be read at once the latest stay.
func board(past []tools.PastCall) string {
	var entries []string
	for _, c := range past {
		var in struct {
			Post *string `json:"post"`
		}
		if json.Unmarshal(c.Arguments, &in) == nil && in.Post != nil {
			entries = append(entries, fmt.Sprintf("%d. %s", len(entries)+1, *in.Post))
		}
	}
	if len(entries) == 0 {
		return "there are no notes"
	}
	first, size := len(entries), 0
	for first > 0 && size+len(entries[first-1])+1 <= maxNotesRead {
		first--
		size += len(entries[first]) + 1
	}
	text := strings.Join(entries[first:], "\n")
	if first > 0 {
		return fmt.Sprintf("(the %d oldest notes are left out)\n%s", first, text)
	}
	return text
}
