package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/internal/embedded"
)

// liveSocket is where viewers of an embedded system come in.
func liveSocket(dir string) string { return filepath.Join(dir, "nats.sock") }

// ErrNoLive: there is nobody to watch runs with.
var ErrNoLive = errors.New("nothing can be watched live")

// Viewers is a connection to what runs tell while they work.
type Viewers struct{ nc *nats.Conn }

// OpenViewers connects to where the workers are: to the process that holds o.Dir, or to
// o.NATS. It wraps [ErrNoLive] if no worker runs there, or o says nothing of NATS.
func OpenViewers(o Options) (*Viewers, error) {
	opts := []nats.Option{nats.Name("daybook viewer"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond)}
	var nc *nats.Conn
	var err error
	switch {
	case o.Embedded():
		if nc, err = embedded.Dial(liveSocket(o.Dir), opts...); errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("%w: no worker runs on %s now", ErrNoLive, o.Dir)
		}
	case o.NATS == "":
		return nil, fmt.Errorf("%w: say where NATS is with --nats URL", ErrNoLive)
	default:
		nc, err = nats.Connect(o.NATS, opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("watch runs: connect to NATS: %w", err)
	}
	return &Viewers{nc}, nil
}

// Watch watches a run until the viewer is closed.
func (v *Viewers) Watch(tenant string, run events.RunID) (*jetstream.LiveViewer, error) {
	return jetstream.WatchLive(v.nc, tenant, run)
}

// Close closes the connection, after the viewers.
func (v *Viewers) Close() { v.nc.Close() }
