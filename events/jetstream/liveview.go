package jetstream

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events"
)

// LiveViewer watches one run over core NATS.
type LiveViewer struct {
	nc     *nats.Conn
	id     string
	tenant string
	run    events.RunID
	sub    *nats.Subscription
	got    chan events.Live
	stop   chan struct{}
	done   chan struct{}
	again  chan struct{}
}

// WatchLive begins to watch a run. Messages come on [LiveViewer.Messages]; what its
// reader is too slow for is dropped, as anything else that gets lost.
func WatchLive(nc *nats.Conn, tenant string, run events.RunID) (*LiveViewer, error) {
	v := &LiveViewer{
		nc: nc, id: nuid(nc), tenant: tenant, run: run, got: make(chan events.Live, liveQueue),
		stop: make(chan struct{}), done: make(chan struct{}), again: make(chan struct{}, 1),
	}
	var err error
	v.sub, err = nc.Subscribe(events.LiveSubject(tenant, run), func(m *nats.Msg) {
		if l, err := events.DecodeLive(m.Data); err == nil && l.Run == run {
			select {
			case v.got <- l:
			default:
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch run %s: %w", run, err)
	}
	go v.announce()
	return v, nil
}

// nuid is a name that no other viewer has.
func nuid(nc *nats.Conn) string { return nc.NewRespInbox()[len("_INBOX."):] }

// Messages are what the run tells.
func (v *LiveViewer) Messages() <-chan events.Live { return v.got }

// Again asks for what is being written from its beginning. It never blocks.
func (v *LiveViewer) Again() {
	select {
	case v.again <- struct{}{}:
	default:
	}
}

func (v *LiveViewer) announce() {
	defer close(v.done)
	tick := time.NewTicker(liveWatchEvery)
	defer tick.Stop()
	back := v.nc.StatusChanged(nats.CONNECTED)
	defer v.nc.RemoveStatusListener(back)
	again := false
	for {
		if b, err := json.Marshal(events.LiveWatch{Viewer: v.id, Again: again}); err == nil {
			_ = v.nc.Publish(events.LiveWatchSubject(v.tenant, v.run), b) // said again soon
		}
		again = false
		select {
		case <-v.stop:
			return
		case <-tick.C:
		case <-back: // on a server that knows nothing of it
			again = true
		case <-v.again:
			again = true
		}
	}
}

// Close ends the watching and waits for its goroutine. It is called once.
func (v *LiveViewer) Close() {
	_ = v.sub.Unsubscribe()
	close(v.stop)
	<-v.done
}
