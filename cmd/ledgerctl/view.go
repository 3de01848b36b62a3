package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// The views are what -o json and jsonl print. Fields are never renamed.

// dollars is a sum as decimal text.
type dollars struct{ pico *big.Int }

// MarshalText writes decimal dollars.
func (d dollars) MarshalText() ([]byte, error) {
	return []byte(events.FormatPico(d.orZero())), nil
}

func (d dollars) orZero() *big.Int {
	if d.pico == nil {
		return new(big.Int)
	}
	return d.pico
}

type waitView struct {
	Reason events.ParkReason `json:"reason"`
	Detail string            `json:"detail,omitempty"`
	OpKey  events.Hash       `json:"op_key,omitzero"`
	Since  time.Time         `json:"since,omitzero"`
	Until  time.Time         `json:"until,omitzero"`
}

type leaseView struct {
	Worker string    `json:"worker"`
	Until  time.Time `json:"until"`
	Lapsed bool      `json:"lapsed"`
}

// holdView says who holds a run back.
type holdView struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

type cancelView struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// forkView is the history that a run begins with.
type forkView struct {
	Run     events.RunID       `json:"run"`
	Seq     uint64             `json:"seq"`
	Effects ledger.ForkEffects `json:"effects"`
}

// continuesView is what a run of a session goes on from.
type continuesView struct {
	Run events.RunID `json:"run"`
	Seq uint64       `json:"seq"`
}

func (v *continuesView) words() string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("run %s, behind event %d", v.Run, v.Seq)
}

type totalsView struct {
	Events       int64   `json:"events"`
	Turns        int64   `json:"turns"`
	ModelCalls   int64   `json:"model_calls"`
	ToolCalls    int64   `json:"tool_calls"`
	Destructive  int64   `json:"destructive"`
	Repeated     int64   `json:"repeated"`
	Blocked      int64   `json:"blocked"`
	InDoubt      int64   `json:"in_doubt"`
	Resumes      int64   `json:"resumes"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Cost         dollars `json:"cost"` // of what is priced
	Unpriced     int64   `json:"unpriced"`
	Unmeasured   int64   `json:"unmeasured"`
}

type runView struct {
	Run       events.RunID     `json:"run"`
	State     ledger.State     `json:"state"`
	Agent     string           `json:"agent"`
	Tenant    string           `json:"tenant"`
	Queue     string           `json:"queue"`
	Owner     string           `json:"owner,omitempty"`
	Session   string           `json:"session,omitempty"`
	Place     uint64           `json:"session_place,omitempty"`
	Continues *continuesView   `json:"continues,omitempty"`
	Behind    time.Time        `json:"behind_since,omitzero"` // waits for the runs before it in its session
	Root      events.RunID     `json:"root,omitzero"`
	Parent    events.RunID     `json:"parent,omitzero"`
	ForkOf    *forkView        `json:"fork_of,omitempty"`
	Attempt   int              `json:"attempt,omitempty"`
	Attempts  int              `json:"max_attempts,omitempty"` // 0 = as its agent says
	RetryOf   events.RunID     `json:"retry_of,omitzero"`
	RetriedAs events.RunID     `json:"retried_as,omitzero"`
	DeadSince time.Time        `json:"dead_since,omitzero"`
	Schedule  string           `json:"schedule,omitempty"`
	Fire      time.Time        `json:"fire,omitzero"` // of the schedule
	ClientKey string           `json:"client_key"`
	LimitKey  string           `json:"concurrency_key,omitempty"`
	CreatedAt time.Time        `json:"created_at"`
	DueAt     time.Time        `json:"due_at,omitzero"`
	Deadline  time.Time        `json:"deadline,omitzero"`
	Epoch     uint64           `json:"epoch"`
	Worker    string           `json:"worker,omitempty"`
	Lease     *leaseView       `json:"lease,omitempty"`
	WaitsFor  *waitView        `json:"waits_for,omitempty"`
	Cancel    *cancelView      `json:"cancel,omitempty"`
	Paused    *holdView        `json:"paused,omitempty"`
	StoppedBy events.StoppedBy `json:"stopped_by,omitempty"`
	Declined  string           `json:"declined_because,omitempty"`
	EndedAt   time.Time        `json:"ended_at,omitzero"`
	Result    json.RawMessage  `json:"result,omitempty"`
	Error     string           `json:"error,omitempty"`
	Input     json.RawMessage  `json:"input,omitempty"` // runs show only
	Totals    totalsView       `json:"totals"`
}

func (a *app) runView(s ledger.Summary) runView {
	v := runView{
		Run: s.ID, State: s.State, Agent: s.Agent, Tenant: s.Tenant, Queue: s.Queue, Owner: s.Owner, Session: s.SessionID,
		Parent: s.Parent, ClientKey: s.ClientKey, CreatedAt: s.CreatedAt, DueAt: s.DueAt, Deadline: s.Deadline,
		Epoch: s.Epoch, Worker: s.Worker, StoppedBy: s.StoppedBy, EndedAt: s.EndedAt, Result: s.Result, Error: s.Error,
		Totals: totalsView{
			Events: s.Events, Turns: s.Turns, ModelCalls: s.ModelCalls, ToolCalls: s.ToolCalls, Destructive: s.Destructive,
			Repeated: s.Repeated, Blocked: s.Blocked, InDoubt: s.Doubtful, Resumes: s.Resumes, InputTokens: s.InputTokens,
			OutputTokens: s.OutputTokens, Cost: dollars{s.Cost}, Unpriced: s.Unpriced, Unmeasured: s.Unmeasured,
		},
	}
	v.Attempt, v.Attempts, v.RetryOf, v.RetriedAs, v.DeadSince = s.Attempt, s.MaxAttempts, s.RetryOf, s.Successor, s.DeadAt
	v.Declined = s.DeclinedBecause()
	v.Place, v.Behind = s.SessionPlace, s.BehindAt
	if o := s.Continues; !o.IsZero() {
		v.Continues = &continuesView{o.Run, o.Seq}
	}
	v.Schedule, v.Fire, v.LimitKey = s.Schedule, ledger.FireOf(s.Run), s.ConcurrencyKey
	if !s.HeldAt.IsZero() {
		v.Paused = &holdView{s.HeldBy, s.HeldReason, s.HeldAt}
	}
	if s.Root != s.ID {
		v.Root = s.Root
	}
	if !s.LeaseUntil.IsZero() {
		v.Lease = &leaseView{Worker: s.Worker, Until: s.LeaseUntil, Lapsed: !s.LeaseUntil.After(a.now())}
	}
	if s.State == ledger.Parked {
		v.WaitsFor = &waitView{Reason: s.ParkReason, Detail: s.ParkDetail, OpKey: s.ParkKey, Since: s.ParkedAt, Until: s.WakeAt}
	}
	if s.CancelBy != "" || s.CancelReason != "" {
		v.Cancel = &cancelView{s.CancelBy, s.CancelReason, s.CancelAt}
	}
	if !s.ForkOf.IsZero() {
		v.ForkOf = &forkView{s.ForkOf, s.ForkSeq, s.ForkEffects}
	}
	return v
}

type eventView struct {
	Seq   uint64          `json:"seq"`
	Epoch uint64          `json:"epoch"`
	Time  time.Time       `json:"time"`
	Type  events.Type     `json:"type"`
	ID    events.ID       `json:"id"`
	Hash  events.Hash     `json:"hash"`
	Trace string          `json:"trace,omitempty"`
	Data  json.RawMessage `json:"data"`
	what  string          // in one line, for people
}

func newEventView(s events.Sealed) (eventView, error) {
	env := s.Envelope()
	data, err := s.Data()
	if err != nil {
		return eventView{}, err
	}
	v := eventView{Seq: env.Seq, Epoch: env.Epoch, Time: env.Time, Type: env.Type, ID: env.ID, Hash: s.Hash(), Trace: env.Trace, Data: data}
	if p, err := events.DecodePayload(env.Type, env.Version, data); err != nil {
		v.what = "not readable by this build: " + string(data)
	} else {
		v.what = telling.Summary(p)
	}
	return v, nil
}

type factView struct {
	Type events.Type     `json:"type"`
	ID   events.ID       `json:"id"`
	At   time.Time       `json:"at"`
	Data json.RawMessage `json:"data"`
	what string
}

func newFactView(f events.Fact) factView {
	v := factView{Type: f.Type, ID: f.ID, At: f.At, Data: f.Data}
	if p, err := events.DecodePayload(f.Type, f.Version, f.Data); err == nil {
		v.what = telling.Summary(p)
	}
	return v
}

type modelView struct {
	Turn        int             `json:"turn"`
	Attempt     int             `json:"attempt"`
	State       string          `json:"state"`
	Model       string          `json:"model"`
	ServedModel string          `json:"served_model,omitempty"`
	Usage       *events.Usage   `json:"usage"`
	Cost        *events.PicoUSD `json:"cost"` // null = unpriced
	Rates       json.RawMessage `json:"rates,omitempty"`
	Error       string          `json:"error,omitempty"`
	LatencyMS   *int64          `json:"latency_ms"`
	StartedAt   time.Time       `json:"started_at,omitzero"`
	At          time.Time       `json:"at"`
	Seq         uint64          `json:"seq"`
	priced      bool            // or nothing to price
}

func newModelView(m ledger.ModelCallRow) modelView {
	return modelView{
		Turn: m.Turn, Attempt: m.Attempt, State: m.State, Model: m.Model, ServedModel: m.ServedModel, Usage: m.Usage, Cost: m.Cost,
		Rates: m.Rates, Error: m.ErrorKind, LatencyMS: m.LatencyMS, StartedAt: m.StartedAt, At: m.At, Seq: m.Seq, priced: !m.Unpriced(),
	}
}

type callView struct {
	Run       events.RunID    `json:"run"`
	Call      string          `json:"call"`
	Seq       uint64          `json:"seq"`
	Status    string          `json:"status"`
	Terminal  bool            `json:"terminal"`
	Attempt   int             `json:"attempt"`
	Tool      string          `json:"tool"`
	Effect    string          `json:"effect,omitempty"`
	Recovery  string          `json:"recovery,omitempty"`
	OpKey     events.Hash     `json:"op_key,omitzero"`
	Token     events.ID       `json:"token,omitzero"`
	Tenant    string          `json:"tenant"`
	Owner     string          `json:"owner,omitempty"`
	Session   string          `json:"session,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Detail    string          `json:"detail,omitempty"`
	Repeated  bool            `json:"repeated,omitempty"`
	Of        string          `json:"of,omitempty"`
	Trust     string          `json:"trust,omitempty"`
	Cost      *events.PicoUSD `json:"cost"` // null = unmeasured
	LatencyMS *int64          `json:"latency_ms"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	At        time.Time       `json:"at"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Trace     string          `json:"trace,omitempty"`
}

func newCallView(c ledger.CallRecord) callView {
	return callView{
		Run: c.Run, Call: c.Call.String(), Seq: c.Seq, Status: c.Status, Terminal: c.Terminal, Attempt: c.Attempt, Tool: c.Tool,
		Effect: c.Effect, Recovery: c.Recovery, OpKey: c.OpKey, Token: c.Token, Tenant: c.Tenant, Owner: c.Owner, Session: c.SessionID,
		Reason: c.Reason, Detail: c.Detail, Repeated: c.Repeated, Of: refName(c.Of), Trust: c.Trust, Cost: c.Cost, LatencyMS: c.LatencyMS,
		StartedAt: c.StartedAt, At: c.At, Arguments: c.Arguments, Result: c.Result, Trace: c.Trace,
	}
}
