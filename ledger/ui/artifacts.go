package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Bounds of what is compared: larger versions are only named.
const (
	maxCompared = 256 << 10
	maxLines    = 4000
	maxVersions = 50
)

// version is a version of an artifact, with what changed since the one before.
type version struct {
	ledger.ArtifactVersion
	issues  []events.ArtifactIssue
	content string // empty: none, or not shown
	lines   []line // what changed; nil: nothing to compare with
	why     string // the content is not shown
}

// line is one line of a comparison: same, added, removed, or where it stands.
type line struct{ tone, text string }

func (p *page) artifacts(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "artifacts")
	if err != nil {
		return shown{}, err
	}
	rows, err := c.read.Artifacts(ctx, ledger.ArtifactFilter{Run: h.ID, Limit: maxVersions + 1})
	if err != nil {
		return shown{}, err
	}
	more := len(rows) > maxVersions
	rows = rows[:min(len(rows), maxVersions)]
	slices.Reverse(rows)
	before := map[string][]byte{}
	vs := make([]version, 0, len(rows))
	for _, row := range rows {
		v := version{ArtifactVersion: row}
		_ = json.Unmarshal(row.Issues, &v.issues) // of an unknown shape: the event shows them
		b, err := c.content(ctx, row)
		if err != nil {
			return shown{}, err
		}
		v.compare(before[row.Name], b)
		if b != nil {
			before[row.Name] = b
		}
		vs = append(vs, v)
	}
	slices.Reverse(vs)
	return shown{"Artifacts of " + tail(h.ID), runPage(*c, h, artifactsShown(*c, h, vs, more))}, nil
}

// content is what a version says; nil if there is none any more.
func (c *chrome) content(ctx context.Context, v ledger.ArtifactVersion) ([]byte, error) {
	if v.Content.IsZero() || v.Bytes > maxCompared {
		return nil, nil
	}
	b, _, err := c.read.Blob(ctx, v.Run, v.Content)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	return b, err
}

func (v *version) compare(old, b []byte) {
	switch {
	case v.Content.IsZero():
		v.why = "It has no content: the answer could not be read."
	case v.Bytes > maxCompared:
		v.why = fmt.Sprintf("%s bytes are too much to show here: ledgerctl artifacts show prints them.", count(v.Bytes))
	case b == nil:
		v.why = "Its content is gone: it was erased, or is older than what is kept."
	case bytes.Count(b, []byte("\n")) > maxLines || bytes.Count(old, []byte("\n")) > maxLines:
		v.content = string(b)
	default:
		v.content = string(b)
		if old != nil {
			v.lines = compared(old, b)
		}
	}
}

// compared is what changed between two texts, line by line.
func compared(old, b []byte) []line {
	text := string(diff.Diff("before", old, "after", b))
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var out []line
	for _, s := range all {
		switch {
		case strings.HasPrefix(s, "diff ") || strings.HasPrefix(s, "--- before") || strings.HasPrefix(s, "+++ after"):
			continue
		case strings.HasPrefix(s, "@@"):
			out = append(out, line{"at", s})
		case strings.HasPrefix(s, "+"):
			out = append(out, line{"add", s})
		case strings.HasPrefix(s, "-"):
			out = append(out, line{"del", s})
		case s != "":
			out = append(out, line{"same", s})
		}
	}
	return out
}

func verdictSign(v ledger.ArtifactVersion) mark {
	switch v.Verdict {
	case ledger.VersionAccepted:
		return mark{word: "accepted", tone: "good"}
	case ledger.VersionRefused:
		return mark{word: joined(" by ", "refused", v.Validator), tone: "warn"}
	}
	return mark{word: "no verdict", tone: "bad"}
}

// node is a run in a tree, with what works for it.
type node struct {
	ledger.Run
	relation string
	cost     ledger.CostRow
	depth    int
	self     bool
}

// maxNodes bounds how many runs a tree shows.
const maxNodes = 200

func (p *page) tree(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "tree")
	if err != nil {
		return shown{}, err
	}
	rows, err := c.read.Costs(ctx, ledger.CostFilter{Run: h.ID, Lineage: true, By: "run"})
	if err != nil {
		return shown{}, err
	}
	costs := map[string]ledger.CostRow{}
	total := ledger.CostRow{}
	for _, row := range rows {
		costs[row.Key] = row
		total = total.Plus(row)
	}
	t := treeView{total: total}
	if t.above, err = c.above(ctx, h.Run); err != nil {
		return shown{}, err
	}
	if err := c.below(ctx, &t, node{Run: h.Run, self: true}, costs); err != nil {
		return shown{}, err
	}
	return shown{"Tree of " + tail(h.ID), runPage(*c, h, treeShown(*c, h, t))}, nil
}

// treeView is where a run stands among others.
type treeView struct {
	above []node
	nodes []node
	total ledger.CostRow
	more  bool
}

// above is what a run comes from: whom it works for, what it is a fork or a next
// attempt of, and what came after it.
func (c *chrome) above(ctx context.Context, r ledger.Run) (out []node, err error) {
	for _, o := range []struct {
		relation string
		id       events.RunID
	}{{"works for", r.Parent}, {"fork of", r.ForkOf}, {"next attempt of", r.RetryOf}, {"tried again as", r.Successor}} {
		if o.id.IsZero() {
			continue
		}
		run, err := c.read.Run(ctx, o.id)
		if errors.Is(err, ledger.ErrNotFound) {
			continue // older than what is kept, or another's
		}
		if err != nil {
			return nil, err
		}
		out = append(out, node{Run: run, relation: o.relation})
	}
	return out, nil
}

func (c *chrome) below(ctx context.Context, t *treeView, n node, costs map[string]ledger.CostRow) error {
	if len(t.nodes) >= maxNodes {
		t.more = true
		return nil
	}
	n.cost = costs[n.ID.String()]
	t.nodes = append(t.nodes, n)
	if n.depth > ledger.MaxDepth || n.relation == "fork" {
		return nil
	}
	kin, err := c.read.Descendants(ctx, n.ID, maxNodes)
	if err != nil {
		return err
	}
	for _, k := range kin {
		relation := "child"
		if k.ForkOf == n.ID {
			relation = "fork"
		}
		if err := c.below(ctx, t, node{Run: k, relation: relation, depth: n.depth + 1}, costs); err != nil {
			return err
		}
	}
	return nil
}

// turnCost is what a turn came to.
type turnCost struct {
	turn int
	ledger.CostRow
	attempts  int64
	latencyMS int64
}

// turnsPage is how many turns a page of costs shows.
const turnsPage = 100

func (p *page) runCost(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "cost")
	if err != nil {
		return shown{}, err
	}
	models, err := c.read.ModelCalls(ctx, h.ID)
	if err != nil {
		return shown{}, err
	}
	by := map[int]*turnCost{}
	at := func(turn int) *turnCost {
		if by[turn] == nil {
			by[turn] = &turnCost{turn: turn, CostRow: ledger.CostRow{Key: strconv.Itoa(turn)}}
		}
		return by[turn]
	}
	for _, m := range models {
		at(m.Turn).model(m)
	}
	f := ledger.CallFilter{Run: h.ID, Limit: 1000}
	for {
		rows, err := c.read.Calls(ctx, f)
		if err != nil {
			return shown{}, err
		}
		for _, row := range rows {
			at(row.Call.Turn).tool(row)
		}
		if len(rows) < f.Limit {
			break
		}
		f.BeforeRun, f.BeforeSeq = h.ID, rows[len(rows)-1].Seq
	}
	turns := make([]turnCost, 0, len(by))
	v := costView{}
	for _, t := range by {
		turns = append(turns, *t)
	}
	slices.SortFunc(turns, func(a, b turnCost) int { return a.turn - b.turn })
	for _, t := range turns {
		v.days = append(v.days, t.CostRow)
		v.total = v.total.Plus(t.CostRow)
	}
	v.chart, v.highest = chartOf(v.days)
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	pages := max((len(turns)+turnsPage-1)/turnsPage, 1)
	n = min(max(n, 1), pages)
	part := turns[(n-1)*turnsPage : min(n*turnsPage, len(turns))]
	return shown{"Cost of " + tail(h.ID), runPage(*c, h, runCostShown(*c, h, v, part, n, pages))}, nil
}

func (t *turnCost) model(m ledger.ModelCallRow) {
	t.attempts++
	t.ModelCalls++
	t.ModelCost = orZero(t.ModelCost)
	if m.Cost != nil {
		t.ModelCost = t.ModelCost.Add(t.ModelCost, picoOf(*m.Cost))
	}
	switch {
	case m.State == "unsettled":
		t.Unsettled++
	case m.Unpriced():
		t.Unpriced++
	}
	if u := m.Usage; u != nil {
		t.InputTokens += u.Input + u.CacheRead + u.CacheWrite
		t.OutputTokens += u.Output
	}
	if m.LatencyMS != nil {
		t.latencyMS += *m.LatencyMS
	}
}

func (t *turnCost) tool(c ledger.CallRecord) {
	if c.Repeated || c.Status != "finished" && c.Status != "error" && c.Status != "resolved" {
		return
	}
	t.ToolCalls++
	t.ToolCost = orZero(t.ToolCost)
	if c.Cost == nil {
		t.Unmeasured++
		return
	}
	t.ToolCost = t.ToolCost.Add(t.ToolCost, picoOf(*c.Cost))
}
