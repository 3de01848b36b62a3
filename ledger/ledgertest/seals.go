package ledgertest

import (
	"bytes"
	"context"
	"testing"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

var sealTests = []conformance{
	{"a replay has the bytes that the tool returned, on another worker too", testSealedReplay},
	{"without the key, with another one, or damaged, the redacted outcome is replayed", testSealUnreadable},
	{"an erased owner's results cannot be read, and no more are sealed", testErase},
	{"erasing names who did it, once, and knows its owners", testEraseNames},
}

const secretOutput = "charge ch_1 of card 4242424242424242, \xff and \x00"

// sealing is the same ledger under a seal key.
func (h Harness) sealing(t tb, key byte) Harness {
	t.Helper()
	s, err := ledger.NewSealer(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatalf("sealer: %v", err)
	}
	h.Store = sqlstore.New(h.DB, sqlstore.Config{Redactor: testSeal, Sealer: s})
	return h
}

// sealed begins and ends a refund whose tool said secretOutput.
func (a *actor) sealed(in ledger.Intent) {
	a.t.Helper()
	a.want(ledger.Execute, in)
	out := outcome(in.Token, ledger.Applied)
	out.Exact = []byte(secretOutput)
	if _, err := a.h.Store.End(a.t.Context(), a.lease, a.prefix, out); err != nil {
		a.t.Fatalf("end: %v", err)
	}
	a.prefix = nil
	a.flush()
}

// read reads a column of bytes.
func read(t tb, h Harness, q string, into *[][]byte) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		rows, err := tx.Query(ctx, q)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var b []byte
			if err := rows.Scan(&b); err != nil {
				return err
			}
			*into = append(*into, b)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// on gives the actor another store over the same database.
func (a *actor) on(h Harness) *actor {
	a.h = h
	return a
}

func wantExact(t tb, what string, v ledger.Verdict, exact bool) {
	t.Helper()
	if got := string(v.Exact) == secretOutput; got != exact || v.Redacted == exact || v.Result.Output == "" {
		t.Errorf("%s: exact %q, redacted %v, result %+v", what, v.Exact, v.Redacted, v.Result)
	}
}

func testSealedReplay(t *testing.T, h Harness) {
	s := h.sealing(t, 1)
	a := start(t, s, ownedBy("ann"))
	in := refund()
	a.sealed(in)
	wantExact(t, "the same token", a.want(ledger.Replay, in), true)
	b := a.successor() // it crashed; the same call asks again
	wantExact(t, "another worker", b.want(ledger.Replay, refund()), true)
	wantExact(t, "another call", b.want(ledger.Replay, refund(call(2, 0))), true)
	// Nothing that is stored holds it.
	for table, column := range map[string]string{"effect_attempts": "sealed", "facts": "data", "events": "bytes"} {
		var rows [][]byte
		read(t, h, `SELECT `+column+` FROM `+table+` WHERE `+column+` IS NOT NULL`, &rows)
		for _, b := range rows {
			if bytes.Contains(b, []byte("4242424242424242")) {
				t.Errorf("%s.%s holds it: %q", table, column, b)
			}
		}
	}
	// What belongs to nobody is sealed under a key of its own.
	c := start(t, s)
	in = refund(order(9))
	c.sealed(in)
	wantExact(t, "no owner", c.want(ledger.Replay, in), true)
	if n := h.count(t, `SELECT count(*) FROM owner_keys`); n != 2 {
		t.Errorf("%d data keys, want 2", n)
	}
}

func testSealUnreadable(t *testing.T, h Harness) {
	s := h.sealing(t, 1)
	a := start(t, s, ownedBy("ann"))
	in := refund()
	a.sealed(in)
	wantExact(t, "no key", a.on(h).want(ledger.Replay, in), false)
	other := h.sealing(t, 2)
	wantExact(t, "another key", a.on(other).want(ledger.Replay, in), false)
	second := refund(order(8), call(2, 0))
	a.sealed(second) // it cannot be sealed under the other key, and is recorded all the same
	wantExact(t, "not sealed", a.on(s).want(ledger.Replay, second), false)
	third := refund(order(9), call(3, 0))
	a.sealed(third)
	wantExact(t, "readable", a.want(ledger.Replay, third), true)
	// The ciphertext of one attempt is none of another's, and damage shows.
	h.sql(t, `UPDATE effect_attempts SET sealed = (SELECT b.sealed FROM effect_attempts b WHERE b.token = $1) WHERE token = $2`, in.Token, third.Token)
	wantExact(t, "another attempt's", a.want(ledger.Replay, third), false)
	h.sql(t, `UPDATE effect_attempts SET sealed = $2 WHERE token = $1`, in.Token, []byte{1, 2, 3})
	wantExact(t, "damaged", a.want(ledger.Replay, in), false)
	h.sql(t, `UPDATE owner_keys SET wrapped = $1`, []byte{1})
	wantExact(t, "a damaged data key", a.want(ledger.Replay, in), false)
}

func testErase(t *testing.T, h Harness) {
	s := h.sealing(t, 1)
	a, b := start(t, s, ownedBy("ann")), start(t, s, ownedBy("bob"))
	first, others := refund(), refund(order(8))
	a.sealed(first)
	b.sealed(others)
	e, err := s.Store.Erase(t.Context(), "acme", "ann", "ada")
	if err != nil || e.Sealed != 1 || e.By != "ada" || e.At.IsZero() {
		t.Fatalf("erased %+v, %v", e, err)
	}
	wantExact(t, "erased", a.want(ledger.Replay, first), false)
	wantExact(t, "somebody else's", b.want(ledger.Replay, others), true)
	later := refund(order(9), call(2, 0))
	a.sealed(later)
	wantExact(t, "after that", a.want(ledger.Replay, later), false)
	if n := h.count(t, `SELECT count(*) FROM owner_keys WHERE owner = 'ann' AND wrapped IS NULL`); n != 1 {
		t.Error("a data key is there")
	}
}

func testEraseNames(t *testing.T, h Harness) {
	if _, err := h.Store.Erase(t.Context(), "acme", "nobody", "ada"); err == nil {
		t.Error("an unknown owner was erased")
	}
	submit(t, h, ownedBy("ann"))
	if _, err := h.Store.Erase(t.Context(), "acme", "ann", ""); err == nil {
		t.Error("nobody erased")
	}
	for _, by := range []string{"ada", "bob"} {
		if e, err := h.Store.Erase(t.Context(), "acme", "ann", by); err != nil || e.By != "ada" || e.Sealed != 0 {
			t.Errorf("by %s: %+v, %v", by, e, err)
		}
	}
}
