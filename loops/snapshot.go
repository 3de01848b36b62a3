package loops

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/model"
)

// maxPast bounds what a snapshot keeps of a tool's calls that were compacted, in bytes:
// each snapshot has them again.
const maxPast = 8 << 10

// snapshot is a transcript as it is right behind a compaction, and what goes with it
// from run to run of a session. Stored in blobs; version 1.
type snapshot struct {
	Version        int                           `json:"version"`
	Turn           int                           `json:"turn"`
	Messages       []said                        `json:"messages"`
	Pinned         int                           `json:"pinned,omitempty"`
	Told           int                           `json:"told,omitempty"`
	Started        *events.RunStarted            `json:"started"` // what the run was bound to
	Compactions    int                           `json:"compactions"`
	FirstCompacted int                           `json:"first_compacted,omitempty"`
	External       *External                     `json:"external,omitempty"`
	Unknown        []events.ToolExecutionInDoubt `json:"unknown,omitempty"`
	Past           []keptCall                    `json:"past,omitempty"`
	Milli          int64                         `json:"milli,omitempty"` // thousandths of a token for each byte
	Endpoints      map[string]string             `json:"endpoints,omitempty"`
	// What is the run's own: a fork of it goes on with that, a later run of the session
	// with its own.
	Base     int               `json:"base,omitempty"` // turns of the runs before
	Asked    int               `json:"asked,omitempty"`
	Revision int               `json:"revision,omitempty"`
	Begun    time.Time         `json:"begun,omitzero"`
	First    *events.RunQueued `json:"first,omitempty"`
	Offer    *offered          `json:"offer,omitempty"`
	Attempts int               `json:"attempts,omitempty"` // of the turn in hand
	Made     int               `json:"made,omitempty"`     // compactions in it
}

// offered is [offer] with names that JSON keeps.
type offered struct {
	Turn  int      `json:"turn"`
	After int      `json:"after"`
	Tools []string `json:"tools"`
}

// said is a message with what its JSON leaves out.
type said struct {
	model.Message
	Turn int    `json:"turn,omitempty"`
	By   string `json:"by,omitempty"`
}

type keptCall struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Output    string          `json:"output"`
}

// Snapshot returns the transcript as a compaction leaves it, which is about to be
// recorded, for the runs after this one in its session. Nil without an error = nobody
// reads one: the run is in no session, is a script, or the compaction does not fit.
func (h *History) Snapshot(p events.TranscriptCompacted) ([]byte, error) {
	if h.queued == nil || h.queued.Session == nil || len(h.plans) > 0 { // a script's later steps need those before
		return nil, nil
	}
	c := *h
	c.past, c.routes, c.turn.route = slices.Clip(h.past), nil, turnRoute{}
	if h.offer != nil {
		o := *h.offer
		c.offer = &o
	}
	if c.compact(p); c.compacted == h.compacted {
		return nil, nil
	}
	s := snapshot{
		Version: 1, Turn: c.turn.number, Pinned: c.pinned, Told: c.told, Started: c.started, Compactions: c.compacted, FirstCompacted: c.firstCompacted,
		External: c.external, Unknown: c.unknown, Past: kept(c.past), Milli: c.filled.milli, Endpoints: c.endpoints,
		Base: c.base, Asked: c.asked, Revision: c.revision, Begun: c.begun, First: c.first, Attempts: c.turn.attempts, Made: c.turn.compactions,
	}
	if o := c.offer; o != nil {
		s.Offer = &offered{o.turn, o.after, o.tools}
	}
	for i, m := range c.messages {
		s.Messages = append(s.Messages, said{Message: m, Turn: c.marks[i], By: m.By})
	}
	b, err := canonical.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("snapshot of %d messages: %w", len(c.messages), err)
	}
	return b, nil
}

// ArgumentsAt says where in a snapshot the arguments of a call stand.
type ArgumentsAt struct {
	At   string // a JSON pointer
	Tool string
}

// SnapshotArguments returns where the arguments of calls stand in what
// [History.Snapshot] has returned.
func SnapshotArguments(snap []byte) (as []ArgumentsAt, err error) {
	var s struct {
		Messages []struct {
			Calls []struct {
				Name string `json:"name"`
			} `json:"calls"`
		} `json:"messages"`
		Past []struct {
			Tool string `json:"tool"`
		} `json:"past"`
	}
	if err := json.Unmarshal(snap, &s); err != nil {
		return nil, fmt.Errorf("read a snapshot: %w", err)
	}
	for i, m := range s.Messages {
		for j, c := range m.Calls {
			as = append(as, ArgumentsAt{fmt.Sprintf("/messages/%d/calls/%d/arguments", i, j), c.Name})
		}
	}
	for i, p := range s.Past {
		as = append(as, ArgumentsAt{fmt.Sprintf("/past/%d/arguments", i), p.Tool})
	}
	return as, nil
}

// kept are the last calls of each tool.
func kept(past []pastCall) (ks []keptCall) {
	size := map[string]int{}
	for i := len(past) - 1; i >= 0; i-- {
		c := past[i]
		if size[c.tool] += len(c.Arguments) + len(c.Output); size[c.tool] <= maxPast {
			ks = append(ks, keptCall{c.tool, c.Arguments, c.Output})
		}
	}
	slices.Reverse(ks)
	return ks
}

// Restore begins with the transcript that a compaction of an earlier run of the session
// has left, instead of the events up to that. It is called before the first [Inherit],
// which goes on behind e.
func (h *History) Restore(e events.Event, snap []byte) error {
	fail := func(err error) error {
		return fmt.Errorf("restore the transcript of run %s behind event %d: %w", e.RunID, e.Seq, err)
	}
	if h.seq > 0 || !h.origin.run.IsZero() || e.RunID == h.run {
		return fail(events.ErrBrokenChain)
	}
	var s snapshot
	if err := json.Unmarshal(snap, &s); err != nil {
		return fail(err)
	}
	if s.Version != 1 {
		return fail(fmt.Errorf("version %d: %w", s.Version, events.ErrUnknownVersion))
	}
	for _, m := range s.Messages {
		m.Message.By = m.By
		h.add(m.Turn, m.Message)
	}
	h.turn.number, h.pinned, h.told, h.started = s.Turn, s.Pinned, s.Told, s.Started
	h.compacted, h.firstCompacted = s.Compactions, s.FirstCompacted
	h.external, h.unknown, h.endpoints = s.External, s.Unknown, s.Endpoints
	h.filled.milli = s.Milli
	h.base, h.asked, h.revision, h.begun, h.first = s.Base, s.Asked, s.Revision, s.Begun, s.First
	h.turn.attempts, h.turn.compactions = s.Attempts, s.Made
	if o := s.Offer; o != nil {
		h.offer = &offer{turn: o.Turn, after: o.After, tools: o.Tools}
	}
	h.takeBasis()
	for _, c := range s.Past {
		p := pastCall{tool: c.Tool}
		p.Arguments, p.Output = c.Arguments, c.Output
		h.past = append(h.past, p)
	}
	h.origin = origin{run: e.RunID, seq: e.Seq, hash: e.Hash}
	return nil
}

// Whole reports whether compactions are left out, see [NewOriginal].
func (h *History) Whole() bool { return h.whole }
