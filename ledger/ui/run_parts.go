package ui

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// runTab is one of the pages about a run.
type runTab struct{ path, name string }

var runTabs = []runTab{
	{"waterfall", "Waterfall"}, {"transcript", "Transcript"}, {"cost", "Cost"}, {"artifacts", "Artifacts"}, {"tree", "Tree"}, {"events", "Events"}, {"record", "Record"},
}

func (t runTab) link(c chrome, h runHead) string {
	if t.path == "waterfall" {
		return c.to("runs", h.ID.String())
	}
	return c.to("runs", h.ID.String(), t.path)
}

func laneTop(i int) string { return fmt.Sprint(3 + 16*i) }

// overviewWords say the picture to whoever does not see it.
func overviewWords(w *waterfall) string {
	n := map[kind]int{}
	for _, a := range w.acts {
		n[a.kind]++
	}
	return fmt.Sprintf("The run took %s. The table below says the same in words.", took(w.end.Sub(w.begin)))
}

// kindWords say what an act is; on the screen a sign and its colour do.
func kindWords(k kind) string {
	return map[kind]string{
		kindQueue: "in queue", kindLease: "held by worker", kindWait: "waited for", kindDoubt: "in doubt",
		kindModel: "model", kindTool: "tool", kindCheck: "validated", kindPoint: "",
	}[k]
}

func actName(a act) string {
	switch a.kind {
	case kindQueue:
		return "in queue " + a.name
	case kindLease:
		return "worker " + a.name
	case kindWait:
		return "waits: " + words(a.name)
	}
	return a.name
}

// drawn is a bar as it is drawn.
type drawn struct{ x, w, tone string }

func barOf(w *waterfall, a act) []drawn {
	x, width := w.scale.bar(a)
	tone := string(a.kind)
	if a.failed {
		tone = "failed"
	}
	if a.kind == kindLease {
		tone = "leaseA"
	}
	return []drawn{{x, width, tone}}
}

func shortCost(s string) string {
	v, err := events.ParsePico(s)
	if err != nil {
		return s
	}
	return dollars(v)
}

func (w *waterfall) pages() int { return max((w.total+actsPerPage-1)/actsPerPage, 1) }

func (w *waterfall) link(c chrome, h runHead, n int) string {
	return c.with(c.to("runs", h.ID.String()), "page", fmt.Sprint(n))
}

// depthOf names how deep a run of a tree stands, for the stylesheet.
func depthOf(n int) string { return fmt.Sprint(min(n, 6)) }

// limitWords are what bounds a queue.
func limitWords(l ledger.QueueLimit) string {
	var parts []string
	if l.MaxRunning > 0 {
		parts = append(parts, count(l.MaxRunning)+" at once")
	}
	if l.MaxPerKey > 0 {
		parts = append(parts, count(l.MaxPerKey)+" per key")
	}
	if l.Rate > 0 {
		parts = append(parts, count(l.Rate)+" in any "+took(l.Per))
	}
	return strings.Join(parts, ", ")
}

// before is where the page of events before one begins.
func before(from uint64) string {
	if from <= eventsPage {
		return "1"
	}
	return fmt.Sprint(from - eventsPage)
}

func picoOf(p events.PicoUSD) *big.Int { return big.NewInt(int64(p)) }
