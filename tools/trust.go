package tools

import "github.com/daybookhq/daybook/events"

// unknownTrust is how bindings and results say that a tool declares no trust.
const unknownTrust = "unknown"

// Stricter returns that of two trusts which promises less: unset before external
// before own. One that this version does not know counts as unset.
func (t Trust) Stricter(other Trust) Trust {
	promise := map[Trust]int{External: 1, Own: 2}
	switch a, b := promise[t], promise[other]; {
	case a == 0 || b == 0:
		return ""
	case b < a:
		return other
	}
	return t
}

// StricterBinding is what a run is bound to that goes on from one that was bound to
// before, with a tool that is declared as now: the stricter effect, the less trust, no
// recovery before any, and of two kinds of recovery the earlier one, and not pinned
// before pinned. What before does not say binds to nothing: releases before it was
// recorded left it out.
func StricterBinding(now, before events.ToolBinding) events.ToolBinding {
	rank := map[string]int{string(Readonly): 1, string(Idempotent): 2}
	strictness := func(effect string) int {
		if n := rank[effect]; n > 0 {
			return n
		}
		return 3 // unknown is not safe
	}
	if strictness(before.Effect) > strictness(now.Effect) {
		now.Effect = before.Effect
	}
	if before.Trust != "" {
		now.Trust = bindTrust(Trust(now.Trust).Stricter(Trust(before.Trust)))
		now.Pinned = now.Pinned && before.Pinned
	}
	if before.Recovery != "" && now.Recovery != string(RecoveryNone) {
		now.Recovery = before.Recovery
	}
	return now
}

// bindTrust is how a binding says it; it is never empty.
func bindTrust(t Trust) string {
	if t == "" {
		return unknownTrust
	}
	return string(t)
}

// bound is the entry as a run sees it that has recorded less trust than is declared
// now: a tool that is deployed anew does not make what comes back more trusted in
// runs that are under way.
func (e *entry) bound(recorded []events.ToolBinding) *entry {
	for _, b := range recorded {
		if b.Name != e.def.Name || b.Trust == "" {
			continue
		}
		if t := e.def.Trust.Stricter(Trust(b.Trust)); t != e.def.Trust {
			own, def := *e, *e.def
			def.Trust, own.def = t, &def
			return &own
		}
		break
	}
	return e
}
