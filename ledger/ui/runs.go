package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// perPage is how many runs a list shows at once.
const perPage = 50

var states = []ledger.State{ledger.Queued, ledger.Running, ledger.Parked, ledger.Cancelling, ledger.Finished, ledger.Failed, ledger.Cancelled}

// runQuery is what a list of runs is asked for, as it stands in the address.
type runQuery struct {
	states                               []string
	agent, queue, owner, tenant, session string
	since, until, id                     string
	before                               string
	polls                                int
}

func readRunQuery(q url.Values) runQuery {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return runQuery{
		states: slices.DeleteFunc(q["state"], func(s string) bool { return s == "" }),
		agent:  text("agent"), queue: text("queue"), owner: text("owner"), tenant: text("tenant"), session: text("session"),
		since: text("since"), until: text("until"), id: strings.ToUpper(text("id")), before: text("before"), polls: polls(q),
	}
}

// values is the query as an address has it, without its place in the list.
func (q runQuery) values() url.Values {
	v := url.Values{}
	for _, s := range q.states {
		v.Add("state", s)
	}
	for _, f := range []struct{ name, value string }{
		{"agent", q.agent},
		{"queue", q.queue},
		{"owner", q.owner},
		{"tenant", q.tenant},
		{"session", q.session},
		{"since", q.since},
		{"until", q.until},
		{"id", q.id},
	} {
		if f.value != "" {
			v.Set(f.name, f.value)
		}
	}
	return v
}

// narrowed reports whether anything is left out of the list.
func (q runQuery) narrowed() bool { return len(q.values()) > 0 }

// filter is the query for the ledger. An error is a problem for the person who asked.
func (q runQuery) filter(now time.Time) (f ledger.RunFilter, err error) {
	f = ledger.RunFilter{Tenant: q.tenant, Queue: q.queue, Agent: q.agent, Owner: q.owner, SessionID: q.session, Limit: perPage + 1}
	for _, s := range q.states {
		if !slices.Contains(states, ledger.State(s)) {
			return f, badQuery("state", s, "Choose one of the list.")
		}
		f.States = append(f.States, ledger.State(s))
	}
	if f.Since, err = moment(q.since, now); err != nil {
		return f, badQuery("since", q.since, whenSay)
	}
	if f.Until, err = moment(q.until, now); err != nil {
		return f, badQuery("until", q.until, whenSay)
	}
	if q.before != "" {
		if f.Before, err = events.ParseRunID(q.before); err != nil {
			return f, badQuery("before", q.before, "Go back to the first page.")
		}
	}
	return f, nil
}

func badQuery(name, value, say string) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf("%q is nothing for %s", plain(cut(value, 80)), name), say}
}

// moment reads a date, a moment, or how long ago something was; empty is none.
func moment(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		s = days + "h"
		if d, err := time.ParseDuration(s); err == nil {
			return now.Add(-24 * d), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339, s)
}

// runList is a page of runs.
type runList struct {
	q     runQuery
	rows  []ledger.Summary
	next  string // address of the next page; empty: this is the last
	again string // address to look again at; empty: nothing of it will change by itself
	every string
	// quiet is set when the list was looked at again often enough.
	quiet bool
}

func (p *page) runs(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	q := readRunQuery(r.URL.Query())
	if q.id != "" {
		if id, err := c.findRun(ctx, q.id); err == nil {
			return shown{}, elsewhere(c.to("runs", id.String()))
		} else if q.id != "" {
			return shown{}, err
		}
	}
	f, err := q.filter(c.now)
	if err != nil {
		return shown{}, err
	}
	rows, err := c.read.Summaries(ctx, f)
	if err != nil {
		return shown{}, err
	}
	l := runList{q: q, rows: rows, every: every(p.Refresh)}
	if len(rows) > perPage {
		l.rows = rows[:perPage]
		v := q.values()
		v.Set("before", l.rows[perPage-1].ID.String())
		l.next = c.to("runs") + "?" + v.Encode()
	}
	if q.before == "" && p.Refresh > 0 {
		v := q.values()
		v.Set("polls", fmt.Sprint(q.polls+1))
		if l.quiet = q.polls >= maxPolls; !l.quiet {
			l.again = c.to("runs") + "?" + v.Encode()
		}
	}
	return shown{"Runs", runsPage(*c, l)}, nil
}

// findRun reads a run's id, or the beginning or end of one, of those that are newest.
func (c *chrome) findRun(ctx context.Context, s string) (events.RunID, error) {
	if id, err := events.ParseRunID(s); err == nil {
		return id, nil
	}
	const least = 6
	if len(s) < least || strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return events.RunID{}, badQuery("a run", s, fmt.Sprintf("Give the 26 characters of a run's id, or %d or more of its beginning or end.", least))
	}
	rs, err := c.read.Summaries(ctx, ledger.RunFilter{Limit: 1000})
	if err != nil {
		return events.RunID{}, err
	}
	var found []events.RunID
	for _, r := range rs {
		if t := r.ID.String(); strings.HasPrefix(t, s) || strings.HasSuffix(t, s) {
			found = append(found, r.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return events.RunID{}, &problem{http.StatusNotFound, fmt.Sprintf("No run begins or ends with %s", plain(s)), "Among the newest 1,000 there is none. Give the whole id, if the run is older."}
	}
	return events.RunID{}, &problem{http.StatusConflict, fmt.Sprintf("%d runs begin or end with %s", len(found), plain(s)), "Give more characters."}
}
