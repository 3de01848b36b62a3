package ledgertest

import (
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// provider is the outside world: it counts what really happened.
type provider struct {
	kind    string
	effects int
	keySeen time.Duration // when a keyed one first saw the key; negative = never
}

// hit is one request arriving. It returns what a truthful tool makes of the
// reply: a refusal is true of this request only.
func (p *provider) hit(now time.Duration, refuse bool) ledger.OutcomeKind {
	known := false
	switch p.kind {
	case ledger.RecoveryKeyed:
		known = p.keySeen >= 0 && now < p.keySeen+keyTTL
	case ledger.RecoveryFenced:
		known = p.effects > 0
	}
	switch {
	case refuse: // declined, or "already exists"
		return ledger.NotApplied
	case known:
		return ledger.Applied
	}
	p.keySeen = now
	p.effects++
	return ledger.Applied
}

// Where an execution is.
const (
	unanswered = iota // Begin's answer is lost: the executor has not started
	ready             // may be sent
	flying            // on the wire: arrives late, or never
	arrived           // the reply is there
	gone              // never to be heard of
)

// execution is what one Execute allows.
type execution struct {
	a      *actor
	in     ledger.Intent
	where  int
	saw    ledger.OutcomeKind
	sendBy time.Duration // the executor's context ends
	landBy time.Duration // the wire has drained
}

// modelAttempt and modelEffect are the protocol as the design tells it, without a database.
type modelAttempt struct {
	token   events.ID
	run     events.RunID
	epoch   uint64
	call    events.CallID
	args    string
	outcome ledger.OutcomeKind
	ended   bool
	cleared bool
}

func (a modelAttempt) unclear() bool {
	return !a.cleared && (a.outcome == "" || a.outcome == ledger.Unclear)
}

type modelEffect struct {
	kind     string
	state    events.EffectState
	attempts []modelAttempt
	settled  int // index of the attempt that settled it
	first    time.Duration
}

func (m *modelEffect) latest() *modelAttempt { return &m.attempts[len(m.attempts)-1] }

func (m *modelEffect) find(token events.ID) *modelAttempt {
	for i := range m.attempts {
		if m.attempts[i].token == token {
			return &m.attempts[i]
		}
	}
	return nil
}

func (m *modelEffect) unclearBut(token events.ID) bool {
	for _, a := range m.attempts {
		if a.token != token && a.unclear() {
			return true
		}
	}
	return false
}

// claimed is what a claim of run does.
func (m *modelEffect) claimed(run events.RunID, epoch uint64) {
	if m.state == events.EffectStarted && m.latest().run == run && m.latest().epoch < epoch && !m.absorbs() {
		m.state = events.EffectInDoubt
	}
}

func (m *modelEffect) absorbs() bool {
	return m.kind == ledger.RecoveryKeyed || m.kind == ledger.RecoveryFenced
}

// begin is the verdict on a new token, and moves the model on.
func (m *modelEffect) begin(l ledger.Lease, in ledger.Intent, now time.Duration) ledger.VerdictKind {
	switch m.state {
	case "":
		m.first = now
		return m.attempt(l, in)
	case events.EffectNotApplied:
		if m.kind == ledger.RecoveryKeyed && now >= m.first+keyTTL {
			m.first = now
		}
		return m.attempt(l, in)
	case events.EffectAbandoned:
		return ledger.GivenUp
	case events.EffectApplied:
		return m.applied(l, in)
	}
	a := m.latest()
	if a.run != l.RunID {
		return ledger.Busy
	}
	running := m.state == events.EffectStarted && a.epoch == l.Epoch
	if m.absorbs() && !running && (m.kind == ledger.RecoveryFenced || now < m.first+keyTTL*8/10) {
		return m.attempt(l, in)
	}
	m.state = events.EffectInDoubt
	return ledger.InDoubt
}

// applied is the verdict on an effect that has happened: its own call gets the
// outcome, another one only if it asks for the very same.
func (m *modelEffect) applied(l ledger.Lease, in ledger.Intent) ledger.VerdictKind {
	s := m.attempts[m.settled]
	if s.run == l.RunID && s.call == in.Call || s.args == string(in.Arguments) {
		return ledger.Replay
	}
	return ledger.Conflict
}

func (m *modelEffect) attempt(l ledger.Lease, in ledger.Intent) ledger.VerdictKind {
	m.state = events.EffectStarted
	m.attempts = append(m.attempts, modelAttempt{token: in.Token, run: l.RunID, epoch: l.Epoch, call: in.Call, args: string(in.Arguments)})
	return ledger.Execute
}

// again is the verdict on a token that has begun.
func (m *modelEffect) again(l ledger.Lease, in ledger.Intent) ledger.VerdictKind {
	a := m.latest()
	switch {
	case m.state == events.EffectStarted && a.token == in.Token && a.epoch == l.Epoch:
		return ledger.Execute
	case m.state == events.EffectApplied: // by another attempt, maybe another call's
		return m.applied(l, in)
	case m.state == events.EffectAbandoned:
		return ledger.GivenUp
	case m.state == events.EffectStarted && a.token == in.Token:
		m.state = events.EffectInDoubt
	case m.state == events.EffectNotApplied:
		return 0
	}
	return ledger.InDoubt
}

// end is what an outcome does.
func (m *modelEffect) end(token events.ID, kind ledger.OutcomeKind) {
	a := m.find(token)
	if a.outcome == ledger.Applied || a.outcome == ledger.NotApplied || a.ended && kind == ledger.Unclear {
		return
	}
	a.outcome, a.ended = kind, true
	if m.state != events.EffectStarted && m.state != events.EffectInDoubt {
		return
	}
	switch {
	case kind == ledger.Applied:
		m.state = events.EffectApplied
	case kind == ledger.NotApplied && !m.unclearBut(token):
		m.state = events.EffectNotApplied
	case m.state == events.EffectStarted && m.latest().token != token:
		return
	default:
		m.state = events.EffectInDoubt
		return
	}
	for i := range m.attempts {
		if m.attempts[i].token == token {
			m.settled = i
		}
	}
}

func (m *modelEffect) resolved(state events.EffectState) {
	m.state, m.settled = state, len(m.attempts)-1
	for i := range m.attempts {
		a := &m.attempts[i]
		if state == events.EffectNotApplied && a.unclear() {
			a.cleared, a.outcome = true, ledger.Unclear
		}
	}
}
