package tools

import "context"

// Skills are the skills that a run may load; see [Invocation.Skills].
type Skills interface {
	// Skill returns what a skill of the run says, as the run was bound to it. The
	// error is for the model: it names the skills that there are.
	Skill(ctx context.Context, name string) (SkillText, error)
}

// SkillText is what a skill says, and who can write it.
type SkillText struct {
	Text  string
	Trust Trust
}

// FromOutside is a result that came from outside although those of its tool
// otherwise don't: Value is the result, its trust [External].
type FromOutside struct{ Value any }

// inside takes a result apart; outside reports that it says it came from there.
func inside(value any) (v any, outside bool) {
	for {
		o, ok := value.(FromOutside)
		if !ok {
			return value, outside
		}
		value, outside = o.Value, true
	}
}
