package sqlstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// bySignal is who completed a call that waited for a signal.
const bySignal = "signal "

var signalName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Signal implements ledger.Signals.
func (s *Store) Signal(ctx context.Context, run events.RunID, in ledger.Signal) error {
	err := s.signal(ctx, run, in)
	if err != nil {
		return fmt.Errorf("signal %q to run %s: %w", in.Name, run, err)
	}
	return nil
}

func (s *Store) signal(ctx context.Context, run events.RunID, in ledger.Signal) (err error) {
	switch {
	case !signalName.MatchString(in.Name):
		return errors.New("name: want 1 to 128 letters, digits, dots, - or _, a letter or digit first")
	case in.From == "":
		return errors.New("nobody is named: the record says who sent it")
	case len(in.Key) > 512:
		return fmt.Errorf("key has %d bytes: want at most 512", len(in.Key))
	case len(in.Data) > maxForeignBytes:
		return fmt.Errorf("data has %d bytes, at most %d: store large values outside and send a reference: %w", len(in.Data), maxForeignBytes, events.ErrTooLarge)
	case len(in.Data) > 0 && !json.Valid(in.Data):
		return errors.New("data is no JSON: quote a text")
	}
	if in.Data, err = s.redacted(in.Data); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	in.From = cut(s.cfg.Redactor.String(in.From))
	id := s.cfg.IDs.Event()
	if in.Key != "" {
		sum := sha256.Sum256([]byte("daybook/signal/1\x00" + run.String() + "\x00" + in.Key))
		copy(id[:6], run[:6])
		copy(id[6:], sum[:10])
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		r, err := lockRun(ctx, tx, run)
		if err != nil {
			return err
		}
		known, err := sameSignal(ctx, tx, run, id, in)
		if err != nil || known {
			return err
		}
		if r.State.Ended() {
			return fmt.Errorf("it is %s: %w", r.State, ledger.ErrEnded)
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if err := s.receive(ctx, tx, r, id, in, now); err != nil {
			return err
		}
		return away(fault.Err("signal.before_commit"))
	})
	if err != nil {
		return err
	}
	return away(fault.Err("signal.after_commit"))
}

// sameSignal reports whether the signal is there already.
func sameSignal(ctx context.Context, tx Tx, run events.RunID, id events.ID, in ledger.Signal) (bool, error) {
	var name string
	var data json.RawMessage
	err := tx.QueryRow(ctx, `SELECT name, data FROM signals WHERE run_id = $1 AND event_id = $2`, run, id).Scan(&name, &data)
	switch {
	case errors.Is(err, ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read signals: %w", err)
	case name != in.Name || !bytes.Equal(data, in.Data):
		return false, fmt.Errorf("it was %q: %w", name, ledger.ErrSignalConflict)
	}
	return true, nil
}

// receive keeps a signal and hands it to the call that has waited longest.
func (s *Store) receive(ctx context.Context, tx Tx, run ledger.Run, id events.ID, in ledger.Signal, now time.Time) error {
	hs, err := readHandoffs(ctx, tx, `h.run_id = $1 AND h.state = 'open' AND h.signal = $2 ORDER BY h.created_at, h.token LIMIT 1 FOR UPDATE`, run.ID, in.Name)
	if err != nil {
		return err
	}
	p := events.SignalReceived{Name: in.Name, Data: in.Data, From: in.From}
	var taker events.ID
	if len(hs) > 0 {
		p.Call, taker = &hs[0].Call, hs[0].Token
	}
	_, err = tx.Exec(ctx, `INSERT INTO signals (run_id, event_id, name, data, sender, received_at, taken_by) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		run.ID, id, in.Name, in.Data, in.From, now, taker)
	if err != nil {
		return fmt.Errorf("insert signal: %w", err)
	}
	if _, _, err := s.addFact(ctx, tx, run.ID, id, p, run.Trace); err != nil {
		return err
	}
	if len(hs) == 0 {
		return nil
	}
	return s.completeBySignal(ctx, tx, hs[0], in.From, in.Data)
}

// takeSignal completes a hand-off that has just been made by the oldest signal
// of its name that nobody has taken. The run's row is locked.
func (s *Store) takeSignal(ctx context.Context, tx Tx, h ledger.Handoff, now time.Time) error {
	var id events.ID
	var from string
	var data json.RawMessage
	err := tx.QueryRow(ctx, `
		SELECT event_id, sender, data FROM signals WHERE run_id = $1 AND name = $2 AND taken_by IS NULL
		ORDER BY received_at, event_id LIMIT 1`, h.Run, h.Signal).Scan(&id, &from, &data)
	if errors.Is(err, ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read signals: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE signals SET taken_by = $3 WHERE run_id = $1 AND event_id = $2`, h.Run, id, h.Token); err != nil {
		return fmt.Errorf("take signal: %w", err)
	}
	h.CreatedAt = now
	return s.completeBySignal(ctx, tx, handoffRow{Handoff: h}, from, data)
}

func (s *Store) completeBySignal(ctx context.Context, tx Tx, h handoffRow, from string, data json.RawMessage) error {
	output := outputText(data)
	if output == "" {
		output = "received, without data"
	}
	c := ledger.Completion{Token: h.Token, Kind: ledger.Applied, Result: events.ToolResult{Output: output}, By: bySignal + h.Signal + " from " + from}
	digest, err := digestOf(c)
	if err != nil {
		return err
	}
	return s.completeCall(ctx, tx, h, c, digest)
}
