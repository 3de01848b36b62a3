package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// beyond is the first id that a run of a later day has; zero: there is none.
func beyond(day string) events.RunID {
	d, err := time.Parse(time.DateOnly, day)
	if err != nil || d.Unix()/86_400 >= lastDay {
		return events.RunID{}
	}
	return firstOf(d.AddDate(0, 0, 1))
}

// callDays returns the days, in order, on which runs were queued whose calls are in
// the ledger, and those that cost_days tells of.
func (s *Store) callDays(ctx context.Context) (days []string, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		days = nil
		for from := (events.RunID{}); ; {
			var next events.RunID
			err := tx.QueryRow(ctx, `
				SELECT run_id FROM (SELECT run_id FROM tool_call_records WHERE run_id >= $1 ORDER BY run_id LIMIT 1) c
				UNION ALL SELECT run_id FROM (SELECT run_id FROM model_calls WHERE run_id >= $1 ORDER BY run_id LIMIT 1) m
				ORDER BY run_id LIMIT 1`, firstID(from)).Scan(&next)
			if err != nil && !errors.Is(err, ErrNoRows) {
				return err
			}
			if err != nil {
				break
			}
			days = append(days, runDayOf(next))
			if from = beyond(runDayOf(next)); from.IsZero() {
				break
			}
		}
		rows, err := tx.Query(ctx, `SELECT DISTINCT run_day FROM cost_days`)
		return each(rows, err, func(row Row) error {
			var day string
			err := row.Scan(&day)
			days = append(days, day)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the days of calls: %w", err)
	}
	slices.Sort(days)
	return slices.Compact(days), nil
}

// addUp sums the single calls of the runs queued on a day as cost_days should have them.
func addUp(ctx context.Context, tx Tx, day string) (costDays, error) {
	d := costDays{}
	first, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return d, nil //nolint:nilerr // nobody was queued on what is no day
	}
	w := where{}
	w.add("c.run_id >= $%d", firstID(firstOf(first)))
	if end := beyond(day); !end.IsZero() {
		w.add("c.run_id < $%d", end)
	}
	read := func(kind, q string, at, n int) error {
		rows, err := tx.Query(ctx, q, w.args...)
		return each(rows, err, func(row Row) error {
			k, owner, sum := costDay{kind: kind, runDay: day}, "", costSum{}
			dest := []any{&k.day, &k.tenant, &k.queue, &k.agent, &k.name, &owner}
			for i := range n {
				dest = append(dest, &sum[at+i])
			}
			if err := row.Scan(dest...); err != nil {
				return err
			}
			d.add(k, sum, 1)
			k.kind, k.name = costOfOwner, owner
			d.add(k, sum, 1)
			return nil
		})
	}
	key := `SELECT ` + tx.Day("c.at") + `, c.tenant, r.queue, r.agent, `
	err = read(costOfModel, key+servedBy+`, c.owner, count(*), `+sumCost+`, `+modelCounts+`
		FROM model_calls c`+runOfCall+w.String()+` GROUP BY 1, 2, 3, 4, 5, 6`, 0, toolSums)
	if err != nil {
		return nil, fmt.Errorf("sum model calls: %w", err)
	}
	w.conditions = append(w.conditions, executedCalls)
	err = read(costOfTool, key+`c.tool, c.owner, count(*), `+sumCost+`, `+toolCounts+`
		FROM tool_call_records c`+runOfCall+w.String()+` GROUP BY 1, 2, 3, 4, 5, 6`, toolSums, len(costSums)-toolSums)
	if err != nil {
		return nil, fmt.Errorf("sum tool calls: %w", err)
	}
	return d, nil
}

// differing returns how the rows of cost_days of a day differ from the calls: what has
// to be added to make them right.
func differing(ctx context.Context, tx Tx, day string) (costDays, error) {
	d, err := addUp(ctx, tx, day)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT `+strings.Join(slices.Concat(costDayKey, costSums), ", ")+` FROM cost_days WHERE kind IN ('model', 'tool', 'owner') AND run_day = $1`, day)
	err = each(rows, err, func(row Row) error {
		var k costDay
		var sum costSum
		dest := []any{&k.kind, &k.runDay, &k.day, &k.tenant, &k.queue, &k.agent, &k.name}
		for i := range sum {
			dest = append(dest, &sum[i])
		}
		if err := row.Scan(dest...); err != nil {
			return err
		}
		d.add(k, sum, -1)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read cost_days: %w", err)
	}
	for k, sum := range d {
		if sum == (costSum{}) {
			delete(d, k)
		}
	}
	return d, nil
}

// verifyCosts compares cost_days with the single calls, a day in one snapshot.
func (s *Store) verifyCosts(ctx context.Context, f func(ledger.Finding) error) (wrong int64, err error) {
	days, err := s.callDays(ctx)
	if err != nil {
		return 0, err
	}
	for _, day := range days {
		var d costDays
		err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
			d, err = differing(ctx, tx, day)
			return err
		})
		if err != nil {
			return wrong, fmt.Errorf("verify the costs of runs of %s: %w", day, err)
		}
		if len(d) == 0 {
			continue
		}
		wrong++
		text := fmt.Sprintf("the costs of runs of %s are not those of their calls in %d rows of cost_days: ledgerctl rebuild counts them again", day, len(d))
		if err := f(ledger.Finding{Kind: ledger.Tampered, Text: text}); err != nil {
			return wrong, err
		}
	}
	return wrong, nil
}

// recount makes the rows of cost_days of some days those of the single calls. Folding
// a run again takes out what its rows put in; that is not enough if these were changed.
func (s *Store) recount(ctx context.Context, days ...string) error {
	for _, day := range days {
		// Most are right, and a sum over the calls of a day takes long: nobody waits for that.
		var wrong costDays
		err := s.db.Read(ctx, func(ctx context.Context, tx Tx) (err error) {
			wrong, err = differing(ctx, tx, day)
			return err
		})
		if err == nil && len(wrong) == 0 {
			continue
		}
		if err != nil {
			return fmt.Errorf("compare the costs of runs of %s: %w", day, err)
		}
		err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
			// Whoever has calls to add waits, and what they add is not seen before they have.
			if _, err := tx.Exec(ctx, `LOCK TABLE cost_days IN SHARE ROW EXCLUSIVE MODE`); err != nil {
				return err
			}
			d, err := differing(ctx, tx, day)
			if err != nil {
				return err
			}
			return d.write(ctx, tx)
		})
		if err != nil {
			return fmt.Errorf("count the costs of runs of %s again: %w", day, err)
		}
	}
	return nil
}
