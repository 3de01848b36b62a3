package script_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/script"
)

// opened is a script with somebody who waits for its goroutines.
func opened(l loops.Loop, patience time.Duration) (loops.Decider, *sync.WaitGroup) {
	var wg sync.WaitGroup
	return l.(loops.Opener).Open(loops.Host{Go: wg.Go, Patience: patience}), &wg
}

func begun(t *testing.T) *loops.History {
	return loopstest.MustFold(t, events.RunQueued{Input: []byte(`{}`)}, events.RunStarted{})
}

func stopped(t *testing.T, step loops.Step, err error, kind, text string) {
	t.Helper()
	stop, ok := step.(loops.Stop)
	if !ok || err != nil || stop.Err == nil || stop.Err.Kind != kind || !strings.Contains(stop.Err.Message, text) {
		t.Errorf("it decides %+v, %v; want the end by %s: %s", step, err, kind, text)
	}
}

// Code that is left half-way ends there: its deferred functions run, and whatever
// they ask for ends too.
func TestCodeEndsWhereItIsLeft(t *testing.T) {
	var trace []string
	var mu sync.Mutex
	say := func(s string) { mu.Lock(); defer mu.Unlock(); trace = append(trace, s) }
	d, wg := opened(of(func(s *script.Script, _ claim) (any, error) {
		defer say("first deferred, last run")
		defer func() {
			say(fmt.Sprint("recovered ", recover()))
			s.Tool("clean", nil)
			say("never")
		}()
		s.Sleep(time.Hour)
		say("never")
		return nil, nil
	}), time.Minute)
	step, err := d.Next(t.Context(), begun(t))
	if _, ok := step.(loops.Plan); !ok || err != nil {
		t.Fatalf("%+v, %v", step, err)
	}
	d.Close()
	d.Close()
	wg.Wait()
	if want := []string{"recovered <nil>", "first deferred, last run"}; !slices.Equal(trace, want) {
		t.Errorf("it did %q, want %q", trace, want)
	}
}

// Code that waits for something else than the script is found out, and so that it
// does not come back; the worker goes on.
func TestCodeThatDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		d, wg := opened(of(func(s *script.Script, _ claim) (any, error) {
			s.Patched("p")
			<-free
			s.Tool("late", nil)
			return nil, nil
		}), time.Minute)
		h := loopstest.MustFold(t, events.RunQueued{Input: []byte(`{}`)}, events.RunStarted{}, events.StepPlanned{Step: 1, Op: events.OpPatch, Name: "p"})
		began := time.Now()
		step, err := d.Next(t.Context(), h)
		stopped(t, step, err, script.KindBlocked, `has not come back for 1m0s since it was given the patch "p"`)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("after %s", d)
		}
		d.Close() // does not wait for it
		close(free)
		wg.Wait()
	})
}

// A session that ends does not wait for the code.
func TestNextEndsWithItsContext(t *testing.T) {
	free := make(chan struct{})
	d, wg := opened(of(func(s *script.Script, _ claim) (any, error) {
		<-free
		s.Tool("look", nil)
		return nil, nil
	}), time.Minute)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	h := begun(t)
	if step, err := d.Next(ctx, h); !errors.Is(err, gone) || step != nil {
		t.Errorf("%+v, %v", step, err)
	}
	close(free)
	if step, err := d.Next(t.Context(), h); err != nil || fmt.Sprintf("%T", step) != "loops.Plan" { // asked again it goes on
		t.Errorf("%+v, %v", step, err)
	}
	d.Close()
	wg.Wait()
}

func TestMisuse(t *testing.T) {
	uses := map[string]func(s *script.Script){
		"Model": func(s *script.Script) { _, _ = s.Model(script.Ask{Text: "?"}) }, "Tool": func(s *script.Script) { s.Tool("x", nil) },
		"Tools": func(s *script.Script) { s.Tools() }, "Sleep": func(s *script.Script) { s.Sleep(0) }, "SleepUntil": func(s *script.Script) { s.SleepUntil(time.Time{}) },
		"Await": func(s *script.Script) { s.Await("x", 0) }, "Child": func(s *script.Script) { s.Child("x", nil) },
		"Artifact": func(s *script.Script) { _, _ = s.Artifact(script.Artifact{Name: "x"}) }, "Patched": func(s *script.Script) { s.Patched("x") },
		"Now": func(s *script.Script) { s.Now() }, "Rand": func(s *script.Script) { s.Rand() }, "NewID": func(s *script.Script) { s.NewID() },
	}
	for name, use := range uses {
		t.Run("from another goroutine "+name, func(t *testing.T) {
			step, err := of(func(s *script.Script, _ claim) (any, error) {
				var wg sync.WaitGroup
				wg.Go(func() { use(s) })
				wg.Wait()
				return "as if nothing had been", nil
			}).Next(begun(t))
			stopped(t, step, err, script.KindMisuse, "Script."+name+" was called from another goroutine")
		})
	}
	t.Run("while the code waits", func(t *testing.T) {
		asked := make(chan struct{})
		d, wg := opened(of(func(s *script.Script, _ claim) (any, error) {
			go func() { defer close(asked); s.Tool("x", nil) }()
			s.Tool("y", nil)
			return nil, nil
		}), time.Minute)
		if _, err := d.Next(t.Context(), begun(t)); err != nil {
			t.Fatal(err)
		}
		<-asked
		step, err := d.Next(t.Context(), begun(t))
		stopped(t, step, err, script.KindMisuse, "Script.Tool was called")
		d.Close()
		wg.Wait()
	})
	t.Run("after the code returned", func(t *testing.T) {
		var kept *script.Script
		d, wg := opened(of(func(s *script.Script, _ claim) (any, error) { kept = s; return nil, nil }), time.Minute)
		if step, err := d.Next(t.Context(), begun(t)); err != nil || step.(loops.Stop).Err != nil {
			t.Fatalf("%+v, %v", step, err)
		}
		done, reached := make(chan struct{}), false
		go func() { defer close(done); kept.Tool("x", nil); reached = true }()
		<-done
		if reached {
			t.Error("a step after the end came back")
		}
		step, err := d.Next(t.Context(), begun(t))
		stopped(t, step, err, script.KindMisuse, "after the code had returned")
		d.Close()
		wg.Wait()
	})
	t.Run("a goroutine that ends itself", func(t *testing.T) {
		step, err := of(func(*script.Script, claim) (any, error) { runtime.Goexit(); return nil, nil }).Next(begun(t))
		stopped(t, step, err, script.KindPanic, "ended its goroutine")
	})
}

// Dice and ids are those of the lineage: a run that is tried again, and a fork,
// name what they do as the first one did.
func TestDiceAndIDs(t *testing.T) {
	roll := func(q events.RunQueued, name string) string {
		l := script.New(script.Config{Name: name, Version: 1}, func(s *script.Script, _ claim) (any, error) {
			return fmt.Sprintln(s.NewID(), s.NewID(), s.Rand().IntN(1e9), s.Rand().Perm(5)), nil
		})
		step, err := l.Next(loopstest.MustFold(t, q, events.RunStarted{}))
		if err != nil {
			t.Fatal(err)
		}
		return string(step.(loops.Stop).Output)
	}
	root, other := events.RunID{1}, events.RunID{2}
	first := roll(events.RunQueued{Root: root, Input: []byte(`{"cents":1}`)}, "a")
	if got := roll(events.RunQueued{Root: root, RetryOf: other, Attempt: 2, Input: []byte(`{ "cents": 1 }`)}, "a"); got != first {
		t.Errorf("tried again it rolls %s, at first %s", got, first)
	}
	for _, got := range []string{
		roll(events.RunQueued{Root: other, Input: []byte(`{"cents":1}`)}, "a"),
		roll(events.RunQueued{Root: root, Input: []byte(`{"cents":2}`)}, "a"),
		roll(events.RunQueued{Root: root, Input: []byte(`{"cents":1}`)}, "b"),
	} {
		if got == first {
			t.Errorf("another run rolls %s too", got)
		}
	}
}

// returning is an output or an error whose methods are code of the host's.
type returning struct{ do func() }

func (r returning) MarshalJSON() ([]byte, error) { r.do(); return []byte(`"encoded"`), nil }

func (r returning) Error() string { r.do(); return "told" }

func (r returning) As(any) bool { r.do(); return false }

// What code returns has methods that are code as well: they have the same patience,
// the same goroutine and the same end.
func TestWhatTheCodeReturnsIsCode(t *testing.T) {
	returns := map[string]func(returning) (any, error){
		"output": func(r returning) (any, error) { return r, nil },
		"error":  func(r returning) (any, error) { return nil, r },
		"panic":  func(r returning) (any, error) { panic(r) },
	}
	for name, ret := range returns {
		t.Run(name+" that does not come back", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				d, wg := opened(of(func(*script.Script, claim) (any, error) { return ret(returning{func() { <-free }}) }), time.Minute)
				began := time.Now()
				wait := time.AfterFunc(time.Hour, func() { close(free) })
				step, err := d.Next(t.Context(), begun(t))
				stopped(t, step, err, script.KindBlocked, "has not come back for 1m0s")
				if d := time.Since(began); d != time.Minute {
					t.Errorf("after %s", d)
				}
				d.Close()
				if wait.Stop() {
					close(free)
				}
				wg.Wait()
			})
		})
		t.Run(name+" that asks for a step", func(t *testing.T) {
			d, wg := opened(of(func(s *script.Script, _ claim) (any, error) { return ret(returning{func() { s.Tool("look", nil) }}) }), time.Minute)
			done := make(chan struct{})
			go func() {
				defer close(done)
				step, err := d.Next(t.Context(), begun(t))
				if p, ok := step.(loops.Plan); !ok || err != nil || p.Step.Calls[0].Name != "look" {
					t.Errorf("%+v, %v", step, err)
				}
				d.Close()
			}()
			<-done
			wg.Wait()
		})
		t.Run(name+" that ends its goroutine", func(t *testing.T) {
			var step loops.Step
			var err error
			d, wg := opened(of(func(*script.Script, claim) (any, error) { return ret(returning{runtime.Goexit}) }), time.Minute)
			var session sync.WaitGroup
			session.Go(func() { step, err = d.Next(t.Context(), begun(t)) })
			session.Wait()
			stopped(t, step, err, script.KindPanic, "ended its goroutine")
			d.Close()
			wg.Wait()
		})
	}
	for _, name := range []string{"output", "error"} {
		t.Run(name+" that panics", func(t *testing.T) {
			step, err := of(func(*script.Script, claim) (any, error) { return returns[name](returning{func() { panic("boo") }}) }).Next(begun(t))
			stopped(t, step, err, script.KindPanic, "boo (")
		})
	}
}
