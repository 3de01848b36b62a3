package redact

import "slices"

// A Found is a secret that stands in a text that should have none.
type Found struct {
	// Name is that under which a secret was registered, or of the rule that found it.
	Name string
	// Fingerprint is that of markers: it tells of no secret what it is.
	Fingerprint string
}

// Find names the registered secrets that stand in text, in any encoding that redacting
// knows, each once. The text may be any bytes.
func (r *Redactor) Find(text string) (all []Found) {
	m := r.state().matcher()
	if m.clean(text) {
		return nil
	}
	f := m.find(text)
	for _, s := range m.visible(text, f.spans) {
		all = append(all, Found{s.name, s.fingerprint})
	}
	if f.encoded {
		all = append(all, added(text, m.encodedJSON(text, textOptions{exempt: true}))...)
	}
	return unique(all)
}

// FindByRules names what redacting would take out of text for its looks or the name of
// its key, and what is registered, each once.
func (r *Redactor) FindByRules(text string) []Found { return unique(added(text, r.String(text))) }

// added are the markers that after has more of than before.
func added(before, after string) (all []Found) {
	if before == after {
		return nil
	}
	had := map[Found]int{}
	for _, f := range markers(before) {
		had[f]++
	}
	for _, f := range markers(after) {
		if had[f]--; had[f] < 0 {
			all = append(all, f)
		}
	}
	return all
}

func markers(s string) (all []Found) {
	for at := 0; ; {
		start, end := nextMarker(s, at)
		if start < 0 {
			return all
		}
		cut := end - fingerprintLen - 2
		all = append(all, Found{s[start+len(markerOpen) : cut], s[cut+1 : end-1]})
		at = end
	}
}

func unique(all []Found) (out []Found) {
	for _, f := range all {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
