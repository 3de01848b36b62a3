package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// lane is what one tenant has in one queue that could be claimed now.
type lane struct {
	queue, tenant string
	levels        []level // highest priority first
	// start is where the tenant's next start stands in the queue's virtual time,
	// ahead how far that is beyond the queue's own.
	start, ahead int64
	limited      bool
	tenants      int // that have anything queued in this queue
	shares       int // rows of tenant_shares of this queue
	want         int
	got          []candidate
	done         bool // nothing more can be taken
}

// level is one priority of a lane, with the due time of its first run.
type level struct {
	priority int
	due      time.Time
}

// pickNew locks up to r.Limit-len(begun) queued runs: of the tenant that has
// had least, its first due run by priority and time, and so on. Tenants that
// compete for a queue get equally many starts; a tenant that was away begins
// where the others are, so nobody saves up. begun are the runs that this claim
// takes already.
func pickNew(ctx context.Context, tx Tx, r ledger.ClaimRequest, now time.Time, begun []candidate) ([]candidate, shares, error) {
	lanes, err := readLanes(ctx, tx, r, now)
	if err != nil || len(lanes) == 0 {
		return nil, nil, err
	}
	rooms, err := lockRooms(ctx, tx, lanes, begun)
	if err != nil {
		return nil, nil, err
	}
	var out []candidate
	for left := r.Limit - len(begun); left > 0 && plan(lanes, left); left = r.Limit - len(begun) - len(out) {
		for _, l := range lanes {
			if l.want == 0 {
				continue
			}
			got, err := l.lock(ctx, tx, r, now, rooms[l.queue])
			if err != nil {
				return nil, nil, err
			}
			out = append(out, got...)
			l.done = l.done || len(got) < l.want
		}
	}
	if err := rooms.record(ctx, tx); err != nil {
		return nil, nil, err
	}
	return out, sharesOf(lanes), nil
}

// queuedRow is what the index of lanes holds: what waits behind a run of its session
// is no part of it.
const queuedRow = `r.state = 'queued' AND r.held_at IS NULL AND r.behind_at IS NULL`

// freshRow is one that nobody has claimed yet: what was handed over is claimed
// as such, before.
const freshRow = queuedRow + ` AND r.started_at IS NULL`

// readLanes finds queues, tenants and priorities by skipping through the index
// of lanes, so it costs a few look-ups for each and never reads the runs in
// between. No row is locked.
func readLanes(ctx context.Context, tx Tx, r ledger.ClaimRequest, now time.Time) ([]*lane, error) {
	c := &condition{}
	in := ""
	if len(r.Queues) > 0 {
		in = ` AND ` + tx.In("q.queue", c.arg(r.Queues))
	}
	q := `
		WITH RECURSIVE queues (queue) AS (
			SELECT min(r.queue) FROM runs r WHERE ` + queuedRow + `
			UNION ALL
			SELECT (SELECT min(r.queue) FROM runs r WHERE ` + queuedRow + ` AND r.queue > q.queue) FROM queues q WHERE q.queue IS NOT NULL
		), tenants (queue, tenant) AS (
			SELECT q.queue, (SELECT min(r.tenant) FROM runs r WHERE ` + queuedRow + ` AND r.queue = q.queue) FROM queues q
			WHERE q.queue IS NOT NULL` + in + ` AND NOT EXISTS (SELECT 1 FROM queue_limits p WHERE p.queue = q.queue AND p.paused_at IS NOT NULL)
			UNION ALL
			SELECT t.queue, (SELECT min(r.tenant) FROM runs r WHERE ` + queuedRow + ` AND r.queue = t.queue AND r.tenant > t.tenant)
			FROM tenants t WHERE t.tenant IS NOT NULL
		), levels (queue, tenant, priority) AS (
			SELECT t.queue, t.tenant, (SELECT max(r.priority) FROM runs r WHERE ` + queuedRow + ` AND r.queue = t.queue AND r.tenant = t.tenant)
			FROM tenants t WHERE t.tenant IS NOT NULL
			UNION ALL
			SELECT l.queue, l.tenant, (SELECT max(r.priority) FROM runs r
				WHERE ` + queuedRow + ` AND r.queue = l.queue AND r.tenant = l.tenant AND r.priority < l.priority)
			FROM levels l WHERE l.priority IS NOT NULL
		), heads AS (
			SELECT l.queue, l.tenant, l.priority, (SELECT r.due_at FROM runs r
				WHERE ` + freshRow + ` AND r.queue = l.queue AND r.tenant = l.tenant AND r.priority = l.priority
				AND r.due_at <= ` + c.at(now) + capable(tx, r, c) + ` ORDER BY r.due_at, r.id LIMIT 1) AS due
			FROM levels l WHERE l.priority IS NOT NULL
		)
		SELECT h.queue, h.tenant, h.priority, h.due, coalesce(s.vtime, 0),
			coalesce((SELECT max(v.served) FROM tenant_shares v WHERE v.queue = h.queue), 0),
			(SELECT count(*) FROM tenant_shares v WHERE v.queue = h.queue),
			(SELECT count(*) FROM tenants t WHERE t.queue = h.queue AND t.tenant IS NOT NULL),
			EXISTS (SELECT 1 FROM queue_limits b WHERE b.queue = h.queue AND b.max_running + b.max_per_key + b.rate_count > 0)
		FROM heads h LEFT JOIN tenant_shares s ON s.queue = h.queue AND s.tenant = h.tenant
		WHERE h.due IS NOT NULL ORDER BY h.queue, h.tenant, h.priority DESC`
	rows, err := tx.Query(ctx, q, c.args...)
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	defer rows.Close()
	var lanes []*lane
	for rows.Next() {
		var l lane
		var v level
		var served int64
		if err := rows.Scan(&l.queue, &l.tenant, &v.priority, &v.due, &l.start, &served, &l.shares, &l.tenants, &l.limited); err != nil {
			return nil, fmt.Errorf("read lanes: %w", err)
		}
		if n := len(lanes); n > 0 && lanes[n-1].queue == l.queue && lanes[n-1].tenant == l.tenant {
			lanes[n-1].levels = append(lanes[n-1].levels, v)
			continue
		}
		l.start = max(l.start, served)
		l.ahead, l.levels = l.start-served, []level{v}
		lanes = append(lanes, &l)
	}
	return lanes, rows.Err()
}

// plan deals places to lanes, each to the one that is least ahead; it reports
// whether any lane got one.
func plan(lanes []*lane, places int) bool {
	for _, l := range lanes {
		l.want = 0
	}
	some := false
	for range places {
		var least *lane
		for _, l := range lanes {
			if !l.done && (least == nil || l.before(least)) {
				least = l
			}
		}
		if least == nil {
			break
		}
		least.want++
		some = true
	}
	return some
}

// before orders lanes that are equally far by priority, then by who waits longer.
func (l *lane) before(o *lane) bool {
	at := func(l *lane) int64 { return l.ahead + int64(len(l.got)+l.want) }
	return cmp.Or(
		cmp.Compare(at(l), at(o)),
		-cmp.Compare(l.levels[0].priority, o.levels[0].priority),
		l.levels[0].due.Compare(o.levels[0].due),
	) < 0
}

// lock locks up to l.want further runs of a lane, within the room that its
// queue has (nil = any).
func (l *lane) lock(ctx context.Context, tx Tx, r ledger.ClaimRequest, now time.Time, room *room) ([]candidate, error) {
	had := len(l.got)
	for _, v := range l.levels {
		for {
			n := room.atMost(l.want - (len(l.got) - had))
			if n <= 0 {
				return l.got[had:], nil
			}
			c := &condition{}
			c.sql = freshRow + ` AND r.queue = ` + c.at(l.queue) + ` AND r.tenant = ` + c.at(l.tenant) + ` AND r.priority = ` + c.at(v.priority) +
				` AND r.due_at <= ` + c.at(now) + capable(tx, r, c) + room.condition(tx, c)
			// Those that this claim has locked already come again.
			found, err := lockCandidates(ctx, tx, c, "r.due_at, r.id", n+len(l.got))
			if err != nil {
				return nil, err
			}
			before := len(l.got)
			for _, f := range found {
				if !slices.ContainsFunc(l.got, func(o candidate) bool { return o.run.ID == f.run.ID }) && room.take(f) {
					l.got = append(l.got, f)
				}
			}
			if len(l.got) == before || room == nil {
				break
			}
		}
	}
	return l.got[had:], nil
}

// shares is what tenants got of the queues they compete for.
type shares []*lane

func sharesOf(lanes []*lane) shares {
	var out shares
	for _, l := range lanes {
		if len(l.got) > 0 {
			out = append(out, l)
		}
	}
	return out // in the order of queue and tenant, which is also that of their locks
}

// record raises the virtual times. A tenant that is alone in its queue pays
// nothing: there is nobody to be compared with, and what was is forgotten.
func (had shares) record(ctx context.Context, tx Tx) error {
	for _, l := range had {
		what := fmt.Sprintf("record the share of tenant %s in queue %q", l.tenant, l.queue)
		var err error
		switch {
		case l.tenants == 1 && l.shares == 0:
		case l.tenants == 1:
			err = tx.Later(ctx, what, `DELETE FROM tenant_shares WHERE queue = $1`, l.queue)
		default:
			err = tx.Later(ctx, what, `
				INSERT INTO tenant_shares (queue, tenant, vtime, served) VALUES ($1, $2, $3, $4)
				ON CONFLICT (queue, tenant) DO UPDATE SET
					vtime  = CASE WHEN tenant_shares.vtime > $5 THEN tenant_shares.vtime ELSE $5 END + $6,
					served = CASE WHEN tenant_shares.vtime > $5 THEN tenant_shares.vtime ELSE $5 END + $6 - 1`,
				l.queue, l.tenant, l.start+int64(len(l.got)), l.start+int64(len(l.got))-1, l.start, len(l.got))
		}
		if err != nil {
			return err
		}
	}
	return had.forget(ctx, tx)
}

// forget drops the rows of tenants that are away and have nothing to make good.
func (had shares) forget(ctx context.Context, tx Tx) error {
	for i, l := range had {
		if l.tenants == 1 || l.shares <= 2*l.tenants+16 || i > 0 && had[i-1].queue == l.queue {
			continue
		}
		err := tx.Later(ctx, fmt.Sprintf("forget idle tenants of queue %q", l.queue), `
			DELETE FROM tenant_shares WHERE queue = $1 AND vtime <= (SELECT max(v.served) FROM tenant_shares v WHERE v.queue = $1)`, l.queue)
		if err != nil {
			return err
		}
	}
	return nil
}
