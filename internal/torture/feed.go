package torture

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// feed listens to what the projectors publish: an event's age when it arrives
// is how far the ledger is behind, since it is published after it is folded.
type feed struct {
	nc *nats.Conn

	mu   sync.Mutex
	ages []time.Duration
}

// timeHeader carries an event's time, as CloudEvents has it on NATS.
const timeHeader = "ce-time"

func listen(url string) (*feed, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	f := &feed{nc: nc}
	if _, err := nc.Subscribe("daybook.feed.>", f.take); err != nil {
		nc.Close()
		return nil, fmt.Errorf("listen to the feed: %w", err)
	}
	return f, nil
}

func (f *feed) take(m *nats.Msg) {
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get(timeHeader))
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ages = append(f.ages, time.Since(at))
}

func (f *feed) lags() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ages)
}

func (f *feed) close() { f.nc.Close() }

// quantile of durations, in seconds; -1 if there are none.
func quantile(ds []time.Duration, q float64) float64 {
	if len(ds) == 0 {
		return -1
	}
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return ds[min(int(q*float64(len(ds))), len(ds)-1)].Seconds()
}
