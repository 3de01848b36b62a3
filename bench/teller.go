package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

// teller writes the history of one run that it holds, without a runtime.
type teller struct {
	lease ledger.Lease
	seq   uint64
	prev  events.Hash
	ids   *events.IDs
	r     *redact.Redactor
}

func (t *teller) tell(p events.Payload) (events.Sealed, error) {
	return t.seal(t.ids.Event(), events.TypeOf(p), p)
}

// adopt numbers a fact.
func (t *teller) adopt(f *events.Fact) (events.Sealed, error) { return t.seal(f.ID, f.Type, f.Data) }

func (t *teller) seal(id events.ID, typ events.Type, data any) (events.Sealed, error) {
	j, err := t.r.JSON(data)
	if err != nil {
		return events.Sealed{}, err
	}
	s, err := events.Seal(events.Envelope{
		ID: id, RunID: t.lease.RunID, Seq: t.seq + 1, Epoch: t.lease.Epoch, Type: typ, Version: 1, Time: time.Now(), Tenant: "default", Prev: t.prev,
	}, j)
	if err != nil {
		return s, err
	}
	t.seq, t.prev = t.seq+1, s.Hash()
	return s, nil
}

// story tells several payloads.
func (t *teller) story(dst []events.Sealed, ps ...events.Payload) ([]events.Sealed, error) {
	for _, p := range ps {
		s, err := t.tell(p)
		if err != nil {
			return dst, err
		}
		dst = append(dst, s)
	}
	return dst, nil
}

// head is how every run begins, as a worker would record it.
func (t *teller) head(tool string, prompt events.Hash) []events.Payload {
	return []events.Payload{
		events.RunQueued{Agent: agentName, Root: t.lease.RunID, Input: json.RawMessage(`1`)},
		events.RunStarted{
			Worker: "bench", Agent: agentName, PromptHash: prompt, Model: "none", Loop: "singleshot", LoopVersion: 1,
			Tools: []events.ToolBinding{{Name: tool}}, Limits: events.Limits{MaxTurns: 100_000},
		},
	}
}

// turn is one turn with n readonly calls of 1 KB, as a worker would record it.
func turnOf(turn, n int) []events.Payload {
	ps := []events.Payload{
		events.TurnStarted{Turn: turn},
		events.ModelCallStarted{Turn: turn, Attempt: 1, Model: "none", Messages: 2*turn - 1, Tools: []string{readonly}},
	}
	asked := events.ModelCallFinished{Turn: turn, Attempt: 1, Model: "none", ServedModel: "none", StopReason: "tool_use", Usage: events.Usage{Input: 1, Output: 1}}
	args := json.RawMessage(`{"n":` + fmt.Sprint(turn) + `,"query":"` + lorem(280) + `"}`)
	var after []events.Payload
	for i := range n {
		asked.ToolCalls = append(asked.ToolCalls, events.ToolCall{Name: readonly, Arguments: args})
		id := events.CallID{Turn: turn, Index: i}
		after = append(after,
			events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: readonly, Effect: "readonly", Arguments: args, At: time.Now()},
			events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: readonly, Result: events.ToolResult{Status: "completed", Output: lorem(600), Trust: "own"}, At: time.Now()})
	}
	return append(append(ps, asked), after...)
}

func lorem(n int) string { return strings.Repeat("lorem ipsum dolor sit amet ", n/27+1)[:n] }

// claim submits n runs of an agent and takes them as worker.
func claim(ctx context.Context, st ledger.Store, r *redact.Redactor, agent, worker string, n int, ttl time.Duration) ([]*teller, error) {
	input, err := r.JSON(1)
	if err != nil {
		return nil, err
	}
	ids := events.NewIDs(nil, nil)
	for i := range n {
		_, _, err := st.Submit(ctx, ledger.Submission{
			Tenant: "default", Queue: "default", Agent: agent, ClientKey: fmt.Sprint(worker, i), Input: input, InputMAC: []byte("m"), Requires: []string{"agent/" + agent},
		})
		if err != nil {
			return nil, err
		}
	}
	cs, err := st.Claim(ctx, ledger.ClaimRequest{Worker: worker, Capabilities: []string{"agent/" + agent}, Limit: n, TTL: ttl})
	if err != nil {
		return nil, err
	}
	if len(cs) != n {
		return nil, fmt.Errorf("claimed %d runs of %d", len(cs), n)
	}
	ts := make([]*teller, n)
	for i, c := range cs {
		ts[i] = &teller{lease: c.Lease, prev: events.Genesis(c.Run.ID), ids: ids, r: r}
	}
	return ts, nil
}
