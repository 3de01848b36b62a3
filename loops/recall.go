package loops

import (
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// NewOriginal returns an empty history that leaves compactions out: its transcript is
// the whole original. It is for reading; no loop is asked about it.
func NewOriginal(run events.RunID) *History {
	o := NewHistory(run)
	o.whole = true
	return o
}

// TurnText returns what was said in a turn, word for word: the messages of the user
// before it, the answer, and what its calls gave. Empty = there is no such turn.
func (h *History) TurnText(turn int) string {
	first, last := -1, -1
	for i, n := range h.marks {
		if n == turn && turn > 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return ""
	}
	for first > 0 && h.marks[first-1] == 0 && h.messages[first-1].Role == model.User {
		first--
	}
	var b strings.Builder
	for i, m := range h.messages[first : last+1] {
		if i > 0 {
			b.WriteByte('\n')
		}
		switch m.Role {
		case model.Assistant:
			b.WriteString("agent: " + m.Text)
			for _, c := range m.Calls {
				fmt.Fprintf(&b, "\ncalls %s: %s", c.Name, c.Arguments)
			}
		case model.Tool:
			for j, r := range m.Results {
				if j > 0 {
					b.WriteByte('\n')
				}
				fmt.Fprintf(&b, "result of %s: %s", r.Name, r.Text)
			}
		default:
			b.WriteString("user: " + m.Text)
		}
	}
	return b.String()
}
