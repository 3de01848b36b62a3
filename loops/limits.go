package loops

// Defaults of Limits where a run was started with zero (package events).
const (
	DefaultMaxTurns         = 16
	DefaultMaxModelAttempts = 5
)

// MaxTurns returns how many turns the run may take.
func (h *History) MaxTurns() int {
	if h.started != nil && h.started.Limits.MaxTurns > 0 {
		return h.started.Limits.MaxTurns
	}
	return DefaultMaxTurns
}

// MaxModelAttempts returns how many failed attempts end a model call.
func (h *History) MaxModelAttempts() int {
	if h.started != nil && h.started.Limits.MaxModelAttempts > 0 {
		return h.started.Limits.MaxModelAttempts
	}
	return DefaultMaxModelAttempts
}
