package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// slotGrace is for how long a lease that has lapsed still takes a place: its
// run is about to be taken over. A place cannot leak: after that it is free.
const slotGrace = time.Minute

// room is how much a limited queue has left for new runs. Its row in
// queue_limits is locked, so no other claim gives out the same places. The nil
// room is without end.
type room struct {
	limit   ledger.QueueLimit
	free    int            // places; -1 = any number
	perKey  map[string]int // held, by concurrency key
	started []candidate    // taken by this claim
	now     time.Time
}

// rooms are the rooms of limited queues by name.
type rooms map[string]*room

// lockRooms locks the limits of the queues that have some, in the order of
// their names, and counts from the leases themselves what is held.
func lockRooms(ctx context.Context, tx Tx, lanes []*lane, begun []candidate) (rooms, error) {
	var names []string
	for _, l := range lanes {
		if l.limited && !slices.Contains(names, l.queue) {
			names = append(names, l.queue)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	out, err := lockLimits(ctx, tx, names)
	if err != nil {
		return nil, err
	}
	now, err := tx.Now(ctx) // after the locks
	if err != nil {
		return nil, err
	}
	held, err := heldByKey(ctx, tx, names, now)
	if err != nil {
		return nil, err
	}
	for name, rm := range out {
		rm.now, rm.perKey = now, held[name]
		if rm.perKey == nil {
			rm.perKey = map[string]int{}
		}
		for _, c := range begun {
			if c.run.Queue == name && !c.run.State.Ended() && !holdsPlace(c.run, now) {
				rm.perKey[c.run.ConcurrencyKey]++
			}
		}
		running := 0
		for _, n := range rm.perKey {
			running += n
		}
		if rm.limit.MaxRunning > 0 {
			rm.less(rm.limit.MaxRunning - running)
		}
		if rm.limit.Rate > 0 {
			started, _, err := startedSince(ctx, tx, name, now.Add(-rm.limit.Per))
			if err != nil {
				return nil, err
			}
			rm.less(rm.limit.Rate - started)
		}
	}
	return out, nil
}

func lockLimits(ctx context.Context, tx Tx, names []string) (rooms, error) {
	rows, err := tx.Query(ctx, `
		SELECT queue, max_running, max_per_key, rate_count, rate_micros, paused_at FROM queue_limits
		WHERE `+tx.In("queue", 1)+` ORDER BY queue FOR UPDATE`, names)
	if err != nil {
		return nil, fmt.Errorf("lock queue limits: %w", err)
	}
	defer rows.Close()
	out := rooms{}
	for rows.Next() {
		var name string
		var micros int64
		var paused time.Time
		rm := &room{free: -1}
		if err := rows.Scan(&name, &rm.limit.MaxRunning, &rm.limit.MaxPerKey, &rm.limit.Rate, &micros, &paused); err != nil {
			return nil, fmt.Errorf("lock queue limits: %w", err)
		}
		rm.limit.Per = time.Duration(micros) * time.Microsecond
		if !paused.IsZero() {
			rm.free = 0
		}
		out[name] = rm
	}
	return out, rows.Err()
}

// holding is the condition on runs r that hold a place; since is the parameter
// for the time from which a lapsed lease is none any more.
func holding(since string) string {
	return `r.lease_until > ` + since + ` AND r.state IN ('running', 'cancelling')`
}

// heldByKey counts the runs that are held, per queue and concurrency key.
func heldByKey(ctx context.Context, tx Tx, names []string, now time.Time) (map[string]map[string]int, error) {
	rows, err := tx.Query(ctx, `
		SELECT r.queue, r.concurrency_key, count(*) FROM runs r
		WHERE `+holding("$1")+` AND `+tx.In("r.queue", 2)+` GROUP BY r.queue, r.concurrency_key`,
		now.Add(-slotGrace), names)
	if err != nil {
		return nil, fmt.Errorf("count what is held: %w", err)
	}
	defer rows.Close()
	out := map[string]map[string]int{}
	for rows.Next() {
		var name, key string
		var n int
		if err := rows.Scan(&name, &key, &n); err != nil {
			return nil, fmt.Errorf("count what is held: %w", err)
		}
		if out[name] == nil {
			out[name] = map[string]int{}
		}
		out[name][key] = n
	}
	return out, rows.Err()
}

// holdsPlace reports whether heldByKey counts a run.
func holdsPlace(r ledger.Run, now time.Time) bool {
	return (r.State == ledger.Running || r.State == ledger.Cancelling) && r.LeaseUntil.After(now.Add(-slotGrace))
}

// startedSince counts the starts of a queue, and says when the first was.
func startedSince(ctx context.Context, tx Tx, name string, since time.Time) (n int, first time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*), min(started_at) FROM queue_starts WHERE queue = $1 AND started_at > $2`, name, since).Scan(&n, &first)
	if err != nil {
		return 0, first, fmt.Errorf("count starts of queue %q: %w", name, err)
	}
	return n, first, nil
}

// less lowers what is free to n.
func (r *room) less(n int) {
	if n = max(n, 0); r.free < 0 || n < r.free {
		r.free = n
	}
}

func (r *room) full() bool { return r != nil && r.free == 0 }

func (r *room) atMost(n int) int {
	if r == nil || r.free < 0 {
		return n
	}
	return min(n, r.free)
}

// condition leaves out what the limit per key would refuse.
func (r *room) condition(tx Tx, c *condition) string {
	if r == nil || r.limit.MaxPerKey == 0 {
		return ""
	}
	full := []string{}
	for key, n := range r.perKey {
		if key != "" && n >= r.limit.MaxPerKey {
			full = append(full, key)
		}
	}
	return ` AND NOT (` + tx.In("r.concurrency_key", c.arg(full)) + `)`
}

// take gives a place to a run, if its key has one left.
func (r *room) take(c candidate) bool {
	if r == nil {
		return true
	}
	key := c.run.ConcurrencyKey
	if r.full() || r.limit.MaxPerKey > 0 && key != "" && r.perKey[key] >= r.limit.MaxPerKey {
		return false
	}
	if r.free > 0 {
		r.free--
	}
	r.perKey[key]++
	r.started = append(r.started, c)
	return true
}

// record keeps the starts that a rate counts, as long as it does.
func (rs rooms) record(ctx context.Context, tx Tx) error {
	for name, rm := range rs {
		if rm.limit.Rate == 0 || len(rm.started) == 0 {
			continue
		}
		what := fmt.Sprintf("record starts of queue %q", name)
		err := tx.Later(ctx, what, `DELETE FROM queue_starts WHERE queue = $1 AND started_at <= $2`, name, rm.now.Add(-rm.limit.Per))
		if err != nil {
			return err
		}
		rows := make([][]any, len(rm.started))
		for i, c := range rm.started {
			rows[i] = []any{name, rm.now, c.run.ID}
		}
		if _, err := tx.InsertMany(ctx, "queue_starts", []string{"queue", "started_at", "run_id"}, rows, ""); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}
