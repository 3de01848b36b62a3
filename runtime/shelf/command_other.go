//go:build !unix

package shelf

import "github.com/daybookhq/daybook/internal/strictyaml"

func (r *reader) command(m *strictyaml.Map) func() error {
	for _, key := range m.Keys() {
		m.Has(key)
	}
	m.FaultAll("programs are run on Unix alone")
	return nil
}
