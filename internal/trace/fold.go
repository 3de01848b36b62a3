package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Options say what goes into spans beside names and numbers.
type Options struct {
	// Content puts what models and tools said, redacted as recorded, into the spans.
	Content bool
}

// Fold makes spans of one run's events. It belongs to one goroutine; the zero
// value is not usable.
type Fold struct {
	run    events.RunID
	opt    Options
	parent Parent
	root   *Span
	common []Attr // of every span
	open   map[SpanID]*Span
	asked  map[SpanID][]Attr // whom model calls without an outcome ask
	lease  *Span             // of the holder, nil between two
	last   Link              // the lease before
	parked *Span
	doubts map[events.CallID]*Span
	seq    uint64
	out    []Span
}

// New returns the fold of a run that nothing is known of.
func New(run events.RunID, o Options) *Fold {
	return &Fold{run: run, opt: o, open: map[SpanID]*Span{}, asked: map[SpanID][]Attr{}, doubts: map[events.CallID]*Span{}}
}

// Seq is that of the last event folded.
func (f *Fold) Seq() uint64 { return f.seq }

// Ended reports whether nothing is open any more and the run is over.
func (f *Fold) Ended() bool {
	return f.seq > 0 && f.root == nil && len(f.open) == 0 && len(f.doubts) == 0
}

// Apply folds the next event and returns the spans that ended with it. Events that
// were folded before are skipped: a feed may repeat itself. A fold that begins in
// the middle of a run (its first event was dropped by retention) makes what it can.
func (f *Fold) Apply(e events.Event) []Span {
	if e.Seq <= f.seq {
		return nil
	}
	f.seq, f.out = e.Seq, nil
	f.begin(e)
	switch p := e.Data.(type) {
	case events.RunQueued:
		f.queued(e, p)
	case events.RunStarted:
		f.started(e, p)
	case events.RunResumed:
		f.resumed(e, p)
	case events.RunParked:
		f.park(e, p)
	case events.RunUnparked:
		f.unpark(e.Time)
	case events.RunFinished:
		f.terminal(e.Time, p.StoppedBy, p.Turns, "", "")
	case events.RunFailed:
		f.terminal(e.Time, p.StoppedBy, p.Turns, p.Error.Kind, p.Error.Message)
	case events.RunCancelled:
		f.terminal(e.Time, events.StoppedByCancelled, p.Turns, string(events.StoppedByCancelled), p.Reason)
	case events.ModelCallStarted, events.ModelCallFinished, events.ModelCallError:
		f.model(e)
	case events.ArtifactValidationStarted, events.ArtifactValidationFinished:
		f.artifact(e)
	case events.ApprovalRequested:
		f.moment(e.Time, "approval requested", Attr{ToolName, p.Tool}, Attr{ToolCallID, p.Call.String()})
	case events.ApprovalDecided:
		f.moment(e.Time, "approval "+p.Decision, Attr{"daybook.by", p.By})
	case events.BudgetExceeded:
		f.moment(e.Time, "budget exceeded", Attr{"daybook.budget.limit", p.Limit.String()})
	case events.SignalReceived:
		f.moment(e.Time, "signal "+p.Name)
	case events.OperatorActed:
		f.moment(e.Time, "operator: "+p.Verb, Attr{"daybook.by", p.By})
	default:
		f.tool(e)
	}
	return f.out
}

// Open returns what has begun and not ended, as of at: for pictures of runs that
// are under way. It changes nothing.
func (f *Fold) Open(at time.Time) []Span {
	all := make([]Span, 0, len(f.open)+len(f.doubts)+1)
	add := func(s *Span) {
		c := *s
		c.End = at
		if at.Before(c.Start) {
			c.End = c.Start
		}
		all = append(all, c)
	}
	for _, s := range f.open {
		add(s)
	}
	for _, s := range f.doubts {
		add(s)
	}
	if f.root != nil {
		add(f.root)
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), slices.Compare(a.ID[:], b.ID[:])) })
	return all
}

// begin makes the root when the first event is seen.
func (f *Fold) begin(e events.Event) {
	if f.common != nil {
		return
	}
	f.parent, _ = ParseParent(e.Trace)
	if f.parent.Trace.IsZero() { // written before there were traces: a trace of its own
		f.parent = Parent{Trace: ID(e.RunID), Flags: 1}
		f.parent.Span = Root(f.parent.Trace)
	}
	f.common = []Attr{{RunID, e.RunID.String()}, {Tenant, e.Tenant}}
	if e.SessionID != "" {
		f.common = append(f.common, Attr{ConversationID, e.SessionID})
	}
	id, up := derive("run", f.run[:]), f.parent.Span
	q, first := e.Data.(events.RunQueued)
	if first && q.Root == e.RunID && q.Fork == nil && q.RetryOf.IsZero() && f.parent.Span == Root(f.parent.Trace) {
		id, up = f.parent.Span, SpanID{} // the trace is the run's own
	}
	f.root = f.span(id, up, InvokeAgent, Internal, e.Time, Attr{OperationName, InvokeAgent})
	if first {
		f.root.Name = InvokeAgent + " " + q.Agent
	}
}

func (f *Fold) span(id, parent SpanID, name string, k Kind, start time.Time, attrs ...Attr) *Span {
	return &Span{
		Trace: f.parent.Trace, ID: id, Parent: parent, Name: name, Kind: k, Start: start,
		Attrs: append(slices.Clone(f.common), attrs...), Sampled: f.parent.Flags&1 == 1,
	}
}

// under is the span that acts belong to.
func (f *Fold) under() SpanID {
	switch {
	case f.lease != nil:
		return f.lease.ID
	case f.root != nil:
		return f.root.ID
	}
	return derive("run", f.run[:]) // after the end
}

func (f *Fold) start(s *Span) { f.open[s.ID] = s }

// end closes a span, if it is open.
func (f *Fold) end(id SpanID, at time.Time) *Span {
	s := f.open[id]
	if s == nil {
		return nil
	}
	delete(f.open, id)
	f.emit(s, at)
	return &f.out[len(f.out)-1]
}

func (f *Fold) emit(s *Span, at time.Time) *Span {
	s.End = at
	if at.Before(s.Start) {
		s.End = s.Start
	}
	if s.ErrorType != "" {
		s.Attrs = append(s.Attrs, Attr{ErrorType, s.ErrorType})
	}
	if !f.opt.Content {
		s.Message = "" // a tool's, a model's or a person's own words
	}
	f.out = append(f.out, *s)
	return &f.out[len(f.out)-1]
}

func (f *Fold) moment(at time.Time, name string, attrs ...Attr) {
	s := f.lease
	if s == nil {
		s = f.parked
	}
	if s == nil {
		s = f.root
	}
	if s != nil {
		s.Moments = append(s.Moments, Moment{name, at, attrs})
	}
}

func (f *Fold) queued(e events.Event, p events.RunQueued) {
	since := p.QueuedAt
	if since.IsZero() || since.After(e.Time) {
		since = e.Time
	}
	r := f.root
	r.Start = since
	r.Attrs = append(r.Attrs, Attr{AgentName, p.Agent}, Attr{Queue, p.Queue})
	if p.Owner != "" {
		r.Attrs = append(r.Attrs, Attr{Owner, p.Owner})
	}
	if p.Attempt > 1 {
		r.Attrs = append(r.Attrs, Attr{RunAttempt, int64(p.Attempt)})
	}
	f.emit(f.span(derive("queue", f.run[:]), r.ID, "queue "+p.Queue, Internal, since, Attr{Queue, p.Queue}), e.Time)
}

func (f *Fold) started(e events.Event, p events.RunStarted) {
	f.root.Attrs = append(f.root.Attrs, Attr{AgentVersion, p.AgentHash.String()[:12]}, Attr{RequestModel, p.Model}, Attr{LoopName, p.Loop})
	f.take(e, p.Worker)
}

func (f *Fold) resumed(e events.Event, p events.RunResumed) {
	f.unpark(e.Time)
	f.leave(e.Time, "worker_lost")
	f.take(e, p.Worker)
}

// take begins a holder's lease; it goes on from the one before.
func (f *Fold) take(e events.Event, worker string) {
	s := f.span(derive("lease", f.run[:], number(int(e.Epoch))), f.rootID(), "lease "+worker, Internal, e.Time, Attr{Worker, worker}, Attr{Epoch, int64(e.Epoch)}) //nolint:gosec // small
	if !f.last.Span.IsZero() {
		s.Links = append(s.Links, f.last)
	}
	f.lease, f.last = s, Link{f.parent.Trace, s.ID, "resumes"}
	f.start(s)
}

func (f *Fold) rootID() SpanID {
	if f.root != nil {
		return f.root.ID
	}
	return f.parent.Span
}

// leave ends the holder's lease, with why if it did not end well, and what nobody
// goes on with: calls of models, and of tools without an effect. What may have
// taken effect stays open until somebody knows.
func (f *Fold) leave(at time.Time, why string) {
	if f.lease == nil {
		return
	}
	for id, s := range f.open {
		if s == f.lease || s == f.parked || s.Attr(OpKey) != nil || s.Attr(handedOff) != nil {
			continue
		}
		s.ErrorType = "interrupted"
		f.end(id, at)
	}
	slices.SortFunc(f.out, func(a, b Span) int { return slices.Compare(a.ID[:], b.ID[:]) })
	f.lease.ErrorType = why
	f.end(f.lease.ID, at)
	f.lease = nil
}

func (f *Fold) park(e events.Event, p events.RunParked) {
	f.leave(e.Time, "")
	f.unpark(e.Time)
	f.parked = f.span(derive("park", f.run[:], number(int(e.Seq))), f.rootID(), "wait "+string(p.Reason), Internal, e.Time, Attr{ParkReason, string(p.Reason)}) //nolint:gosec // a count
	if p.Detail != "" && f.opt.Content {                                                                                                                        // it may say how to complete a call
		f.parked.Attrs = append(f.parked.Attrs, Attr{ParkDetail, p.Detail})
	}
	f.start(f.parked)
}

func (f *Fold) unpark(at time.Time) {
	if f.parked != nil {
		f.end(f.parked.ID, at)
		f.parked = nil
	}
}

func (f *Fold) terminal(at time.Time, by events.StoppedBy, turns int, kind, message string) {
	if f.root == nil {
		return
	}
	f.unpark(at)
	f.leave(at, "")
	r := f.root
	r.Attrs = append(r.Attrs, Attr{StoppedBy, string(by)}, Attr{Turns, int64(turns)})
	r.ErrorType, r.Message = kind, message
	f.emit(r, at)
	f.root = nil
}
