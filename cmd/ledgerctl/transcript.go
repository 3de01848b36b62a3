package main

import (
	"encoding/json"
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Kinds of what a transcript tells. Part of -o json; never renamed.
const (
	toldInput    = "input"    // what the run was asked, or a fork was told
	toldPrompt   = "prompt"   // what the run is bound to
	toldTurn     = "turn"     // what a turn came to
	toldAnswer   = "answer"   // of the model
	toldFailure  = "failure"  // an attempt of a model call without an answer
	toldCall     = "call"     // a tool is called
	toldProgress = "progress" // what it says meanwhile
	toldResult   = "result"   // how the call ended
	toldDoubt    = "in_doubt" // nobody can know how
	toldWait     = "wait"     // the run waited
	toldResume   = "resume"   // another holder goes on
	toldApproval = "approval" // asked for, or decided
	toldArtifact = "artifact" // judged, revised, accepted, given up
	toldChild    = "child"    // begun, ended
	toldNote     = "note"     // anything else, in words
	toldEnd      = "end"      // of the run
	toldPending  = "pending"  // true already, not in the timeline yet
	toldTotals   = "totals"   // of the run: what costs says
)

// toldView is one thing that a transcript tells: a line of -o jsonl. Fields are
// never renamed; those that a kind has no use for are left out.
type toldView struct {
	Kind string `json:"kind"`
	// Inherited is the run whose event it is, where that is not the run asked for.
	Inherited events.RunID    `json:"inherited_from,omitzero"`
	Seq       uint64          `json:"seq,omitempty"`
	Epoch     uint64          `json:"epoch,omitempty"`
	Time      time.Time       `json:"time,omitzero"`
	Type      events.Type     `json:"type,omitempty"`
	Turn      int             `json:"turn,omitempty"`
	Call      string          `json:"call,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Effect    string          `json:"effect,omitempty"`
	Status    string          `json:"status,omitempty"`
	Text      string          `json:"text,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"` // input, arguments or output

	ToolCalls []events.ToolCall    `json:"tool_calls,omitempty"`
	Layers    []events.PromptLayer `json:"layers,omitempty"`
	Prompt    events.Hash          `json:"prompt_hash,omitzero"`
	// Of is the call whose outcome was handed back.
	Of   string       `json:"of,omitempty"`
	Run  events.RunID `json:"run,omitzero"` // a child, or what a fork or retry goes back to
	By   string       `json:"by,omitempty"`
	Late bool         `json:"late,omitempty"` // the outcome of an attempt that no longer counted

	Model       string        `json:"model,omitempty"`
	ServedModel string        `json:"served_model,omitempty"`
	Usage       *events.Usage `json:"usage,omitempty"` // nil = none known
	// Cost is nil where it is unpriced or unmeasured, which is said, and where there is none.
	Cost       *events.PicoUSD `json:"cost,omitempty"`
	Unpriced   bool            `json:"unpriced,omitempty"`
	Unmeasured bool            `json:"unmeasured,omitempty"`
	LatencyMS  *int64          `json:"latency_ms,omitempty"`
	// WaitedMS is how long a wait took; nil = it has not ended.
	WaitedMS *int64    `json:"waited_ms,omitempty"`
	Until    time.Time `json:"until,omitzero"`

	Sums *sumsView `json:"sums,omitempty"` // of a turn, or of the run

	tone  style // how it is painted
	label string
}

// sumsView is what a part of a run came to, with what nobody knows beside it.
type sumsView struct {
	Turns      int64    `json:"turns,omitempty"` // of the run
	Models     []string `json:"models,omitempty"`
	ModelCalls int64    `json:"model_calls"`
	ToolCalls  int64    `json:"tool_calls"` // as costs counts them: executed ones
	ModelCost  dollars  `json:"model_cost"`
	ToolCost   dollars  `json:"tool_cost"`
	Cost       dollars  `json:"cost"`
	Unpriced   int64    `json:"unpriced"`
	Unmeasured int64    `json:"unmeasured"`
	Unsettled  int64    `json:"unsettled"`
	Input      int64    `json:"input_tokens"`
	CacheRead  int64    `json:"cache_read_tokens"`
	CacheWrite int64    `json:"cache_write_tokens"`
	Output     int64    `json:"output_tokens"`
	Reasoning  int64    `json:"reasoning_tokens"`
	// NoUsage counts answers whose provider sent no usage.
	NoUsage   int64 `json:"usage_missing"`
	LatencyMS int64 `json:"latency_ms"` // of the models' answers and failures
	TookMS    int64 `json:"took_ms"`    // from the first event to the last
}

// section is a turn with all that belongs to it, or what stands before the first.
type section struct {
	turn   int
	goesOn bool // another run began the turn
	told   []*toldView
	asked  []events.ToolCall // by the turn's answer
	seen   map[int]bool      // indexes of those that came to something
	sums   sumsView
	open   map[uint64]bool // model attempts of this section without an outcome, by seq
	first  time.Time
	last   time.Time
}

// teller makes a transcript of a run's events, a section at a time. Its memory
// grows with what is in a turn, not with the run. What things cost it takes
// from the ledger's own fold, so that it cannot say anything else than costs.
type teller struct {
	run  events.RunID
	from events.RunID // = run, set for what is inherited
	give func(*section) error

	fold   *ledger.Fold
	cur    *section
	last   *section // the turn before, of the run that this one goes on with too
	first  time.Time
	sums   sumsView
	turns  int64
	wait   *toldView // that has not ended
	bound  bool      // a worker has begun
	ended  bool
	worker string
}

func newTeller(run events.RunID, inherited bool, give func(*section) error) *teller {
	t := &teller{run: run, give: give, fold: ledger.NewFold(run), cur: newSection(0)}
	if inherited {
		t.from = run
	}
	return t
}

func newSection(turn int) *section {
	return &section{turn: turn, seen: map[int]bool{}, open: map[uint64]bool{}}
}

// event takes the next event.
func (t *teller) event(s events.Sealed) error {
	env := s.Envelope()
	e, err := s.Decode()
	if err != nil {
		data, _ := s.Data()
		t.tell(&toldView{Kind: toldNote, Seq: env.Seq, Epoch: env.Epoch, Time: env.Time, Type: env.Type, Data: data, Text: "not readable by this build", label: string(env.Type), tone: yellow})
		t.fold.Seq++
		return nil
	}
	if err := t.place(e.Data); err != nil {
		return err
	}
	t.span(e.Time)
	var rows ledger.Rows
	if err := t.fold.Apply(e, &rows); err != nil {
		return err
	}
	t.told(e, rows)
	return nil
}

// place opens the section that an event begins: a turn, the part of one that is
// the fork's own, or what comes with the end of the run.
func (t *teller) place(p events.Payload) error {
	turn := -1
	switch d := p.(type) {
	case events.TurnStarted:
		t.turns++
		turn = d.Turn
	case events.ModelCallStarted:
		turn = d.Turn
	case events.ToolExecutionStarted:
		turn = d.Call.Turn
	case events.ToolExecutionFinished:
		turn = d.Call.Turn
	case events.ToolExecutionBlocked:
		turn = d.Call.Turn
	case events.RunFinished, events.RunFailed, events.RunCancelled:
		t.ended = true
		return t.flush(newSection(0))
	}
	_, begins := p.(events.TurnStarted)
	if !begins && (turn <= 0 || t.cur.turn > 0 || t.ended) {
		return nil
	}
	next := newSection(turn)
	if l := t.last; l != nil && l.turn == turn {
		next.asked, next.seen, next.goesOn = l.asked, l.seen, true
	}
	return t.flush(next)
}

// end gives what is left and returns the totals.
func (t *teller) end() (*toldView, error) {
	if err := t.flush(newSection(0)); err != nil {
		return nil, err
	}
	t.sums.Turns = t.turns
	return &toldView{Kind: toldTotals, Sums: &t.sums}, nil
}

func (t *teller) flush(next *section) error {
	s := t.cur
	t.cur = next
	t.wait = nil
	if s.turn > 0 {
		t.last = s
	}
	if len(s.told) == 0 && s.sums.ModelCalls == 0 && s.turn == 0 {
		return nil
	}
	s.sums.TookMS = s.last.Sub(s.first).Milliseconds()
	return t.give(s)
}

func (t *teller) span(at time.Time) {
	if t.cur.first.IsZero() {
		t.cur.first = at
	}
	if t.first.IsZero() {
		t.first = at
	}
	t.cur.last = at
	t.sums.TookMS = at.Sub(t.first).Milliseconds()
}

func (t *teller) tell(v *toldView) {
	v.Inherited = t.from
	if v.Turn == 0 {
		v.Turn = t.cur.turn
	}
	t.cur.told = append(t.cur.told, v)
}

// both adds to what the section comes to and to what the run does.
func (t *teller) both(f func(*sumsView)) {
	f(&t.cur.sums)
	f(&t.sums)
}

// count adds what an event's rows say of money and tokens. costs sums the same
// rows where the projector wrote them.
func (t *teller) count(rows ledger.Rows) {
	for _, m := range rows.Models {
		t.countModel(m)
	}
	for _, c := range rows.Calls {
		if c.Repeated || c.Status != "finished" && c.Status != "error" && c.Status != "resolved" {
			continue
		}
		t.both(func(s *sumsView) {
			s.ToolCalls++
			if c.Cost == nil {
				s.Unmeasured++
				return
			}
			add(&s.ToolCost, *c.Cost)
			add(&s.Cost, *c.Cost)
		})
	}
}

func (t *teller) countModel(m ledger.ModelCallRow) {
	if m.State == "unsettled" {
		t.cur.open[m.Seq] = true
		t.both(func(s *sumsView) { s.ModelCalls++; s.Unsettled++ })
		return
	}
	switch {
	case t.cur.open[m.Seq]:
		delete(t.cur.open, m.Seq)
		t.both(func(s *sumsView) { s.Unsettled-- })
	case t.fold.Seq == m.Seq: // nothing was known of its start
		t.both(func(s *sumsView) { s.ModelCalls++ })
	default: // it was begun in another section, which showed it as unsettled
		t.sums.Unsettled--
	}
	t.both(func(s *sumsView) {
		if m.Cost != nil {
			add(&s.ModelCost, *m.Cost)
			add(&s.Cost, *m.Cost)
		}
		if m.Unpriced() {
			s.Unpriced++
		}
		if m.LatencyMS != nil {
			s.LatencyMS += *m.LatencyMS
		}
		if u := m.Usage; u != nil {
			s.Input += u.Input
			s.CacheRead += u.CacheRead
			s.CacheWrite += u.CacheWrite
			s.Output += u.Output
			s.Reasoning += u.Reasoning
			if u.Missing {
				s.NoUsage++
			}
		}
	})
	if name := m.ServedModel; name != "" && m.State != "error" {
		t.both(func(s *sumsView) { s.model(name) })
	}
}

// model notes who answered, each once and in order.
func (s *sumsView) model(name string) {
	for _, m := range s.Models {
		if m == name {
			return
		}
	}
	s.Models = append(s.Models, name)
}

func add(d *dollars, p events.PicoUSD) {
	*d = dollars{new(big.Int).Add(d.orZero(), big.NewInt(int64(p)))}
}
