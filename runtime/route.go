package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
)

// chain returns the models that an agent asks, in order, and the role that it names
// them by, empty for none.
func (c *Config) chain(a *agents.Agent) (models []string, role string, err error) {
	models = append([]string{a.Model}, a.Fallbacks...)
	if _, ok := c.Models[a.Model]; !ok && len(a.Fallbacks) == 0 {
		if of := c.Roles[a.Model]; len(of) > 0 {
			models, role = of, a.Model
		}
	}
	for i, m := range models {
		if _, ok := c.Models[m]; !ok {
			if role != "" {
				return nil, "", fmt.Errorf("role %q, which names model %q, which is not configured", role, m)
			}
			return nil, "", fmt.Errorf("model %q, which is not configured", m)
		}
		if slices.Contains(models[:i], m) {
			return nil, "", fmt.Errorf("model %q twice", m)
		}
	}
	return models, role, nil
}

// several is a chain for the record, where one model alone is none.
func several(chain []string) []string {
	if len(chain) < 2 {
		return nil
	}
	return chain
}

// route is which model is asked now, as decide says with s.mu held, and that model. later
// is true if the session has to look again: the run was parked until it may ask, or is
// handed over.
func (s *session) route(ctx context.Context, decide func() (loops.Route, bool)) (r loops.Route, m model.Model, later bool, err error) {
	s.mu.Lock()
	r, ok := decide()
	s.mu.Unlock()
	if !ok {
		return r, nil, false, fmt.Errorf("run %s has no model left to ask: %w", s.run.ID, errUnworkable)
	}
	if later, err := s.sitOut(ctx, r.Model, r.Why, r.At); later || err != nil {
		return r, nil, later, err
	}
	m, ok = s.w.cfg.Models[r.Model]
	if !ok {
		return r, nil, false, fmt.Errorf("model %q is not configured here: %w", r.Model, errUnworkable)
	}
	r.Endpoint = s.endpoint(m, r)
	return r, m, false, nil
}

// sitOut waits until a model may be asked again, which failed by why; zero = at once.
// later is true if the session has to look again: the run was parked, or is handed over.
func (s *session) sitOut(ctx context.Context, model, why string, until time.Time) (later bool, err error) {
	wait := until.Sub(s.w.cfg.Now())
	switch {
	case wait <= 0:
		return false, nil
	case wait > s.w.cfg.StayFor:
		return true, s.park(ctx, events.RunParked{Reason: events.ParkModelRetry, Detail: "model " + model + " asked to wait: " + why}, wait)
	case s.handingOver():
		return true, nil
	}
	return false, sleep(ctx, wait)
}

// failures is how often a model has failed, this time too, for its backoff. In a chain it
// is not asked each time, and counts what it did over turns.
func (s *session) failures(c failedCall) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	chain := s.hist.Chain()
	if c.purpose != "" {
		chain = s.hist.CompactionChain()
	}
	if len(chain) < 2 {
		return c.attempt
	}
	return s.hist.Streak(c.route.Model) + 1
}

// endpoint is the one of a pool that is asked: the one that the record names, if it is
// there; empty for a model that is no pool.
func (s *session) endpoint(m model.Model, r loops.Route) string {
	p, ok := m.(*model.Pool)
	if !ok {
		return ""
	}
	if p.Has(r.Endpoint) {
		return r.Endpoint
	}
	tried, last := s.endpoints(r.Model)
	name, ok := p.Choose(s.run.ID.String(), last, tried)
	if !ok { // all have failed in this turn, and their time is over
		name, _ = p.Choose(s.run.ID.String(), last, nil)
	}
	return name
}

// endpoints are those of a model that have failed in this turn, and the one that answered
// last. Facts may be recorded meanwhile, so what is returned is its own.
func (s *session) endpoints(model string) (tried []string, last string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hist.TriedEndpoints(model)), s.hist.LastEndpoint(model)
}

// nextEndpoint is which other endpoint of the model is asked after a failure; empty
// for none.
func (s *session) nextEndpoint(c failedCall, me *model.Error) string {
	p, ok := s.w.cfg.Models[c.route.Model].(*model.Pool)
	if !ok || !me.Retryable && me.Kind != "unauthorized" {
		return ""
	}
	tried, _ := s.endpoints(c.route.Model)
	name, _ := p.Choose(s.run.ID.String(), "", append(tried, c.route.Endpoint))
	return name
}
