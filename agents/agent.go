// Package agents reads agent definitions: an AGENT.md file says in its front
// matter which model, tools and loop an agent has and what bounds its runs; the
// text below is its prompt.
package agents

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/tools/policy"
)

// FileName is what a definition is called in its folder.
const FileName = "AGENT.md"

// DefaultLoop is the loop of an agent that names none.
const DefaultLoop = "singleshot"

// Agent is a definition. Runs are bound to it by its hash.
type Agent struct {
	Name        string
	Description string // for people; may be empty
	// Model is a model's name, or that of a role that the host gives to models.
	Model string
	// Fallbacks are asked in this order where Model does not answer; nil = none is.
	Fallbacks []string
	// Thinking is how much the model may think before it answers: off, minimal, low,
	// medium or high; empty = as the model is configured.
	Thinking string
	// Output is a JSON Schema that the answer a run ends with has to fit; nil = text.
	Output json.RawMessage
	Tools  []string // in the order of the file; nil for none
	// Select is how many of Tools a model call is shown: those that the
	// conversation is about, see tools.Bus. Zero means all of them.
	Select int
	// Groups say how Select chooses: see [Group]. Not every tool is in one.
	Groups []Group
	// Agents are those that this one may call, each as a tool of its own; see [Callee].
	Agents []Callee
	// Input is the JSON Schema of what others call this agent with; nil = a text.
	Input json.RawMessage
	Loop  string // never empty
	// LoopOptions are the loop's, a JSON object; nil = none.
	LoopOptions json.RawMessage
	// Limits bound each run; zero fields mean the defaults of package loops.
	Limits events.Limits
	// Timeout bounds a run from when it is queued; zero means none.
	Timeout time.Duration
	// Budget is what a run may spend, unless its submission says; nil = no limit.
	Budget *events.PicoUSD
	// BudgetUnpriced is "refuse" if no model or priced tool may be called whose price
	// nobody knows; empty (allow in the file) allows it and shows it as unpriced.
	BudgetUnpriced string
	// Approve lists the tools whose every call a person must approve; "*" means
	// each destructive one.
	Approve []string
	// Taint says what becomes of a destructive call once text from outside has come
	// into the run: ask, deny, or nothing (empty; allow in the file).
	Taint string
	// Policy are rules about calls, nil for none. They forbid and ask; they permit
	// nothing that something else forbids.
	Policy *policy.List
	// PolicyTests are what the rules are tested with. They are not part of the hash.
	PolicyTests []policy.Case
	// Validate names the host's validator that looks at each call, instead of the
	// host's own default; empty = that default. Middleware names what of the host's
	// sees calls before they are allowed, after the host's own, in this order.
	Validate   string
	Middleware []string
	// ApprovalTimeout is how long a person may take; zero means a day.
	ApprovalTimeout time.Duration
	// Compaction says when and how a transcript is compacted; nil = never. Its Window
	// may be left to the price table of the worker.
	Compaction *events.Compaction
	// Retry says how often a run is tried that an error stops.
	Retry  Retry
	Prompt string // without white space around it
	Path   string // of the file; not part of the hash
	// Layers are put upon Prompt by whoever runs the agent; package prompt composes
	// them. They are not part of the hash: a run is bound to each by its digest.
	Layers []prompt.Layer
	// Skills are what a run may be told beside Prompt. They grant nothing.
	Skills []Skill
}

// Group is a part of an agent's tools that belong to one subject. A conversation
// that names a group is shown tools of that group; see tools.NewGroup.
type Group struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tools       []string `json:"tools,omitempty"` // of the agent's; none is in two groups
	Groups      []Group  `json:"groups,omitempty"`
}

// Retry is how often a failed run is tried and what lies in between. The zero
// value is one try.
type Retry struct {
	MaxAttempts int `json:"max_attempts,omitempty"` // in all; 0 = 1
	// Backoff is the wait before the second try; it doubles with each, up to MaxBackoff.
	Backoff    time.Duration `json:"backoff,omitempty"`
	MaxBackoff time.Duration `json:"max_backoff,omitempty"`
}

// Deadline returns the moment at which a run queued at t has to end; zero for none.
func (a *Agent) Deadline(t time.Time) time.Time {
	if a.Timeout == 0 {
		return time.Time{}
	}
	return t.Add(a.Timeout)
}

// Hash returns the SHA-256 of everything the definition says: two files that
// differ only in spelling (order of fields, comments, defaults written out for
// the loop) hash the same, wherever they are.
func (a *Agent) Hash() events.Hash {
	b, err := canonical.Marshal(struct {
		Name        string        `json:"name"`
		Description string        `json:"description"`
		Model       string        `json:"model"`
		Tools       []string      `json:"tools,omitempty"`
		Select      int           `json:"select,omitempty"` // left out, the hash is as it was before there was a choice
		Groups      []Group       `json:"groups,omitempty"`
		Loop        string        `json:"loop"`
		Limits      events.Limits `json:"limits"`
		Timeout     time.Duration `json:"timeout"`
		Retry       Retry         `json:"retry,omitzero"` // left out, so that agents without one hash as before there was any
		Prompt      string        `json:"prompt"`
		Budget      string        `json:"budget,omitempty"` // left out, the hash is as it was before there were budgets
		Approve     []string      `json:"approve,omitempty"`
		Taint       string        `json:"taint,omitempty"`
		ApprovalTTL time.Duration `json:"approval_timeout,omitempty"`
		Unpriced    string        `json:"budget_unpriced,omitempty"`

		LoopOptions json.RawMessage     `json:"loop_options,omitempty"`
		Fallbacks   []string            `json:"fallbacks,omitempty"`
		Thinking    string              `json:"thinking,omitempty"`
		Output      json.RawMessage     `json:"output,omitempty"`
		Policy      []events.PolicyRule `json:"policy,omitempty"`
		Validate    string              `json:"validate,omitempty"`
		Middleware  []string            `json:"middleware,omitempty"`

		Compaction *events.Compaction `json:"compaction,omitempty"`

		Agents []hashedCallee  `json:"agents,omitempty"`
		Input  json.RawMessage `json:"input,omitempty"`
		Skills []skillHash     `json:"skills,omitempty"`
	}{
		a.Name, a.Description, a.Model, a.Tools, a.Select, a.Groups, a.Loop, a.Limits, a.Timeout, a.Retry, a.Prompt, a.budget(), a.Approve, a.Taint,
		a.ApprovalTimeout, a.BudgetUnpriced, a.LoopOptions, a.Fallbacks, a.Thinking, a.Output, a.Policy.Record().Rules, a.Validate, a.Middleware, a.Compaction, a.callees(), a.Input, a.skills(),
	})
	if err != nil {
		// Only text that is not UTF-8 and options that are not JSON fail, and Parse lets none in.
		panic(fmt.Sprintf("hash agent %q: %v", a.Name, err))
	}
	return sha256.Sum256(append([]byte("daybook/agent/1\x00"), b...))
}

type skillHash struct {
	Digest events.Hash `json:"digest"`
	Active bool        `json:"active,omitempty"`
}

func (a *Agent) skills() []skillHash {
	var all []skillHash
	for _, s := range a.Skills {
		all = append(all, skillHash{s.Digest(), s.Active})
	}
	return all
}

func (a *Agent) budget() string {
	if a.Budget == nil {
		return ""
	}
	return a.Budget.String()
}
