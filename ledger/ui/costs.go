package ui

import (
	"cmp"
	"context"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/ledger"
)

// keys are what costs can be told apart by.
var keys = []string{"agent", "tool", "model", "owner", "queue"}

// maxKeys bounds the lines of a table of costs; the rest is one line.
const maxKeys = 100

// costView is what it cost, over time and by one key.
type costView struct {
	by, since, until, tenant, owner string
	days                            []ledger.CostRow
	rows                            []ledger.CostRow
	total                           ledger.CostRow
	rest                            int // lines that are summed up in the last one
	chart                           []column
	highest                         *big.Int
}

// column is a day of the chart.
type column struct {
	key                                string
	x, w, modelY, modelH, toolY, toolH string
	title                              string
	unknown                            bool
}

func (p *page) costs(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	q := r.URL.Query()
	v := costView{by: cmp.Or(q.Get("by"), "agent"), since: q.Get("since"), until: q.Get("until"), tenant: strings.TrimSpace(q.Get("tenant")), owner: strings.TrimSpace(q.Get("owner"))}
	if !q.Has("since") {
		v.since = "30d"
	}
	if !slices.Contains(keys, v.by) {
		return shown{}, badQuery("by", v.by, "Choose one of the list.")
	}
	f := ledger.CostFilter{Tenant: v.tenant, Owner: v.owner}
	var err error
	if f.Since, err = moment(v.since, c.now); err != nil {
		return shown{}, badQuery("since", v.since, whenSay)
	}
	if f.Until, err = moment(v.until, c.now); err != nil {
		return shown{}, badQuery("until", v.until, whenSay)
	}
	f.By = "day"
	days, err := c.read.Costs(ctx, f)
	if err != nil {
		return shown{}, err
	}
	v.days = ledger.EachDay(days)
	f.By = v.by
	if v.rows, err = c.read.Costs(ctx, f); err != nil {
		return shown{}, err
	}
	for _, d := range v.days {
		v.total = v.total.Plus(d)
	}
	slices.SortStableFunc(v.rows, func(a, b ledger.CostRow) int { return b.Cost().Cmp(a.Cost()) })
	if len(v.rows) > maxKeys {
		v.rest = len(v.rows) - maxKeys + 1
		last := ledger.CostRow{Key: ""}
		for _, r := range v.rows[maxKeys-1:] {
			last = last.Plus(r)
		}
		v.rows = append(v.rows[:maxKeys-1:maxKeys-1], last)
	}
	v.chart, v.highest = chartOf(v.days)
	return shown{"Costs", costsShown(*c, v)}, nil
}

// whenSay is what a person can write for a moment.
const whenSay = "Want a date such as 2026-11-30, a moment such as 2026-11-30T15:00, or how long ago: 2h, 7d."

func orZero(v *big.Int) *big.Int {
	if v == nil {
		return new(big.Int)
	}
	return v
}

// chartHeight and chartWidth are the units in which the chart of costs is drawn.
const (
	chartHeight = 160
	chartWidth  = 1000
	maxColumns  = 400
)

// chartOf is a column for each day, models below tools; the highest is as high as
// the chart. Of very many days the last are drawn.
func chartOf(days []ledger.CostRow) (cs []column, highest *big.Int) {
	days = days[max(len(days)-maxColumns, 0):]
	highest = new(big.Int)
	for _, d := range days {
		if s := d.Cost(); s.Cmp(highest) > 0 {
			highest = s
		}
	}
	if len(days) == 0 {
		return nil, highest
	}
	part := func(v *big.Int) float64 {
		if highest.Sign() == 0 {
			return 0
		}
		f, _ := new(big.Rat).SetFrac(orZero(v), highest).Float64()
		return f * chartHeight
	}
	step := float64(chartWidth) / float64(len(days))
	w := min(step*0.78, 40)
	for i, d := range days {
		m, t := part(d.ModelCost), part(d.ToolCost)
		cs = append(cs, column{
			key: d.Key, x: round(float64(i)*step + (step-w)/2), w: round(w),
			modelY: round(chartHeight - m), modelH: round(m), toolY: round(chartHeight - m - t), toolH: round(t),
			title:   d.Key + ": " + dollars(d.Cost()) + unknownTail(d),
			unknown: d.Unpriced+d.Unmeasured+d.Unsettled > 0,
		})
	}
	return cs, highest
}

func unknownTail(r ledger.CostRow) string {
	if u := unknowns(r.Unpriced, r.Unmeasured, r.Unsettled); u != "" {
		return ", and " + u
	}
	return ""
}

// share is a row's part of the whole, in units of 0 to 100.
func share(r, total ledger.CostRow) string {
	all := total.Cost()
	if all.Sign() == 0 {
		return "0"
	}
	f, _ := new(big.Rat).SetFrac(r.Cost(), all).Float64()
	return strconv.FormatFloat(f*100, 'f', 1, 64)
}

// runsOf is where the runs of a line of costs are listed; empty: there is no such list.
func (v costView) runsOf(c chrome, key string) string {
	if key == "" || v.by == "tool" || v.by == "model" {
		return ""
	}
	q := url.Values{v.by: {key}}
	return c.to("runs") + "?" + q.Encode()
}
