package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/ledger/sqlstore"
)

const (
	// partitionsAhead is how many months there are partitions for beyond this one.
	partitionsAhead = 2
	// analyzeEvery is how old the statistics of partitioned tables may become:
	// autovacuum never makes those of a parent. A table that has grown to
	// analyzeGrowth times what it held then, and by analyzeRows at least, has them
	// made again at once: those of a table that was empty say nothing at all.
	analyzeEvery  = 6 * time.Hour
	analyzeGrowth = 2
	analyzeRows   = 1000
	// maintainLock keeps two processes from doing it at once.
	maintainLock = "hashtext('daybook maintenance')"
)

// Maintain implements sqlstore.Maintainer. It waits for no lock that would make
// others wait behind it.
func (d *database) Maintain(ctx context.Context) (done []string, err error) {
	err = d.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		done = nil
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(`+maintainLock+`)`).Scan(&mine); err != nil || !mine {
			return err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '2s'`); err != nil {
			return err
		}
		var made int
		if err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT daybook_keep_partitions(%d)`, partitionsAhead)).Scan(&made); err != nil {
			return fmt.Errorf("make partitions ahead: %w", err)
		}
		if made > 0 {
			done = append(done, fmt.Sprintf("made %d partitions ahead", made))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, parent := range []string{"events", "tool_call_records", "model_calls"} {
		ok, aerr := d.analyze(ctx, parent)
		if ok {
			done = append(done, "analyzed "+parent)
		}
		err = errors.Join(err, aerr)
	}
	return done, err
}

// analyze makes the statistics of a partitioned table and its partitions, if
// they are due and nobody else is at it. How many rows there are is the server's
// own running count, which costs nothing to ask.
func (d *database) analyze(ctx context.Context, parent string) (done bool, err error) {
	err = d.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		done = false
		var mine, fresh bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(`+maintainLock+`)`).Scan(&mine); err != nil || !mine {
			return err
		}
		err := tx.QueryRow(ctx, fmt.Sprintf(`
			SELECT coalesce((SELECT last_analyze > clock_timestamp() - interval '%d seconds' FROM pg_stat_user_tables WHERE relid = to_regclass($1)), false)
			AND (SELECT coalesce(sum(s.n_live_tup), 0) FROM pg_partition_tree(to_regclass($1)) p JOIN pg_stat_user_tables s ON s.relid = p.relid WHERE p.isleaf)
				< (SELECT greatest(reltuples, 0) * %d + %d FROM pg_class WHERE oid = to_regclass($1))`,
			int(analyzeEvery.Seconds()), analyzeGrowth, analyzeRows), parent).Scan(&fresh)
		if err != nil || fresh {
			return err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '2s'`); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `ANALYZE `+parent)
		done = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("analyze %s: %w", parent, err)
	}
	return done, nil
}
