package redact

import "slices"

// ForTenant returns a view of r whose markers carry fingerprints under key (see
// [Config.TenantKey]): in two tenants the same secret has two. It knows whatever
// r knows, now and later, and what is registered with it is known to r.
func (r *Redactor) ForTenant(key []byte) *Redactor {
	base := r.state()
	if base.base != nil {
		base = base.base
	}
	v := &state{base: base, key: slices.Clone(key)}
	return &Redactor{func() *state { return v }}
}

// view is the matcher of the state below with this state's fingerprints. It is
// made again after a registration.
func (s *state) view() *matcher {
	below := s.base.matcher()
	if m := s.current.Load(); m != nil && m.of == below {
		return m
	}
	m := *below
	m.of, m.tenantKey = below, s.key
	m.secrets = make([]secret, len(below.secrets))
	for i, known := range below.secrets {
		known.fingerprint = fingerprint(s.key, known.value)
		m.secrets[i] = known
	}
	s.current.Store(&m)
	return &m
}
