package shelf

import (
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/extract"
)

func (r *reader) httpRequest(m *strictyaml.Map) func() error {
	p := r.policy(m)
	return func() error {
		t, err := builtin.HTTPRequest(p)
		return r.put(Builtin, t, err)
	}
}

func (r *reader) httpPost(m *strictyaml.Map) func() error {
	o := builtin.HTTPPostOptions{
		Policy: r.policy(m), KeyHeader: m.Text("key_header"), KeyTTL: m.Duration("key_ttl"), Approval: m.Bool("approval"),
	}
	if o.KeyTTL > 0 && o.KeyHeader == "" {
		m.Fault("key_ttl", "it says how long hosts know the key, and none is sent; write key_header, such as Idempotency-Key")
	}
	return func() error {
		t, err := builtin.HTTPPost(o)
		return r.put(Builtin, t, err)
	}
}

func (r *reader) wikidata(m *strictyaml.Map) func() error {
	o := builtin.WikidataOptions{Language: m.Text("language"), BaseURL: m.Text("url"), Net: r.o.Net}
	return func() error {
		t, err := builtin.Wikidata(o)
		return r.put(Builtin, t, err)
	}
}

func (r *reader) extract(m *strictyaml.Map) func() error {
	o := r.pages(m)
	return func() error {
		reader, err := extract.NewReader(o)
		if err != nil {
			return err
		}
		t, err := extract.Tool(reader)
		return r.put(Builtin, t, err)
	}
}

// pages says whose documents are read, in a process of their own.
func (r *reader) pages(m *strictyaml.Map) extract.Options {
	return extract.Options{Policy: r.policy(m), Command: r.child(m, childExtract), Limits: extract.Limits{
		Memory: mebibytes(m, "memory_mib"), Time: m.Duration("timeout"), Parallel: int(m.Int("parallel", 1)),
	}}
}
