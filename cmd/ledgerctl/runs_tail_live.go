package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/daybookhq/daybook/cmd/internal/watch"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/system"
)

// liveTail shows what a run is writing between its events. Without --live it only
// writes the events.
type liveTail struct {
	a      *app
	on     bool
	source watch.Source
	screen watch.Screen
	told   bool // that nothing can be watched
}

// liveLine is a live message in jsonl.
type liveLine struct {
	Live events.Live `json:"live"`
}

func (a *app) liveTail(r ledger.Run, f tailFlags) *liveTail {
	t := &liveTail{a: a, on: f.live, source: watch.Source{Options: a.where(), Tenant: r.Tenant, Run: r.ID}}
	t.screen = watch.Screen{Out: a.out, Lines: true, Again: t.source.Again}
	if a.output == formatTable && os.Getenv("TERM") != "dumb" {
		t.screen.Width = a.term.width
	}
	return t
}

// open connects once workers can be reached, and says so if they cannot.
func (t *liveTail) open() {
	if !t.on {
		return
	}
	err := t.source.Open()
	if err == nil || t.told {
		return
	}
	t.told = true
	t.on = errors.Is(err, system.ErrNoLive) && t.source.Options.Embedded() // a worker may come
	fmt.Fprintf(t.a.err, "events only: %s\n", clean(err.Error()))
}

func (t *liveTail) close() {
	t.screen.Clear()
	t.source.Close()
}

// event writes a recorded event. What was shown of an answer gives way to it.
func (t *liveTail) event(v eventView) error {
	answered := v.Type == events.TypeOf(events.ModelCallFinished{}) || v.Type == events.TypeOf(events.ModelCallError{}) || events.Terminal(v.Type)
	if answered {
		t.screen.Done()
	} else {
		t.screen.Clear()
	}
	err := t.a.tailLine(v)
	if err == nil && t.on && t.a.output == formatTable && v.Type == events.TypeOf(events.ModelCallFinished{}) {
		err = t.a.tailAnswer(v)
	}
	if !answered {
		t.screen.Draw()
	}
	return err
}

// tailAnswer writes the recorded text of an answer.
func (a *app) tailAnswer(v eventView) error {
	version, _ := events.CurrentVersion(v.Type)
	p, err := events.DecodePayload(v.Type, version, v.Data)
	if err != nil {
		return nil // the line above says what it is
	}
	d, ok := p.(events.ModelCallFinished)
	if !ok || d.Text == "" {
		return nil
	}
	for _, l := range visible(d.Text, max(a.term.width-6, 0)) {
		if _, err := fmt.Fprintf(a.out, "      %s\n", l); err != nil {
			return err
		}
	}
	return nil
}

// until shows what comes until the ledger is to be asked again; false = interrupted.
func (t *liveTail) until(ctx context.Context, tick <-chan time.Time) bool {
	for {
		var got <-chan events.Live
		if t.on {
			got = t.source.Messages()
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case m := <-got:
			if t.a.output == formatJSONL {
				if t.a.jsonLine(liveLine{m}) != nil {
					return false
				}
				continue
			}
			t.screen.Show(m)
		}
	}
}
