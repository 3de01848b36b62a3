package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

// inboxPage is how many of each kind the inbox shows at once.
const inboxPage = 30

// asked is a call that waits for a person's approval.
type asked struct {
	ledger.Approval
	of ledger.Run
}

// doubt is an effect of which nobody can know whether it took place.
type doubt struct {
	telling.Effect
	of      ledger.Run
	outlook []string
	until   time.Time // from then no attempt can still act; zero: from now
	link    string    // of its form
}

// inboxView is what waits for a person.
type inboxView struct {
	doubts     []doubt
	asks       []asked
	moreAsks   string // address of the next page; empty: these are all
	moreDoubts string
	done       string // what was just done, in words
}

// doneWords say what was just done; the address names one of them.
var doneWords = map[string]string{
	"approve": "Approved. The call is made once, with these arguments, when a worker takes the run.",
	"deny":    "Denied. The model is told why, and the run goes on.",
	"resolve": "Settled. The model is told, and whoever waited for the effect goes on.",
	"cancel":  "The run is being cancelled: it begins nothing new, and ends once its worker confirms.",
}

func (p *page) inbox(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	q := r.URL.Query()
	v := inboxView{done: doneWords[q.Get("done")]}
	fa := ledger.ApprovalFilter{Open: true, Limit: inboxPage + 1}
	fe := ledger.EffectFilter{States: []events.EffectState{events.EffectInDoubt}, Limit: inboxPage + 1}
	var err error
	if s := q.Get("asked"); s != "" {
		if err = fa.After.UnmarshalText([]byte(s)); err != nil {
			return shown{}, badQuery("asked", s, "Go back to the first page.")
		}
	}
	if s := q.Get("doubted"); s != "" {
		if err = fe.After.UnmarshalText([]byte(s)); err != nil {
			return shown{}, badQuery("doubted", s, "Go back to the first page.")
		}
	}
	as, err := c.read.Approvals(ctx, fa)
	if err != nil {
		return shown{}, err
	}
	if len(as) > inboxPage {
		as = as[:inboxPage]
		v.moreAsks = c.with(c.to("inbox"), "asked", as[inboxPage-1].ID.String())
	}
	for _, a := range as {
		run, err := c.runOf(ctx, a.Run)
		if err != nil {
			return shown{}, err
		}
		v.asks = append(v.asks, asked{a, run})
	}
	es, err := c.read.Effects(ctx, fe)
	if err != nil {
		return shown{}, err
	}
	if len(es) > inboxPage {
		es = es[:inboxPage]
		v.moreDoubts = c.with(c.to("inbox"), "doubted", es[inboxPage-1].OpKey.String())
	}
	for _, e := range es {
		d, err := p.doubt(ctx, c, e)
		if err != nil {
			return shown{}, err
		}
		v.doubts = append(v.doubts, d)
	}
	return shown{"Inbox", inboxShown(*c, v)}, nil
}

// runOf is a run that something belongs to; one that is gone is only its id.
func (c *chrome) runOf(ctx context.Context, id events.RunID) (ledger.Run, error) {
	r, err := c.read.Run(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Run{ID: id}, nil
	}
	return r, err
}

// doubt gathers what is known of an effect in doubt.
func (p *page) doubt(ctx context.Context, c *chrome, e ledger.Effect) (d doubt, err error) {
	d = doubt{link: c.to("effects", e.OpKey.String())}
	if d.of, err = c.runOf(ctx, e.Run); err != nil {
		return d, err
	}
	x := p.explainer(c)
	if d.Effect, err = x.Effect(ctx, e); err != nil {
		return d, err
	}
	if d.outlook, err = x.Outlook(ctx, d.Effect); err != nil {
		return d, err
	}
	if e.QuiescentIn > 0 {
		d.until = c.now.Add(e.QuiescentIn)
	}
	return d, nil
}

// decide answers a request for approval.
func (p *page) decide(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	var id events.ID
	if err := id.UnmarshalText([]byte(r.PathValue("approval"))); err != nil {
		return shown{}, ledger.ErrNotFound
	}
	verb := r.PostFormValue("verb")
	if verb != "approve" && verb != "deny" {
		return shown{}, badQuery("verb", verb, "Want approve or deny.")
	}
	if p.acts == nil {
		return shown{}, access.ErrForbidden
	}
	var shownDigest events.Hash
	if err := shownDigest.UnmarshalText([]byte(r.PostFormValue("digest"))); err != nil || shownDigest.IsZero() {
		return shown{}, &problem{http.StatusBadRequest, "Look again", "The form does not say of which call it is: open the inbox anew, and answer there."}
	}
	if _, err := p.acts.Decide(ctx, id, shownDigest, verb == "approve", r.PostFormValue("reason")); err != nil {
		return shown{}, err
	}
	return shown{}, elsewhere(c.with(c.to("inbox"), "done", verb))
}

// resolve settles an effect in doubt.
func (p *page) resolve(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	s := access.Settle{Note: r.PostFormValue("note"), Told: r.PostFormValue("told"), Force: r.PostFormValue("force") != ""}
	if err := s.OpKey.UnmarshalText([]byte(r.PathValue("effect"))); err != nil {
		return shown{}, ledger.ErrNotFound
	}
	var err error
	if s.Attempt, err = strconv.Atoi(r.PostFormValue("attempt")); err != nil || s.Attempt < 1 {
		return shown{}, &problem{http.StatusBadRequest, "Look again", "The form does not say of which attempt it is: open the inbox anew, and answer there."}
	}
	switch as := events.EffectState(r.PostFormValue("state")); as {
	case events.EffectApplied, events.EffectNotApplied, events.EffectAbandoned:
		s.State = as
	default:
		return shown{}, &problem{http.StatusBadRequest, "Say what became of it", "It took effect, it did not, or nobody will ever know: choose one of the three."}
	}
	if p.acts == nil {
		return shown{}, access.ErrForbidden
	}
	if _, err := p.acts.Resolve(ctx, s); err != nil {
		return shown{}, err
	}
	return shown{}, elsewhere(c.with(c.to("inbox"), "done", "resolve"))
}

// cancel asks that a run be stopped.
func (p *page) cancel(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	id, err := events.ParseRunID(r.PathValue("run"))
	if err != nil {
		return shown{}, ledger.ErrNotFound
	}
	if p.acts == nil {
		return shown{}, access.ErrForbidden
	}
	if _, err := p.acts.Cancel(ctx, id, r.PostFormValue("reason")); err != nil {
		return shown{}, err
	}
	return shown{}, elsewhere(c.with(c.to("runs", id.String()), "done", "cancel"))
}

// argument is one field of a call's arguments, for reading.
type argument struct{ name, value string }

// arguments parts an object into its fields, in the order of their names; what is
// no object is one field without a name.
func arguments(raw json.RawMessage) []argument {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil || len(o) == 0 {
		if len(raw) == 0 || string(raw) == "{}" {
			return nil
		}
		return []argument{{"", readable(raw)}}
	}
	out := make([]argument, 0, len(o))
	for name, v := range o {
		out = append(out, argument{name, readable(v)})
	}
	sortArguments(out)
	return out
}
