package simulation_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/runtime"
)

// judge compares what the ledger says with what happened.
func (p *plant) judge() {
	ctx := context.Background()
	for key, n := range p.provider.done {
		if n > 1 {
			p.t.Errorf("seed %d: %s took effect %d times", p.seed, key, n)
		}
	}
	for _, id := range p.runs {
		r, err := p.store.Run(ctx, id)
		if err != nil || r.State != ledger.Finished && (!p.cancelled[id] || r.State != ledger.Cancelled) {
			p.t.Errorf("seed %d: run %s is %s %s, %v\n%s", p.seed, id, r.State, r.Error, err, p.story(id))
		}
		es, err := p.store.Effects(ctx, ledger.EffectFilter{Run: id})
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range es {
			switch n := p.provider.count(e.OpKey.String()); {
			case e.State == events.EffectApplied && n != 1, e.State == events.EffectNotApplied && n > 0:
				p.t.Errorf("seed %d: run %s: %s is %s, it took effect %d times\n%s", p.seed, id, e.Tool, e.State, n, p.story(id))
			case e.State != events.EffectApplied && e.State != events.EffectNotApplied:
				p.t.Errorf("seed %d: run %s has ended, and %s is %s", p.seed, id, e.Tool, e.State)
			case e.PossibleDuplicate || e.Contradicted:
				p.t.Errorf("seed %d: run %s: %s: possible duplicate %v, contradicted %v: nobody lied", p.seed, id, e.Tool, e.PossibleDuplicate, e.Contradicted)
			}
		}
		p.told(id)
		p.rehearse(r)
	}
	_, err := p.store.Verify(ctx, events.RunID{}, func(f ledger.Finding) error {
		if f.Kind != ledger.Note {
			p.t.Errorf("seed %d: verify: %s run %s seq %d: %s", p.seed, f.Kind, f.Run, f.Seq, f.Text)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// told: the last that a run is told of an effect is what happened.
func (p *plant) told(id events.RunID) {
	last := map[events.Hash]events.Type{}
	for _, e := range p.history(id) {
		switch v := e.Data.(type) {
		case events.ToolExecutionFinished:
			if v.Ref != nil {
				last[v.Ref.OpKey] = e.Type
			}
		case events.ToolExecutionError:
			if v.Ref != nil && v.Tool != "shared" { // which another run may do later
				last[v.Ref.OpKey] = e.Type
			}
		case events.EffectResolved:
			delete(last, v.Ref.OpKey)
		}
	}
	for key, typ := range last {
		if happened := p.provider.count(key.String()) > 0; happened != (typ == events.TypeOf(events.ToolExecutionFinished{})) {
			p.t.Errorf("seed %d: run %s: %s of %s is the last it was told, and it happened: %v\n%s", p.seed, id, typ, key, happened, p.story(id))
		}
	}
}

// rehearse: today's loop decides the same over what was recorded.
func (p *plant) rehearse(r ledger.Run) {
	h := loops.NewHistory(r.ID)
	if err := runtime.Inherit(context.Background(), p.store, r, h); err != nil {
		p.t.Fatal(err)
	}
	ds, err := loops.Rehearse(h, p.history(r.ID), singleshot.New())
	if err != nil || len(ds) > 0 {
		p.t.Errorf("seed %d: rehearse run %s: %v %v\n%s", p.seed, r.ID, ds, err, p.story(r.ID))
	}
}

func (p *plant) history(id events.RunID) []events.Event {
	var es []events.Event
	err := p.store.Events(context.Background(), id, 1, func(s events.Sealed) error {
		e, err := s.Decode()
		es = append(es, e)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return es
}

func (p *plant) story(id events.RunID) string {
	var b strings.Builder
	for _, e := range p.history(id) {
		fmt.Fprintf(&b, "%s %4d e%d %s %.300s\n", e.Time.Format("04:05.000"), e.Seq, e.Epoch, e.Type, fmt.Sprintf("%+v", e.Data))
	}
	return b.String()
}
