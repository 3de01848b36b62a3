package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/events/jetstream"
)

func TestOpenDeclares(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	bus := openBus(t, nc, jetstream.Config{})
	info, err := bus.Info(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	want := jetstream.Info{
		ServerVersion: natsserver.VERSION, MaxPayload: 1 << 20, AckWait: 10 * time.Second, MaxAckPending: 2000,
		Journal: jetstream.StreamInfo{Name: "DAYBOOK_JOURNAL", Replicas: 1, InSync: 1, OnDisk: true},
		Feed:    &jetstream.StreamInfo{Name: "DAYBOOK_FEED", Replicas: 1, InSync: 1, OnDisk: true, MaxAge: 7 * 24 * time.Hour},
	}
	if d := cmp.Diff(want, info, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Leader" }, cmp.Ignore())); d != "" {
		t.Errorf("info (-want +got):\n%s", d)
	}
	s, err := admin(t, nc).Stream(ctx(t), jetstream.JournalStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	if c.Discard != natsjs.DiscardNew || c.Retention != natsjs.LimitsPolicy || c.AllowDirect || c.MaxAge != 0 || c.MaxBytes != -1 || c.MaxMsgs != -1 {
		t.Errorf("journal stream: %+v", c)
	}
	openBus(t, nc, jetstream.Config{}) // again is no error
}

func TestOpenKeepsWhatAnOperatorSet(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	openBus(t, nc, jetstream.Config{})
	js := admin(t, nc)
	s, err := js.Stream(ctx(t), jetstream.JournalStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxBytes, c.Discard, c.MaxAge = 50<<20, natsjs.DiscardOld, time.Hour // the last two would lose events
	if _, err := js.UpdateStream(ctx(t), c); err != nil {
		t.Fatal(err)
	}
	openBus(t, nc, jetstream.Config{MaxAckPending: 77, FeedMaxAge: time.Hour})
	bus := openBus(t, nc, jetstream.Config{})
	info, err := bus.Info(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Journal.MaxBytes != 50<<20 || info.MaxAckPending != 77 || info.Feed.MaxAge != time.Hour {
		t.Errorf("settings were not kept: %+v", info)
	}
	if s, err = js.Stream(ctx(t), jetstream.JournalStream); err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.Discard != natsjs.DiscardNew || c.MaxAge != 0 {
		t.Errorf("the journal can lose events: discard %v, max age %v", c.Discard, c.MaxAge)
	}
}

func TestOpenRefusesAForeignStream(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	_, err := admin(t, nc).CreateStream(ctx(t), natsjs.StreamConfig{
		Name: jetstream.JournalStream, Subjects: []string{"daybook.journal.*"}, Retention: natsjs.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jetstream.Open(ctx(t), nc, jetstream.Config{}); err == nil || !strings.Contains(err.Error(), jetstream.JournalStream) {
		t.Errorf("Open = %v, want an error that names the stream", err)
	}
}

func TestOpenChecksMaxPayload(t *testing.T) {
	ns, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, MaxPayload: 100 << 10, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	defer ns.WaitForShutdown()
	defer ns.Shutdown()
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("server is not ready")
	}
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := jetstream.Open(ctx(t), nc, jetstream.Config{}); !errors.Is(err, jetstream.ErrMaxPayload) {
		t.Errorf("Open = %v, want ErrMaxPayload", err)
	}
}

func TestWorkerNames(t *testing.T) {
	srv := startServer(t, 0)
	bus := openBus(t, srv.connect(t), jetstream.Config{FeedMaxAge: -1})
	for _, name := range []string{"", "a.b", "*", ">", "a b"} {
		if _, err := bus.Journal(name); err == nil {
			t.Errorf("journal of worker %q: no error", name)
		}
		if err := bus.Consumer().Tail(ctx(t), name, nil); err == nil {
			t.Errorf("tail of worker %q: no error", name)
		}
	}
	if _, err := bus.Feed(); !errors.Is(err, jetstream.ErrNoFeed) {
		t.Errorf("Feed = %v, want ErrNoFeed", err)
	}
	if info, err := bus.Info(ctx(t)); err != nil || info.Feed != nil {
		t.Errorf("Info = %+v, %v; want no feed", info, err)
	}
}

func TestFeedHeaders(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	bus := openBus(t, nc, jetstream.Config{})
	f, err := bus.Feed()
	if err != nil {
		t.Fatal(err)
	}
	e := eventstest.NewRun(t).Next(events.TurnStarted{Turn: 1})
	if err := f.Publish(ctx(t), e); err != nil {
		t.Fatal(err)
	}
	s, err := admin(t, nc).Stream(ctx(t), jetstream.FeedStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(ctx(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	env := e.Envelope()
	want := map[string]string{
		"Nats-Msg-Id": env.ID.String(), "Nats-Expected-Stream": jetstream.FeedStream,
		"content-type": "application/json", "ce-specversion": "1.0", "ce-id": env.ID.String(),
		"ce-type": "turn_started", "ce-source": "/daybook/acme", "ce-subject": env.RunID.String(),
		"ce-time": env.Time.Format(time.RFC3339Nano), "ce-sequence": "1", "ce-hash": e.Hash().String(),
	}
	got := map[string]string{}
	for k := range m.Header {
		got[k] = strings.Join(m.Header[k], "|")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

// TestFeedGoesOneByOneWhereBatchesFail covers a server that refuses the batch.
func TestFeedGoesOneByOneWhereBatchesFail(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	f, err := openBus(t, nc, jetstream.Config{SyncAlways: true}).Feed()
	if err != nil {
		t.Fatal(err)
	}
	js := admin(t, nc)
	s, err := js.Stream(ctx(t), jetstream.FeedStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.AllowAtomicPublish = false
	if _, err := js.UpdateStream(ctx(t), c); err != nil {
		t.Fatal(err)
	}
	es := eventstest.NewRun(t).Turns(40)
	if err := f.Publish(ctx(t), es...); err != nil {
		t.Fatal(err)
	}
	ms := readFeed(t, js)
	if len(ms) != len(es) {
		t.Fatalf("%d messages in the feed, want %d", len(ms), len(es))
	}
	for i, m := range ms {
		if m.ID != es[i].Envelope().ID.String() {
			t.Errorf("message %d is %s, want %s", i, m.ID, es[i].Envelope().ID)
		}
	}
}

func TestTrim(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	bus := openBus(t, nc, jetstream.Config{})
	j, err := bus.Journal("w1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(ctx(t)) }()
	c := bus.Consumer()
	stored := func() uint64 {
		t.Helper()
		info, err := bus.Info(ctx(t))
		if err != nil {
			t.Fatal(err)
		}
		return info.Journal.Messages
	}
	trim := func(before time.Time, want uint64) {
		t.Helper()
		if err := c.Trim(ctx(t), before); err != nil {
			t.Fatal(err)
		}
		if n := stored(); n != want {
			t.Errorf("%d messages after a trim of what is before %v, want %d", n, before, want)
		}
	}
	for _, e := range eventstest.NewRun(t).Turns(10) {
		if err := j.Record(ctx(t), e); err != nil {
			t.Fatal(err)
		}
	}
	trim(time.Now().Add(time.Hour), 10) // nothing is confirmed
	ms, err := c.Fetch(ctx(t), 6, time.Second)
	if err != nil || len(ms) != 6 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	if err := c.Ack(ctx(t), ms...); err != nil {
		t.Fatal(err)
	}
	for lag := uint64(10); lag != 4; {
		if lag, err = c.Lag(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
	trim(time.Now().Add(-time.Hour), 10)
	trim(ms[3].Time, 7)                // the first three are older
	trim(time.Now().Add(time.Hour), 4) // all confirmed ones, no other
	openBus(t, nc, jetstream.Config{JournalMaxMessages: 4})
	if ms, err = c.Fetch(ctx(t), 2, time.Second); err != nil || len(ms) != 2 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	if err := c.Ack(ctx(t), ms...); err != nil {
		t.Fatal(err)
	}
	for lag := uint64(4); lag != 2; {
		if lag, err = c.Lag(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
	trim(time.Now().Add(-time.Hour), 2) // full: age does not matter
}

func TestRemakingIsLogged(t *testing.T) {
	srv := startServer(t, 0)
	nc := srv.connect(t)
	var mu sync.Mutex
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, nil))
	bus := openBus(t, nc, jetstream.Config{Logger: log})
	js := admin(t, nc)
	for _, name := range []string{jetstream.JournalStream, jetstream.FeedStream} {
		if err := js.DeleteStream(ctx(t), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bus.Consumer().Lag(ctx(t)); err != nil {
		t.Fatal(err)
	}
	f, err := bus.Feed()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Publish(ctx(t), eventstest.NewRun(t).Turns(1)...); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"stream=" + jetstream.JournalStream, "stream=" + jetstream.FeedStream, "consumer=projector"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log does not say %q:\n%s", want, out.String())
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// TestRestarts keeps eight writers, two readers and the feed going while the
// server comes and goes, acks get lost and the consumer is deleted.
func TestRestarts(t *testing.T) {
	const writers, each, rounds = 8, 150, 4
	srv := startServer(t, 0)
	nc := srv.connect(t)
	bus := openBus(t, nc, jetstream.Config{AckWait: time.Second, RequestTimeout: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	js := admin(t, nc)
	bg, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var want sync.Map // hash → true once Record returned
	var wg sync.WaitGroup
	var sends atomic.Int64
	for w := range 2 {
		j, err := bus.Journal([]string{"w1", "w2"}[w])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close(bg) }()
		j.LoseAnswers(func() bool { return sends.Add(1)%5 == 0 && w == 0 })
		for range writers / 2 {
			es := eventstest.NewRun(t).Turns(each)
			wg.Go(func() {
				for _, e := range es {
					if err := j.Record(bg, e); err != nil {
						t.Errorf("Record: %v", err)
						return
					}
					want.Store(e.Hash(), true)
				}
			})
		}
	}
	got := make(chan []events.Sealed, 1)
	go func() {
		c := bus.Consumer()
		seen := map[events.Hash]bool{}
		var es []events.Sealed
		for len(seen) < writers*each && bg.Err() == nil {
			ms, err := c.Fetch(bg, 50, 20*time.Millisecond)
			if err != nil {
				t.Logf("fetch: %v", err)
				continue
			}
			for _, m := range ms {
				parsed, _, err := events.ParseMessage(m.Data)
				if err != nil {
					t.Error(err)
				}
				for _, e := range parsed {
					if !seen[e.Hash()] {
						seen[e.Hash()] = true
						es = append(es, e)
					}
				}
			}
			_ = c.Ack(bg, ms...) // the broker may be away: they come again
		}
		got <- es
	}()
	for round := range rounds {
		ticker := time.NewTicker(30 * time.Millisecond)
		<-ticker.C
		ticker.Stop()
		if round%2 == 0 {
			srv.srv.Shutdown()
			srv.start(t)
			continue
		}
		if err := js.DeleteConsumer(bg, jetstream.JournalStream, jetstream.Projector); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
			t.Logf("delete consumer: %v", err)
		}
	}
	wg.Wait()
	es := <-got
	byRun := map[events.RunID][]events.Sealed{}
	for _, e := range es {
		want.Delete(e.Hash())
		byRun[e.Envelope().RunID] = append(byRun[e.Envelope().RunID], e)
	}
	want.Range(func(k, _ any) bool { t.Errorf("acknowledged event %v is missing", k); return true })
	if len(es) != writers*each || len(byRun) != writers {
		t.Errorf("%d events of %d runs, want %d of %d", len(es), len(byRun), writers*each, writers)
	}
}
