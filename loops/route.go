package loops

import (
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
)

const (
	// Patience is the longest wait that a rate limit may ask for and the model is
	// asked again all the same, once in a turn: its provider has the conversation
	// cached, and another one would read it all.
	Patience = 2 * time.Second
	// LeaveAlone is how long a model is left alone that will not answer and does not say
	// until when: one whose key is refused.
	LeaveAlone = 5 * time.Minute
)

// Route is which model is asked next.
type Route struct {
	Model string
	// Endpoint is the one of a pool that has to be asked; empty = whoever asks chooses.
	Endpoint string
	// At is when it may be asked; zero = at once.
	At time.Time
	// Why is the kind of the error that At is for.
	Why string
	// Degraded is there if Model is not the first of the chain.
	Degraded *events.Degraded
}

// routes is what is known of the models that a run has asked and that did not answer
// the last time.
type routes map[string]leave

// leave is why a model is left alone, and until when.
type leave struct {
	until  time.Time
	kind   string
	streak int // failures in a row
}

// turnRoute is what the turn in hand adds to that.
type turnRoute struct {
	model, endpoint string    // of the attempt that has no outcome, if it was not cut short
	decidedAt       time.Time // what the first attempt was decided by: the last event before the turn
	failedAt        time.Time
	failed          map[string]int      // failures of a model here
	gaveUp          map[string]bool     // that would not answer however often they were asked
	tried           map[string][]string // endpoints that failed, by model
}

// Chain returns the models that answer this run, in the order in which they are asked.
func (h *History) Chain() []string {
	switch {
	case h.started == nil:
		return nil
	case len(h.started.Chain) > 0:
		return h.started.Chain
	}
	return []string{h.started.Model}
}

// Route decides which model the call of [History.NextTurn] goes to. It reads nothing
// but the record, so that another holder decides the same:
//
//  1. an attempt that a crash cut short is made again, where it was made;
//  2. if the last attempt failed and named another endpoint of its model, that one;
//  3. if it was told of a limit that ends within [Patience], the same model, once;
//  4. else the first of the chain that is not left alone: a model that failed is,
//     until the time that its error has, and one that would not answer a request like
//     this one for the rest of the turn and [LeaveAlone] in all;
//  5. if all are, the one that may be asked first.
//
// ok is false if none is left in this turn. What is wrong with the request itself
// ends the call, whoever is left: see [AskModel].
func (h *History) Route() (r Route, ok bool) {
	chain := h.Chain()
	if len(chain) == 0 {
		return Route{}, false
	}
	t := &h.turn
	at, last := h.time, h.LastModelError()
	switch {
	case t.answer != nil: // the next turn begins with what is known now
		t = &turn{}
	case t.route.model != "" && slices.Contains(chain, t.route.model):
		return h.routeTo(chain, Route{Model: t.route.model, Endpoint: t.route.endpoint}), true
	case last == nil && t.number > 0 && !t.route.decidedAt.IsZero():
		at = t.route.decidedAt
	case last != nil:
		at = t.route.failedAt
		if !slices.Contains(chain, last.Model) {
			break
		}
		if last.NextEndpoint != "" {
			return h.routeTo(chain, Route{Model: last.Model, Endpoint: last.NextEndpoint}), true
		}
		if h.patient(last) {
			return h.routeTo(chain, Route{Model: last.Model, At: last.RetryAt, Why: last.Error.Kind}), true
		}
	}
	for _, m := range chain {
		l := h.routes[m]
		switch {
		case t.route.gaveUp[m]:
		case !l.until.After(at):
			return h.routeTo(chain, Route{Model: m}), true
		case !ok || l.until.Before(r.At):
			r, ok = Route{Model: m, At: l.until, Why: l.kind}, true
		}
	}
	return h.routeTo(chain, r), ok
}

func (h *History) routeTo(chain []string, r Route) Route {
	if first := chain[0]; r.Model != first && r.Model != "" {
		r.Degraded = &events.Degraded{From: first, To: r.Model, Reason: h.routes[first].kind, Chain: chain}
	}
	return r
}

func (h *History) patient(e *events.ModelCallError) bool {
	return e.Retryable && e.Error.Kind == "rate_limited" && h.turn.route.failed[e.Model] == 1 && !e.RetryAt.After(h.turn.route.failedAt.Add(Patience))
}

// Streak counts the failures of a model since it last answered, over turns.
func (h *History) Streak(model string) int { return h.routes[model].streak }

// TriedEndpoints returns the endpoints of a model that have failed in the turn in hand.
func (h *History) TriedEndpoints(model string) []string {
	if h.turn.answer != nil {
		return nil
	}
	return h.turn.route.tried[model]
}

// LastEndpoint returns the endpoint of a model that answered last; empty = none did.
func (h *History) LastEndpoint(model string) string { return h.endpoints[model] }

// movesOn reports whether another model may answer what this one did not: not if
// the request is what was wrong. One that is too long is so for this model: another
// may have a larger window, and one that has not says so for nothing.
func movesOn(e *events.ModelCallError) bool {
	return e.Retryable || slices.Contains([]string{"unauthorized", "panic", events.KindContextFull}, e.Error.Kind)
}

// goesOn reports whether there is somebody to ask after the last error of the turn.
func (h *History) goesOn() bool {
	e := h.LastModelError()
	if e.NextEndpoint != "" {
		return true
	}
	if len(h.Chain()) < 2 {
		return e.Retryable
	}
	_, ok := h.Route()
	return ok && movesOn(e)
}

func (h *History) routeStarted(p events.ModelCallStarted) {
	h.turn.route.model, h.turn.route.endpoint = p.Model, p.Endpoint
}

func (h *History) routeAnswered(p events.ModelCallFinished) {
	h.turn.route = turnRoute{}
	delete(h.routes, p.Model)
	if p.Endpoint != "" {
		if h.endpoints == nil {
			h.endpoints = map[string]string{}
		}
		h.endpoints[p.Model] = p.Endpoint
	}
}

func (h *History) routeFailed(p events.ModelCallError) {
	r := &h.turn.route
	r.model, r.endpoint, r.failedAt = "", "", h.time
	if p.Endpoint != "" {
		if r.tried == nil {
			r.tried = map[string][]string{}
		}
		r.tried[p.Model] = append(r.tried[p.Model], p.Endpoint)
	}
	if p.NextEndpoint != "" {
		return
	}
	if r.failed == nil {
		r.failed, r.gaveUp = map[string]int{}, map[string]bool{}
	}
	r.failed[p.Model]++
	l := leave{until: p.RetryAt, kind: p.Error.Kind, streak: h.routes[p.Model].streak + 1}
	if !p.Retryable {
		l.until, r.gaveUp[p.Model] = h.time.Add(LeaveAlone), true
	}
	if h.routes == nil {
		h.routes = routes{}
	}
	h.routes[p.Model] = l
}

// routeForgiven asks a model again that refused a request as too long: there is room
// now.
func (h *History) routeForgiven(model string) {
	delete(h.routes, model)
	delete(h.turn.route.gaveUp, model)
	delete(h.turn.route.failed, model)
	delete(h.turn.route.tried, model)
}
