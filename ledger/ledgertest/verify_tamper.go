package ledgertest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// tamper is one attack by SQL, and what verification must say of it.
type tamper struct {
	name   string
	attack func(t *testing.T, r record)
	kind   ledger.FindingKind
	seq    uint64 // 0: the run as a whole; noSeq: any
	text   string
}

const noSeq = 1 << 60

// testTampers makes a record of its own for each attack, in one ledger.
func testTampers(t *testing.T, h Harness) {
	for _, x := range tampers {
		t.Run(x.name, func(t *testing.T) {
			r := newRecord(t, h)
			x.attack(t, r)
			fs := r.findings(t)
			for _, f := range fs {
				if f.Kind == x.kind && (x.seq == noSeq || f.Seq == x.seq) && strings.Contains(f.Text, x.text) {
					return
				}
			}
			t.Errorf("no %s finding at seq %d with %q in %v", x.kind, x.seq, x.text, fs)
		})
	}
}

// findings are those about the record's runs, of which nobody touched the live one.
func (r record) findings(t tb) []ledger.Finding {
	t.Helper()
	r.h.wantWhole(t, r.live)
	fs := r.h.verify(t, r.run)
	_, err := r.h.Store.Verify(t.Context(), r.other, func(f ledger.Finding) error {
		fs = append(fs, f)
		return nil
	})
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		t.Fatalf("verify: %v", err)
	}
	return fs
}

// set changes one column of one event, or of all rows of the run in table.
func set(assign string, args ...any) func(*testing.T, record) {
	return func(t *testing.T, r record) {
		r.h.sql(t, `UPDATE events SET `+assign+` WHERE run_id = $1 AND seq = 5`, append([]any{r.run}, args...)...)
	}
}

func statement(q string, args ...any) func(*testing.T, record) {
	return func(t *testing.T, r record) {
		if n := r.h.sql(t, q, append([]any{r.run}, args...)...); n == 0 {
			t.Fatalf("%s: changed nothing", q)
		}
	}
}

// edit replaces text in the bytes of the first event that holds it; fix also
// mends its hash.
func edit(old, replaced string, fix bool) func(*testing.T, record) {
	return func(t *testing.T, r record) {
		for _, s := range r.h.stored(t, r.run) {
			b := bytes.Replace(s.bytes, []byte(old), []byte(replaced), 1)
			if bytes.Equal(b, s.bytes) {
				continue
			}
			hash := s.hash
			if fix {
				hash = sha256.Sum256(b)
			}
			r.h.sql(t, `UPDATE events SET bytes = $3, hash = $4 WHERE run_id = $1 AND seq = $2`, r.run, s.seq, b, hash)
			return
		}
		t.Fatalf("no event holds %q", old)
	}
}

var tampers = []tamper{
	{"a body that was edited", edit(`"messages":1`, `"messages":7`, false), ledger.Tampered, 4, "do not fit their hash"},
	{"a body and its hash", edit(`"messages":1`, `"messages":7`, true), ledger.Tampered, 5, "prev is"},
	{"a whole chain, by the rows made from it", func(t *testing.T, r record) {
		r.h.rehash(t, r.run, 6, []byte(`"search"`), []byte(`"sea"`))
	}, ledger.Tampered, 6, "Tool is"},
	{"a first event that says another owner", func(t *testing.T, r record) {
		r.h.rehash(t, r.run, 1, []byte(`"owner":"ann"`), []byte(`"owner":"bob"`))
	}, ledger.Tampered, 1, "owner is"},
	{"an owner changed in runs", statement(`UPDATE runs SET owner = 'bob' WHERE id = $1`), ledger.Tampered, 1, "owner is"},
	{"bytes that are no event", edit(`{`, `[`, true), ledger.Tampered, 1, "no event"},
	{"a row in the middle deleted", statement(`DELETE FROM events WHERE run_id = $1 AND seq = 5`), ledger.Incomplete, 5, "events 5 missing"},
	{"rows at the start deleted", statement(`DELETE FROM events WHERE run_id = $1 AND seq < 4`), ledger.Incomplete, 1, "events 1 to 3 missing"},
	{"the tail of an ended run deleted", func(t *testing.T, r record) {
		r.h.sql(t, `DELETE FROM events WHERE run_id = $1 AND seq > $2`, r.run, r.n-2)
		r.h.sql(t, `UPDATE run_folds SET top_seq = $2, folded_seq = $2 WHERE run_id = $1`, r.run, r.n-2)
	}, ledger.Incomplete, noSeq, "run_finished is missing"},
	{"the tail deleted, by the fold's row", func(t *testing.T, r record) {
		r.h.sql(t, `DELETE FROM events WHERE run_id = $1 AND seq > $2`, r.run, r.n-2)
	}, ledger.Incomplete, noSeq, "missing at the end"},
	{"all events of a run deleted", statement(`DELETE FROM events WHERE run_id = $1`), ledger.Incomplete, 1, "missing at the end"},
	{"two rows swapped", func(t *testing.T, r record) {
		swap := func(from, to int) {
			r.h.sql(t, `UPDATE events SET seq = $3 WHERE run_id = $1 AND seq = $2`, r.run, from, to)
		}
		swap(5, 1000)
		swap(6, 5)
		swap(1000, 6)
	}, ledger.Tampered, 5, "column seq is 5"},
	{"a forged row appended", func(t *testing.T, r record) {
		last := r.h.stored(t, r.run)[r.n-1]
		e, err := events.Parse(last.bytes, last.hash)
		if err != nil {
			t.Fatal(err)
		}
		env := e.Envelope()
		env.ID, env.Seq, env.Prev, env.Type = testIDs.Event(), r.n+1, last.hash, "turn_started"
		r.h.arrive(t, forge(t, env, `{"turn":9}`))
	}, ledger.Tampered, noSeq, "after the end of the run"},
	{"a forged row in an epoch that was over", func(t *testing.T, r record) {
		last := r.h.stored(t, r.run)[r.n-1]
		e, _ := events.Parse(last.bytes, last.hash)
		env := e.Envelope()
		env.ID, env.Seq, env.Prev, env.Type, env.Epoch = testIDs.Event(), r.n+1, last.hash, "operator_acted", 1
		r.h.arrive(t, forge(t, env, `{"by":"eve","verb":"resolve"}`))
	}, ledger.Tampered, noSeq, "should have been set aside"},
	{"a row moved to another run", func(t *testing.T, r record) {
		r.h.sql(t, `UPDATE events SET run_id = $2 WHERE run_id = $1 AND seq = 9`, r.run, r.other)
	}, ledger.Tampered, 9, "column run_id"},
	{"events of a run that is in no other table", func(t *testing.T, r record) {
		r.h.sql(t, `UPDATE events SET run_id = $2 WHERE run_id = $1 AND seq = 9`, r.run, r.other)
	}, ledger.Tampered, 0, "not in runs"},
	{"column epoch", set("epoch = 2"), ledger.Tampered, 5, "column epoch"},
	{"column event_id", set("event_id = $2", events.ID{9}), ledger.Tampered, 5, "column event_id"},
	{"column type", set("type = 'turn_started'"), ledger.Tampered, 5, "column type"},
	{"column version", set("version = 2"), ledger.Tampered, 5, "column version"},
	{"column tenant", set("tenant = 'other'"), ledger.Tampered, 5, "column tenant"},
	{"column session_id", set("session_id = 'x'"), ledger.Tampered, 5, "column session_id"},
	{"column trace", set("trace = 'x'"), ledger.Tampered, 5, "column trace"},
	{"column prev", set("prev = $2", events.Hash{3}), ledger.Tampered, 5, "column prev"},
	{"column hash", set("hash = $2", events.Hash{3}), ledger.Tampered, 5, "do not fit their hash"},
	{"column time", set("time = (SELECT time FROM events WHERE run_id = $1 AND seq = 1)"), ledger.Tampered, 5, "column time"},
	{"a base changed in run_epochs", statement(`UPDATE run_epochs SET base_seq = base_seq - 1 WHERE run_id = $1 AND epoch = 2`), ledger.Tampered, noSeq, "in run_epochs"},
	{"a base hash changed in run_epochs", statement(`UPDATE run_epochs SET base_hash = $2 WHERE run_id = $1 AND epoch = 2`, events.Hash{3}), ledger.Tampered, noSeq, "in run_epochs"},
	{"an epoch deleted", statement(`DELETE FROM run_epochs WHERE run_id = $1 AND epoch = 2`), ledger.Tampered, noSeq, "epoch 2 was never given"},
	{
		"an epoch forged", statement(`INSERT INTO run_epochs (run_id, epoch, base_seq, base_hash, worker, created_at) SELECT run_id, 7, 3, base_hash, worker, created_at FROM run_epochs WHERE run_id = $1 AND epoch = 2`),
		ledger.Tampered, noSeq, "should have been set aside",
	},
	{"bytes of a set-aside event", statement(`UPDATE set_aside SET bytes = $2 WHERE run_id = $1`, []byte("x")), ledger.Tampered, noSeq, "do not fit their hash"},
	{"the sequence of a set-aside event", statement(`UPDATE set_aside SET seq = seq + 10 WHERE run_id = $1`), ledger.Tampered, noSeq, "set aside: columns"},
	{"a valid event among those set aside", func(t *testing.T, r record) {
		r.h.sql(t, `INSERT INTO set_aside (run_id, seq, epoch, event_id, hash, bytes, reason, set_aside_at) SELECT run_id, seq, epoch, event_id, hash, bytes, 'x', time FROM events WHERE run_id = $1 AND seq = 3`, r.run)
	}, ledger.Tampered, 3, "no later epoch"},
	{"a record's tool", statement(`UPDATE tool_call_records SET tool = 'x' WHERE run_id = $1 AND seq = 8`), ledger.Tampered, 8, "Tool is"},
	{"a record's arguments", statement(`UPDATE tool_call_records SET arguments = $2 WHERE run_id = $1 AND seq = 8`, []byte(`{}`)), ledger.Tampered, 8, "Arguments is"},
	{"a record deleted", statement(`DELETE FROM tool_call_records WHERE run_id = $1 AND seq = 8`), ledger.Incomplete, 8, "tool_call_records is missing"},
	{
		"a record forged", statement(`INSERT INTO tool_call_records (run_id, seq, tenant, turn, call_index, attempt, status, terminal, tool, at) SELECT $1, 3, tenant, 1, 9, 1, status, terminal, tool, at FROM tool_call_records WHERE run_id = $1 AND seq = 8`),
		ledger.Tampered, 3, "that the history does not give",
	},
	{"a price", statement(`UPDATE model_calls SET cost_pico = 0 WHERE run_id = $1 AND seq = 4`), ledger.Tampered, 4, "Cost is"},
	{"a model call deleted", statement(`DELETE FROM model_calls WHERE run_id = $1 AND seq = 4`), ledger.Incomplete, 4, "model_calls is missing"},
	{"a total", statement(`UPDATE run_summaries SET tool_calls = 0 WHERE run_id = $1`), ledger.Tampered, 0, "ToolCalls is 0"},
	{"a version of an artifact", statement(`UPDATE artifact_versions SET verdict = 'accepted' WHERE run_id = $1`), ledger.Tampered, noSeq, "Verdict is"},
	{"an artifact", statement(`UPDATE artifacts SET name = 'x' WHERE run_id = $1`), ledger.Tampered, noSeq, "Name is"},
	{"a fold set back", statement(`UPDATE run_folds SET folded_seq = 4 WHERE run_id = $1`), ledger.Tampered, 5, "beyond seq 4"},
	{"an effect's attempt deleted", statement(`DELETE FROM effect_attempts WHERE run_id = $1`), ledger.Tampered, noSeq, "not an attempt of effect"},
	{"an end that did not happen", statement(`UPDATE runs SET state = 'failed' WHERE id = $1`), ledger.Tampered, noSeq, "its terminal event is run_finished"},
	{"a fact about an effect that was never told", func(t *testing.T, r record) {
		r.h.sql(t, `UPDATE effect_attempts SET token = $2 WHERE run_id = $1`, r.run, testIDs.Event())
	}, ledger.Incomplete, 0, "no start"},
}
