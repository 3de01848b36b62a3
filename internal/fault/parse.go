//go:build daybook_faults

package fault

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An action is what happens at a point.
type action struct {
	verb string
	wait time.Duration // of stop and delay
	name string        // of err
}

// A rule is an action and when it is due. At most one of nth and random is set;
// with neither it is always due.
type rule struct {
	action      action
	nth         int
	probability float64
	random      *rand.Rand
}

func (r *rule) due(hits int) bool {
	switch {
	case r.nth > 0:
		return hits == r.nth
	case r.random != nil:
		return r.random.Float64() < r.probability
	}
	return true
}

// parse reads DAYBOOK_FAULTS and DAYBOOK_FAULT_SEED into point → rules.
func parse(spec, seedText string) (map[string][]*rule, error) {
	rules := map[string][]*rule{}
	for part := range strings.SplitSeq(spec, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, r, err := parseRule(part)
		if err != nil {
			return nil, fmt.Errorf("DAYBOOK_FAULTS: rule %q: %w", part, err)
		}
		rules[name] = append(rules[name], r)
	}
	if err := seed(rules, seedText); err != nil {
		return nil, err
	}
	return rules, nil
}

func parseRule(part string) (string, *rule, error) {
	name, rest, ok := strings.Cut(part, "=")
	if !ok {
		return "", nil, fmt.Errorf("it has no action; write point=action, such as begin.after_commit=kill")
	}
	name = strings.TrimSpace(name)
	if !slices.Contains(Names(), name) {
		return "", nil, fmt.Errorf("there is no point %q; the points are %s", name, strings.Join(Names(), " "))
	}
	what, when, triggered := strings.Cut(strings.TrimSpace(rest), "@")
	a, err := parseAction(what)
	if err != nil {
		return "", nil, err
	}
	r := &rule{action: a}
	if triggered {
		err = r.parseTrigger(when)
	}
	return name, r, err
}

func parseAction(what string) (action, error) {
	verb, arg, hasArg := strings.Cut(what, ":")
	a := action{verb: verb}
	switch verb {
	case "kill", "panic", "exec_and_timeout":
		if hasArg {
			return a, fmt.Errorf("action %s takes nothing after it; write %s instead of %q", verb, verb, what)
		}
	case "stop", "delay":
		d, err := time.ParseDuration(arg)
		if err != nil || d <= 0 {
			return a, fmt.Errorf("action %s needs a positive duration, not %q; write %s:20s or %s:50ms", verb, arg, verb, verb)
		}
		a.wait = d
	case "err":
		if arg == "" {
			return a, fmt.Errorf("action err needs a name; write err:timeout, err:reset or a name of your own")
		}
		a.name = arg
	default:
		return a, fmt.Errorf("there is no action %q; write kill, stop:20s, panic, err:NAME, delay:50ms or exec_and_timeout", verb)
	}
	return a, nil
}

func (r *rule) parseTrigger(when string) error {
	if p, ok := strings.CutPrefix(when, "p"); ok {
		f, err := strconv.ParseFloat(p, 64)
		if err != nil || !(f > 0 && f <= 1) {
			return fmt.Errorf("probability %q is not over 0 and at most 1; write @p0.05 for one hit in twenty", p)
		}
		r.probability = f
		r.random = rand.New(rand.NewPCG(0, 0)) // seeded by parse
		return nil
	}
	n, err := strconv.Atoi(when)
	if err != nil || n < 1 {
		return fmt.Errorf("trigger %q is unknown; write @3 for the third hit or @p0.05 for one hit in twenty", when)
	}
	r.nth = n
	return nil
}

// seed gives each rule random numbers of its own, so that how often one point
// is hit does not change what happens at another.
func seed(rules map[string][]*rule, text string) error {
	n := uint64(time.Now().UnixNano())
	if text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("DAYBOOK_FAULT_SEED: %q is not a whole number from 0; write 42", text)
		}
	}
	random := false
	for name, list := range rules {
		for i, r := range list {
			if r.random == nil {
				continue
			}
			random = true
			h := fnv.New64a()
			_, _ = fmt.Fprintf(h, "%s %d", name, i)
			r.random = rand.New(rand.NewPCG(n, h.Sum64()))
		}
	}
	if random && text == "" {
		_, _ = fmt.Fprintf(os.Stderr, "fault: DAYBOOK_FAULT_SEED=%d repeats this run's faults\n", n)
	}
	return nil
}
