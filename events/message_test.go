package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
)

func TestMessageRoundTrip(t *testing.T) {
	r := eventstest.NewRun(t)
	es := []events.Sealed{
		r.Next(events.TurnStarted{Turn: 1}),
		r.Next(events.SignalReceived{Name: "\u0000<&>\u2028", Data: json.RawMessage(`{"id":9007199254740993}`)}),
	}
	got, bad, err := events.ParseMessage(events.AppendMessage([]byte{}, es))
	if err != nil || len(bad) > 0 || len(got) != 2 {
		t.Fatalf("%d events, %v, %v", len(got), bad, err)
	}
	for i := range es {
		if !bytes.Equal(got[i].Bytes(), es[i].Bytes()) || got[i].Hash() != es[i].Hash() {
			t.Errorf("event %d changed on its way: %s", i, got[i].Bytes())
		}
	}
	if _, _, err := events.ParseMessage(events.AppendMessage(nil, nil)); err != nil {
		t.Errorf("an empty message: %v", err)
	}
}

func TestParseMessageKeepsNeighboursOfPoison(t *testing.T) {
	es := eventstest.NewRun(t).Turns(3)
	element := func(hash, event string) string { return `{"hash":"` + hash + `","event":` + event + `}` }
	good := func(e events.Sealed) string { return element(e.Hash().String(), string(e.Bytes())) }
	formatted := bytes.Replace(es[1].Bytes(), []byte(`"turn":2`), []byte(`"turn": 2`), 1)
	tests := []struct {
		name, poison string
		want         error
	}{
		{"changed data", element(es[1].Hash().String(), strings.Replace(string(es[1].Bytes()), `"turn":2`, `"turn":3`, 1)), events.ErrHash},
		{"the bytes formatted anew", element(es[1].Hash().String(), string(formatted)), events.ErrHash},
		{"another event's hash", element(es[0].Hash().String(), string(es[1].Bytes())), events.ErrHash},
		{"no hash", `{"event":` + string(es[1].Bytes()) + `}`, events.ErrHash},
		{"no event", `{"hash":"` + es[1].Hash().String() + `"}`, events.ErrHash},
		{"a broken hash", element("xyz", string(es[1].Bytes())), events.ErrMalformed},
		{"hash fits, but it is no event", element(fmt.Sprintf("%x", sha256.Sum256([]byte(`{"a":1}`))), `{"a":1}`), events.ErrMalformed},
		{"a number", "7", events.ErrMalformed},
		{"null", "null", events.ErrHash},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, bad, err := events.ParseMessage([]byte("[" + good(es[0]) + "," + tt.poison + "," + good(es[2]) + "]"))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 2 || got[0].Hash() != es[0].Hash() || got[1].Hash() != es[2].Hash() {
				t.Errorf("the neighbours are gone: %d events", len(got))
			}
			if len(bad) != 1 || bad[0].Index != 1 || !errors.Is(bad[0].Err, tt.want) || string(bad[0].Bytes) != tt.poison {
				t.Errorf("rejected %+v, want event 1 with %v", bad, tt.want)
			}
		})
	}
	for _, in := range []string{"", "{}", `"x"`, "[", "[1,", string(es[0].Bytes()), "[]x"} {
		if _, _, err := events.ParseMessage([]byte(in)); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("ParseMessage(%q) = %v, want ErrMalformed", in, err)
		}
	}
}

func TestFits(t *testing.T) {
	small := eventstest.NewRun(t).Turns(events.MaxEnvelopeEvents + 5)
	r := eventstest.NewRun(t)
	var large []events.Sealed
	for range 5 {
		large = append(large, r.Next(events.SignalReceived{Name: "x", Data: json.RawMessage(`"` + strings.Repeat("a ", 125<<10) + `"`)}))
	}
	if n := events.Fits(nil); n != 0 {
		t.Errorf("Fits(nil) = %d", n)
	}
	for _, es := range [][]events.Sealed{small[:1], small[:50], small, large[:1], large, append(large[:1:1], small...)} {
		n := events.Fits(es)
		size := len(events.AppendMessage(nil, es[:n]))
		if n < 1 || n > events.MaxEnvelopeEvents || size > events.MaxEnvelopeBytes {
			t.Errorf("%d of %d events fit into %d bytes", n, len(es), size)
		}
		if n == len(es) || n == events.MaxEnvelopeEvents {
			continue
		}
		if size := len(events.AppendMessage(nil, es[:n+1])); size <= events.MaxEnvelopeBytes {
			t.Errorf("%d of %d events fit, but one more makes only %d bytes", n, len(es), size)
		}
	}
}

func TestFeedSubject(t *testing.T) {
	e := envelope("turn_started", 1)
	for tenant, want := range map[string]string{"acme": "acme", "a-B_9": "a-B_9", "": "_", "a.b": "a_b", "*": "_", ">": "_", "a b\r\n": "a_b__", "ü": "_"} {
		e.Tenant = tenant
		if got := events.FeedSubject(e); got != "daybook.feed."+want+".turn_started."+e.RunID.String() {
			t.Errorf("subject of tenant %q = %q", tenant, got)
		}
	}
	for name, want := range map[string]bool{"w1": true, "A-b_9": true, "": false, "a.b": false, "*": false, "a b": false, strings.Repeat("a", 65): false, "a\n": false} {
		if events.ValidName(name) != want {
			t.Errorf("ValidName(%q) = %v", name, !want)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	r := eventstest.NewRun(f)
	es := []events.Sealed{r.Next(events.TurnStarted{Turn: 1}), r.Next(events.SignalReceived{Name: "x", Data: json.RawMessage(`[1e400,"\u0000"]`)})}
	f.Add(events.AppendMessage(nil, es))
	f.Add(events.AppendMessage(nil, es[1:]))
	f.Add([]byte(`[{"hash":"00","event":{}},null,7,[]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		es, bad, err := events.ParseMessage(data)
		if err != nil {
			if len(es)+len(bad) > 0 || !errors.Is(err, events.ErrMalformed) {
				t.Errorf("%d events, %d rejected, %v", len(es), len(bad), err)
			}
			return
		}
		for _, b := range bad {
			if !errors.Is(b.Err, events.ErrHash) && !errors.Is(b.Err, events.ErrMalformed) {
				t.Errorf("rejected for %v", b.Err)
			}
		}
		// What was read is sent on without a change.
		again, bad, err := events.ParseMessage(events.AppendMessage(nil, es))
		if err != nil || len(bad) > 0 || len(again) != len(es) {
			t.Errorf("sent on: %d of %d events, %v, %v", len(again), len(es), bad, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, typ := range events.Types() {
		f.Add([]byte(fmt.Sprintf(`{"data":{},"epoch":1,"id":"01JDX000000000000000000009","prev":"","run_id":"01JDX000000000000000000007","seq":1,"tenant":"t","time":"2026-11-29T12:30:00Z","type":%q,"version":1}`, typ)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := events.Parse(b, sha256.Sum256(b))
		if err != nil {
			if !errors.Is(err, events.ErrMalformed) {
				t.Errorf("Parse = %v, want ErrMalformed", err)
			}
			return
		}
		e := s.Envelope()
		if e.Seq == 0 || e.Epoch == 0 || e.RunID.IsZero() || e.ID.IsZero() || e.Type == "" {
			t.Errorf("parsed an event without identity: %+v", e)
		}
		d, err := s.Decode()
		switch {
		case err == nil:
			if events.TypeOf(d.Data) != e.Type {
				t.Errorf("type %s decoded as %T", e.Type, d.Data)
			}
		case !errors.Is(err, events.ErrMalformed) && !errors.Is(err, events.ErrUnknownType) && !errors.Is(err, events.ErrUnknownVersion):
			t.Errorf("Decode = %v", err)
		}
	})
}
