package model

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Endpoint is one way to a model: an address, a region, a key.
type Endpoint struct {
	Name  string
	Model Model
	// Weight is how many of the runs it gets, beside the others'; 0 = 1.
	Weight int
}

// Pool is several endpoints of one model. A run stays with one, so that its provider's
// cache serves it, as long as that has no limit that is used up; which one a new run
// gets follows from its id and the weights, on every worker alike. One call is one
// wire call: whoever asks tries the next endpoint, and records it. Safe for
// concurrent use.
type Pool struct {
	endpoints []Endpoint
	now       func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // endpoints that nothing is left of, and until when
}

// NewPool returns a pool; now nil = [time.Now]. Endpoints need names of their own.
func NewPool(now func() time.Time, es ...Endpoint) (*Pool, error) {
	if now == nil {
		now = time.Now
	}
	if len(es) == 0 {
		return nil, fmt.Errorf("pool: no endpoints")
	}
	p := &Pool{now: now, until: map[string]time.Time{}}
	for _, e := range es {
		switch {
		case e.Name == "" || e.Model == nil:
			return nil, fmt.Errorf("pool: endpoint %q: name and model are required", e.Name)
		case p.find(e.Name) != nil:
			return nil, fmt.Errorf("pool: two endpoints %q", e.Name)
		case e.Weight < 0:
			return nil, fmt.Errorf("pool: endpoint %q: weight %d is below 0", e.Name, e.Weight)
		}
		if e.Weight == 0 {
			e.Weight = 1
		}
		p.endpoints = append(p.endpoints, e)
	}
	return p, nil
}

func (p *Pool) find(name string) *Endpoint {
	for i := range p.endpoints {
		if p.endpoints[i].Name == name {
			return &p.endpoints[i]
		}
	}
	return nil
}

// Has reports whether there is an endpoint of that name.
func (p *Pool) Has(name string) bool { return p.find(name) != nil }

// Choose returns the endpoint that a run asks next: last, which it asked before, if
// that may be asked; else the run's own order, which goes by its id and the weights.
// Those tried are not asked again. With all limits used up it is the one that is free
// first; ok is false if all were tried.
func (p *Pool) Choose(run, last string, tried []string) (name string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	var best *Endpoint
	for i := range p.endpoints {
		e := &p.endpoints[i]
		if slices.Contains(tried, e.Name) {
			continue
		}
		if best == nil || p.before(e, best, run, last, now) {
			best = e
		}
	}
	if best == nil {
		return "", false
	}
	return best.Name, true
}

// before reports whether a is asked rather than b. p.mu is held.
func (p *Pool) before(a, b *Endpoint, run, last string, now time.Time) bool {
	ua, ub := p.until[a.Name], p.until[b.Name]
	freeA, freeB := !ua.After(now), !ub.After(now)
	switch {
	case freeA != freeB:
		return freeA
	case !freeA && !ua.Equal(ub):
		return ua.Before(ub)
	case a.Name == last || b.Name == last:
		return a.Name == last
	}
	return score(run, a) > score(run, b)
}

// score is the place of an endpoint in a run's order: weighted rendezvous hashing.
func score(run string, e *Endpoint) float64 {
	sum := sha256.Sum256([]byte(run + "\x00" + e.Name))
	x := (float64(binary.BigEndian.Uint64(sum[:8])>>11) + 0.5) / (1 << 53) // in (0, 1)
	return -float64(e.Weight) / math.Log(x)
}

// heard notes what a provider said of its limits.
func (p *Pool) heard(name string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait > 0 {
		p.until[name] = p.now().Add(wait)
	} else {
		delete(p.until, name)
	}
}

// Call implements [Model]: it asks r.Endpoint, or the one that r.AttemptID would
// choose if that is empty or not there.
func (p *Pool) Call(ctx context.Context, r Request) (Response, error) {
	return p.ask(r, func(m Model, r Request) (Response, error) { return m.Call(ctx, r) })
}

// Stream implements [Streamer]. The text of an endpoint that is none is told when it is
// whole.
func (p *Pool) Stream(ctx context.Context, r Request, told func(Delta)) (Response, error) {
	return p.ask(r, func(m Model, r Request) (Response, error) {
		if s, ok := m.(Streamer); ok {
			return s.Stream(ctx, r, told)
		}
		resp, err := m.Call(ctx, r)
		if err == nil && resp.Text != "" {
			told(Delta{Kind: events.BlockText, Text: resp.Text})
		}
		return resp, err
	})
}

func (p *Pool) ask(r Request, call func(Model, Request) (Response, error)) (Response, error) {
	e := p.find(r.Endpoint)
	if e == nil {
		run, _, _ := strings.Cut(r.AttemptID, ".")
		name, _ := p.Choose(run, "", nil)
		e = p.find(name)
	}
	resp, err := call(e.Model, r)
	if err == nil {
		p.heard(e.Name, resp.LimitedFor)
		return resp, nil
	}
	if me := AsError(err); me.Kind == "rate_limited" || me.Kind == "overloaded" {
		p.heard(e.Name, max(me.RetryAfter, BackoffBase))
	}
	return resp, err
}
