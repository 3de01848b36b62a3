package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// effectRow is a row of effects, as the transaction that locked it sees it.
type effectRow struct {
	ledger.Effect
	base         events.Hash
	window       time.Duration // 0 = none declared, ledger.Forever
	firstSent    time.Time
	argsDigest   events.Hash
	errorKind    string
	settledToken events.ID
	approval     events.ID
	taint        string
	reserved     events.PicoUSD // for each of its attempts
}

// effectColumns are what scanEffect reads, of table effects under the name e.
const effectColumns = `e.op_key, e.base_key, e.generation, e.tenant, e.scope, e.scope_key, e.tool, e.identity, e.state,
	e.recovery, e.recovery_ttl, e.window_micros, e.run_id, e.turn, e.call_index, e.attempts, e.first_sent_at,
	e.arguments, e.args_digest, e.outcome, e.error_kind, e.evidence, e.settled_by, e.settled_token, e.settled_at,
	e.contradicted, e.possible_duplicate, e.forced, e.approval_id, e.taint, e.created_at, e.reserved_pico`

func scanEffect(row Row, extra ...any) (effectRow, error) {
	var e effectRow
	var ttl, window int64
	var outcome json.RawMessage
	dest := append([]any{
		&e.OpKey, &e.base, &e.Generation, &e.Tenant, &e.Scope, &e.ScopeKey, &e.Tool, &e.Identity, &e.State,
		&e.Recovery.Kind, &ttl, &window, &e.Run, &e.Call.Turn, &e.Call.Index, &e.Attempts, &e.firstSent,
		&e.Arguments, &e.argsDigest, &outcome, &e.errorKind, &e.Evidence, &e.SettledBy, &e.settledToken, &e.SettledAt,
		&e.Contradicted, &e.PossibleDuplicate, &e.Forced, &e.approval, &e.taint, &e.CreatedAt, &e.reserved,
	}, extra...)
	if err := row.Scan(dest...); err != nil {
		return effectRow{}, err
	}
	e.Recovery.TTL = time.Duration(ttl) * time.Microsecond
	e.window = ledger.Forever
	if window >= 0 {
		e.window = time.Duration(window) * time.Microsecond
	}
	var err error
	e.Outcome, err = decodeResult(outcome)
	return e, err
}

// lockEffect locks one effect, or returns ledger.ErrNotFound. The run that is
// acted for is locked before.
func lockEffect(ctx context.Context, tx Tx, key events.Hash) (effectRow, error) {
	e, err := scanEffect(tx.QueryRow(ctx, `SELECT `+effectColumns+` FROM effects e WHERE e.op_key = $1 FOR UPDATE`, key))
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return effectRow{}, fmt.Errorf("lock effect %s: %w", key, err)
	}
	return e, nil
}

// setState stores the state of a locked effect and what goes with it.
func (e *effectRow) setState(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, `
		UPDATE effects SET state = $2, outcome = $3, error_kind = $4, evidence = $5, settled_by = $6, settled_token = $7,
			settled_at = $8, contradicted = $9, possible_duplicate = $10, forced = $11, arguments = $12, args_digest = $13
		WHERE op_key = $1`,
		e.OpKey, e.State, encodeResult(e.Outcome), e.errorKind, e.Evidence, e.SettledBy, e.settledToken,
		e.SettledAt, e.Contradicted, e.PossibleDuplicate, e.Forced, e.Arguments, e.argsDigest)
	if err != nil {
		return fmt.Errorf("store effect %s as %s: %w", e.OpKey, e.State, err)
	}
	return nil
}

// decided reports whether nothing but late evidence is still awaited.
func decided(s events.EffectState) bool {
	return s != events.EffectStarted && s != events.EffectInDoubt
}

// What a resolution said of an attempt, in effect_attempts.resolved.
const (
	resolvedNotApplied = "not_applied" // after quiescence: it certainly took no effect
	resolvedForced     = "forced"      // before it: it may act yet
)

// attemptRow is a row of effect_attempts.
type attemptRow struct {
	ledger.Attempt
	opKey       events.Hash
	callAttempt int
	argsDigest  events.Hash
	arguments   json.RawMessage // empty = those of the effect
	continues   bool
	trace       string
	resolved    string
	handed      time.Time // when it was handed off; zero = it was not
}

// unclear reports whether nobody can know what the attempt did: it may have
// reached the provider and no evidence says otherwise.
func (a attemptRow) unclear() bool {
	return (a.Outcome == "" || a.Outcome == ledger.Unclear) && a.resolved != resolvedNotApplied
}

// handedOff reports whether the outcome comes from outside, by the token. Then
// nobody takes the attempt for abandoned before its time is up.
func (a attemptRow) handedOff() bool { return !a.handed.IsZero() }

// ended reports whether the executor came back; until then it may still act.
func (a attemptRow) ended() bool { return !a.EndedAt.IsZero() }

func (a attemptRow) ref(e effectRow) events.EffectRef {
	return events.EffectRef{OpKey: e.OpKey, Generation: e.Generation, Attempt: a.Number, Token: a.Token, Recovery: e.Recovery.Kind}
}

func (a attemptRow) call() events.CallRef { return events.CallRef{Run: a.Run, Call: a.Call} }

const attemptColumns = `a.op_key, a.attempt, a.token, a.run_id, a.epoch, a.turn, a.call_index, a.call_attempt, a.args_digest,
	a.prior, a.started_at, a.deadline, a.outcome, a.result, a.error, a.ended_at, a.arguments, a.continues, a.trace, a.resolved, a.handed_off_at`

func scanAttempt(row Row) (attemptRow, error) {
	var a attemptRow
	var result json.RawMessage
	err := row.Scan(&a.opKey, &a.Number, &a.Token, &a.Run, &a.Epoch, &a.Call.Turn, &a.Call.Index, &a.callAttempt, &a.argsDigest,
		&a.Prior, &a.StartedAt, &a.Deadline, &a.Outcome, &result, &a.Error, &a.EndedAt, &a.arguments, &a.continues, &a.trace, &a.resolved, &a.handed)
	if err != nil {
		return attemptRow{}, err
	}
	a.Result, err = decodeResult(result)
	return a, err
}

// attemptByToken finds an attempt; ok is false when there is none.
func attemptByToken(ctx context.Context, tx Tx, token events.ID) (a attemptRow, ok bool, err error) {
	a, err = scanAttempt(tx.QueryRow(ctx, `SELECT `+attemptColumns+` FROM effect_attempts a WHERE a.token = $1`, token))
	if errors.Is(err, ErrNoRows) {
		return attemptRow{}, false, nil
	}
	if err != nil {
		return attemptRow{}, false, fmt.Errorf("read attempt %s: %w", token, err)
	}
	return a, true, nil
}

// attempts are all tries of one effect, in order.
type attempts []attemptRow

func readAttempts(ctx context.Context, tx Tx, key events.Hash) (attempts, error) {
	rows, err := tx.Query(ctx, `SELECT `+attemptColumns+` FROM effect_attempts a WHERE a.op_key = $1 ORDER BY a.attempt`, key)
	if err != nil {
		return nil, fmt.Errorf("read attempts of effect %s: %w", key, err)
	}
	defer rows.Close()
	var as attempts
	for rows.Next() {
		a, err := scanAttempt(rows)
		if err != nil {
			return nil, fmt.Errorf("read attempts of effect %s: %w", key, err)
		}
		as = append(as, a)
	}
	return as, rows.Err()
}

func (as attempts) latest() attemptRow { return as[len(as)-1] }

// byToken returns the attempt of a token; the zero attempt when there is none.
func (as attempts) byToken(token events.ID) attemptRow {
	for _, a := range as {
		if a.Token == token {
			return a
		}
	}
	return attemptRow{}
}

// unclearBut reports whether an attempt other than token lacks a definite outcome.
func (as attempts) unclearBut(token events.ID) bool {
	for _, a := range as {
		if a.Token != token && a.unclear() {
			return true
		}
	}
	return false
}

// appliedBut returns an attempt other than token that reported applied.
func (as attempts) appliedBut(token events.ID) (attemptRow, bool) {
	for _, a := range as {
		if a.Token != token && a.Outcome == ledger.Applied {
			return a, true
		}
	}
	return attemptRow{}, false
}

// deadline is the latest deadline of an attempt that nobody knows about; zero for none.
func (as attempts) deadline() time.Time {
	var t time.Time
	for _, a := range as {
		if a.unclear() && a.Deadline.After(t) {
			t = a.Deadline
		}
	}
	return t
}

// quiescentIn is how long until deadline and grace have passed for every
// attempt that nobody knows about.
func (s *Store) quiescentIn(as attempts, now time.Time) time.Duration {
	t := as.deadline()
	if t.IsZero() {
		return 0
	}
	return t.Add(s.cfg.Grace).Sub(now)
}

func encodeResult(r *events.ToolResult) json.RawMessage {
	if r == nil {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil { // plain strings and numbers only
		panic(fmt.Sprintf("encode a tool result: %v", err))
	}
	return b
}

func decodeResult(b json.RawMessage) (*events.ToolResult, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := new(events.ToolResult)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("decode tool result: %w", err)
	}
	return r, nil
}
