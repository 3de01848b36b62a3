package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/testenv/powercut"
)

// TestFrozenStream fills the disk of a real server: from the first write that
// fails it takes nothing more until it is restarted, also when there is room
// again. The journal says so once, with what to do, and then sends what it has kept.
func TestFrozenStream(t *testing.T) {
	disk, err := powercut.New(t.TempDir(), "disk", 48)
	if errors.Is(err, powercut.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the server's own
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	srv := startServer(t, 0)
	srv.srv.Shutdown()
	srv.cfg.StoreDir = filepath.Join(disk.Dir, "store")
	srv.start(t)
	var mu sync.Mutex
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &said}, nil))
	bus := openBus(t, srv.connect(t), jetstream.Config{RequestTimeout: 300 * time.Millisecond, Logger: log})
	j, err := bus.Journal("w1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(ctx(t)); err != nil {
			t.Error(err)
		}
	})
	es := eventstest.NewRun(t).Turns(100)
	recorded := 0
	record := func() error {
		brief, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		recorded++
		return j.Record(brief, es[recorded-1])
	}
	if err := record(); err != nil {
		t.Fatal(err)
	}
	if err := bus.Frozen(ctx(t)); err != nil {
		t.Errorf("nothing is frozen yet: %v", err)
	}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil && recorded < len(es)-2; { // what is left of the last block is taken still
		err = record()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Record on a full disk: %v", err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if err := record(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Record after the disk has room again, without a restart: %v; does this server thaw by itself now?", err)
	}
	for what, err := range map[string]error{"the journal's Err": j.Err(), "Frozen": bus.Frozen(ctx(t))} {
		if !errors.Is(err, events.ErrJournalFrozen) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s = %v, want frozen with the server's reason", what, err)
		}
	}
	srv.srv.Shutdown()
	srv.start(t)
	if err := j.Record(ctx(t), es[recorded]); err != nil {
		t.Fatal(err)
	}
	recorded++
	if err := bus.Frozen(ctx(t)); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	ms, err := bus.Consumer().Fetch(ctx(t), 100, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var got []events.Sealed
	for _, m := range ms {
		more, _, err := events.ParseMessage(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, more...)
	}
	if len(got) != recorded {
		t.Errorf("%d events of %d are stored", len(got), recorded)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(said.String(), "the stream is frozen: free space and restart the server"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, said.String())
	}
}
