package tools

import (
	"fmt"
	"time"
)

// AfterCrash says in words what the runtime does with a call that a crash cut off.
func (d *Definition) AfterCrash() string {
	text := AfterCrash(d.Effect, d.Recovery)
	if d.IsDestructive() && d.InDoubtContinue && d.Recovery.Kind != RecoveryFenced {
		text += "; the run goes on meanwhile"
	}
	return text
}

// AfterCrash says in words what the runtime does with a call that a crash cut
// off, by what its tool declares. A TTL of zero is not known.
func AfterCrash(e Effect, r Recovery) string {
	switch {
	case e == Readonly, e == Idempotent:
		return "made again"
	case r.Kind == RecoveryKeyed && r.TTL > 0:
		return fmt.Sprintf("sent again under the same key for %s; later in doubt, for a person", short(r.TTL/5*4))
	case r.Kind == RecoveryKeyed:
		return "sent again under the same key while the provider knows it; later in doubt, for a person"
	case r.Kind == RecoveryFenced:
		return "sent again with the next fence, which the provider compares"
	case r.Kind == RecoveryProbe:
		return "the provider is asked; made again if it did not happen, in doubt while nobody can say"
	}
	return "in doubt, for a person: ledgerctl resolve"
}

// short is a duration without zeros at its end.
func short(d time.Duration) string {
	d = d.Truncate(time.Second)
	s := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		s = s[:len(s)-len("0s")]
	}
	if d >= time.Hour && d%time.Hour == 0 {
		s = s[:len(s)-len("0m")]
	}
	return s
}
