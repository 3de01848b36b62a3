package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
)

// Archived is a row of events or set_aside as it is stored: what the columns
// say, and the bytes. For set_aside only the columns that it has are set.
type Archived struct {
	Columns events.Envelope
	Hash    events.Hash
	Bytes   []byte
}

// EpochBase is a row of run_epochs.
type EpochBase struct {
	Epoch, Seq uint64
	Hash       events.Hash
}

// RunCheck checks the history of one run row by row, in order of seq, and calls
// a function with what it finds; an error of that function ends the check. Its
// memory grows with the run's epochs, not with its events.
//
// Checked by chain alone, a history proves that nobody changed, removed, moved
// or added a part of it. It does not prove that the whole was not replaced, or
// that the end of a run that still goes on was not cut off: only a checkpoint
// kept elsewhere does.
type RunCheck struct {
	run    Run // ID is always set; the rest only if known
	known  bool
	epochs []EpochBase
	found  func(Finding) error

	next     uint64 // expected seq
	prev     events.Hash
	broken   bool // prev is not known: an event is missing before
	last     events.Envelope
	terminal events.Type // of the terminal event, once seen
	ended    uint64      // its seq
	aside    int         // rows that resumes say they set aside
	asideHas int
	passed   map[uint64]events.Hash // hash at each base, once passed
	used     map[uint64]bool        // epochs with events
	events   int64
	origin   events.Hash // of the event that the run's own events go on from, if the archive has it
}

// NewRunCheck starts the check of one run. known says that the runs table has
// it; epochs are its rows of run_epochs in order.
func NewRunCheck(run Run, known bool, epochs []EpochBase, found func(Finding) error) *RunCheck {
	c := &RunCheck{
		run: run, known: known, epochs: epochs, found: found,
		next: 1, prev: events.Genesis(run.ID), passed: map[uint64]events.Hash{}, used: map[uint64]bool{},
	}
	c.passed[0] = c.prev
	return c
}

// Origin tells the check of a fork, or of a run that goes on in a session, the hash of
// the event at which its own events go on; zero if the archive does not have it.
func (c *RunCheck) Origin(h events.Hash) { c.origin = h }

func (c *RunCheck) report(seq uint64, kind FindingKind, format string, args ...any) error {
	return c.found(Finding{Run: c.run.ID, Seq: seq, Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Event checks the next row of events. It returns the event for the fold, and
// ok only if the row is whole and this build can read it.
func (c *RunCheck) Event(a Archived) (e events.Event, ok bool, err error) {
	c.events++
	s, whole, err := c.bytes(a)
	if err != nil {
		return e, false, err
	}
	whole = whole && !s.IsZero()
	seq := a.Columns.Seq
	env := a.Columns
	if !s.IsZero() {
		env = s.Envelope()
		fits, err := c.columns(a.Columns, env)
		if err != nil {
			return e, false, err
		}
		whole = whole && fits
	}
	if seq > c.next {
		c.broken = true
		if err := c.report(c.next, Incomplete, "events %s missing, the archive goes on at %d", span(c.next, seq-1), seq); err != nil {
			return e, false, err
		}
	}
	if err := c.follows(seq, env); err != nil {
		return e, false, err
	}
	if !s.IsZero() {
		var decode error
		if e, decode = s.Decode(); decode != nil {
			whole = false
			kind := Tampered
			if errors.Is(decode, events.ErrUnknownType) || errors.Is(decode, events.ErrUnknownVersion) {
				kind = Note
			}
			if err := c.report(seq, kind, "data cannot be read: %v", decode); err != nil {
				return e, false, err
			}
		} else if err := c.place(seq, env, e.Data); err != nil {
			return e, false, err
		}
	}
	c.next, c.prev, c.broken, c.last = seq+1, a.Hash, false, env
	for _, b := range c.epochs {
		if b.Seq == seq {
			c.passed[seq] = a.Hash
		}
	}
	return e, whole, nil
}

// bytes checks the bytes against their hash and reads them. s is zero if they
// are no event.
func (c *RunCheck) bytes(a Archived) (s events.Sealed, whole bool, err error) {
	seq := a.Columns.Seq
	sum := events.Hash(sha256.Sum256(a.Bytes))
	whole = sum == a.Hash
	if !whole {
		if err := c.report(seq, Tampered, "bytes do not fit their hash: stored %s, the bytes give %s", a.Hash, sum); err != nil {
			return s, false, err
		}
	}
	s, perr := events.Parse(a.Bytes, sum)
	if perr != nil {
		return events.Sealed{}, false, c.report(seq, Tampered, "bytes are no event: %v", perr)
	}
	return s, whole, nil
}

// columns compares what the columns say with what the bytes say.
func (c *RunCheck) columns(col, env events.Envelope) (fits bool, err error) {
	fits = true
	for _, d := range []struct {
		name      string
		col, want any
	}{
		{"run_id", col.RunID, env.RunID},
		{"seq", col.Seq, env.Seq},
		{"epoch", col.Epoch, env.Epoch},
		{"event_id", col.ID, env.ID},
		{"type", col.Type, env.Type},
		{"version", col.Version, env.Version},
		{"time", col.Time.Format(time.RFC3339Nano), env.Time.Format(time.RFC3339Nano)},
		{"tenant", col.Tenant, env.Tenant},
		{"session_id", col.SessionID, env.SessionID},
		{"trace", col.Trace, env.Trace},
		{"prev", col.Prev, env.Prev},
	} {
		if d.col != d.want {
			fits = false
			if err := c.report(col.Seq, Tampered, "column %s is %v, the bytes say %v", d.name, d.col, d.want); err != nil {
				return false, err
			}
		}
	}
	return fits, nil
}

// follows checks an event against the one before it and against the epochs.
func (c *RunCheck) follows(seq uint64, env events.Envelope) error {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if !c.broken && env.Prev != c.prev {
		fault("prev is %s, the event before has %s", env.Prev, c.prev)
	}
	if env.Epoch < c.last.Epoch {
		fault("epoch %d after epoch %d", env.Epoch, c.last.Epoch)
	}
	if env.Time.Before(c.last.Time) {
		fault("time %s is before %s of seq %d", env.Time.Format(time.RFC3339Nano), c.last.Time.Format(time.RFC3339Nano), c.last.Seq)
	}
	if c.known && env.Tenant != c.run.Tenant {
		fault("tenant is %q, the run's is %q", env.Tenant, c.run.Tenant)
	}
	own := false
	for _, b := range c.epochs {
		switch {
		case b.Epoch == env.Epoch:
			own = true
			if env.Seq <= b.Seq {
				fault("epoch %d starts after seq %d", b.Epoch, b.Seq)
			}
		case b.Epoch > env.Epoch && env.Seq > b.Seq:
			fault("of epoch %d, but epoch %d starts after seq %d: it should have been set aside", env.Epoch, b.Epoch, b.Seq)
		}
	}
	if !own && c.known {
		fault("epoch %d was never given", env.Epoch)
	}
	for _, f := range faults {
		if err := c.report(seq, Tampered, "%s", f); err != nil {
			return err
		}
	}
	return nil
}

// place checks that an event may stand where it stands.
func (c *RunCheck) place(seq uint64, env events.Envelope, data events.Payload) error {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if q, ok := data.(events.RunQueued); ok != (seq == 1) {
		fault("%s at seq %d: run_queued is the first event, and only it", env.Type, seq)
	} else if ok && c.known {
		c.queued(q, fault)
	}
	if r, ok := data.(events.RunResumed); ok {
		c.aside += r.SetAside
		c.resumed(env, r, fault)
	} else if !c.used[env.Epoch] && seq > 1 && c.terminal == "" {
		fault("the first event of epoch %d is %s, want run_resumed", env.Epoch, env.Type)
	}
	c.used[env.Epoch] = true
	if c.terminal != "" && !mayFollowEnd(data) {
		fault("%s after the end of the run at seq %d", env.Type, c.ended)
	}
	if events.Terminal(env.Type) && c.terminal == "" {
		c.terminal, c.ended = env.Type, seq
	}
	for _, f := range faults {
		if err := c.report(seq, Tampered, "%s", f); err != nil {
			return err
		}
	}
	return nil
}

// queued compares the first event with the runs row that it was made from.
func (c *RunCheck) queued(q events.RunQueued, fault func(string, ...any)) {
	if q.Agent != c.run.Agent && !redacted(q.Agent) {
		fault("agent is %q in run_queued, %q in runs", q.Agent, c.run.Agent)
	}
	if q.Owner != c.run.Owner && !redacted(q.Owner) {
		fault("owner is %q in run_queued, %q in runs", q.Owner, c.run.Owner)
	}
	if q.Root != c.run.Root {
		fault("root is %s in run_queued, %s in runs", q.Root, c.run.Root)
	}
	if q.Parent != c.run.Parent {
		fault("parent is %s in run_queued, %s in runs", q.Parent, c.run.Parent)
	}
	var f events.Fork
	if q.Fork != nil {
		f = *q.Fork
	} else if q.Guard != nil {
		f.Effects = q.Guard.Effects
	}
	if f.Run != c.run.ForkOf || f.Seq != c.run.ForkSeq || f.Effects != string(c.run.ForkEffects) {
		fault("it begins with run %s up to event %d, effects %q, in run_queued; with run %s up to event %d, effects %q, in runs",
			f.Run, f.Seq, f.Effects, c.run.ForkOf, c.run.ForkSeq, c.run.ForkEffects)
	}
	if string(q.Loop) != string(c.run.Loop) {
		fault("its loop is %s in run_queued, %s in runs", shown(q.Loop), shown(c.run.Loop))
	}
	if string(q.Prompt) != string(c.run.Prompt) {
		fault("its prompt is %s in run_queued, %s in runs", shown(q.Prompt), shown(c.run.Prompt))
	}
	if !c.origin.IsZero() && q.Fork != nil && f.Hash != c.origin {
		fault("it begins with event %d of run %s as hash %s, that event has %s", f.Seq, f.Run, f.Hash, c.origin)
	}
	c.inSession(q, fault)
}

// inSession compares what the first event says of the session with the runs row, and
// with the event that the run goes on from.
func (c *RunCheck) inSession(q events.RunQueued, fault func(string, ...any)) {
	var p events.SessionPlace
	if q.Session != nil {
		p = *q.Session
	}
	if p.Place != c.run.SessionPlace {
		fault("its place in the session is %d in run_queued, %d in runs", p.Place, c.run.SessionPlace)
	}
	if o := (Origin{p.Run, p.Seq, p.Hash}); o != c.run.Continues {
		fault("it goes on from event %d of run %s, hash %s, in run_queued; from event %d of run %s, hash %s, in runs",
			o.Seq, o.Run, o.Hash, c.run.Continues.Seq, c.run.Continues.Run, c.run.Continues.Hash)
	}
	if !c.origin.IsZero() && !p.Run.IsZero() && p.Hash != c.origin {
		fault("it goes on from event %d of run %s as hash %s, that event has %s", p.Seq, p.Run, p.Hash, c.origin)
	}
}

func shown(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "its agent's"
	}
	return string(raw)
}

func redacted(s string) bool { return strings.Contains(s, "[REDACTED:") }

// resumed compares a run_resumed with the epoch's row and the event at its base.
func (c *RunCheck) resumed(env events.Envelope, r events.RunResumed, fault func(string, ...any)) {
	if r.Epoch != env.Epoch {
		fault("run_resumed of epoch %d in epoch %d", r.Epoch, env.Epoch)
	}
	if c.used[env.Epoch] {
		fault("a second run_resumed in epoch %d", env.Epoch)
	}
	for _, b := range c.epochs {
		if b.Epoch == r.Epoch && (b.Seq != r.BaseSeq || b.Hash != r.BaseHash) {
			fault("base is seq %d hash %s in run_resumed, seq %d hash %s in run_epochs", r.BaseSeq, r.BaseHash, b.Seq, b.Hash)
		}
	}
	if r.BaseSeq != env.Seq-1 {
		fault("run_resumed at seq %d names base seq %d", env.Seq, r.BaseSeq)
	} else if !c.broken && r.BaseHash != c.prev {
		fault("run_resumed names base hash %s, the event there has %s", r.BaseHash, c.prev)
	}
}

// mayFollowEnd reports whether data may stand behind a terminal event: only
// facts may, and what a settling holder says of itself.
func mayFollowEnd(data events.Payload) bool {
	switch data.(type) {
	case events.RunQueued, events.RunStarted, events.RunParked, events.RunFinished, events.RunFailed, events.RunCancelled,
		events.TurnStarted, events.StepPlanned, events.ModelCallStarted, events.ToolExecutionProgress, events.ToolExecutionBlocked,
		events.ArtifactValidationStarted, events.ArtifactValidationFinished, events.ArtifactRevisionStarted, events.ArtifactFinished, events.ArtifactFailed, events.TranscriptCompacted:
		return false
	}
	return true
}

// SetAside checks a row of set_aside, in any order.
func (c *RunCheck) SetAside(a Archived) error {
	c.asideHas++
	seq := a.Columns.Seq
	s, _, err := c.bytes(a)
	if err != nil || s.IsZero() {
		return err
	}
	env := s.Envelope()
	if env.RunID != a.Columns.RunID || env.Seq != seq || env.Epoch != a.Columns.Epoch || env.ID != a.Columns.ID {
		return c.report(seq, Tampered, "set aside: columns say run %s epoch %d event %s, the bytes run %s seq %d epoch %d event %s",
			a.Columns.RunID, a.Columns.Epoch, a.Columns.ID, env.RunID, env.Seq, env.Epoch, env.ID)
	}
	if !slices.ContainsFunc(c.epochs, func(b EpochBase) bool { return b.Epoch > env.Epoch && seq > b.Seq }) {
		return c.report(seq, Tampered, "set aside: event of epoch %d, but no later epoch starts before it", env.Epoch)
	}
	return nil
}

// End checks what can only be said after the last row. top is the highest seq
// that the fold's row says the archive has had.
func (c *RunCheck) End(top uint64) error {
	var err error
	report := func(seq uint64, kind FindingKind, format string, args ...any) {
		if err == nil {
			err = c.report(seq, kind, format, args...)
		}
	}
	has := c.next - 1
	if has < top && !bug.On(bug.VerifyIgnoresTail) {
		report(has+1, Incomplete, "events %s missing at the end: the archive has had them", span(has+1, top))
	}
	var before EpochBase
	for _, b := range c.epochs {
		h, ok := c.passed[b.Seq]
		switch {
		case b.Seq > has:
			report(b.Seq, Incomplete, "epoch %d starts after seq %d, the archive ends at %d", b.Epoch, b.Seq, has)
		case ok && h != b.Hash:
			report(b.Seq, Tampered, "base of epoch %d is hash %s in run_epochs, the event there has %s", b.Epoch, b.Hash, h)
		}
		if b.Seq < before.Seq {
			report(0, Tampered, "epoch %d starts after seq %d, before epoch %d at %d", b.Epoch, b.Seq, before.Epoch, before.Seq)
		}
		if !c.used[b.Epoch] {
			report(0, Note, "epoch %d has no events", b.Epoch)
		}
		before = b
	}
	if c.asideHas < c.aside {
		report(0, Incomplete, "takeovers set %d events aside, %d are kept", c.aside, c.asideHas)
	}
	if !c.known {
		report(0, Tampered, "%d events of a run that is not in runs", c.events)
		return err
	}
	if !c.run.ForkOf.IsZero() && c.origin.IsZero() {
		report(0, Incomplete, "the history it begins with is missing: event %d of run %s", c.run.ForkSeq, c.run.ForkOf)
	}
	if o := c.run.Continues; !o.IsZero() && c.origin.IsZero() {
		report(0, Incomplete, "the history it goes on from is missing: event %d of run %s, of the same tenant and session", o.Seq, o.Run)
	}
	want := map[State]events.Type{
		Finished:  events.TypeOf(events.RunFinished{}),
		Failed:    events.TypeOf(events.RunFailed{}),
		Cancelled: events.TypeOf(events.RunCancelled{}),
	}[c.run.State]
	switch {
	case want == "" && c.terminal != "":
		report(c.ended, Note, "%s is recorded, the run is still %s: its holder, or the next one, sets the state", c.terminal, c.run.State)
	case want != "" && c.terminal == "":
		report(has+1, Incomplete, "the run is %s, and its %s is missing", c.run.State, want)
	case want != c.terminal:
		report(c.ended, Tampered, "the run is %s, and its terminal event is %s", c.run.State, c.terminal)
	}
	return err
}

// Top is the seq of the last event seen.
func (c *RunCheck) Top() uint64 { return c.next - 1 }

func span(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("%d", from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}
