package jetstream_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/embedded"
)

func liveServer(t testing.TB) (*embedded.Server, func() *nats.Conn) {
	t.Helper()
	s, err := embedded.Start(embedded.Config{StoreDir: t.TempDir(), SyncInterval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s, func() *nats.Conn {
		nc, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestLiveReachesWhoWatches(t *testing.T) {
	_, connect := liveServer(t)
	var ahead atomic.Int64
	l, err := jetstream.NewLive(connect(), func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	run, other := events.RunID{1}, events.RunID{2}
	if l.Watched("acme", run) != 0 {
		t.Error("watched by nobody")
	}
	v, err := jetstream.WatchLive(connect(), "acme", run)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is known that somebody watches", func() bool { return l.Watched("acme", run) != 0 })
	if l.Watched("acme", other) != 0 || l.Watched("other", run) != 0 {
		t.Error("other runs are watched too")
	}
	l.Tell(events.Live{Run: other, Tenant: "acme", N: 1, Kind: events.LiveText, Text: "not for you"})
	l.Tell(events.Live{Run: run, Tenant: "other", N: 1, Kind: events.LiveText, Text: "nor this"})
	l.Tell(events.Live{Run: run, Tenant: "acme", N: 1, Kind: events.LiveText, Text: "hello"})
	if m := <-v.Messages(); m.Text != "hello" || m.Run != run {
		t.Errorf("got %+v", m)
	}
	n := l.Watched("acme", run)
	v.Again()
	waitFor(t, "it is asked for again", func() bool { return l.Watched("acme", run) != n })
	v2, err := jetstream.WatchLive(connect(), "acme", run)
	if err != nil {
		t.Fatal(err)
	}
	n = l.Watched("acme", run)
	waitFor(t, "the second viewer is known", func() bool { return l.Watched("acme", run) >= n })
	v.Close()
	v2.Close()
	ahead.Store(int64(time.Minute))
	if l.Watched("acme", run) != 0 {
		t.Error("a viewer that is gone is believed to watch for ever")
	}
}

// A network that stands still costs messages, never time.
func TestLiveNeverWaits(t *testing.T) {
	s, connect := liveServer(t)
	nc := connect()
	l, err := jetstream.NewLive(nc, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	big := make([]byte, 32<<10)
	for i := range 4096 {
		l.Tell(events.Live{Run: events.RunID{1}, Tenant: "acme", N: uint64(i), Kind: events.LiveText, Text: fmt.Sprintf("%x", big)})
	}
	waitFor(t, "something is dropped", func() bool { return l.Dropped() > 0 })
	l.Close()
	if l.Tell(events.Live{}) {
		t.Error("told after the end")
	}
}

func BenchmarkLive(b *testing.B) {
	_, connect := liveServer(b)
	l, err := jetstream.NewLive(connect(), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.Run("nobody watches", func(b *testing.B) {
		for b.Loop() {
			l.Watched("acme", events.RunID{1})
		}
	})
	b.Run("tell", func(b *testing.B) {
		for b.Loop() {
			l.Tell(events.Live{Run: events.RunID{1}, Tenant: "acme", Kind: events.LiveText, Text: "hello"})
		}
	})
}
