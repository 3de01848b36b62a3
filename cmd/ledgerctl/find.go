package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

const (
	minRunPart = 6    // characters
	minKeyPart = 8    // hexadecimal digits
	recentRuns = 1000 // among which a part of a run id is looked for
	ulidLen    = 26
)

// findRun reads a run id, or the beginning or end of one.
func (a *app) findRun(ctx context.Context, st ledger.Store, s string) (events.RunID, error) {
	s = strings.ToUpper(strings.TrimSpace(s))
	if strings.Trim(s, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" || len(s) > ulidLen {
		return events.RunID{}, usagef("%q is no run id: want the 26 characters that %s shows, or %d or more of its beginning or end",
			s, a.command("runs", "list"), minRunPart)
	}
	if len(s) == ulidLen {
		id, err := events.ParseRunID(s)
		if err != nil {
			return id, usageError{err}
		}
		return id, nil
	}
	if len(s) < minRunPart {
		return events.RunID{}, usagef("%q is too short for a run: give %d characters or more of its beginning or end", s, minRunPart)
	}
	rs, err := st.Summaries(ctx, ledger.RunFilter{Limit: recentRuns})
	if err != nil {
		return events.RunID{}, err
	}
	var found []string
	var id events.RunID
	for _, r := range rs {
		if t := r.ID.String(); strings.HasPrefix(t, s) || strings.HasSuffix(t, s) {
			found, id = append(found, t), r.ID
		}
	}
	switch len(found) {
	case 0:
		return id, notThere(a.command("runs", "list"), "no run begins or ends with %q among the newest %d: give the whole id, %s shows them", s, recentRuns, a.command("runs", "list"))
	case 1:
		return id, nil
	default:
		return id, fmt.Errorf("%q could be %s: give more characters", s, several(found))
	}
}

// several names up to three of list.
func several(list []string) string {
	if len(list) <= 3 {
		return strings.Join(list, " or ")
	}
	return fmt.Sprintf("%s, %s or %d others", list[0], list[1], len(list)-2)
}

// readRun returns a run by what a person typed.
func (a *app) readRun(ctx context.Context, st ledger.Store, s string) (ledger.Run, error) {
	id, err := a.findRun(ctx, st, s)
	if err != nil {
		return ledger.Run{}, err
	}
	r, err := st.Run(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return r, notThere(a.command("runs", "list"), "no run %s in this ledger: %s shows the newest", id, a.command("runs", "list"))
	}
	return r, err
}

// readSummary returns a run with its totals.
func (a *app) readSummary(ctx context.Context, st ledger.Store, s string) (ledger.Summary, error) {
	r, err := a.readRun(ctx, st, s)
	if err != nil {
		return ledger.Summary{}, err
	}
	list, err := st.Summaries(ctx, ledger.RunFilter{Before: above(r.ID), Limit: 1})
	if err != nil {
		return ledger.Summary{}, err
	}
	if len(list) == 1 && list[0].ID == r.ID {
		return list[0], nil
	}
	return ledger.Summary{Run: r}, nil
}

// above is the id after r.
func above(r events.RunID) events.RunID {
	for i := len(r) - 1; i >= 0; i-- {
		r[i]++
		if r[i] != 0 {
			break
		}
	}
	return r
}

// splitCall parts RUN/t1.c0.
func splitCall(s string) (run string, call events.CallID, err error) {
	run, name, ok := strings.Cut(s, "/")
	turn, index, dot := strings.Cut(name, ".")
	t, terr := strconv.Atoi(strings.TrimPrefix(turn, "t"))
	i, ierr := strconv.Atoi(strings.TrimPrefix(index, "c"))
	call = events.CallID{Turn: t, Index: i}
	if !ok || !dot || terr != nil || ierr != nil || call.String() != name {
		return "", call, usagef("%q is no call: want RUN/t1.c0 (turn 1, first call)", s)
	}
	return run, call, nil
}

// findEffect reads an op key, or the beginning of one that a single effect has;
// effects in doubt go before the others.
func (a *app) findEffect(ctx context.Context, st ledger.Store, s string) (ledger.Effect, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.Trim(s, "0123456789abcdef") != "" || len(s) < minKeyPart || len(s) > hex.EncodedLen(len(events.Hash{})) {
		return ledger.Effect{}, usagef("%q is no op key: want %d to 64 hexadecimal digits, as %s shows them", s, minKeyPart, a.command("indoubt"))
	}
	if len(s) == hex.EncodedLen(len(events.Hash{})) {
		var key events.Hash
		if err := key.UnmarshalText([]byte(s)); err != nil {
			return ledger.Effect{}, usageError{err}
		}
		return a.readEffect(ctx, st, key)
	}
	for _, states := range [][]events.EffectState{{events.EffectInDoubt}, {}} {
		var found []string
		var effect ledger.Effect
		err := telling.EachEffect(ctx, st, ledger.EffectFilter{States: states}, func(e ledger.Effect) {
			if strings.HasPrefix(e.OpKey.String(), s) {
				found, effect = append(found, e.OpKey.String()), e
			}
		})
		switch {
		case err != nil:
			return ledger.Effect{}, err
		case len(found) == 1:
			return effect, nil
		case len(found) > 1:
			return ledger.Effect{}, fmt.Errorf("%q could be %s: give more digits", s, several(found))
		}
	}
	return ledger.Effect{}, notThere(a.command("indoubt"), "no effect has an op key that begins with %s: %s shows those in doubt", s, a.command("indoubt"))
}

// readEffect finds an effect by its whole key.
func (a *app) readEffect(ctx context.Context, st ledger.Store, key events.Hash) (ledger.Effect, error) {
	es, err := st.Effects(ctx, ledger.EffectFilter{OpKey: key, Limit: 1})
	if err != nil {
		return ledger.Effect{}, err
	}
	if len(es) == 0 {
		return ledger.Effect{}, notThere(a.command("indoubt"), "no effect has op key %s: %s shows those in doubt", key, a.command("indoubt"))
	}
	return es[0], nil
}

// rowsOf reads which rows of runs are listed: those of one run, if it is given, and
// those after the RUN/SEQ at which the last page ended, if there was one.
func (a *app) rowsOf(ctx context.Context, st ledger.Store, run string, p page) (of, beforeRun events.RunID, beforeSeq uint64, err error) {
	if run != "" {
		r, err := a.readRun(ctx, st, run)
		if err != nil {
			return of, beforeRun, 0, err
		}
		of = r.ID
	}
	if p.after != "" {
		last, seq, ok := strings.Cut(p.after, "/")
		if beforeSeq, err = strconv.ParseUint(seq, 10, 63); err != nil || !ok {
			return of, beforeRun, 0, usagef("--after %q: want RUN/SEQ", p.after)
		}
		if beforeRun, err = a.findRun(ctx, st, last); err != nil {
			return of, beforeRun, 0, err
		}
	}
	return of, beforeRun, beforeSeq, nil
}
