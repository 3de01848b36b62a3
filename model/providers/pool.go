package providers

import (
	"fmt"
	"maps"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/openai"
)

// endpoint is one of several ways to a model.
type endpoint struct {
	name   string
	weight int
	cfg    openai.Config
}

// endpoints reads the ways to a model that has several: what they do not say they have of the model.
func (r reader) endpoints(m *strictyaml.Map, of openai.Config) (es []endpoint) {
	for _, em := range m.Maps("endpoints") {
		e := endpoint{name: em.Need("name", "what is recorded of it, such as eu; no key"), weight: int(em.Int("weight", 1)), cfg: of}
		if u := em.Text("base_url"); u != "" {
			e.cfg.BaseURL = u
		}
		if s := em.Text("model"); s != "" {
			e.cfg.Model = s
		}
		if em.Has("key") {
			e.cfg.Key = r.secret(em, "key")
		}
		if em.Has("headers") {
			own := r.headers(em)
			e.cfg.Headers = maps.Clone(of.Headers)
			if e.cfg.Headers == nil {
				e.cfg.Headers = map[string]string{}
			}
			maps.Copy(e.cfg.Headers, own)
		}
		for _, other := range es {
			if other.name == e.name {
				em.Fault("name", "there are two endpoints %q; give each its own name", e.name)
			}
		}
		checkURL(em)
		em.Done("an endpoint")
		es = append(es, e)
	}
	return es
}

// newPool makes the client of a model, or of each of its endpoints.
func newPool(c openai.Config, es []endpoint) (model.Model, error) {
	if len(es) == 0 {
		return newModel(c)
	}
	var all []model.Endpoint
	for _, e := range es {
		m, err := newModel(e.cfg)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.name, err)
		}
		all = append(all, model.Endpoint{Name: e.name, Model: m, Weight: e.weight})
	}
	return model.NewPool(nil, all...)
}
