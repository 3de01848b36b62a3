// Package scripted is a language model without a model: it answers from a
// policy (rules over the conversation, see [Load]) or from a fixed list of
// answers (see [Script]). It costs nothing, needs no network and always answers
// the same, so demos and tests can kill and resume around it.
package scripted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// Model answers from a policy or a script. Safe for concurrent use.
//
// A policy is stateless: the same request gets the same answer, on every worker
// and after a crash. A script is a list that is used up.
type Model struct {
	name   string // that serves; empty = the one asked for
	script bool
	rules  []rule // of a policy in order of precedence, of a script in order of time

	mu   sync.Mutex
	next int    // of a script
	used []bool // by rule
}

// rule is an answer and when it is given.
type rule struct {
	name   string
	when   condition
	answer answer
}

// Load reads a policy file. See [Parse].
func Load(path string) (*Model, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	return Parse(filepath.Base(path), b)
}

// Provider implements [model.Provided]: it is nobody's.
func (m *Model) Provider() model.Provider { return model.Provider{Name: "scripted"} }

// Call answers r. Errors are [*model.Error]: those the policy injects, kind
// "script_exhausted" if it has no answer, kind "invalid_request" if an answer
// refers to something that is not in the conversation. A context that ends is
// returned as its error.
func (m *Model) Call(ctx context.Context, r model.Request) (model.Response, error) {
	t, err := m.take(ctx, r)
	if err != nil {
		return model.Response{}, err
	}
	if err := sleep(ctx, t.answer.delay); err != nil {
		return model.Response{}, err
	}
	return t.render()
}

// taken is a request with the rule that answers it.
type taken struct {
	*rule
	c      *conversation
	served string
}

// take picks the rule for a request; one of a script is used up by it.
func (m *Model) take(ctx context.Context, r model.Request) (taken, error) {
	if err := ctx.Err(); err != nil {
		return taken{}, err
	}
	c := newConversation(r)
	ru, err := m.pick(c)
	if err != nil {
		return taken{}, err
	}
	return taken{rule: ru, c: c, served: cmp.Or(m.name, r.Model)}, nil
}

func (t taken) render() (model.Response, error) { return t.answer.render(t.c, t.name, t.served) }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// pick returns the rule that answers c, and marks it as used.
func (m *Model) pick(c *conversation) (*rule, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.next
	if m.script {
		if i >= len(m.rules) {
			return nil, &model.Error{Kind: "script_exhausted", Model: m.name, Err: fmt.Errorf("call %d of a script of %d answers; the last message is %s", i+1, len(m.rules), c.lastMessage())}
		}
		m.next++
	} else {
		for i = 0; i < len(m.rules) && !m.rules[i].when.holds(c); i++ {
		}
		if i == len(m.rules) {
			return nil, &model.Error{Kind: "script_exhausted", Model: m.name, Err: fmt.Errorf("none of %d rules fits; the last message is %s", len(m.rules), c.lastMessage())}
		}
	}
	m.used[i] = true
	return &m.rules[i], nil
}

// Unused returns the names of the rules or answers that were never used.
func (m *Model) Unused() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for i, u := range m.used {
		if !u {
			names = append(names, m.rules[i].name)
		}
	}
	return names
}

// ErrUnused is returned by [Model.Close] for what was never used.
var ErrUnused = errors.New("the script was not used up")

// Close returns an error wrapping [ErrUnused] that names what was never used: a
// test that expected it proves less than it says. There is nothing to release.
func (m *Model) Close() error {
	if names := m.Unused(); len(names) > 0 {
		return fmt.Errorf("close scripted model: %w: %s", ErrUnused, strings.Join(names, ", "))
	}
	return nil
}

// Answer is one answer of a script.
type Answer struct {
	Text  string
	Calls []Call
	// StopReason is tool_use with calls and end_turn without, if empty.
	StopReason string
	// Usage is counted from the sizes of request and answer, if nil.
	Usage *events.Usage
	// Model is the model that serves; empty means the one asked for.
	Model string
	// Delay passes before the answer, unless the context ends first.
	Delay time.Duration
	// Err is returned instead of the answer.
	Err *model.Error
}

// Call is a tool call of an answer.
type Call struct {
	Name string
	// Arguments as the model writes them: malformed text is sent as such. Empty means {}.
	Arguments string
	// ProviderID is sent as it is, missing and repeated ones too.
	ProviderID string
}

// Script returns a model that gives each answer once, in order. Calls beyond
// the last are refused: kind "script_exhausted", not retryable.
func Script(answers ...Answer) *Model {
	m := &Model{script: true, used: make([]bool, len(answers))}
	for i, a := range answers {
		x := answer{text: literal(a.Text), stopReason: a.StopReason, usage: a.Usage, model: a.Model, delay: a.Delay, err: a.Err}
		for _, c := range a.Calls {
			x.calls = append(x.calls, callTemplate{name: c.Name, providerID: c.ProviderID, raw: literal(c.Arguments)})
		}
		m.rules = append(m.rules, rule{name: fmt.Sprintf("answer %d", i+1), answer: x})
	}
	return m
}
