// Package providers makes the models that a configuration file names: clients of
// the model providers that ship, each under the name by which agents ask for it.
// It is what --model-config reads; the fields are in docs/models.md.
package providers

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/anthropic"
	"github.com/daybookhq/daybook/model/openai"
	"github.com/daybookhq/daybook/redact"
)

// apis are the wire formats that a model's provider may speak.
var apis = []string{openai.Responses, openai.Chat, anthropic.Messages}

// Set is what there is of models. Files add to it.
type Set struct {
	Models map[string]model.Model
	// Roles name chains of models; see [model/sidequery.Deps] and runtime.Config.
	Roles map[string][]string
	// Limits are how many calls of a model may be under way at once.
	Limits map[string]int
	// Prices are what models cost; nil = the table that ships.
	Prices *model.Prices
}

// Add adds the models of a file to those that there are; see [Set.Read].
func Add(models map[string]model.Model, file string, secrets map[string]string) error {
	s := Set{Models: models}
	return s.Read(file, secrets)
}

// Read adds what a file has. Keys in the file are names of secrets, never values: a
// file is copied, printed and checked in. All that is wrong with it is in one error,
// a line each; then nothing is added.
func (s *Set) Read(file string, secrets map[string]string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, m := strictyaml.Parse(filepath.Base(file), b, 0)
	mms := m.Maps("models")
	if len(mms) == 0 {
		m.Fault("models", "missing; write a list with at least one entry that has name and api")
	}
	found, prices := map[string]model.Model{}, priced{}
	limits := map[string]int{}
	for _, mm := range mms {
		name := mm.Need("name", "what agents write as their model, such as gpt-5")
		_, twice := found[name]
		if _, taken := s.Models[name]; twice || taken {
			mm.Fault("name", "there is a model %q already; give each its own name", name)
		}
		r := reader{secrets}
		c := r.model(mm, name)
		limits[name] = int(mm.Int("max_concurrent", 1))
		endpoints := r.endpoints(mm, c)
		prices.read(mm, name, c.Model, endpoints, s.Prices)
		mm.Done("a model")
		if found[name] = nil; f.Err() != nil {
			continue // say all faults first
		}
		if found[name], err = newPool(c, endpoints); err != nil {
			mm.Fault("base_url", "%v", err)
		}
	}
	roles := s.readRoles(m, found)
	m.Done("a model configuration")
	if err := f.Err(); err != nil {
		return err
	}
	if s.Prices == nil {
		s.Prices = model.DefaultPrices()
	}
	table, err := s.Prices.Replaced(slices.Collect(maps.Values(prices))...)
	if err != nil {
		return err
	}
	s.Prices = table
	maps.Copy(s.Models, found)
	if s.Roles == nil {
		s.Roles = map[string][]string{}
	}
	maps.Copy(s.Roles, roles)
	if s.Limits == nil {
		s.Limits = map[string]int{}
	}
	maps.Copy(s.Limits, limits)
	return nil
}

// newModel makes the client; what formats have in common stands in openai's configuration.
func newModel(c openai.Config) (model.Model, error) {
	if c.API != anthropic.Messages {
		return openai.New(c)
	}
	return anthropic.New(anthropic.Config{
		BaseURL: c.BaseURL, Key: c.Key, Model: c.Model, Thinking: c.Thinking, Headers: c.Headers, Fields: c.Fields, Idle: c.Idle,
	})
}

// reader reads an entry, with the secrets that it may name.
type reader struct{ secrets map[string]string }

func (r reader) model(m *strictyaml.Map, name string) openai.Config {
	c := openai.Config{
		API: m.Need("api", strings.Join(apis, ", ")), BaseURL: m.Text("base_url"), Model: m.Text("model"),
		Key: r.secret(m, "key"), Thinking: m.Text("thinking"), Idle: m.Duration("idle"),
	}
	if c.Model == "" {
		c.Model = name
	}
	if c.API != "" && !slices.Contains(apis, c.API) {
		m.Fault("api", "there is no api %q; want one of %s", c.API, strings.Join(apis, ", "))
	}
	if levels := []string{"", "off", "minimal", "low", "medium", "high"}; !slices.Contains(levels, c.Thinking) {
		m.Fault("thinking", "want off, minimal, low, medium or high, got %q", c.Thinking)
	}
	checkURL(m)
	if m.Has("headers") {
		c.Headers = r.headers(m)
	}
	if m.IsMap("fields") {
		asked := false
		v := m.JSON("fields", func(_ int, _, s string) any {
			asked = asked || strings.HasPrefix(s, "secret://")
			return s
		})
		if asked { // it would go out as it stands, and the body is hashed and told
			m.Fault("fields", "secret:// is no value here; secrets go into key or headers")
		}
		b, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(b, &c.Fields)
		}
		if err != nil {
			m.Fault("fields", "want what JSON can hold: %v", err)
		}
	} else if m.Has("fields") {
		m.Fault("fields", "want fields of the request's body, such as {temperature: 0.2}")
	}
	return c
}

// checkURL refuses secrets in an address.
func checkURL(m *strictyaml.Map) {
	if u := m.Text("base_url"); strings.Contains(u, "@") || strings.Contains(u, "?") {
		m.Fault("base_url", "want an address without a password or a query; a key goes into key: secret://NAME")
	}
}

func (r reader) headers(m *strictyaml.Map) map[string]string {
	h := m.Map("headers")
	headers := map[string]string{}
	for _, k := range h.Keys() {
		headers[k] = h.Text(k)
		if strings.HasPrefix(headers[k], "secret://") {
			headers[k] = r.secret(h, k)
		} else if b, err := plain.JSON(map[string]string{k: headers[k]}); err != nil || redact.HasMarker(b.Bytes()) || credential.MatchString(k) {
			h.Fault(k, "this looks like a secret, which does not belong in here: write secret://NAME, and the value in a file: --secret NAME=FILE")
		}
	}
	return headers
}

var handle = regexp.MustCompile(`^secret://([A-Za-z0-9_.-]{1,64})$`)

// plain tells what looks like a secret, by name or by value.
var plain = redact.New(redact.Config{})

// credential matches names of headers whose values are secret.
var credential = regexp.MustCompile(`(?i)(^|[-_])(key|token|secret|auth|authorization|password|cookie)$`)

// given names the secrets that there are.
func (r reader) given() string {
	if len(r.secrets) == 0 {
		return "none is"
	}
	return "given are " + strings.Join(slices.Sorted(maps.Keys(r.secrets)), ", ")
}

// secret reads a handle. A value in its place is not repeated in the fault.
func (r reader) secret(m *strictyaml.Map, key string) string {
	if !m.Has(key) {
		return ""
	}
	h := handle.FindStringSubmatch(m.Text(key))
	if h == nil {
		m.Fault(key, "want secret://NAME, and the value in a file: --secret NAME=FILE")
		return ""
	}
	v, ok := r.secrets[h[1]]
	if !ok {
		// Not quoted either: who pastes a key after secret:// would see it in a log.
		m.Fault(key, "the secret named here is not given; %s; start with --secret NAME=FILE", r.given())
	}
	return v
}
