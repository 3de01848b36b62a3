package events

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/redact"
)

// TestAppendCanonicalIsCanonical: what is put together by hand is what the one
// place for canonical bytes makes of the same event.
func TestAppendCanonicalIsCanonical(t *testing.T) {
	ids := NewIDs(nil, nil)
	data := []byte(`{"a":[1,9007199254740993,"é\n"],"b":{}}`)
	texts := []string{"", "acme", "a-b_C9", `quo"te`, `back\slash`, "<&>", "ü", "\x7f", "\x00", "tab\t", "\u2028"}
	times := []time.Time{
		time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC), time.Date(2026, 11, 3, 4, 5, 6, 120_000, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 999_999_000, time.UTC),
	}
	byHand := 0
	for _, text := range texts {
		for i, at := range times {
			e := Envelope{
				ID: ids.Event(), RunID: ids.Run(), Seq: 1 << (20 * i), Epoch: uint64(i + 1), Type: "turn_started", Version: 1,
				Time: at, Tenant: text, SessionID: text, Trace: text, Prev: Genesis(ids.Run()),
			}
			want, err := canonical.Marshal(wire{e, data})
			if err != nil {
				t.Fatal(err)
			}
			got, ok := appendCanonical(nil, e, data)
			if !ok {
				continue
			}
			byHand++
			if !bytes.Equal(got, want) {
				t.Errorf("by hand %s, canonical %s", got, want)
			}
		}
	}
	if byHand < 4*len(times) {
		t.Errorf("only %d were made by hand", byHand)
	}
	for _, year := range []int{0, -1, 10_000} {
		if _, ok := appendCanonical(nil, Envelope{Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}, data); ok {
			t.Errorf("year %d has been written", year)
		}
	}
}

func messageOf(t *testing.T, n int) ([]Sealed, []byte) {
	t.Helper()
	ids := NewIDs(nil, nil)
	run := ids.Run()
	prev := Genesis(run)
	var es []Sealed
	for i := range n {
		data, err := redact.New(redact.Config{}).JSON(SignalReceived{Name: `brace } quote " back \`, Data: []byte(fmt.Sprintf(`{"n":%d}`, i))})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Seal(Envelope{ID: ids.Event(), RunID: run, Seq: uint64(i + 1), Epoch: 1, Type: "signal_received", Version: 1, Time: time.Now(), Tenant: "a", Prev: prev}, data)
		if err != nil {
			t.Fatal(err)
		}
		es, prev = append(es, s), s.Hash()
	}
	return es, AppendMessage(nil, es)
}

// TestParseWrittenIsParseMessage: the short way gives what was sealed, and
// whatever is changed in a message falls to the patient reader.
func TestParseWrittenIsParseMessage(t *testing.T) {
	es, message := messageOf(t, 3)
	got, ok := parseWritten(message)
	if !ok || !reflect.DeepEqual(got, es) {
		t.Fatalf("%d events of %d, %v", len(got), len(es), ok)
	}
	for i := range message {
		for _, c := range []byte{'{', '}', '"', '\\', ',', 'x'} {
			if message[i] == c {
				continue
			}
			changed := bytes.Clone(message)
			changed[i] = c
			if es, ok := parseWritten(changed); ok {
				t.Fatalf("byte %d changed to %q: read %d events all the same", i, c, len(es))
			}
		}
		if _, ok := parseWritten(message[:i]); ok {
			t.Fatalf("cut at %d: read all the same", i)
		}
	}
	for _, bad := range []string{"", "[]", "[]x", " " + string(message), string(message) + " ", "[" + string(message) + "]"} {
		if _, ok := parseWritten([]byte(bad)); ok {
			t.Errorf("%.20q: read", bad)
		}
	}
}
