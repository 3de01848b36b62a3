package agents

import (
	"slices"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
)

// Defaults of a compaction.
const (
	DefaultCompactAt   = 80
	DefaultCompactKeep = 6
)

// readCompaction reads the field compaction.
func (l Loader) readCompaction(m *strictyaml.Map, a *Agent) {
	if !m.Has("compaction") {
		return
	}
	cm := m.Map("compaction")
	if cm == nil {
		return
	}
	c := &events.Compaction{
		At: DefaultCompactAt, Keep: int(cm.Int("keep", 1)), With: cm.Text("with"), Model: cm.Text("model"), Window: cm.Int("window", 1000),
	}
	if s := cm.Text("at"); s != "" {
		n, err := strconv.Atoi(strings.TrimSuffix(s, "%"))
		if err != nil || !strings.HasSuffix(s, "%") || n < 10 || n > 95 {
			cm.Fault("at", "want how much of the window may be filled, 10%% to 95%%, such as 80%%, got %q", s)
		} else {
			c.At = n
		}
	}
	if c.Keep == 0 {
		c.Keep = DefaultCompactKeep
	}
	switch c.With {
	case "":
		c.With = events.CompactedBySummary
	case events.CompactedBySummary, events.CompactedByObservations, events.CompactedByCut:
	default:
		cm.Fault("with", "want summary, observations or cut: what takes the place of what is compacted; got %q", c.With)
	}
	if c.Model != "" && l.Models != nil && !slices.Contains(l.Models, c.Model) {
		cm.Fault("model", "there is no model %q; %s", c.Model, choice(c.Model, l.Models))
	}
	cm.Done("compaction")
	a.Compaction = c
}
