package sqlstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// awaited says of each park reason when what a run r waits for exists. A run
// parked for a reason that is not here waits for nothing that anybody knows.
var awaited = map[events.ParkReason]string{
	events.ParkInDoubt:         undecidedEffect,
	events.ParkEffectBusy:      undecidedEffect,
	events.ParkTimer:           `(r.wake_at IS NOT NULL OR ` + openHandoff + `)`,
	events.ParkModelRetry:      `r.wake_at IS NOT NULL`,
	events.ParkAuditBehind:     `r.wake_at IS NOT NULL`,
	events.ParkApproval:        `EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = r.id AND a.state = 'requested')`,
	events.ParkChild:           `(` + openHandoff + ` OR EXISTS (SELECT 1 FROM runs c WHERE c.parent_id = r.id AND c.ended_at IS NULL))`,
	events.ParkSignal:          anybody, // it can come at any time
	events.ParkAsyncTool:       openHandoff,
	events.ParkNoCapableWorker: anybody,
	events.ParkDiverged:        anybody, // who rolls the code back
	events.ParkPaused:          anybody, // a person
}

const (
	undecidedEffect = `EXISTS (SELECT 1 FROM effects e WHERE e.op_key = r.park_key AND e.state IN ('started', 'in_doubt'))`
	openHandoff     = `EXISTS (SELECT 1 FROM handoffs h WHERE h.run_id = r.id AND h.state = 'open')`
	anybody         = `1 = 1`
)

// nothingAwaited is the condition of a parked run that nothing will wake.
func nothingAwaited() string {
	reasons := make([]string, 0, len(awaited))
	for reason := range awaited {
		reasons = append(reasons, string(reason))
	}
	slices.Sort(reasons)
	var b strings.Builder
	b.WriteString(`NOT CASE r.park_reason`)
	for _, reason := range reasons {
		fmt.Fprintf(&b, ` WHEN '%s' THEN %s`, reason, awaited[events.ParkReason(reason)])
	}
	b.WriteString(` ELSE 1 = 0 END`)
	return b.String()
}

// stuckQuery finds one kind: runs under the name r, with what must hold and since when.
type stuckQuery struct {
	kind   ledger.StuckKind
	since  string
	where  string
	cutoff time.Time    // $1
	floor  events.RunID // $2: only runs from here on
	say    func(ledger.Run) string
}

func (s *Store) stuckQueries(f ledger.StuckFilter, now time.Time) []stuckQuery {
	late := now.Add(-f.Patience)
	const noFacts = ` AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.run_id = r.id)`
	const free = ` AND r.held_at IS NULL` // nobody claims what a person holds back
	return []stuckQuery{
		{
			kind: ledger.StuckLease, since: `r.lease_until`, cutoff: late,
			where: `r.lease_until <= $1 AND r.state IN ('running', 'cancelling') AND r.unreadable = ''` + free,
			say: func(r ledger.Run) string {
				return fmt.Sprintf("the lease of worker %q (epoch %d) ran out and nobody takes the run over: start a worker on queue %q that has %s", r.Worker, r.Epoch, r.Queue, capabilitiesOf(r.Requires))
			},
		},
		{
			kind: ledger.StuckLeaseless, since: `r.created_at`, cutoff: late,
			where: `r.state = 'running' AND r.lease_until IS NULL AND r.created_at <= $1` + free,
			say: func(ledger.Run) string {
				return "it is running and has no lease: no worker writes such a row; run ledgerctl verify"
			},
		},
		{
			kind: ledger.StuckWaiting, since: `r.parked_at`, cutoff: late,
			where: `r.state = 'parked' AND r.parked_at <= $1 AND r.wake_at IS NULL AND ` + nothingAwaited() + noFacts + free,
			say: func(r ledger.Run) string {
				return fmt.Sprintf("it waits for %s (%s), and there is no such thing any more: cancel it, or report this as a fault of Daybook", r.ParkReason, r.ParkDetail)
			},
		},
		{
			kind: ledger.StuckWake, since: `r.wake_at`, cutoff: late,
			where: `r.state = 'parked' AND r.wake_at <= $1` + free,
			say: func(r ledger.Run) string {
				return fmt.Sprintf("its time has come and nobody takes it: start a worker on queue %q that has %s", r.Queue, capabilitiesOf(r.Requires))
			},
		},
		{
			kind: ledger.StuckSession, since: `r.behind_at`, cutoff: late,
			where: `r.behind_at <= $1 AND r.ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM runs b
				WHERE b.tenant = r.tenant AND b.session_id = r.session_id AND b.session_place > 0 AND b.session_place < r.session_place AND b.ended_at IS NULL)`,
			say: func(r ledger.Run) string {
				return fmt.Sprintf("it waits for the runs before it in session %q, and they have all ended: a worker of an earlier version ended one. The next run that is submitted to the session, or ends in it, lets it go", r.SessionID)
			},
		},
		{
			kind: ledger.StuckUnreadable, since: `r.lease_until`, cutoff: now,
			where: `r.unreadable <> '' AND r.created_at <= $1`,
			say: func(r ledger.Run) string {
				return "no worker can read its history: " + r.Unreadable + "; run a build that can, or ledgerctl verify to see what was changed"
			},
		},
		{
			kind: ledger.StuckEnd, since: `r.ended_at`, cutoff: late, floor: idAt(now.Add(-recentEnds)),
			where: `r.ended_at <= $1 AND r.id >= $2
				AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id = r.id AND e.type IN ('run_finished', 'run_failed', 'run_cancelled'))`,
			say: func(ledger.Run) string {
				return "its row says that it ended, its history does not: run ledgerctl reconcile, then ledgerctl verify"
			},
		},
	}
}

// recentEnds is how old a run may be whose end is looked at each time; verify
// looks at all of them.
const recentEnds = 48 * time.Hour

// idAt is the lowest id that a run made at t can have.
func idAt(t time.Time) (id events.RunID) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(t.UnixMilli())) //nolint:gosec // after 1970
	copy(id[:6], b[2:])
	return id
}

func capabilitiesOf(requires []string) string {
	if len(requires) == 0 {
		return "its tools"
	}
	return strings.Join(requires, ", ")
}

// Stuck implements ledger.Watchdog.
func (s *Store) Stuck(ctx context.Context, f ledger.StuckFilter) (list []ledger.Stuck, err error) {
	if f.Patience <= 0 {
		f.Patience = 2 * time.Minute
	}
	if f.FactAge <= 0 {
		f.FactAge = s.cfg.AuditAge
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, q := range s.stuckQueries(f, now) {
			got, err := q.run(ctx, tx, f)
			if err != nil {
				return fmt.Errorf("%s: %w", q.kind, err)
			}
			list = append(list, got...)
		}
		got, err := stuckFacts(ctx, tx, f, now)
		list = append(list, got...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for stuck runs: %w", err)
	}
	slices.SortStableFunc(list, func(a, b ledger.Stuck) int { return a.Since.Compare(b.Since) })
	return list, nil
}

func (q stuckQuery) run(ctx context.Context, tx Tx, f ledger.StuckFilter) ([]ledger.Stuck, error) {
	w := where{args: []any{q.cutoff}}
	if !q.floor.IsZero() {
		w.arg(q.floor)
	}
	w.conditions = append(w.conditions, q.where)
	if f.Tenant != "" {
		w.add("r.tenant = $%d", f.Tenant)
	}
	n := w.arg(limitOf(f.Limit))
	rows, err := tx.Query(ctx, `SELECT `+runColumns+`, `+q.since+` FROM runs r`+w.String()+fmt.Sprintf(` ORDER BY `+q.since+`, r.id LIMIT $%d`, n), w.args...)
	var list []ledger.Stuck
	return list, each(rows, err, func(row Row) error {
		var since time.Time
		r, err := scanRun(row, &since)
		if err == nil {
			list = append(list, ledger.Stuck{
				Run: r.ID, Tenant: r.Tenant, Queue: r.Queue, Kind: q.kind, State: r.State, Since: since, Worker: r.Worker, Text: q.say(r),
			})
		}
		return err
	})
}

// stuckFacts finds runs whose facts nobody appends.
func stuckFacts(ctx context.Context, tx Tx, f ledger.StuckFilter, now time.Time) ([]ledger.Stuck, error) {
	w := where{args: []any{now.Add(-f.FactAge)}}
	tenant := ""
	if f.Tenant != "" {
		tenant = fmt.Sprintf(` WHERE r.tenant = $%d`, w.arg(f.Tenant))
	}
	n := w.arg(limitOf(f.Limit))
	rows, err := tx.Query(ctx, `
		SELECT `+runColumns+`, o.since, o.n FROM (
			SELECT run_id, min(created_at) AS since, count(*) AS n FROM facts GROUP BY run_id HAVING min(created_at) <= $1
		) o JOIN runs r ON r.id = o.run_id`+tenant+fmt.Sprintf(` ORDER BY o.since, r.id LIMIT $%d`, n), w.args...)
	var list []ledger.Stuck
	return list, each(rows, err, func(row Row) error {
		var since time.Time
		var pending int
		r, err := scanRun(row, &since, &pending)
		if err == nil {
			list = append(list, ledger.Stuck{
				Run: r.ID, Tenant: r.Tenant, Queue: r.Queue, Kind: ledger.StuckFacts, State: r.State, Since: since, Worker: r.Worker,
				Text: fmt.Sprintf("facts wait to be put into its history (%d): any worker on queue %q does it; is there one?", pending, r.Queue),
			})
		}
		return err
	})
}

// MarkUnreadable implements ledger.Unreadables.
func (s *Store) MarkUnreadable(ctx context.Context, l ledger.Lease, reason string) error {
	reason = cut(storable(s.cfg.Redactor.String(reason)))
	err := s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		h, err := s.lockHolder(ctx, tx, l)
		if err != nil {
			return err
		}
		if reason == "" {
			return one(tx.Exec(ctx, `UPDATE runs SET unreadable = '', not_before = NULL, idle_claims = 0 WHERE id = $1 AND epoch = $2`, l.RunID, l.Epoch))
		}
		var idle int
		if err := tx.QueryRow(ctx, `SELECT idle_claims FROM runs WHERE id = $1`, l.RunID).Scan(&idle); err != nil {
			return err
		}
		return one(tx.Exec(ctx, `UPDATE runs SET unreadable = $3, not_before = $4, idle_claims = $5, lease_until = $6, crashes = 0 WHERE id = $1 AND epoch = $2`,
			l.RunID, l.Epoch, reason, h.now.Add(backoff(idle)), idle+1, h.now))
	})
	if err != nil && !errors.Is(err, ledger.ErrFenced) {
		return fmt.Errorf("mark run %s unreadable: %w", l.RunID, err)
	}
	return err
}
