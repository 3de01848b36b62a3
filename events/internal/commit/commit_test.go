package commit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/events/internal/commit"
)

var errTest = errors.New("no answer")

// broker stores what it is sent, as the test says.
type broker struct {
	mu     sync.Mutex
	stored [][]byte
	sends  []time.Time
	answer func(send int) error // send counts from 1
	gate   chan struct{}        // if set, each send waits for one token
}

func (b *broker) send(ctx context.Context, _ int, data []byte) error {
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sends = append(b.sends, time.Now())
	if b.answer != nil {
		if err := b.answer(len(b.sends)); err != nil {
			return err
		}
	}
	b.stored = append(b.stored, slices.Clone(data))
	return nil
}

func (b *broker) events(t *testing.T) (es []events.Sealed) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.stored {
		got, bad, err := events.ParseMessage(m)
		if err != nil || len(bad) > 0 {
			t.Fatal(err, bad)
		}
		es = append(es, got...)
	}
	return es
}

func mustAppend(t *testing.T, c *commit.Committer, es ...events.Sealed) events.Receipt {
	t.Helper()
	r, err := c.Append(t.Context(), es...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func isDone(r events.Receipt) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

func mustClose(t *testing.T, c *commit.Committer) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEnvelopesAreCutWhileOneIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{gate: make(chan struct{})}
		c := commit.New(commit.Config{Send: b.send})
		es := eventstest.NewRun(t).Turns(20)
		first := mustAppend(t, c, es[0])
		synctest.Wait() // in flight
		var rest []events.Receipt
		for _, e := range es[1:] {
			rest = append(rest, mustAppend(t, c, e))
		}
		b.gate <- struct{}{}
		synctest.Wait()
		if !isDone(first) || isDone(rest[0]) {
			t.Errorf("first receipt done %v, second %v; want true, false", isDone(first), isDone(rest[0]))
		}
		b.gate <- struct{}{}
		synctest.Wait()
		for i, r := range rest {
			if !isDone(r) {
				t.Errorf("receipt %d is not done", i+1)
			}
		}
		if len(b.stored) != 2 || len(b.events(t)) != 20 {
			t.Errorf("%d events in %d messages, want 20 in 2", len(b.events(t)), len(b.stored))
		}
		mustClose(t, c)
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{answer: func(send int) error {
			if send <= 6 || send == 8 {
				return errTest
			}
			return nil
		}}
		c := commit.New(commit.Config{
			Send: b.send, MinDelay: time.Second, MaxDelay: 8 * time.Second, Jitter: func() float64 { return 1 },
		})
		start := time.Now()
		es := eventstest.NewRun(t).Turns(2)
		if err := c.Record(t.Context(), es[0]); err != nil {
			t.Fatal(err)
		}
		if err := c.Record(t.Context(), es[1]); err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, at := range b.sends {
			got = append(got, at.Sub(start))
		}
		// 1, 2, 4, 8, 8, 8 seconds, and from 1 again for the next message.
		want := []time.Duration{0, 1, 3, 7, 15, 23, 31, 31, 32}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(got, want) {
			t.Errorf("sends at %v, want %v", got, want)
		}
		mustClose(t, c)
	})
}

func TestErrNamesTheFaultWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := events.ErrJournalFull
		b := &broker{answer: func(int) error { return fault }}
		c := commit.New(commit.Config{Send: b.send})
		if err := c.Err(); err != nil {
			t.Errorf("Err before the first send = %v", err)
		}
		r := mustAppend(t, c, eventstest.NewRun(t).Turns(1)...)
		synctest.Wait()
		if err := c.Err(); !errors.Is(err, events.ErrJournalFull) {
			t.Errorf("Err = %v, want ErrJournalFull", err)
		}
		b.mu.Lock()
		fault = nil
		b.mu.Unlock()
		<-r.Done()
		if err := c.Err(); err != nil {
			t.Errorf("Err after an ack = %v", err)
		}
		mustClose(t, c)
	})
}

func TestBufferAdmitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{gate: make(chan struct{})}
		c := commit.New(commit.Config{Send: b.send, MaxEvents: 5})
		es := eventstest.NewRun(t).Turns(20)
		mustAppend(t, c, es[0])
		synctest.Wait() // in flight, still held
		mustAppend(t, c, es[1:4]...)
		// Blocked: a large call, then a small one that fits but must not pass it.
		var wg sync.WaitGroup
		for _, call := range [][]events.Sealed{es[4:14], es[14:15]} {
			wg.Go(func() { mustAppend(t, c, call...) })
			synctest.Wait()
		}
		for range 4 {
			b.gate <- struct{}{}
			synctest.Wait()
		}
		wg.Wait()
		got := b.events(t)
		if len(got) != 15 {
			t.Fatalf("%d events stored, want 15", len(got))
		}
		if err := events.VerifyChain(got); err != nil {
			t.Error(err)
		}
		mustClose(t, c)
	})
}

func TestWithdrawnCallLetsSmallerOnesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{gate: make(chan struct{})}
		c := commit.New(commit.Config{Send: b.send, MaxEvents: 4})
		es := eventstest.NewRun(t).Turns(20)
		mustAppend(t, c, es[:3]...)
		ctx, cancel := context.WithCancelCause(t.Context())
		refused := make(chan error, 1)
		go func() {
			_, err := c.Append(ctx, es[5:15]...)
			refused <- err
		}()
		synctest.Wait()
		passed := make(chan struct{})
		go func() {
			mustAppend(t, c, es[3])
			close(passed)
		}()
		synctest.Wait()
		cancel(errTest)
		<-passed
		if err := <-refused; !errors.Is(err, events.ErrNotAccepted) || !errors.Is(err, errTest) {
			t.Errorf("Append = %v, want ErrNotAccepted and the cause", err)
		}
		close(b.gate)
		mustClose(t, c)
		if got := b.events(t); len(got) != 4 {
			t.Errorf("%d events stored, want 4", len(got))
		}
	})
}

func TestCloseRefusesBlockedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{gate: make(chan struct{})}
		c := commit.New(commit.Config{Send: b.send, MaxEvents: 1})
		es := eventstest.NewRun(t).Turns(3)
		mustAppend(t, c, es[0])
		blocked := make(chan error, 1)
		go func() { blocked <- c.Record(t.Context(), es[1]) }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		if err := <-blocked; !errors.Is(err, events.ErrNotAccepted) || !errors.Is(err, events.ErrJournalClosed) {
			t.Errorf("Record = %v, want ErrNotAccepted and ErrJournalClosed", err)
		}
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("Close returned %v with an envelope in flight", err)
		default:
		}
		b.gate <- struct{}{}
		if err := <-closed; err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{answer: func(int) error { return errTest }}
		c := commit.New(commit.Config{Send: b.send})
		r := mustAppend(t, c, eventstest.NewRun(t).Turns(2)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errTest) {
			t.Errorf("Close = %v, want the deadline and why nothing got through", err)
		}
		if isDone(r) {
			t.Error("a receipt is done without an ack")
		}
		if err := c.Close(t.Context()); !errors.Is(err, events.ErrJournalClosed) {
			t.Errorf("second Close = %v, want it to say that events are missing", err)
		}
	})
}

func TestFailpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{}
		var points []string
		c := commit.New(commit.Config{Send: b.send, Point: func(name string) error {
			points = append(points, name)
			if name == "journal.after_send" && len(points) == 2 {
				return errTest // stored, answer lost
			}
			return nil
		}})
		if err := c.Record(t.Context(), eventstest.NewRun(t).Turns(1)...); err != nil {
			t.Fatal(err)
		}
		mustClose(t, c)
		want := []string{
			"journal.before_send", "journal.after_send",
			"journal.before_send", "journal.after_send", "journal.after_ack",
		}
		if !slices.Equal(points, want) {
			t.Errorf("points %v, want %v", points, want)
		}
		if len(b.stored) != 2 || string(b.stored[0]) != string(b.stored[1]) {
			t.Errorf("%d messages stored, want the same bytes twice", len(b.stored))
		}
	})
}

func TestAppendOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{gate: make(chan struct{})}
		c := commit.New(commit.Config{Send: b.send})
		if r := mustAppend(t, c); !isDone(r) {
			t.Error("nothing to store is not done at once")
		}
		mustAppend(t, c, eventstest.NewRun(t).Turns(1)...)
		r := mustAppend(t, c)
		if isDone(r) {
			t.Error("nothing is done before what was accepted earlier")
		}
		close(b.gate)
		<-r.Done()
		if _, err := c.Append(t.Context(), events.Sealed{}); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("Append of a zero event = %v, want ErrMalformed", err)
		}
		mustClose(t, c)
	})
}
