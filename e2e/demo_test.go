//go:build daybook_faults

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
)

// demoSummary is what runner demo -o json promises to print.
type demoSummary struct {
	Rows, Rejected, Runs, Finished, Parked, Failed, Kills *int
	ToolCalls                                             *int `json:"tool_calls"`
	DestructiveCalls                                      *int `json:"destructive_calls"`
	ProviderEffects                                       *int `json:"provider_effects"`
	DuplicateEffects                                      *int `json:"duplicate_effects"`
	Replayed                                              *int
	InDoubt                                               *int    `json:"in_doubt"`
	CostUSD                                               *string `json:"cost_usd"`
	Void                                                  *bool
	ProviderLog                                           *string `json:"provider_log"`
	DataDir                                               *string `json:"data_dir"`
}

// TestDemo runs the demo as a person would, and counts the money itself.
func TestDemo(t *testing.T) {
	tests := []struct {
		recovery    string
		distributed bool
	}{{opaque, false}, {keyed, false}, {probe, false}, {keyed, true}}
	for _, tt := range tests {
		name := tt.recovery
		if tt.distributed {
			name += " on PostgreSQL and NATS"
		}
		t.Run(name, func(t *testing.T) {
			args := []string{"demo", "-o", "json", "--recovery", tt.recovery, "--data", t.TempDir()}
			if tt.distributed {
				args = append(args, "--nats", testenv.StartNATSProcess(t).URL(), "--postgres", testenv.Postgres(t), "--nats-sync", "always")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, binary(t, "cmd/runner"), args...)
			var out, said bytes.Buffer
			c.Stdout, c.Stderr = &out, &said
			if err := c.Run(); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			in := json.NewDecoder(&out)
			var d demoSummary
			if err := in.Decode(&d); err != nil || in.More() {
				t.Fatalf("want one JSON object, more: %v, %v", in.More(), err)
			}
			d.check(t, tt.recovery)
			t.Logf("%s: %d rows, %d runs, %d finished, %d parked, %d kills, %d effects, %d duplicates, %d in doubt", name,
				*d.Rows, *d.Runs, *d.Finished, *d.Parked, *d.Kills, *d.ProviderEffects, *d.DuplicateEffects, *d.InDoubt)
		})
	}
}

func (d demoSummary) check(t *testing.T, recovery string) {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "null") {
		t.Fatalf("a promised field is missing: %s", b)
	}
	switch {
	case *d.Void || *d.Kills < 5:
		t.Errorf("void: %d kills", *d.Kills)
	case *d.DuplicateEffects != 0:
		t.Errorf("%d duplicate effects", *d.DuplicateEffects)
	case *d.Rows != *d.Runs+*d.Rejected || *d.Rejected == 0:
		t.Errorf("%d rows, %d runs, %d rejected", *d.Rows, *d.Runs, *d.Rejected)
	case *d.Finished+*d.Parked != *d.Runs || *d.Failed != 0:
		t.Errorf("%d runs, %d finished, %d parked, %d failed", *d.Runs, *d.Finished, *d.Parked, *d.Failed)
	case (recovery == opaque) != (*d.InDoubt > 0) || (recovery == opaque) != (*d.Parked > 0):
		t.Errorf("recovery %s: %d in doubt, %d parked", recovery, *d.InDoubt, *d.Parked)
	}
	rs, err := payments.ReadLog(*d.ProviderLog)
	if err != nil {
		t.Fatal(err)
	}
	orders := map[string]int{}
	for _, r := range rs {
		if orders[r.Order]++; orders[r.Order] > 1 {
			t.Errorf("order %s was refunded twice", r.Order)
		}
	}
	if len(rs) != *d.ProviderEffects || len(rs) == 0 {
		t.Errorf("the provider's log has %d effects, the summary says %d", len(rs), *d.ProviderEffects)
	}
}

// TestSecondWorkerOnADirectory is refused, with the reason, and disturbs nobody.
func TestSecondWorkerOnADirectory(t *testing.T) {
	s := embeddedSite(t)
	p := s.provider(t, keyed)
	w := s.start(t, p, worker{})
	until(t, "start", func() error { return w.says(workerStarted) })
	second := s.start(t, p, worker{})
	until(t, "be refused", func() error {
		if !second.ended() {
			return errors.New("it runs")
		}
		return nil
	})
	var exit *exec.ExitError
	if !errors.As(second.err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the second worker ended with %v, want exit code 1", second.err)
	}
	if err := second.says("another worker holds this directory"); err != nil {
		t.Error(err)
	}
	r := s.submit(t, "two", "q", "ORD-1001")
	until(t, "end", func() error { return s.resting(t, r.ID, false) })
	w.stop(t)
}

// TestHandover asks a worker to end in the middle of a call: it finishes the
// call, gives its runs back, and the next worker needs no takeover.
func TestHandover(t *testing.T) {
	s := distributedSite(t)
	p := s.provider(t, opaque)
	// The provider answers once the worker is told to end, so that no run is through by then.
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	p.set(func(p *provider) { p.before = func(request) { <-answer } })
	const runs = 12
	all := make([]ledger.Run, runs)
	for i := range all {
		all[i] = s.submit(t, "handover", "q", fmt.Sprintf("ORD-%04d", i))
	}
	w := s.start(t, p, worker{timeout: time.Minute})
	until(t, "be in the middle of it", func() error { return atLeast(p.count(), 1) })
	w.signal(syscall.SIGTERM)
	until(t, "hand over", func() error { return w.says("shutting down") })
	release()
	w.wait(t)
	if w.err != nil {
		t.Errorf("the worker ended with %v after SIGTERM:\n%s", w.err, w.tail())
	}
	until(t, "every run to be given back", func() error {
		for _, r := range all {
			now, err := s.store.Run(t.Context(), r.ID)
			if err != nil {
				return err
			}
			if now.State == ledger.Running || !now.LeaseUntil.IsZero() {
				return fmt.Errorf("run %s is %s with a lease until %s", now.ID, now.State, now.LeaseUntil)
			}
		}
		return nil
	})
	if n := s.number(t, `SELECT count(*) FROM effects WHERE state <> 'applied'`); n != 0 {
		t.Errorf("%d effects are not applied after a worker ended in good order", n)
	}
	if n := s.number(t, `SELECT count(*) FROM events WHERE type = 'run_parked'`); n == 0 {
		t.Error("void: no run was handed over")
	}
	second := s.start(t, p, worker{log: filepath.Join(s.logs, "second.log")})
	until(t, "all to end", func() error { return s.ended(t, all) })
	until(t, "be whole", func() error { return s.whole(t, events.RunID{}) })
	second.stop(t)
	if n := p.once(t); n != runs {
		t.Errorf("%d effects, want %d", n, runs)
	}
}
