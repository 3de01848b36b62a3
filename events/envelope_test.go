package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

func redacted(t testing.TB, v any) redact.JSON {
	t.Helper()
	data, err := redact.New(redact.Config{}).JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSealRefuses(t *testing.T) {
	turn := redacted(t, events.TurnStarted{Turn: 1})
	env := func(f func(*events.Envelope)) events.Envelope {
		e := envelope("turn_started", 1)
		f(&e)
		return e
	}
	tests := []struct {
		name string
		env  events.Envelope
		data redact.JSON
		want error
	}{
		{"no data", envelope("turn_started", 1), redact.JSON{}, events.ErrMalformed},
		{"no id", env(func(e *events.Envelope) { e.ID = events.ID{} }), turn, events.ErrMalformed},
		{"no run", env(func(e *events.Envelope) { e.RunID = events.RunID{} }), turn, events.ErrMalformed},
		{"no sequence", env(func(e *events.Envelope) { e.Seq = 0 }), turn, events.ErrMalformed},
		{"no epoch", env(func(e *events.Envelope) { e.Epoch = 0 }), turn, events.ErrMalformed},
		{"no time", env(func(e *events.Envelope) { e.Time = time.Time{} }), turn, events.ErrMalformed},
		{"unknown type", envelope("turn_skipped", 1), turn, events.ErrUnknownType},
		{"unknown version", envelope("turn_started", 99), turn, events.ErrUnknownVersion},
		{"version zero", envelope("turn_started", 0), turn, events.ErrUnknownVersion},
		{"data over the limit", envelope("signal_received", 1), redacted(t, strings.Repeat("a ", events.MaxDataBytes/2)), events.ErrTooLarge},
		{"envelope over the limit", env(func(e *events.Envelope) { e.SessionID = strings.Repeat("s", events.MaxEventBytes) }), turn, events.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := events.Seal(tt.env, tt.data); !errors.Is(err, tt.want) {
				t.Errorf("Seal = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestSealCutsTime(t *testing.T) {
	e := envelope("turn_started", 1)
	e.Time = time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.FixedZone("", 3600))
	s := seal(t, e, events.TurnStarted{Turn: 1})
	if want := time.Date(2026, 1, 2, 2, 4, 5, 123456000, time.UTC); s.Envelope().Time != want {
		t.Errorf("time = %v, want %v", s.Envelope().Time, want)
	}
}

func TestSealKeepsValues(t *testing.T) {
	tests := []struct{ name, input string }{
		{"big integers", `{"a":9007199254740993,"b":123456789012345678901234567890,"c":-9223372036854775808}`},
		{"zero characters", `{"a":"x\u0000y","\u0000":1}`},
		{"characters that HTML escapes", `{"a":"<script>&\u2028"}`},
		{"other scripts", `{"a":"Füße 日本 😀"}`},
		{"nesting", `[[[[{"a":[null,true,false,"",{}]}]]]]`},
		{"null", `null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := seal(t, envelope("run_queued", 1), events.RunQueued{Agent: "a", Input: json.RawMessage(tt.input)})
			if !bytes.Contains(s.Bytes(), []byte(`"prev"`)) || bytes.Contains(s.Bytes(), []byte(`"hash"`)) {
				t.Error("stored bytes hold the hash, or no prev")
			}
			p, err := events.Parse(s.Bytes(), s.Hash())
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Decode()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(numbers(t, []byte(tt.input)), numbers(t, e.Data.(events.RunQueued).Input)); d != "" {
				t.Errorf("input changed (-want +got):\n%s", d)
			}
			if again := seal(t, e.Envelope, e.Data); again.Hash() != s.Hash() {
				t.Errorf("sealed again: %s, want the same bytes as %s", again.Bytes(), s.Bytes())
			}
		})
	}
}

// numbers decodes raw with its numbers' digits.
func numbers(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseRefuses(t *testing.T) {
	good := string(seal(t, envelope("turn_started", 1), events.TurnStarted{Turn: 1}).Bytes())
	change := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s does not hold %s", good, old)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	tests := []struct{ name, bytes string }{
		{"nothing", ""},
		{"null", "null"},
		{"a list", "[]"},
		{"an unknown field", change(`"epoch":3`, `"epoch":3,"extra":1`)},
		{"a repeated field", change(`"epoch":3`, `"epoch":3,"epoch":4`)},
		{"another capitalisation", change(`"epoch"`, `"Epoch"`)},
		{"trailing bytes", good + "{}"},
		{"no run", change(`"run_id":"01JDX000000000000000000007"`, `"run_id":""`)},
		{"a short id", change(`"id":"01JDX0`, `"id":"1JDX0`)},
		{"sequence zero", change(`"seq":1`, `"seq":0`)},
		{"a negative sequence", change(`"seq":1`, `"seq":-1`)},
		{"epoch zero", change(`"epoch":3`, `"epoch":0`)},
		{"version zero", change(`"version":1`, `"version":0`)},
		{"no type", change(`"type":"turn_started"`, `"type":""`)},
		{"no data", change(`"data":{"turn":1},`, ``)},
		{"no time", change(`"time":"2026-11-29T12:30:00.123456Z"`, `"time":"0001-01-01T00:00:00Z"`)},
		{"a short hash", change(`"prev":"`, `"prev":"00`)},
		{"bytes that are no UTF-8", change(`"acme"`, "\"a\xff\"")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := []byte(tt.bytes)
			if _, err := events.Parse(b, sha256.Sum256(b)); !errors.Is(err, events.ErrMalformed) {
				t.Errorf("Parse = %v, want ErrMalformed", err)
			}
		})
	}
	if _, err := events.Parse([]byte(good), events.Hash{1}); !errors.Is(err, events.ErrHash) {
		t.Errorf("Parse with another hash = %v, want ErrHash", err)
	}
}

func TestParseReadsWhatItDoesNotKnow(t *testing.T) {
	good := string(seal(t, envelope("turn_started", 1), events.TurnStarted{Turn: 1}).Bytes())
	tests := []struct {
		name, from, to string
		want           error
		says           string
	}{
		{"a newer type", `"turn_started"`, `"turn_skipped"`, events.ErrUnknownType, `"turn_skipped"`},
		{"a newer version", `"version":1`, `"version":9`, events.ErrUnknownVersion, `version 9`},
		{"a newer field", `{"turn":1}`, `{"turn":1,"colour":"red"}`, events.ErrMalformed, `colour`},
		{"null data", `{"turn":1}`, `null`, events.ErrMalformed, `no object`},
		{"another capitalisation", `{"turn":1}`, `{"Turn":1}`, events.ErrMalformed, `Turn`},
		{"a repeated field", `{"turn":1}`, `{"turn":1,"turn":2}`, events.ErrMalformed, `turn`},
		{"another kind of value", `{"turn":1}`, `{"turn":"1"}`, events.ErrMalformed, `turn`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := []byte(strings.Replace(good, tt.from, tt.to, 1))
			s, err := events.Parse(b, sha256.Sum256(b))
			if err != nil {
				if tt.name == "a repeated field" {
					return // refused even earlier
				}
				t.Fatalf("Parse: %v", err)
			}
			if _, err := s.Decode(); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Decode = %v, want %v that names %s", err, tt.want, tt.says)
			}
		})
	}
}

// TestDecodePayloadIsStrict covers every struct of every payload: a version
// with one more field anywhere is another version.
func TestDecodePayloadIsStrict(t *testing.T) {
	for _, typ := range events.Types() {
		version, _ := events.CurrentVersion(typ)
		p := filled(t, typ, version)
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := events.DecodePayload(typ, version, raw); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%s: decoded %+v, %v; want %+v", typ, got, err, p)
		}
		extra := append(bytes.TrimSuffix(raw, []byte("}")), []byte(`,"zz":1}`)...)
		if _, err := events.DecodePayload(typ, version, extra); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%s with an unknown field: %v, want ErrMalformed", typ, err)
		}
		if _, err := events.DecodePayload(typ, version+1, raw); !errors.Is(err, events.ErrUnknownVersion) {
			t.Errorf("%s version %d: %v, want ErrUnknownVersion", typ, version+1, err)
		}
	}
}

func TestNewFact(t *testing.T) {
	data := redacted(t, events.TimerFired{Due: moment})
	f, err := events.NewFact(events.ID{1}, events.RunID{2}, "timer_fired", data, "")
	if err != nil || f.Version != 1 || !bytes.Equal(f.Data, data.Bytes()) {
		t.Errorf("NewFact = %+v, %v", f, err)
	}
	if _, err := events.NewFact(events.ID{1}, events.RunID{2}, "timer_slept", data, ""); !errors.Is(err, events.ErrUnknownType) {
		t.Errorf("NewFact of an unknown type: %v", err)
	}
	if _, err := events.NewFact(events.ID{1}, events.RunID{2}, "timer_fired", redact.JSON{}, ""); err == nil {
		t.Error("NewFact without data: no error")
	}
	big := redacted(t, strings.Repeat("a ", events.MaxDataBytes/2))
	if _, err := events.NewFact(events.ID{1}, events.RunID{2}, "timer_fired", big, ""); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("NewFact of large data: %v", err)
	}
}
