package shelf

import (
	"context"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/netguard"
)

// reader reads one file.
type reader struct {
	ctx   context.Context //nolint:containedctx // it lives as long as the call that it belongs to
	o     Options
	dir   string
	shelf *Shelf
}

// section is a part of a file that makes tools: read takes the fields, and what
// it returns makes the tools of them if they have no faults.
type section struct {
	name string
	read func(*reader, *strictyaml.Map) (build func() error)
}

func sections() []section {
	return []section{
		{"http_request", (*reader).httpRequest},
		{"http_post", (*reader).httpPost},
		{"publish", (*reader).publish},
		{"extract", (*reader).extract},
		{"wikidata", (*reader).wikidata},
		{"web_search", (*reader).webSearch},
		{"paper_search", (*reader).paperSearch},
		{"code_exec", (*reader).codeExec},
		{"memory", (*reader).memory},
		{"shared_memory", (*reader).sharedMemory},
		{"command", (*reader).command},
		{"mcp", (*reader).mcp},
	}
}

func (r *reader) read(m *strictyaml.Map) {
	r.locals(m)
	for _, s := range sections() {
		sm := m.Map(s.name)
		if sm == nil {
			continue
		}
		before := sm.FaultCount()
		build := s.read(r, sm)
		sm.Done(s.name)
		if sm.FaultCount() > before {
			continue
		}
		if err := build(); err != nil {
			sm.FaultAll("%v", err)
		}
	}
	m.Done("a tools file")
}

// put is what most sections make of their fields: one tool.
func (r *reader) put(o Origin, t tools.Tool, err error) error {
	if err == nil {
		r.shelf.add(o, t)
	}
	return err
}

// path is a path of the file, absolute; empty if the field is not there.
func (r *reader) path(m *strictyaml.Map, key string) string {
	p := m.Text(key)
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(r.dir, p)
}

// secret is the value of the secret that a field names; empty if the field is
// not there, which is a fault if it is needed. What stands in the field is never
// quoted: it may be the key itself.
func (r *reader) secret(m *strictyaml.Map, key string, needed bool) string {
	if !m.Has(key) {
		if needed {
			m.Fault(key, "missing; write the name of a secret that is given as --secret NAME=FILE")
		}
		return ""
	}
	name, ok := m.Scalar(key)
	value := r.o.Secrets[strings.TrimPrefix(name, "secret://")] // models' files and servers write handles
	if ok && value != "" {
		return value
	}
	given := "none is given"
	if len(r.o.Secrets) > 0 {
		given = "given are " + strings.Join(slices.Sorted(maps.Keys(r.o.Secrets)), ", ")
	}
	m.Fault(key, "want the name of a secret, never the key itself; start with --secret NAME=FILE (DAYBOOK_SECRETS); %s", given)
	return ""
}

// schemePrefix is what may stand before a secret in a header. A key must not fit.
var schemePrefix = regexp.MustCompile(`^[A-Za-z-]{1,20} $`)

// policy reads whom a tool may speak to.
func (r *reader) policy(m *strictyaml.Map) netguard.Policy {
	p := netguard.Policy{Allow: m.Texts("allow"), Net: r.o.Net}
	if _, err := netguard.New(p); err != nil {
		m.Fault("allow", "%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "network policy: "), "allow: "))
		p.Allow = []string{"*"} // the headers are looked at all the same
	}
	p.Headers = r.headers(m, p)
	return p
}

func (r *reader) headers(m *strictyaml.Map, p netguard.Policy) []netguard.Header {
	var all []netguard.Header
	for _, hm := range m.Maps("headers") {
		h := netguard.Header{Host: hm.Need("host", "the host that it is for, such as api.example.com"), Name: hm.Need("name", "the header's name, such as Authorization")}
		prefix, secret := hm.Text("prefix"), r.secret(hm, "secret", true)
		hm.Done("a header")
		if prefix != "" && !schemePrefix.MatchString(prefix) {
			hm.Fault("prefix", "want a word and a blank, such as \"Bearer \"; a key has no place in this file")
		}
		if h.Value = prefix + secret; h.Host == "" || h.Name == "" || secret == "" {
			continue // said already
		}
		p.Headers = []netguard.Header{h}
		if _, err := netguard.New(p); err != nil {
			hm.Fault("host", "%s", strings.TrimPrefix(err.Error(), "network policy: "))
		}
		all = append(all, h)
	}
	return all
}

// microUSD reads a price in dollars; 0 if the field is not there.
func microUSD(m *strictyaml.Map, key string) int64 {
	s := m.Text(key)
	if s == "" {
		return 0
	}
	var v events.PicoUSD
	if err := v.UnmarshalText([]byte(s)); err != nil || v < 0 || v%events.MicroUSD != 0 {
		m.Fault(key, "want dollars in quotes with at most six places, such as \"0.005\", got %q", s)
		return 0
	}
	return int64(v / events.MicroUSD)
}

// mebibytes reads a size; 0 if the field is not there.
func mebibytes(m *strictyaml.Map, key string) int64 {
	n := m.Int(key, 1)
	if n > math.MaxInt32 {
		m.Fault(key, "want mebibytes, at most %d", math.MaxInt32)
		return 0
	}
	return n << 20
}

// oneOf reads a text that is one of several; the first if the field is not there.
func oneOf(m *strictyaml.Map, key string, choices ...string) string {
	s := m.Text(key)
	switch {
	case s == "" && !m.Has(key):
		return choices[0]
	case s != "" && !slices.Contains(choices, s):
		m.Fault(key, "want %s, got %q", strings.Join(choices, " or "), s)
		return choices[0]
	}
	return s
}

// child is the command of a process that calls [Child] for what name names.
func (r *reader) child(m *strictyaml.Map, name string) []string {
	if len(r.o.Child) == 0 {
		m.FaultAll("this program starts no processes for tools (shelf.Options.Child)")
		return nil
	}
	return append(slices.Clone(r.o.Child), name)
}
