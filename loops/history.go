package loops

import (
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// History is what the events of one run add up to. It is folded event by event
// and never rebuilt: [History.Apply] costs the same for the ten thousandth
// event as for the first. It belongs to one goroutine. What its accessors
// return belongs to the history and is not to be modified.
type History struct {
	run   events.RunID
	seq   uint64
	hash  events.Hash
	epoch uint64
	time  time.Time
	// before is the time of the event before the last one.
	before time.Time
	ids    map[events.ID]struct{}

	origin origin             // of a fork: what was inherited
	bound  *events.RunStarted // of a fork: what its origin was bound to
	base   int                // turns of the runs before in its session
	left   string             // why the run before in its session was not finished

	first    *events.RunQueued // that of the oldest run whose history this is
	begun    time.Time         // when that was started
	data     events.Payload    // that is being folded
	plans    []*Planned        // of a script
	asked    int               // turns that the model was asked in
	queued   *events.RunQueued
	started  *events.RunStarted
	parked   *events.RunParked
	cancel   *events.OperatorActed
	terminal events.Type
	usage    events.Usage
	spent    events.PicoUSD
	unpriced int
	external *External

	turn     turn
	messages []model.Message
	marks    []int // the turn of each message, 0 = of none
	pinned   int   // index of the input of the run, of a fork: of the oldest run
	// told is the index of the latest fork's own instruction, and telling its place
	// among the notes until it is one of the messages; 0 = there is none.
	told, telling int
	size          int64 // of all messages, in bytes
	filled        filled
	// compacted counts compactions; firstCompacted is the first turn that the last
	// one covers, past are calls of what they replaced.
	compacted, firstCompacted int
	past                      []pastCall
	whole                     bool // compactions are left out
	// notes wait for the moment before the next model call.
	notes []string
	// unknown are calls, of any turn, that the model was told are unknown.
	unknown []events.ToolExecutionInDoubt
	offer   *offer
	// revision is that of the last artifact_revision_started, 0 before.
	revision int
	routes   routes
	// endpoints are those of pools that answered last, by model.
	endpoints map[string]string
}

// turn is what is known of the turn in hand; it is replaced when the next opens.
type turn struct {
	number      int
	basis       Basis
	answer      *events.ModelCallFinished
	open        []int // attempts of the model call that have no outcome yet
	attempts    int   // the highest number seen
	failures    int   // attempts that ended in an error
	lastError   *events.ModelCallError
	route       turnRoute
	calls       []call
	outstanding int // calls without an outcome
	told        bool
	control     int // index of the first call that ends the run, or -1
	validation  *events.ArtifactValidationFinished
	revised     bool      // a revision of the answer was asked for
	op          events.Op // of the step of a script that opened it
	accepted    *events.ArtifactFinished
	rejected    *events.ArtifactFailed
	compacting  *compacting // nil before a model was asked to compact
	compactions int         // done in this turn
	over        bool        // another run's: the next call is another turn's
}

// offer is what the model was last shown.
type offer struct {
	turn  int
	after int // messages in the transcript at that time
	tools []string
}

// call is a tool call of the turn in hand.
type call struct {
	id       events.CallID
	asked    events.ToolCall
	attempts int // the highest number seen
	open     []OpenCall
	doubt    *events.ToolExecutionInDoubt
	handed   *HandedOff // its outcome comes from outside
	outcome  *model.Result
	result   events.ToolResult
	end      events.Payload // that gave it its outcome
}

// OpenCall is an execution that was started and has no outcome yet. After a
// takeover only destructive ones are left open: whether they are begun again,
// replayed or in doubt is for Begin to say.
type OpenCall struct {
	ID       events.CallID
	Attempt  int
	Tool     string
	Ref      *events.EffectRef // nil unless destructive
	Deadline time.Time
}

// NewHistory returns the empty history of a run; its first event has sequence 1.
func NewHistory(run events.RunID) *History {
	return &History{
		run:  run,
		hash: events.Genesis(run),
		ids:  map[events.ID]struct{}{},
		turn: turn{control: -1},
	}
}

// FoldError says which event does not continue the history, and why. It wraps
// [events.ErrGap] if events are missing, [events.ErrBrokenChain] if the event
// cannot follow the last one, [events.ErrUnknownType] if it has no data that
// this build can fold.
type FoldError struct {
	Run events.RunID
	Seq uint64
	// What does not fit: run, seq, prev, epoch, time or data.
	What      string
	Want, Got string
	Err       error
}

func (e *FoldError) Error() string {
	return fmt.Sprintf("fold run %s seq %d: %s is %s, want %s: %v", e.Run, e.Seq, e.What, e.Got, e.Want, e.Err)
}

// Unwrap returns the sentinel behind the refusal.
func (e *FoldError) Unwrap() error { return e.Err }

// Apply folds the next event. An event that does not continue the history is
// refused with a [*FoldError] and changes nothing. Events that come too late to
// matter are accepted: they are part of the record and count as cost.
func (h *History) Apply(e events.Event) error {
	if err := h.check(e); err != nil {
		return err
	}
	h.before = h.time
	h.seq, h.hash, h.epoch, h.time = e.Seq, e.Hash, e.Epoch, e.Time
	h.ids[e.ID] = struct{}{}
	h.count(e.Data)
	h.pay(e.Data)
	if h.terminal == "" {
		h.fold(e)
		h.tell()
		h.progress(e.Time)
	}
	return nil
}

func (h *History) check(e events.Event) error {
	refuse := func(err error, what string, want, got any) error {
		return &FoldError{Run: h.run, Seq: e.Seq, What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got), Err: err}
	}
	switch {
	case e.RunID != h.run:
		return refuse(events.ErrBrokenChain, "run", h.run, e.RunID)
	case e.Seq > h.seq+1:
		return refuse(events.ErrGap, "seq", h.seq+1, e.Seq)
	case e.Seq != h.seq+1:
		return refuse(events.ErrBrokenChain, "seq", h.seq+1, e.Seq)
	case e.Prev != h.hash:
		return refuse(events.ErrBrokenChain, "prev", h.hash, e.Prev)
	case e.Epoch < h.epoch:
		return refuse(events.ErrBrokenChain, "epoch", fmt.Sprintf("%d or more", h.epoch), e.Epoch)
	case e.Time.Before(h.time):
		return refuse(events.ErrBrokenChain, "time", h.time.Format(time.RFC3339Nano)+" or later", e.Time.Format(time.RFC3339Nano))
	case e.Data == nil:
		return refuse(events.ErrUnknownType, "data", "the data of a "+string(e.Type), "nothing")
	}
	return h.checkBranch(e)
}

// Run returns the run whose history this is.
func (h *History) Run() events.RunID { return h.run }

// Seq returns the sequence of the last event, 0 before the first.
func (h *History) Seq() uint64 { return h.seq }

// Hash returns the hash of the last event: what the next one names as prev.
func (h *History) Hash() events.Hash { return h.hash }

// Epoch returns the lease epoch of the last event, 0 before the first.
func (h *History) Epoch() uint64 { return h.epoch }

// Time returns the time of the last event, the only clock a loop may read.
func (h *History) Time() time.Time { return h.time }

// Has reports whether the event with that id is in the history, so that a fact
// is not recorded twice.
func (h *History) Has(id events.ID) bool {
	_, ok := h.ids[id]
	return ok
}

// Queued returns how the run was submitted, nil before run_queued.
func (h *History) Queued() *events.RunQueued { return h.queued }

// Started returns what the run is bound to, nil before run_started.
func (h *History) Started() *events.RunStarted { return h.started }

// Parked returns what the run was last parked for, until it is unparked or a
// turn, a model call or a tool starts. A takeover alone does not clear it: the
// new holder can still see what the run waited for.
func (h *History) Parked() *events.RunParked { return h.parked }

// CancelRequested returns the first request to cancel the run, nil for none.
func (h *History) CancelRequested() *events.OperatorActed { return h.cancel }

// Terminal returns the type of the event that ended the run. A history that
// contains one is never given to [Loop.Next]; facts may still follow it.
func (h *History) Terminal() (events.Type, bool) { return h.terminal, h.terminal != "" }

// Usage returns the tokens of all model calls, late ones too. Missing is set if
// any of them came without a count.
func (h *History) Usage() events.Usage { return h.usage }

// SawExternal reports whether a tool result entered the transcript whose trust
// is external or unknown.
func (h *History) SawExternal() bool { return h.external != nil }

// External names the call whose result first brought text in from outside; the
// zero call is a signal's, or stands for the input of a run whose parent had read some.
type External struct {
	Call  events.CallID `json:"call"`
	Tool  string        `json:"tool"`
	Trust string        `json:"trust"` // empty = unknown
}

// External returns that call, nil for none.
func (h *History) External() *External { return h.external }

// Turn returns the number of the turn in hand, 0 before the first.
func (h *History) Turn() int { return h.turn.number }

// NextTurn returns the turn that the next model call belongs to: the turn in
// hand until it is answered, after that the one behind it.
func (h *History) NextTurn() int {
	if h.turn.number == 0 || h.turn.answer != nil || h.turn.over {
		return h.turn.number + 1
	}
	return h.turn.number
}

// Turns returns how many turns the run has begun: those of the runs before it in its
// session do not count, a fork's origin's do.
func (h *History) Turns() int {
	if h.turn.over {
		return 0
	}
	return h.turn.number - h.base
}

// Answer returns the model's answer in the turn in hand, nil before it came.
func (h *History) Answer() *events.ModelCallFinished { return h.turn.answer }

// ModelAttempts returns the highest attempt number seen for the model call of
// [History.NextTurn], over crashes too: the next attempt is one more. It is 0
// once the turn is answered, since the next call is another turn's.
func (h *History) ModelAttempts() int {
	if h.turn.answer != nil {
		return 0
	}
	return h.turn.attempts
}

// ModelFailures counts the attempts of that model call that ended in an error.
// An attempt cut short by a crash is none: a crash says nothing about the call.
func (h *History) ModelFailures() int {
	if h.turn.answer != nil {
		return 0
	}
	return h.turn.failures
}

// LastModelError returns how the last attempt of that model call failed; nil if
// none did.
func (h *History) LastModelError() *events.ModelCallError {
	if h.turn.answer != nil {
		return nil
	}
	return h.turn.lastError
}

// Offered returns the tools that the last model call was shown, as recorded,
// and whether they are still the ones to show: for another attempt of that call,
// and as long as no user message has come since. Nil before the first call.
func (h *History) Offered() (tools []string, current bool) {
	if h.offer == nil {
		return nil, false
	}
	since := h.messages[min(h.offer.after, len(h.messages)):]
	user := slices.ContainsFunc(since, func(m model.Message) bool { return m.Role == model.User })
	return h.offer.tools, !user || h.offer.turn == h.NextTurn()
}

// OpenModelAttempts returns the attempts of the model call in hand that have
// no outcome yet.
func (h *History) OpenModelAttempts() []int { return slices.Clone(h.turn.open) }

// Messages returns the transcript: the run's input as the first user message,
// the answers, and a turn's tool results in request order once all its calls
// have an outcome. What was compacted is in it as the model is told of it.
func (h *History) Messages() []model.Message { return slices.Clip(h.messages) }

// Pending returns the calls of the turn in hand that have no outcome, in
// request order. Calls in doubt are among them, see [History.InDoubt]; those
// handed off are not, see [History.HandedOff].
func (h *History) Pending() []PendingCall {
	if h.turn.outstanding == 0 {
		return nil
	}
	ps := make([]PendingCall, 0, h.turn.outstanding)
	for i := range h.turn.calls {
		if c := &h.turn.calls[i]; c.outcome == nil && c.handed == nil {
			ps = append(ps, PendingCall{
				ID: c.id, Attempt: c.attempts + 1,
				Name: c.asked.Name, Arguments: c.asked.Arguments, Malformed: c.asked.Malformed, Planned: h.turn.op == events.OpCalls,
			})
		}
	}
	return ps
}

// OpenCalls returns the executions of the turn in hand that were started and
// have no outcome, in request order.
func (h *History) OpenCalls() []OpenCall {
	var os []OpenCall
	for i := range h.turn.calls {
		os = append(os, h.turn.calls[i].open...)
	}
	return os
}

// InDoubt returns the calls of the turn in hand that nobody can know about and
// that the run has to wait for, in request order.
func (h *History) InDoubt() []events.ToolExecutionInDoubt {
	if h.turn.outstanding == 0 {
		return nil
	}
	var ds []events.ToolExecutionInDoubt
	for i := range h.turn.calls {
		if d := h.turn.calls[i].doubt; d != nil {
			ds = append(ds, *d)
		}
	}
	return ds
}

// Unknown returns the calls, of any turn, that the model was told are unknown
// and that nobody has settled since. The run does not wait for them.
func (h *History) Unknown() []events.ToolExecutionInDoubt { return slices.Clone(h.unknown) }

// Control returns the result that asks to end the run: of the first call of
// the turn in hand, in request order, that carries a Control. Nil for none.
func (h *History) Control() *events.ToolResult {
	if h.turn.control < 0 {
		return nil
	}
	return &h.turn.calls[h.turn.control].result
}

// Validation returns the last verdict on the artifact of the turn in hand, nil
// for none.
func (h *History) Validation() *events.ArtifactValidationFinished { return h.turn.validation }

// Revision returns how many revisions of the artifact were asked for.
func (h *History) Revision() int { return h.revision }

// Revised reports whether a revision of the answer in hand was asked for: the next
// turn is to answer that.
func (h *History) Revised() bool { return h.turn.revised }

// Accepted returns the artifact that the turn in hand ended with, nil for none.
func (h *History) Accepted() *events.ArtifactFinished { return h.turn.accepted }

// Rejected returns how the revisions ended without an artifact in the turn in
// hand, nil if they did not.
func (h *History) Rejected() *events.ArtifactFailed { return h.turn.rejected }
