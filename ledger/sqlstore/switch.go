package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

const (
	// lockSwitchesToRead holds on to how the switches stand until the transaction
	// ends: it waits for whoever sets one, and whoever sets one waits for it. It
	// touches no row, so calls don't get into each other's way. (A backup holds a
	// weaker lock and stops nobody.)
	lockSwitchesToRead = `SELECT 1 FROM switches WHERE seq IS NULL FOR SHARE`
	lockSwitchesToSet  = `LOCK TABLE switches IN EXCLUSIVE MODE`
)

const switchColumns = `s.seq, s.tenant, s.tool, s.mode, s.set_by, s.set_role, s.reason, s.set_at`

// standing picks the newest change of each switch.
const standing = `NOT EXISTS (SELECT 1 FROM switches n WHERE n.tenant = s.tenant AND n.tool = s.tool AND n.seq > s.seq)`

func scanSwitch(row Row) (w ledger.Switch, err error) {
	err = row.Scan(&w.Seq, &w.Tenant, &w.Tool, &w.Mode, &w.By, &w.Role, &w.Reason, &w.At)
	return w, err
}

// strictestSwitch selects what forbids calls of a tool now, if anything does:
// its own switch or its tenant's. Parameter n is the tenant, n+1 the tool.
func strictestSwitch(n int) string {
	return fmt.Sprintf(`SELECT s.tool, s.mode, s.set_by, s.set_role, s.reason FROM switches s
		WHERE s.tenant = $%d AND s.tool IN ($%d, '*') AND s.mode <> 'on' AND %s
		ORDER BY s.mode, s.seq DESC LIMIT 1`, n, n+1, standing) // off comes before paused
}

// switchMode is how a tool's calls stand: the stricter of its switch and its
// tenant's. It stays so until the transaction ends.
func switchMode(ctx context.Context, tx Tx, tenant, tool string) (ledger.SwitchMode, error) {
	if err := tx.Later(ctx, "lock the switches", lockSwitchesToRead); err != nil {
		return "", err
	}
	return modeOf(ctx, tx, tenant, tool)
}

// modeOf is how a tool's calls stand, without holding on to it.
func modeOf(ctx context.Context, tx Tx, tenant, tool string) (ledger.SwitchMode, error) {
	var mode ledger.SwitchMode
	err := tx.QueryRow(ctx, `SELECT w.mode FROM (`+strictestSwitch(1)+`) w`, tenant, tool).Scan(&mode)
	if errors.Is(err, ErrNoRows) {
		return ledger.SwitchOn, nil
	}
	if err != nil {
		return "", fmt.Errorf("read switch of tool %s: %w", tool, err)
	}
	return mode, nil
}

// switchGate says what w keeps from going ahead, nil for nothing.
func switchGate(w ledger.Switch, tool string) *ledger.Verdict {
	switch w.Mode {
	case ledger.SwitchOff:
		return refusal(ledger.DetailKillSwitch, "not done: %s is switched off by %s%s. Do not try again.", switched(w, tool), who(w.By, w.Role), because(w.Reason))
	case ledger.SwitchPaused:
		return &ledger.Verdict{Kind: ledger.Paused, Text: fmt.Sprintf("%s is paused by %s%s", switched(w, tool), who(w.By, w.Role), because(w.Reason))}
	}
	return nil
}

func switched(w ledger.Switch, tool string) string {
	if w.Tool == ledger.EveryTool {
		return fmt.Sprintf("every tool of tenant %s", w.Tenant)
	}
	return "tool " + tool
}

// SetSwitch implements ledger.Switches.
func (s *Store) SetSwitch(ctx context.Context, c ledger.SwitchChange) (w ledger.Switch, err error) {
	if err := checkSwitch(c); err != nil {
		return w, fmt.Errorf("set switch of tool %q: %w", c.Tool, err)
	}
	c.By, c.Reason = s.cfg.Redactor.String(c.By), s.cfg.Redactor.String(c.Reason)
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		w, err = s.setSwitch(ctx, tx, c)
		return err
	})
	if err != nil {
		return ledger.Switch{}, fmt.Errorf("set switch of tool %s to %s: %w", c.Tool, c.Mode, err)
	}
	return w, nil
}

func checkSwitch(c ledger.SwitchChange) error {
	switch c.Mode {
	case ledger.SwitchOn, ledger.SwitchPaused, ledger.SwitchOff:
	default:
		return fmt.Errorf("mode %q: want on, paused or off", c.Mode)
	}
	if c.Tenant == "" || c.Tool == "" || c.By == "" || c.Reason == "" {
		return errors.New("tenant, tool, the authenticated caller and a reason are required")
	}
	return nil
}

func (s *Store) setSwitch(ctx context.Context, tx Tx, c ledger.SwitchChange) (ledger.Switch, error) {
	w := ledger.Switch{SwitchChange: c}
	if _, err := tx.Exec(ctx, lockSwitchesToSet); err != nil {
		return w, fmt.Errorf("wait for calls that are beginning: %w", err)
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return w, err
	}
	if w.Role, err = roleOf(ctx, tx); err != nil {
		return w, err
	}
	w.At = now
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(seq), 0) + 1 FROM switches`).Scan(&w.Seq); err != nil {
		return w, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO switches (seq, tenant, tool, mode, set_by, set_role, reason, set_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		w.Seq, w.Tenant, w.Tool, w.Mode, w.By, w.Role, w.Reason, w.At)
	if err != nil || c.Mode == ledger.SwitchPaused {
		return w, err
	}
	// A Park that was first is seen here, a later one sees the switch.
	waiters, err := pausedRuns(ctx, tx, c.Tenant, c.Tool)
	if err == nil && c.Mode == ledger.SwitchOn {
		var more []waiter
		more, err = doubtfulRuns(ctx, tx, c.Tenant, c.Tool)
		waiters = append(waiters, more...)
	}
	if err != nil {
		return w, err
	}
	key := ledger.SwitchKey(c.Tenant, c.Tool)
	for _, r := range waiters {
		p := events.OperatorActed{Verb: "tool_" + string(c.Mode), By: who(w.By, w.Role), Detail: c.Tool + because(w.Reason)}
		if _, _, err := s.addFact(ctx, tx, r.run, wakeID(now, key, int(w.Seq), 0, r.run), p, r.trace); err != nil {
			return w, fmt.Errorf("wake run %s: %w", r.run, err)
		}
	}
	w.Woken = len(waiters)
	return w, nil
}

// pausedRuns lists the runs that wait for a tool's switch, or any tool's.
func pausedRuns(ctx context.Context, tx Tx, tenant, tool string) ([]waiter, error) {
	q, args := `SELECT id, park_reason, trace FROM runs WHERE state = 'parked' AND park_reason = 'paused' AND tenant = $1 AND park_key `, []any{tenant}
	if tool == ledger.EveryTool {
		q += `IS NOT NULL`
	} else {
		q, args = q+`= $2`, append(args, ledger.SwitchKey(tenant, tool))
	}
	return waitersOf(ctx, tx, tool, q+` ORDER BY id`, args)
}

// doubtfulRuns lists the runs that are in doubt about a call of a tool, or of any
// tool, whose provider absorbs a repetition: Begin says whether it is made now.
// Such a run need not have the effect: one of its lineage may, that has ended.
func doubtfulRuns(ctx context.Context, tx Tx, tenant, tool string) ([]waiter, error) {
	q, args := `SELECT r.id, r.park_reason, r.trace FROM effects e JOIN runs r ON r.park_key = e.op_key
		WHERE e.state = 'in_doubt' AND e.recovery IN ('keyed', 'fenced') AND e.tenant = $1
			AND r.state = 'parked' AND r.park_reason = 'in_doubt'`, []any{tenant}
	if tool != ledger.EveryTool {
		q, args = q+` AND e.tool = $2`, append(args, tool)
	}
	return waitersOf(ctx, tx, tool, q+` ORDER BY r.id`, args)
}

func waitersOf(ctx context.Context, tx Tx, tool, q string, args []any) ([]waiter, error) {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return nil, fmt.Errorf("read runs that wait for tool %s: %w", tool, err)
	}
	defer rows.Close()
	var ws []waiter
	for rows.Next() {
		var w waiter
		if err := rows.Scan(&w.run, &w.reason, &w.trace); err != nil {
			return nil, fmt.Errorf("read runs that wait for tool %s: %w", tool, err)
		}
		ws = append(ws, w)
	}
	return ws, rows.Err()
}

// Switches implements ledger.Switches.
func (s *Store) Switches(ctx context.Context, f ledger.SwitchFilter) (ws []ledger.Switch, err error) {
	var c condition
	where := []string{fmt.Sprintf("s.seq > $%d", c.arg(f.After))}
	if !f.All {
		where = append(where, "s.mode <> 'on'", standing)
	}
	if f.Tenant != "" {
		where = append(where, fmt.Sprintf("s.tenant = $%d", c.arg(f.Tenant)))
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	q := `SELECT ` + switchColumns + ` FROM switches s WHERE ` + strings.Join(where, " AND ") + fmt.Sprintf(` ORDER BY s.seq LIMIT $%d`, c.arg(f.Limit))
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		ws = nil
		rows, err := tx.Query(ctx, q, c.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			w, err := scanSwitch(rows)
			if err != nil {
				return err
			}
			ws = append(ws, w)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list switches: %w", err)
	}
	return ws, nil
}
