package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// callView is a tool call with all its transitions, and its effect if it has one.
type callView struct {
	ledger.CallRecord
	rows     []ledger.CallRecord // oldest first
	effect   *ledger.Effect
	attempts []ledger.Attempt
	doubt    *doubt // while it is in doubt
	why      *why
	asks     []ledger.Approval
}

func (p *page) call(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "")
	if err != nil {
		return shown{}, err
	}
	h.again = ""
	name := r.PathValue("call")
	v := callView{}
	f := ledger.CallFilter{Run: h.ID, All: true, Limit: 1000}
	for len(v.rows) == 0 || f.BeforeSeq > 1 {
		page, err := c.read.Calls(ctx, f)
		if err != nil {
			return shown{}, err
		}
		for _, row := range page {
			if row.Call.String() == name {
				v.rows = append([]ledger.CallRecord{row}, v.rows...)
			}
		}
		if len(page) < f.Limit {
			break
		}
		f.BeforeRun, f.BeforeSeq = h.ID, page[len(page)-1].Seq
	}
	as, err := c.read.Approvals(ctx, ledger.ApprovalFilter{Run: h.ID})
	if err != nil {
		return shown{}, err
	}
	for _, a := range as {
		if a.Call.String() == name {
			v.asks = append(v.asks, a)
		}
	}
	if len(v.rows) == 0 && len(v.asks) == 0 {
		return shown{}, ledger.ErrNotFound
	}
	if len(v.rows) > 0 {
		v.CallRecord = telling.Standing(v.rows)
	} else {
		v.Call, v.Tool, v.Arguments, v.Status = v.asks[0].Call, v.asks[0].Tool, v.asks[0].Arguments, "not begun"
	}
	if err := p.effectOf(ctx, c, &v); err != nil {
		return shown{}, err
	}
	if v.why, err = p.whyCall(ctx, c, h.Run, v.Call); err != nil {
		return shown{}, err
	}
	return shown{v.Tool + " " + name, runPage(*c, h, callShown(*c, h, v))}, nil
}

func (p *page) effectOf(ctx context.Context, c *chrome, v *callView) error {
	if v.OpKey.IsZero() {
		return nil
	}
	es, err := c.read.Effects(ctx, ledger.EffectFilter{OpKey: v.OpKey, Limit: 1})
	if err != nil || len(es) == 0 {
		return err
	}
	v.effect = &es[0]
	if v.attempts, err = c.read.Attempts(ctx, v.OpKey); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	if es[0].State == events.EffectInDoubt {
		d, err := p.doubt(ctx, c, es[0])
		if err != nil {
			return err
		}
		v.doubt = &d
	}
	return nil
}

// saidOf is what a transition says, in one text.
func saidOf(row ledger.CallRecord) string {
	r, progress := telling.ResultOf(row.Result)
	return strings.TrimSpace(joined(": ", words(row.Reason), row.Detail, progress, r.Error, r.Output))
}
