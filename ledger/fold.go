package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Totals is what a run comes to so far: its row of run_summaries.
type Totals struct {
	Tenant, Owner, Agent                     string
	Events, Turns, ModelCalls, ToolCalls     int64
	Destructive, Repeated, Blocked, Doubtful int64
	Resumes, InputTokens, OutputTokens       int64
	Cost                                     *big.Int // pico-USD of what is priced; never nil in a [Fold]
	Unpriced, Unmeasured                     int64
	FirstAt, LastAt                          time.Time
	State                                    string // stop reason, park reason or empty
}

// Artifact is a row of artifacts: one that a validator accepted.
type Artifact struct {
	Run     events.RunID
	Seq     uint64
	Tenant  string
	Name    string
	Content events.Hash
	Bytes   int64
	At      time.Time
}

// ArtifactVersion is a row of artifact_versions: one that was judged.
type ArtifactVersion struct {
	Run      events.RunID
	Seq      uint64 // of the verdict
	Tenant   string
	Name     string
	Revision int // 0 = the first answer
	Turn     int
	Verdict  string // accepted, refused, or none: the host's code failed
	// Validator refused it; empty: the parser did, or nobody.
	Validator string
	// Issues is the list of what was found, or of the one error.
	Issues  json.RawMessage
	Content events.Hash // zero = there is none
	Bytes   int64
	At      time.Time
}

// Verdicts of an [ArtifactVersion]. Stored; never renamed.
const (
	VersionAccepted = "accepted"
	VersionRefused  = "refused"
	VersionNone     = "none"
)

// Rows is what folding adds to the projections. The zero value is ready.
type Rows struct {
	Calls     []CallRecord
	Models    []ModelCallRow // each seq once, in its newest form
	Settled   []ModelCallRow // of Models, what was stored before: rows without an outcome
	Artifacts []Artifact
	Versions  []ArtifactVersion

	model map[modelRowKey]int
}

type modelRowKey struct {
	run events.RunID
	seq uint64
}

// put adds a model call's row or replaces the one that is there.
func (r *Rows) put(m ModelCallRow) {
	k := modelRowKey{m.Run, m.Seq}
	if i, ok := r.model[k]; ok {
		r.Models[i] = m
		return
	}
	if r.model == nil {
		r.model = map[modelRowKey]int{}
	}
	r.model[k] = len(r.Models)
	r.Models = append(r.Models, m)
}

// settle replaces a row that had no outcome.
func (r *Rows) settle(was, m ModelCallRow) {
	if _, ok := r.model[modelRowKey{was.Run, was.Seq}]; !ok {
		r.Settled = append(r.Settled, was)
	}
	r.put(m)
}

// Fold folds the events of one run, in order, into the rows of the projections.
// It is pure: the same events make the same rows wherever the fold was broken
// off and restored. Its memory grows with what is open, not with the history.
//
// A tool call's first outcome is its terminal row. An outcome of an attempt
// that no longer counts (its holder was fenced, the call has ended) is late: a
// row with Detail "late" that is not terminal and adds its cost.
type Fold struct {
	Run    events.RunID
	Seq    uint64 // folded up to and with this
	Totals Totals

	calls  map[events.CallID]*foldedCall
	models []modelAttempt // in order of Seq
}

// foldedCall is a call without an outcome.
type foldedCall struct {
	started []CallRecord // the started rows without an outcome, oldest first
	dead    int          // how many of these a resume has closed
	doubt   *CallRecord  // the in_doubt row, while in doubt
}

// modelAttempt is a model call without an outcome.
type modelAttempt struct {
	row  ModelCallRow
	dead bool // closed by a resume: its outcome would be late
}

// NewFold returns the fold of a run before its first event.
func NewFold(run events.RunID) *Fold {
	return &Fold{Run: run, Totals: Totals{Cost: new(big.Int)}, calls: map[events.CallID]*foldedCall{}}
}

// Apply folds the next event and adds its rows to out. An error means that e
// is not the next event; then nothing has changed.
func (f *Fold) Apply(e events.Event, out *Rows) error {
	if e.RunID != f.Run || e.Seq != f.Seq+1 {
		return fmt.Errorf("fold run %s seq %d: event is run %s seq %d", f.Run, f.Seq+1, e.RunID, e.Seq)
	}
	f.Seq = e.Seq
	t := &f.Totals
	t.Events++
	if t.FirstAt.IsZero() {
		t.FirstAt, t.Tenant = e.Time, e.Tenant
	}
	t.LastAt = e.Time
	switch d := e.Data.(type) {
	case events.RunQueued:
		t.Agent, t.Owner = clean(d.Agent), clean(d.Owner)
	case events.RunResumed:
		f.resume()
	case events.TurnStarted:
		t.Turns++
	case events.ArtifactFinished:
		out.Artifacts = append(out.Artifacts, Artifact{e.RunID, e.Seq, e.Tenant, clean(d.Name), d.Content, d.Bytes, e.Time})
	case events.ArtifactValidationFinished:
		out.Versions = append(out.Versions, versionOf(e, d))
	default:
		f.applyState(e)
		f.applyModel(e, out)
		f.applyCall(e, out)
	}
	return nil
}

func versionOf(e events.Event, d events.ArtifactValidationFinished) ArtifactVersion {
	v := ArtifactVersion{
		Run: e.RunID, Seq: e.Seq, Tenant: e.Tenant, Name: clean(d.Artifact), Revision: d.Revision, Turn: d.Turn, Verdict: VersionRefused,
		Validator: clean(d.Validator), Content: d.Content, Bytes: d.Bytes, At: e.Time,
	}
	issues := d.Issues
	switch {
	case d.Error != nil:
		v.Verdict = VersionNone
		issues = []events.ArtifactIssue{{Path: d.Error.Kind, Message: d.Error.Message}}
	case d.OK:
		v.Verdict = VersionAccepted
	}
	if issues == nil {
		issues = []events.ArtifactIssue{}
	}
	v.Issues = rawOf(issues)
	return v
}

// applyState folds what the run waits for and how it ended.
func (f *Fold) applyState(e events.Event) {
	if f.ended() {
		return // facts behind the end change nothing
	}
	switch d := e.Data.(type) {
	case events.RunParked:
		f.Totals.State = string(d.Reason)
	case events.RunUnparked:
		f.Totals.State = ""
	case events.RunFinished:
		f.Totals.State = string(d.StoppedBy)
	case events.RunFailed:
		f.Totals.State = string(d.StoppedBy)
	case events.RunCancelled:
		f.Totals.State = string(events.StoppedByCancelled)
	}
}

// ended reports whether State is a stop reason; these and the park reasons are disjoint.
func (f *Fold) ended() bool {
	switch events.StoppedBy(f.Totals.State) {
	case events.StoppedByFinish, events.StoppedByDeclined, events.StoppedBySilent, events.StoppedByArtifactFinished,
		events.StoppedByArtifactFailed, events.StoppedByMaxTurns, events.StoppedByBudget, events.StoppedByDeadline,
		events.StoppedByCancelled, events.StoppedByError:
		return true
	}
	return false
}

// resume closes what the last holder left open: model attempts and attempts of
// calls that are not destructive. A destructive attempt stays open, since its
// effect decides.
func (f *Fold) resume() {
	f.Totals.Resumes++
	if !f.ended() {
		f.Totals.State = ""
	}
	for i := range f.models {
		f.models[i].dead = true
	}
	for _, c := range f.calls {
		if len(c.started) > 0 && c.started[0].OpKey.IsZero() {
			c.dead = len(c.started)
		}
	}
}

// cost adds what is known to have been paid.
func (f *Fold) cost(p *events.PicoUSD) {
	if p != nil {
		f.Totals.Cost.Add(f.Totals.Cost, big.NewInt(int64(*p)))
	}
}

// clean makes s storable as text: PostgreSQL has no NUL in text.
func clean(s string) string {
	for i := range len(s) {
		if s[i] == 0 {
			b := make([]rune, 0, len(s))
			for _, r := range s {
				if r == 0 {
					r = '\uFFFD'
				}
				b = append(b, r)
			}
			return string(b)
		}
	}
	return s
}

// rawOf encodes a value out of the closed set of payloads, which always can be.
func rawOf(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("ledger: encode %T: %v", v, err)) // these types have no value that cannot be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// orElse is the fact's own moment, or the event's.
func orElse(at, t time.Time) time.Time {
	if at.IsZero() {
		return t
	}
	return events.Timestamp(at)
}
