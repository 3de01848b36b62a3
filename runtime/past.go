package runtime

import "github.com/daybookhq/daybook/tools"

// past is the run's history as tools see it.
type past struct{ s *session }

// Completed implements [tools.Past].
func (p past) Completed(tool string) []tools.PastCall {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.hist.Completed(tool)
}
