package jetstream_test

import (
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/testenv"
)

// A server without JetStream says so, and one whose stream somebody has changed what.
func TestExamine(t *testing.T) {
	bare, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	bare.Start()
	defer func() { bare.Shutdown(); bare.WaitForShutdown() }()
	if !bare.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect(bare.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if e, err := jetstream.Examine(t.Context(), nc, nil); err != nil || e.JetStream == nil || e.ServerVersion == "" {
		t.Errorf("%v, %+v", err, e)
	}

	nc, err = nats.Connect(testenv.NATS(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	e, err := jetstream.Examine(t.Context(), nc, nil)
	if err != nil || e.JetStream != nil || len(e.Streams) != 2 || !e.Streams[0].Missing || e.Projector {
		t.Fatalf("before it was opened: %v, %+v", err, e)
	}
	if _, err := jetstream.Open(t.Context(), nc, jetstream.Config{}); err != nil {
		t.Fatal(err)
	}
	e, err = jetstream.Examine(t.Context(), nc, nil)
	if err != nil || len(e.Streams[0].Differs)+len(e.Streams[1].Differs) != 0 || !e.Projector || e.ServerTime.IsZero() || e.Streams[0].Frozen != nil {
		t.Errorf("as it should be: %v, %+v", err, e)
	}
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), jetstream.JournalStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxAge = time.Hour // what nobody has read would go
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	e, err = jetstream.Examine(t.Context(), nc, nil)
	if err != nil || strings.Join(e.Streams[0].Differs, ";") != "MaxAge is 1h0m0s, want 0s" {
		t.Errorf("changed: %v, %+v", err, e.Streams[0])
	}
}
