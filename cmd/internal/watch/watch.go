// Package watch is how the commands show what a run is doing before it is recorded.
package watch

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/daybookhq/daybook/cmd/internal/terminal"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/runtime/system"
)

// Source is where the live messages of a run come from. Not safe for concurrent use.
type Source struct {
	Options system.Options
	Tenant  string
	Run     events.RunID

	conn   *system.Viewers
	viewer *jetstream.LiveViewer
}

// Open connects, unless it is connected. An error that wraps [system.ErrNoLive] says that no
// worker can be reached now; it may be tried again.
func (s *Source) Open() error {
	if s.viewer != nil {
		return nil
	}
	conn, err := system.OpenViewers(s.Options)
	if err != nil {
		return err
	}
	v, err := conn.Watch(s.Tenant, s.Run)
	if err != nil {
		conn.Close()
		return err
	}
	s.conn, s.viewer = conn, v
	return nil
}

// Messages is nil while there is no connection.
func (s *Source) Messages() <-chan events.Live {
	if s.viewer == nil {
		return nil
	}
	return s.viewer.Messages()
}

// Again asks for what is being written from its beginning.
func (s *Source) Again() {
	if s.viewer != nil {
		s.viewer.Again()
	}
}

// Close ends the watching.
func (s *Source) Close() {
	if s.viewer != nil {
		s.viewer.Close()
		s.conn.Close()
		s.viewer, s.conn = nil, nil
	}
}

// Next is the line that says that a run, after this attempt, is tried again as successor,
// which is of the same tenant; ok is false if it is not. The messages of that run are for
// another [Source] and another [Screen].
func Next(successor events.RunID, attempt int) (note string, ok bool) {
	if successor.IsZero() {
		return "", false
	}
	return fmt.Sprintf("[attempt %d: run %s]", attempt+1, successor), true
}

// Fatal reports whether trying again to open a source is of no use.
func Fatal(err error) bool { return err != nil && !errors.Is(err, system.ErrNoLive) }

// maxLines is how much of an answer stands on a terminal while it is written.
const maxLines = 12

// Screen shows live messages. On a terminal it draws one block, and draws it anew
// with each message, until Clear takes it away for what is recorded. Elsewhere it
// writes as it comes: the text, or with Lines one line for each message.
type Screen struct {
	Out   io.Writer
	Width int // of the terminal; 0 = none
	Lines bool
	// Again is called when something is missing; nil = nobody cares.
	Again func()

	fold   events.LiveFold
	at     events.Live
	note   string
	text   string
	calls  []string
	known  map[string]bool // calls that are shown whole
	drawn  int             // lines of the block
	inText bool            // not at the beginning of a line
}

// Show shows the next message.
func (s *Screen) Show(m events.Live) {
	step := s.fold.Apply(m)
	switch step {
	case events.LiveIgnore:
		return
	case events.LiveBegin, events.LiveAgain:
		s.at, s.text, s.note, s.calls, s.known = m, "", "", nil, map[string]bool{}
		if step == events.LiveAgain {
			s.note = "from the beginning again"
		}
	}
	if s.fold.Lost() && m.Kind != events.LiveProgress && m.Kind != events.LiveVoid {
		// What has a gap before it is not shown: the reset that is asked for here has all of it.
		if step == events.LiveAgain {
			s.Clear()
		}
		if step != events.LiveMore && s.Again != nil {
			s.Again()
		}
		return
	}
	if s.known == nil {
		s.known = map[string]bool{}
	}
	before := len(s.text)
	switch m.Kind {
	case events.LiveReset, events.LiveWhole:
		s.text = m.Text
		before = 0
	case events.LiveText:
		s.text += m.Text
	case events.LiveCall:
		key := fmt.Sprint(m.Call, m.Text != "")
		if s.known[key] {
			return
		}
		s.known[key] = true
		s.call(m)
	case events.LiveProgress:
		s.call(m)
	case events.LiveVoid:
		s.text, s.calls, s.note = "", nil, "this attempt has failed"
		before = 0
	}
	switch {
	case s.Width > 0:
		s.draw()
	case s.Lines:
		s.line(m)
	default:
		s.raw(m, step, s.text[min(before, len(s.text)):])
	}
}

func (s *Screen) call(m events.Live) {
	line := terminal.Clean(strings.TrimSpace(m.Call + "  " + m.Tool + " " + m.Text))
	for i, c := range s.calls {
		if strings.HasPrefix(c, m.Call+" ") {
			s.calls[i] = line
			return
		}
	}
	s.calls = append(s.calls, line)
}

// Clear takes the block off the terminal, or ends the line.
func (s *Screen) Clear() {
	if s.drawn > 0 {
		fmt.Fprintf(s.Out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
	if s.inText {
		fmt.Fprintln(s.Out)
		s.inText = false
	}
}

// Draw puts the block back below what was written meanwhile.
func (s *Screen) Draw() {
	if s.Width > 0 && (s.text != "" || len(s.calls) > 0) {
		s.draw()
	}
}

// Done forgets the answer: it is recorded.
func (s *Screen) Done() {
	s.Clear()
	s.text, s.calls, s.note = "", nil, ""
}

func (s *Screen) draw() {
	s.Clear()
	head := fmt.Sprintf("~ turn %d", s.at.Turn)
	if s.at.Attempt > 1 || s.at.Epoch > 1 {
		head += fmt.Sprintf(", attempt %d, epoch %d", s.at.Attempt, s.at.Epoch)
	}
	if s.note != "" {
		head += ", " + s.note
	}
	lines := []string{head + ", not recorded yet"}
	var text []string
	for _, l := range strings.Split(strings.TrimRight(s.text, "\n"), "\n") {
		text = append(text, terminal.Wrap(terminal.Clean(l), s.Width-4)...)
	}
	text = append(text, s.calls...)
	if n := len(text) - maxLines; n > 0 {
		text = append([]string{"…"}, text[n:]...)
	}
	for _, l := range append(lines, text...) {
		if rs := []rune(l); len(rs) > s.Width-4 {
			l = string(rs[:s.Width-5]) + "…"
		}
		fmt.Fprintf(s.Out, "  %s\n", l)
		s.drawn++
	}
}

func (s *Screen) line(m events.Live) {
	what := terminal.Clean(m.Text)
	if m.Call != "" {
		what = strings.TrimSpace(terminal.Clean(m.Call + " " + m.Tool + " " + m.Text))
	}
	fmt.Fprintln(s.Out, strings.TrimRight(fmt.Sprintf("   ~  turn %d, attempt %d, epoch %d  %-9s  %s", m.Turn, m.Attempt, m.Epoch, m.Kind, what), " "))
}

func (s *Screen) raw(m events.Live, step events.LiveStep, text string) {
	notice := ""
	switch {
	case step == events.LiveAgain:
		notice = fmt.Sprintf("[from the beginning again: turn %d, attempt %d, epoch %d]", m.Turn, m.Attempt, m.Epoch)
	case m.Kind == events.LiveVoid:
		notice = "[this attempt has failed: what was shown of it is void]"
	case m.Kind == events.LiveWhole:
		notice = "[corrected]"
	case m.Kind == events.LiveCall && m.Text != "", m.Kind == events.LiveProgress:
		notice = "[" + terminal.Clean(m.Call+" "+m.Tool+" "+m.Text) + "]"
	}
	if notice != "" {
		if s.inText {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintln(s.Out, notice)
		s.inText = false
	}
	if text == "" {
		return
	}
	for i, l := range strings.Split(text, "\n") {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprint(s.Out, terminal.Clean(l))
	}
	s.inText = !strings.HasSuffix(text, "\n")
}
