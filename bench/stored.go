package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	bus "github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// talker asks for one call a turn and counts a token for three bytes that it is sent,
// as a provider would.
type talker struct {
	turns int64
	n     atomic.Int64
	sent  atomic.Int64 // bytes
}

func (m *talker) Call(_ context.Context, r model.Request) (model.Response, error) {
	size := r.InputBound() - 1024
	m.sent.Add(size)
	resp := model.Response{StopReason: "tool_use", Usage: events.Usage{Input: size / 3, Output: 20}}
	switch {
	case len(r.Tools) == 0: // a compaction
		resp.Text, resp.StopReason = strings.Repeat("A sentence of a summary. ", 40), "end_turn"
	case m.n.Add(1) > m.turns:
		resp.Text, resp.StopReason = "done", "end_turn"
	default:
		resp.Text = "I look at the next one."
		resp.Calls = []events.ToolCall{{Name: readonly, Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, m.n.Load()))}}
	}
	return resp, nil
}

// storedPart has single runs of ever more turns, and says what a turn stores: what is
// linear stores as much in a run of 400 turns as in one of 50.
func storedPart(ctx context.Context, b *bench) error {
	for _, c := range []*events.Compaction{nil, {At: 80, Keep: 6, With: events.CompactedBySummary, Window: 32_000}} {
		name := "without compaction"
		if c != nil {
			name = "compacted in a window of 32,000 tokens"
		}
		base := ""
		for _, turns := range []int64{50, 100, 200, 400} {
			f, err := b.stores(ctx, turns, c)
			if err != nil {
				return err
			}
			f.Name = fmt.Sprintf("a turn of a run of %d turns, %s", turns, name)
			if base == "" {
				base = f.Name
			} else {
				f = b.report.over(f, base)
				f = f.goal("within 20 %", f.Ratio <= 1.2)
			}
			b.report.add(f)
		}
	}
	return nil
}

func (b *bench) stores(ctx context.Context, turns int64, c *events.Compaction) (f figure, err error) {
	s, err := b.site(ctx, always)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sys, err := s.open(ctx, always)
	if err != nil {
		return f, err
	}
	js, err := s.jetstream()
	if err != nil {
		return f, err
	}
	pool, err := s.pool(ctx, 1)
	if err != nil {
		return f, err
	}
	type args struct {
		N int `json:"n"`
	}
	look, err := tools.New(tools.Definition{Name: readonly, Description: "Looks.", Effect: tools.Readonly, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in args) (string, error) {
			return fmt.Sprintf("%d: %s", in.N, strings.Repeat("what was seen there ", 50)), nil
		})
	if err != nil {
		return f, err
	}
	reg, err := tools.NewRegistry(look)
	if err != nil {
		return f, err
	}
	m := &talker{turns: turns}
	a := agentOf(readonly, int(turns))
	a.Loop, a.Compaction = singleshot.Name, c
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- sys.Work(wctx, runtime.Config{Agents: []*agents.Agent{a}, Tools: reg, Models: map[string]model.Model{"none": m}}, false)
	}()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: agentName, Input: "go", ClientKey: "one"})
	if err != nil {
		return f, err
	}
	if r, err = sys.Client().Wait(ctx, r.ID, false); err != nil {
		return f, err
	}
	stop()
	if err := <-worked; err != nil {
		return f, err
	}
	if r.State != "finished" {
		return f, fmt.Errorf("run of %d turns: %s %s", turns, r.State, r.Error)
	}
	var inEvents, inBlobs, compactions int64
	err = pool.QueryRow(ctx, `SELECT (SELECT sum(length(bytes)) FROM events), (SELECT coalesce(sum(length(content)), 0) FROM blobs),
		(SELECT count(*) FROM events WHERE type = 'transcript_compacted')`).Scan(&inEvents, &inBlobs, &compactions)
	if err != nil {
		return f, err
	}
	st, err := js.Stream(ctx, bus.JournalStream)
	if err != nil {
		return f, err
	}
	info, err := st.Info(ctx)
	if err != nil {
		return f, err
	}
	inJournal := int64(info.State.Bytes) //nolint:gosec // small
	f = figure{Part: "stored", Unit: "bytes", Value: float64(inEvents+inBlobs+inJournal) / float64(turns)}
	f.Note = fmt.Sprintf("%d in events, %d in the journal, %d in blobs in all; %d compactions; the model was sent %.1f MB", inEvents, inJournal, inBlobs, compactions, float64(m.sent.Load())/1e6)
	return f, nil
}
