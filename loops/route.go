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

// turnRoute is what the turn in hand adds to that, or a compaction in it.
type turnRoute struct {
	model, endpoint string    // of the attempt that has no outcome, if it was not cut short
	decidedAt       time.Time // what the first attempt was decided by: the last event before the turn
	failedAt        time.Time
	failed          map[string]int      // failures of a model here
	gaveUp          map[string]string   // that would not answer however often they were asked, and the kind of the error
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
	return h.route(h.inquiry())
}

// CompactionChain returns the models that write the text of a compaction, in the order in
// which they are asked: the one that its policy names, and those that answer the run.
func (h *History) CompactionChain() []string {
	chain := h.Chain()
	c := h.Compaction()
	if c == nil || c.Model == "" {
		return chain
	}
	return append([]string{c.Model}, slices.DeleteFunc(slices.Clone(chain), func(m string) bool { return m == c.Model })...)
}

// CompactionRoute decides which model is asked for the text of the compaction that is due,
// by the rules of [History.Route] and from what is known of the models by then; only a
// window that was too small for a turn does not count, since this request is another one.
// ok is false if none is left, or they have failed too often: the run does without.
func (h *History) CompactionRoute() (r Route, ok bool) {
	a := h.compactionInquiry()
	if a.last != nil && (!h.goesOn(a) || h.turn.compacting.failures >= max(maxCompactFailures, len(a.chain))) {
		return Route{}, false
	}
	return h.route(a)
}

// inquiry is the request that is to be answered, of a turn or of a compaction, and what is
// known of it.
type inquiry struct {
	chain    []string
	here     *turnRoute
	last     *events.ModelCallError // nil = none has failed yet
	at       time.Time              // what is decided by
	compacts bool
}

func (h *History) inquiry() inquiry {
	t := &h.turn
	a := inquiry{chain: h.Chain(), here: &t.route, last: h.LastModelError(), at: h.time}
	switch {
	case t.answer != nil: // the next turn begins with what is known now
		a.here = &turnRoute{}
	case a.last != nil:
		a.at = t.route.failedAt
	case t.number > 0 && !t.route.decidedAt.IsZero():
		a.at = t.route.decidedAt
	}
	return a
}

// compactionInquiry is decided by the same moment as the turn that it makes room for, until
// a model has failed it.
func (h *History) compactionInquiry() inquiry {
	a := h.inquiry()
	a.chain, a.here, a.last, a.compacts = h.CompactionChain(), &turnRoute{}, nil, true
	if b := h.turn.compacting; b != nil {
		a.here = &b.route
		if a.last = b.last; b.last != nil {
			a.at = b.route.failedAt
		}
	}
	return a
}

func (h *History) route(a inquiry) (r Route, ok bool) {
	if len(a.chain) == 0 {
		return Route{}, false
	}
	last := a.last
	switch {
	case a.here.model != "" && slices.Contains(a.chain, a.here.model):
		return h.routeTo(a, Route{Model: a.here.model, Endpoint: a.here.endpoint}), true
	case last == nil || !slices.Contains(a.chain, last.Model):
	case last.NextEndpoint != "":
		return h.routeTo(a, Route{Model: last.Model, Endpoint: last.NextEndpoint}), true
	case a.here.patient(last):
		return h.routeTo(a, Route{Model: last.Model, At: last.RetryAt, Why: last.Error.Kind}), true
	}
	for _, m := range a.chain {
		l := h.routes[m]
		if a.compacts && l.kind == events.KindContextFull {
			l = leave{}
		}
		switch {
		case a.here.gaveUp[m] != "":
		case !l.until.After(a.at):
			return h.routeTo(a, Route{Model: m}), true
		case !ok || l.until.Before(r.At):
			r, ok = Route{Model: m, At: l.until, Why: l.kind}, true
		}
	}
	return h.routeTo(a, r), ok
}

func (h *History) routeTo(a inquiry, r Route) Route {
	if first := a.chain[0]; r.Model != first && r.Model != "" {
		why := a.here.gaveUp[first]
		if why == "" {
			why = h.routes[first].kind
		}
		r.Degraded = &events.Degraded{From: first, To: r.Model, Reason: why, Chain: a.chain}
	}
	return r
}

func (r *turnRoute) patient(e *events.ModelCallError) bool {
	return e.Retryable && e.Error.Kind == "rate_limited" && r.failed[e.Model] == 1 && !e.RetryAt.After(r.failedAt.Add(Patience))
}

// Streak counts the failures of a model since it last answered, over turns.
func (h *History) Streak(model string) int { return h.routes[model].streak }

// TriedEndpoints returns the endpoints of a model that have failed in the turn in hand, or
// in the compaction that makes room for it.
func (h *History) TriedEndpoints(model string) []string {
	if h.turn.answer != nil {
		return nil
	}
	if b := h.turn.compacting; b != nil {
		return b.route.tried[model]
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

// goesOn reports whether there is somebody to ask after the last error.
func (h *History) goesOn(a inquiry) bool {
	if a.last.NextEndpoint != "" {
		return true
	}
	if len(a.chain) < 2 {
		return a.last.Retryable
	}
	_, ok := h.route(a)
	return ok && movesOn(a.last)
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

// routeFailed notes an attempt that failed in r, and of its model what counts beyond that.
func (h *History) routeFailed(r *turnRoute, p events.ModelCallError, compacts bool) {
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
		r.failed, r.gaveUp = map[string]int{}, map[string]string{}
	}
	r.failed[p.Model]++
	l := leave{until: p.RetryAt, kind: p.Error.Kind, streak: h.routes[p.Model].streak + 1}
	if !p.Retryable {
		l.until, r.gaveUp[p.Model] = h.time.Add(LeaveAlone), p.Error.Kind
		if compacts {
			return // without a time to wait for, the turn asks for itself, and fails by its own error
		}
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
