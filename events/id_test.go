package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

func TestIDsGrow(t *testing.T) {
	now := moment
	ids := events.NewIDs(func() time.Time { return now }, nil)
	var all []string
	for i := range 1000 {
		if i == 500 {
			now = now.Add(time.Millisecond)
		}
		all = append(all, ids.Event().String())
	}
	if !slices.IsSorted(all) || len(slices.Compact(all)) != 1000 {
		t.Error("ids do not grow")
	}
}

func TestIDsAreUniqueAcrossGoroutines(t *testing.T) {
	ids := events.NewIDs(nil, nil)
	var mu sync.Mutex
	seen := map[events.RunID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				id := ids.Run()
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 4000 {
		t.Errorf("%d different ids of 4000", len(seen))
	}
}

func TestIDsFromGivenEntropy(t *testing.T) {
	clock := func() time.Time { return moment }
	a := events.NewIDs(clock, bytes.NewReader(make([]byte, 100))).Event()
	b := events.NewIDs(clock, bytes.NewReader(make([]byte, 100))).Event()
	if a != b || a.IsZero() {
		t.Errorf("ids %s and %s from the same time and entropy", a, b)
	}
}

func TestIDText(t *testing.T) {
	id := events.NewIDs(nil, nil).Event()
	back, err := events.ParseID(id.String())
	if err != nil || back != id {
		t.Errorf("ParseID(%q) = %v, %v", id, back, err)
	}
	for _, in := range []string{"", "x", "01JDX00000000000000000000", "01JDX0000000000000000000000", "81JDX000000000000000000000", "01JDX00000000000000000000U"} {
		if id, err := events.ParseID(in); err == nil {
			t.Errorf("ParseID(%q) = %v, want an error", in, id)
		}
		if id, err := events.ParseRunID(in); err == nil {
			t.Errorf("ParseRunID(%q) = %v, want an error", in, id)
		}
	}
	var v struct{ Run events.RunID }
	b, err := json.Marshal(v)
	if err != nil || string(b) != `{"Run":""}` {
		t.Errorf("no run = %s, %v", b, err)
	}
	if err := json.Unmarshal(b, &v); err != nil || !v.Run.IsZero() {
		t.Errorf("no run read back as %v, %v", v.Run, err)
	}
}

func TestDerivedID(t *testing.T) {
	ids := events.NewIDs(nil, nil)
	a, b := ids.Event(), ids.Event()
	started := events.DerivedID(a, "tool_execution_started")
	if started != events.DerivedID(a, "tool_execution_started") {
		t.Error("the same transition has two ids")
	}
	seen := map[events.ID]bool{a: true, b: true, started: true}
	for _, id := range []events.ID{
		events.DerivedID(a, "tool_execution_finished"), events.DerivedID(b, "tool_execution_started"),
		events.DerivedID(b, "tool_execution_finished"),
	} {
		if seen[id] {
			t.Errorf("two transitions share id %s", id)
		}
		seen[id] = true
	}
	if !bytes.Equal(started[:6], a[:6]) {
		t.Error("the derived id does not sort with its token")
	}
	// Stored: another derivation would record old transitions twice.
	if got := events.DerivedID(events.ID{1, 2, 3, 4, 5, 6, 7}, "tool_execution_started").String(); got != "01081G8186P9QF1AGTPER5T6T2" {
		t.Errorf("derived id changed to %s: transitions of running effects would be recorded twice", got)
	}
}

func TestHashText(t *testing.T) {
	h := events.Genesis(events.RunID{1})
	// Stored: every run's first event names it.
	if got := h.String(); got != "8eb70a9ed376d6422d86f4a6e257462def18edbedde7831456166b40bd81a3a1" {
		t.Errorf("genesis changed to %s: no stored run would verify", got)
	}
	var back events.Hash
	if err := back.UnmarshalText([]byte(h.String())); err != nil || back != h {
		t.Errorf("read back %s, %v", back, err)
	}
	if err := back.UnmarshalText(nil); err != nil || !back.IsZero() {
		t.Errorf("empty text = %s, %v; want the zero hash", back, err)
	}
	for _, in := range []string{"00", h.String() + "00", "zz" + h.String()[2:]} {
		if err := back.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("hash %q: no error", in)
		}
	}
}

// Tokens are stored, and other processes make them again: they stay what they were.
func TestCallTokenStaysWhatItWas(t *testing.T) {
	run := events.RunID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}
	for _, call := range []events.CallID{{}, {Turn: 1}, {Turn: 12, Index: 345}, {Turn: 1 << 40, Index: -1}} {
		for _, tool := range []string{"", "pay", "ё", strings.Repeat("long", 100)} {
			for _, arguments := range []string{"", "{}", `{"a":1}`} {
				sum := sha256.Sum256(fmt.Appendf(nil, "daybook/call/1\x00%s\x00t%d.c%d\x00%s\x00%x", run, call.Turn, call.Index, tool, sha256.Sum256([]byte(arguments))))
				var want events.ID
				copy(want[:6], run[:6])
				copy(want[6:], sum[:10])
				if got := events.CallToken(run, call, tool, []byte(arguments)); got != want {
					t.Errorf("%v %q %q: %s, want %s", call, tool, arguments, got, want)
				}
				if got, want := call.String(), fmt.Sprintf("t%d.c%d", call.Turn, call.Index); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		}
	}
}
