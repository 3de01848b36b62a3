// Package loopstest makes histories for the tests of loops: from payloads, or
// from testdata/*.json files that a person can read.
package loopstest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
)

// Run is the run that all histories of this package belong to.
var Run = events.RunID{0x01, 0x9a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}

// Start is the time of the first event; each further one comes a second later.
var Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Events numbers and chains payloads as the holder of the run would: one a
// second, epoch 1 until a run_resumed names another. The hashes stand for
// themselves and are not those of stored bytes.
func Events(ps ...events.Payload) []events.Event { return EventsOf(Run, ps...) }

// EventsOf is Events for another run.
func EventsOf(run events.RunID, ps ...events.Payload) []events.Event {
	es := make([]events.Event, len(ps))
	prev, epoch := events.Genesis(run), uint64(1)
	for i, p := range ps {
		if r, ok := p.(events.RunResumed); ok {
			epoch = max(epoch, r.Epoch)
		}
		e := &es[i]
		e.RunID, e.Seq, e.Epoch, e.Type, e.Version = run, uint64(i+1), epoch, events.TypeOf(p), 1
		e.Time, e.Tenant, e.Prev, e.Data = Start.Add(time.Duration(i)*time.Second), "test", prev, p
		e.ID[7] = run[15]
		binary.BigEndian.PutUint64(e.ID[8:], e.Seq)
		e.Hash = sha256.Sum256(append(prev[:], e.Type...))
		prev = e.Hash
	}
	return es
}

// Fold returns the history of payloads, or the first refusal.
func Fold(ps ...events.Payload) (*loops.History, error) {
	h := loops.NewHistory(Run)
	for _, e := range Events(ps...) {
		if err := h.Apply(e); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// MustFold is Fold for tests that have no use for the error.
func MustFold(t testing.TB, ps ...events.Payload) *loops.History {
	t.Helper()
	h, err := Fold(ps...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ReadFile reads a history: a JSON array of {"type": …, "data": {…}} objects,
// in order, without numbers, times or hashes. An object with only a "note" is
// a comment.
func ReadFile(path string) ([]events.Payload, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lines []struct {
		Type events.Type     `json:"type"`
		Data json.RawMessage `json:"data"`
		Note string          `json:"note"`
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&lines); err != nil {
		return nil, fmt.Errorf("read history %s: %w", path, err)
	}
	var ps []events.Payload
	for i, l := range lines {
		if l.Type == "" && l.Note != "" {
			continue
		}
		v, _ := events.CurrentVersion(l.Type)
		p, err := events.DecodePayload(l.Type, v, l.Data)
		if err != nil {
			return nil, fmt.Errorf("read history %s: element %d: %w", path, i, err)
		}
		ps = append(ps, p)
	}
	return ps, nil
}
