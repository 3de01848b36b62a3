package jetstream_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
	"github.com/daybookhq/daybook/events/jetstream"
)

// BenchmarkJournal records events of 1 KB from one or 64 writers, beside one
// publish per event on the same server. Metrics of "journal": ratio = events/s
// over raw publishes/s, events/msg = events per envelope.
func BenchmarkJournal(b *testing.B) {
	for _, sync := range []struct {
		name     string
		interval time.Duration
	}{{"always", 0}, {"default", 2 * time.Minute}} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("sync=%s/writers=%d", sync.name, writers), func(b *testing.B) {
				benchmark(b, sync.interval, writers)
			})
		}
	}
}

func benchmark(b *testing.B, interval time.Duration, writers int) {
	srv := startServer(b, interval)
	nc, err := srv.srv.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	bus := openBus(b, nc, jetstream.Config{FeedMaxAge: -1})
	js := admin(b, nc)
	if _, err := js.CreateStream(ctx(b), natsjs.StreamConfig{Name: "RAW", Subjects: []string{"raw"}}); err != nil {
		b.Fatal(err)
	}
	j, err := bus.Journal("w1")
	if err != nil {
		b.Fatal(err)
	}
	r := eventstest.NewRun(b)
	text := make([]byte, 700)
	for i := range text {
		text[i] = "word "[i%5]
	}
	e := r.Next(events.SignalReceived{Name: "x", Data: []byte(`"` + string(text) + `"`)})
	bg := b.Context()

	b.ResetTimer()
	start := time.Now()
	eachOf(b, writers, func() error { return j.Record(bg, e) })
	journal := time.Since(start)
	b.StopTimer()

	start = time.Now()
	eachOf(b, writers, func() error {
		_, err := js.PublishMsg(bg, &nats.Msg{Subject: "raw", Data: e.Bytes()})
		return err
	})
	raw := time.Since(start)
	if err := j.Close(ctx(b)); err != nil {
		b.Fatal(err)
	}
	info, err := bus.Info(ctx(b))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/journal.Seconds(), "events/s")
	b.ReportMetric(float64(b.N)/raw.Seconds(), "raw/s")
	b.ReportMetric(raw.Seconds()/journal.Seconds(), "ratio")
	b.ReportMetric(float64(b.N)/float64(info.Journal.Messages), "events/msg")
}

// eachOf calls f b.N times from n goroutines.
func eachOf(b *testing.B, n int, f func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkFeed publishes events of 100 runs, as a projector does after a batch.
func BenchmarkFeed(b *testing.B) {
	for _, interval := range []time.Duration{0, 2 * time.Minute} {
		b.Run(fmt.Sprintf("always=%v", interval == 0), func(b *testing.B) {
			srv := startServer(b, interval)
			nc, err := srv.srv.Connect()
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			f, err := openBus(b, nc, jetstream.Config{SyncAlways: interval == 0}).Feed()
			if err != nil {
				b.Fatal(err)
			}
			runs := make([]*eventstest.Run, 100)
			for i := range runs {
				runs[i] = eventstest.NewRun(b)
			}
			es := make([]events.Sealed, b.N)
			for i := range es {
				es[i] = runs[i%100].Next(events.TurnStarted{Turn: i})
			}
			b.ResetTimer()
			for batch := range (len(es) + 499) / 500 {
				if err := f.Publish(b.Context(), es[batch*500:min(len(es), batch*500+500)]...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
