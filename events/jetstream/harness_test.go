package jetstream_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/embedded"
	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a real nats-server in this process that can be restarted on the
// same store and port.
type server struct {
	cfg embedded.Config
	srv *embedded.Server
}

func startServer(t testing.TB, sync time.Duration) *server {
	t.Helper()
	port, err := pgserver.FreePort() // the same ever after
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cfg: embedded.Config{StoreDir: t.TempDir(), Listen: fmt.Sprintf("127.0.0.1:%d", port), SyncInterval: sync}}
	s.start(t)
	t.Cleanup(func() { s.srv.Shutdown() })
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	var err error
	if s.srv, err = embedded.Start(s.cfg); err != nil {
		t.Fatal(err)
	}
}

func (s *server) connect(t testing.TB) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func ctx(t testing.TB) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // also usable while the test cleans up
	t.Cleanup(cancel)
	return c
}

func openBus(t testing.TB, nc *nats.Conn, cfg jetstream.Config) *jetstream.Bus {
	t.Helper()
	b, err := jetstream.Open(ctx(t), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func admin(t testing.TB, nc *nats.Conn) natsjs.JetStream {
	t.Helper()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func harness(t *testing.T) eventstest.Harness {
	const buffer, ackWait = 200, 3 * time.Second
	srv := startServer(t, 0)
	nc := srv.connect(t)
	bus := openBus(t, nc, jetstream.Config{SyncAlways: true, AckWait: ackWait, BufferEvents: buffer, RequestTimeout: 2 * time.Second})
	js := admin(t, nc)
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var lose atomic.Int64
	return eventstest.Harness{
		Buffer: buffer, AckWait: ackWait,
		Journal: func(t *testing.T, worker string) events.Journal {
			j, err := bus.Journal(worker)
			must(t, err)
			j.LoseAnswers(func() bool { return lose.Add(-1) >= 0 })
			t.Cleanup(func() {
				c, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				_ = j.Close(c) // the suite checks Close where it matters
			})
			return j
		},
		Consumer:     func(*testing.T) events.Consumer { return bus.Consumer() },
		Feed:         func(t *testing.T) events.Feed { f, err := bus.Feed(); must(t, err); return f },
		FeedMessages: func(t *testing.T) []eventstest.FeedMessage { return readFeed(t, js) },
		Stop:         func(*testing.T) { srv.srv.Shutdown() },
		Start:        func(t *testing.T) { srv.start(t) },
		LoseAcks:     func(_ *testing.T, n int) { lose.Store(int64(n)) },
		MaxMessages: func(t *testing.T, n int) {
			s, err := js.Stream(ctx(t), jetstream.JournalStream)
			must(t, err)
			c := s.CachedInfo().Config
			c.MaxMsgs = int64(n)
			if n == 0 {
				c.MaxMsgs = -1
			}
			_, err = js.UpdateStream(ctx(t), c)
			must(t, err)
		},
		DeleteStream:   func(t *testing.T) { must(t, js.DeleteStream(ctx(t), jetstream.JournalStream)) },
		DeleteConsumer: func(t *testing.T) { must(t, js.DeleteConsumer(ctx(t), jetstream.JournalStream, jetstream.Projector)) },
		DeleteFeed:     func(t *testing.T) { must(t, js.DeleteStream(ctx(t), jetstream.FeedStream)) },
		PublishRaw: func(t *testing.T, worker string, data []byte) {
			_, err := js.Publish(ctx(t), "daybook.journal."+worker, data)
			must(t, err)
		},
	}
}

func readFeed(t *testing.T, js natsjs.JetStream) []eventstest.FeedMessage {
	t.Helper()
	s, err := js.Stream(ctx(t), jetstream.FeedStream)
	if err != nil {
		t.Fatal(err)
	}
	st := s.CachedInfo().State
	var ms []eventstest.FeedMessage
	for seq := st.FirstSeq; seq <= st.LastSeq && st.Msgs > 0; seq++ {
		m, err := s.GetMsg(ctx(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, eventstest.FeedMessage{Subject: m.Subject, ID: m.Header.Get(natsjs.MsgIDHeader), Data: m.Data})
	}
	return ms
}

func TestJournal(t *testing.T)  { eventstest.TestJournal(t, harness) }
func TestConsumer(t *testing.T) { eventstest.TestConsumer(t, harness) }
func TestFeed(t *testing.T)     { eventstest.TestFeed(t, harness) }
func TestReader(t *testing.T)   { eventstest.TestReader(t, harness) }
