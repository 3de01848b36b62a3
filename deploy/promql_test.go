package deploy

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
)

// world is what Prometheus has stored, a sample a minute.
type world []series

type series struct {
	labels labels.Labels
	values []parser.SequenceValue
}

// lookback is how old a sample may be that still counts.
const lookback = 5 * time.Minute

// sample is one of an answer.
type sample struct {
	labels labels.Labels
	value  float64
}

// answer evaluates the part of PromQL that the alerts are written in; on any other it
// panics. The expressions are read by Prometheus's own parser; its engine is not here
// because it brings the clients of Kubernetes along. promtool test rules, which is
// Prometheus, was run over the same file.
func (w world) answer(e parser.Expr, at time.Duration) []sample {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return w.answer(e.Expr, at)
	case *parser.StepInvariantExpr:
		return w.answer(e.Expr, at)
	case *parser.VectorSelector:
		return w.instant(e, at)
	case *parser.NumberLiteral:
		return []sample{{labels.EmptyLabels(), e.Val}}
	case *parser.AggregateExpr:
		return aggregate(e, w.answer(e.Expr, at))
	case *parser.Call:
		return w.call(e, at)
	case *parser.BinaryExpr:
		return w.binary(e, at)
	}
	panic(fmt.Sprintf("%T %s", e, e))
}

func (w world) instant(v *parser.VectorSelector, at time.Duration) (out []sample) {
	at -= v.OriginalOffset
	for _, s := range w {
		if !matches(s.labels, v.LabelMatchers) {
			continue
		}
		for i := int(at / time.Minute); i >= 0 && at-time.Duration(i)*time.Minute < lookback; i-- {
			if i >= len(s.values) || s.values[i].Omitted {
				continue
			}
			if !value.IsStaleNaN(s.values[i].Value) {
				out = append(out, sample{s.labels, s.values[i].Value})
			}
			break
		}
	}
	return out
}

func matches(l labels.Labels, ms []*labels.Matcher) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
}

func (w world) call(c *parser.Call, at time.Duration) (out []sample) {
	switch c.Func.Name {
	case "vector":
		return w.answer(c.Args[0], at)
	case "absent":
		if len(w.answer(c.Args[0], at)) == 0 {
			return []sample{{labels.EmptyLabels(), 1}}
		}
		return nil
	case "increase": // without Prometheus's extrapolation
		m := c.Args[0].(*parser.MatrixSelector)
		for _, s := range w {
			if !matches(s.labels, m.VectorSelector.(*parser.VectorSelector).LabelMatchers) {
				continue
			}
			var points []float64
			for i, v := range s.values {
				if t := time.Duration(i) * time.Minute; t > at-m.Range && t <= at && !v.Omitted && !value.IsStaleNaN(v.Value) {
					points = append(points, v.Value)
				}
			}
			if len(points) < 2 {
				continue
			}
			sum := 0.0
			for i, v := range points[1:] {
				if v < points[i] { // it began anew
					sum += v
					continue
				}
				sum += v - points[i]
			}
			out = append(out, sample{s.labels.DropReserved(reserved), sum})
		}
		return out
	}
	panic(c.String())
}

func reserved(name string) bool { return name == labels.MetricName }

func aggregate(e *parser.AggregateExpr, in []sample) []sample {
	groups := map[string]sample{}
	for _, s := range in {
		l := s.labels.MatchLabels(true, e.Grouping...)
		was, ok := groups[l.String()]
		switch {
		case !ok:
			was = sample{l, s.value}
		case e.Op == parser.SUM:
			was.value += s.value
		case e.Op == parser.MAX:
			was.value = max(was.value, s.value)
		default:
			panic(e.String())
		}
		groups[l.String()] = was
	}
	return slices.Collect(maps.Values(groups))
}

func (w world) binary(e *parser.BinaryExpr, at time.Duration) (out []sample) {
	left, right := w.answer(e.LHS, at), w.answer(e.RHS, at)
	key := func(s sample) string {
		if v := e.VectorMatching; v != nil && v.On {
			return s.labels.MatchLabels(true, v.MatchingLabels...).String()
		}
		return s.labels.DropReserved(reserved).String()
	}
	has := map[string]sample{}
	for _, s := range right {
		has[key(s)] = s
	}
	if e.Op == parser.LOR {
		out, seen := slices.Clone(left), map[string]bool{}
		for _, s := range left {
			seen[key(s)] = true
		}
		for _, s := range right {
			if !seen[key(s)] {
				out = append(out, s)
			}
		}
		return out
	}
	for _, s := range left {
		other, ok := has[key(s)]
		if n, scalar := e.RHS.(*parser.NumberLiteral); scalar {
			other, ok = sample{value: n.Val}, true
		}
		if !ok {
			continue
		}
		keep := false
		switch e.Op {
		case parser.LAND:
			keep = true
		case parser.GTR:
			keep = s.value > other.value
		case parser.EQLC:
			keep = s.value == other.value
		case parser.MUL:
			keep, s = true, sample{s.labels.DropReserved(reserved), s.value * other.value}
		default:
			panic(e.String())
		}
		if keep {
			out = append(out, s)
		}
	}
	return out
}

// TestAnswers: what the alerts rest on, a question at a time.
func TestAnswers(t *testing.T) {
	var w world
	for _, s := range []string{`a{q="x", i="1"} 1 2 3 4 5 6 7 8 9`, `a{q="x", i="2"} 5 5 5 5 5 5 5 5 5`, `a{q="y"} _ _ 1 stale`, `b{q="x"} 0`, `c 1 3 1 2 4`} {
		l, v, err := parser.ParseSeriesDesc(s)
		if err != nil {
			t.Fatal(err)
		}
		w = append(w, series{l, v})
	}
	for expr, want := range map[string]string{
		`max by (q) (a)`:           `{q="x"}=5`,
		`max(a offset 2m)`:         `{}=5`,
		`sum(a{i="1"})`:            `{}=5`,
		`max by (q) (a offset 2m)`: `{q="x"}=5 {q="y"}=1`,
		`max by (q) (a offset 3m)`: `{q="x"}=5`,
		`b`:                        `{__name__="b", q="x"}=0`,
		`b offset 1h`:              ``,
		`absent(b == 1)`:           `{}=1`,
		`absent(b == 0)`:           ``,
		`max(a) > 5 or max(a) > 4`: `{}=5`,
		`max(a) > (max(a offset 1h) or vector(0))`:  `{}=5`,
		`max(b) > (max(b offset 1h) or max(b) * 0)`: ``,
		`max(a) and on () (max(b) == 1)`:            ``,
		`increase(c[10m])`:                          `{}=6`,
		`sum(increase(c[2m]))`:                      `{}=2`,

		`max by (q) (a) > on (q) max by (q) (b)`: `{q="x"}=5`,
	} {
		e, err := parser.ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range w.answer(e, 4*time.Minute) {
			got = append(got, fmt.Sprintf("%s=%v", s.labels, s.value))
		}
		slices.Sort(got)
		if s := fmt.Sprint(got); s != "["+want+"]" {
			t.Errorf("%s: %s, want %s", expr, s, want)
		}
	}
}
