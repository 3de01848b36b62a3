package runtime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Who has waited longest is next, however often it was parked meanwhile, also for longer
// than a place is kept that nobody comes back for.
func TestPlacesInALineOutliveParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{most: map[string]int{"m": 1}}
		take := func(run byte, wait time.Duration) (func(), bool) {
			release, ok, err := s.take(t.Context(), "m", events.RunID{run}, time.Now(), wait)
			if err != nil {
				t.Fatal(err)
			}
			return release, ok
		}
		release, ok := take(1, 0)
		if !ok {
			t.Fatal("the first has to wait")
		}
		if _, ok := take(9, time.Second); ok { // never comes back
			t.Fatal("two at once")
		}
		for start := time.Now(); time.Since(start) < forgotten+forgotten/4; time.Sleep(3 * time.Second) {
			for _, run := range []byte{3, 2} { // the second comes later
				if run == 3 && time.Since(start) < forgotten/2 {
					continue
				}
				if _, ok := take(run, 3*time.Second); ok {
					t.Fatal("two at once")
				}
			}
		}
		got := make(chan byte, 2)
		for _, run := range []byte{3, 2} { // who came later is there first
			go func() {
				release, ok := take(run, time.Hour)
				got <- run
				if ok {
					release()
				}
			}()
			synctest.Wait()
		}
		release()
		release() // a second time is none
		if a, b := <-got, <-got; a != 2 || b != 3 {
			t.Errorf("%d came before %d", a, b)
		}
		synctest.Wait() // until the last has let go
		if l := s.of["m"]; l.busy != 0 || len(l.queue) != 0 || len(l.since) != 0 {
			t.Errorf("left behind: %d busy, %d in line, places of %v", l.busy, len(l.queue), l.since)
		}
	})
}

// A waiter whose session ends leaves the line, and one that was let in at that moment
// gives the slot back.
func TestWaiterThatIsCutShortTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{most: map[string]int{"m": 1}}
		release, _, err := s.take(t.Context(), "m", events.RunID{1}, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("lease lost")
		done := make(chan error)
		go func() {
			_, ok, err := s.take(ctx, "m", events.RunID{2}, time.Now(), time.Hour)
			if ok {
				err = errors.New("it got a slot")
			}
			done <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("cut short: %v", err)
		}
		release()
		next, ok, err := s.take(t.Context(), "m", events.RunID{3}, time.Now(), 0)
		if err != nil || !ok {
			t.Fatalf("the slot is lost: %v", err)
		}
		next()
	})
}
