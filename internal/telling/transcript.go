package telling

import (
	"encoding/json"
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Kinds of what a transcript tells. Part of -o json; never renamed.
const (
	ToldInput    = "input"    // what the run was asked, or a fork was told
	ToldPrompt   = "prompt"   // what the run is bound to
	ToldTurn     = "turn"     // what a turn came to
	ToldAnswer   = "answer"   // of the model
	ToldFailure  = "failure"  // an attempt of a model call without an answer
	ToldCall     = "call"     // a tool is called
	ToldProgress = "progress" // what it says meanwhile
	ToldResult   = "result"   // how the call ended
	ToldDoubt    = "in_doubt" // nobody can know how
	ToldWait     = "wait"     // the run waited
	ToldResume   = "resume"   // another holder goes on
	ToldApproval = "approval" // asked for, or decided
	ToldArtifact = "artifact" // judged, revised, accepted, given up
	ToldChild    = "child"    // begun, ended
	ToldNote     = "note"     // anything else, in words
	ToldEnd      = "end"      // of the run
	ToldPending  = "pending"  // true already, not in the timeline yet
	ToldTotals   = "totals"   // of the run: what costs says
)

// Tone is how something stands out among what is told.
type Tone int

// Tones.
const (
	TonePlain Tone = iota
	ToneSoft
	ToneWarn
	ToneBad
)

// ToldView is one thing that a transcript tells: a line of -o jsonl. Fields are
// never renamed; those that a kind has no use for are left out.
type ToldView struct {
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

	Sums *SumsView `json:"sums,omitempty"` // of a turn, or of the run

	Tone  Tone   `json:"-"` // how it stands out
	Label string `json:"-"` // of what has a label
}

// SumsView is what a part of a run came to, with what nobody knows beside it.
type SumsView struct {
	Turns      int64    `json:"turns,omitempty"` // of the run
	Models     []string `json:"models,omitempty"`
	ModelCalls int64    `json:"model_calls"`
	ToolCalls  int64    `json:"tool_calls"` // as costs counts them: executed ones
	ModelCost  Dollars  `json:"model_cost"`
	ToolCost   Dollars  `json:"tool_cost"`
	Cost       Dollars  `json:"cost"`
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

// Section is a turn with all that belongs to it, or what stands before the first.
type Section struct {
	Turn   int
	GoesOn bool // another run began the turn
	Told   []*ToldView
	Asked  []events.ToolCall // by the turn's answer
	Seen   map[int]bool      // indexes of those that came to something
	Sums   SumsView
	Open   map[uint64]bool // model attempts of this section without an outcome, by seq
	First  time.Time
	last   time.Time
}

// Teller makes a transcript of a run's events, a section at a time. Its memory
// grows with what is in a turn, not with the run. What things cost it takes
// from the ledger's own fold, so that it cannot say anything else than costs.
type Teller struct {
	run  events.RunID
	from events.RunID // = run, set for what is inherited
	give func(*Section) error

	fold   *ledger.Fold
	Cur    *Section
	Last   *Section // the turn before, of the run that this one goes on with too
	first  time.Time
	sums   SumsView
	turns  int64
	wait   *ToldView // that has not ended
	Bound  bool      // a worker has begun
	ended  bool
	worker string
}

func NewTeller(run events.RunID, inherited bool, give func(*Section) error) *Teller {
	t := &Teller{run: run, give: give, fold: ledger.NewFold(run), Cur: newSection(0)}
	if inherited {
		t.from = run
	}
	return t
}

func newSection(turn int) *Section {
	return &Section{Turn: turn, Seen: map[int]bool{}, Open: map[uint64]bool{}}
}

// Event takes the next event.
func (t *Teller) Event(s events.Sealed) error {
	env := s.Envelope()
	e, err := s.Decode()
	if err != nil {
		data, _ := s.Data()
		t.Tell(&ToldView{Kind: ToldNote, Seq: env.Seq, Epoch: env.Epoch, Time: env.Time, Type: env.Type, Data: data, Text: "not readable by this build", Label: string(env.Type), Tone: ToneWarn})
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
	t.Told(e, rows)
	return nil
}

// place opens the section that an event begins: a turn, the part of one that is
// the fork's own, or what comes with the end of the run.
func (t *Teller) place(p events.Payload) error {
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
	if !begins && (turn <= 0 || t.Cur.Turn > 0 || t.ended) {
		return nil
	}
	next := newSection(turn)
	if l := t.Last; l != nil && l.Turn == turn {
		next.Asked, next.Seen, next.GoesOn = l.Asked, l.Seen, true
	}
	return t.flush(next)
}

// End gives what is left and returns the totals.
func (t *Teller) End() (*ToldView, error) {
	if err := t.flush(newSection(0)); err != nil {
		return nil, err
	}
	t.sums.Turns = t.turns
	return &ToldView{Kind: ToldTotals, Sums: &t.sums}, nil
}

func (t *Teller) flush(next *Section) error {
	s := t.Cur
	t.Cur = next
	t.wait = nil
	if s.Turn > 0 {
		t.Last = s
	}
	if len(s.Told) == 0 && s.Sums.ModelCalls == 0 && s.Turn == 0 {
		return nil
	}
	s.Sums.TookMS = s.last.Sub(s.First).Milliseconds()
	return t.give(s)
}

func (t *Teller) span(at time.Time) {
	if t.Cur.First.IsZero() {
		t.Cur.First = at
	}
	if t.first.IsZero() {
		t.first = at
	}
	t.Cur.last = at
	t.sums.TookMS = at.Sub(t.first).Milliseconds()
}

func (t *Teller) Tell(v *ToldView) {
	v.Inherited = t.from
	if v.Turn == 0 {
		v.Turn = t.Cur.Turn
	}
	t.Cur.Told = append(t.Cur.Told, v)
}

// both adds to what the section comes to and to what the run does.
func (t *Teller) both(f func(*SumsView)) {
	f(&t.Cur.Sums)
	f(&t.sums)
}

// count adds what an event's rows say of money and tokens. costs sums the same
// rows where the projector wrote them.
func (t *Teller) count(rows ledger.Rows) {
	for _, m := range rows.Models {
		t.countModel(m)
	}
	for _, c := range rows.Calls {
		if c.Repeated || c.Status != "finished" && c.Status != "error" && c.Status != "resolved" {
			continue
		}
		t.both(func(s *SumsView) {
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

func (t *Teller) countModel(m ledger.ModelCallRow) {
	if m.State == "unsettled" {
		t.Cur.Open[m.Seq] = true
		t.both(func(s *SumsView) { s.ModelCalls++; s.Unsettled++ })
		return
	}
	switch {
	case t.Cur.Open[m.Seq]:
		delete(t.Cur.Open, m.Seq)
		t.both(func(s *SumsView) { s.Unsettled-- })
	case t.fold.Seq == m.Seq: // nothing was known of its start
		t.both(func(s *SumsView) { s.ModelCalls++ })
	default: // it was begun in another section, which showed it as unsettled
		t.sums.Unsettled--
	}
	t.both(func(s *SumsView) {
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
		t.both(func(s *SumsView) { s.model(name) })
	}
}

// model notes who answered, each once and in order.
func (s *SumsView) model(name string) {
	for _, m := range s.Models {
		if m == name {
			return
		}
	}
	s.Models = append(s.Models, name)
}

func add(d *Dollars, p events.PicoUSD) {
	*d = Dollars{new(big.Int).Add(d.OrZero(), big.NewInt(int64(p)))}
}

// Pending tells facts that no holder has put into the timeline yet.
func (t *Teller) Pending(fs []events.Fact) {
	for _, f := range fs {
		v := &ToldView{Kind: ToldPending, Time: f.At, Type: f.Type, Data: f.Data, Label: "pending " + string(f.Type), Tone: ToneWarn}
		if p, err := events.DecodePayload(f.Type, f.Version, f.Data); err == nil {
			v.Text = Summary(p)
		}
		t.Tell(v)
	}
}

// Views is a section as views: what it came to, then what is in it.
func (s *Section) Views() []*ToldView {
	if s.Turn == 0 {
		return s.Told
	}
	v := &ToldView{Kind: ToldTurn, Turn: s.Turn, Time: s.First, Sums: &s.Sums}
	if len(s.Told) > 0 {
		v.Inherited = s.Told[0].Inherited
	}
	return append([]*ToldView{v}, s.Told...)
}
