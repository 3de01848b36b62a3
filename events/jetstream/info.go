package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Info is what the server says of itself and of the streams, so that a worker
// can say at start which promise holds. Whether the server fsyncs before it
// acknowledges is not among it: no ordinary client can see that.
type Info struct {
	ServerVersion string
	Cluster       string // name of the connected cluster; empty for a single server
	MaxPayload    int64
	Journal       StreamInfo
	Feed          *StreamInfo // nil when there is no feed
	AckWait       time.Duration
	MaxAckPending int
}

// StreamInfo is one stream as the server has it. Limits that are not set are
// zero.
type StreamInfo struct {
	Name     string
	Replicas int // as configured
	InSync   int // replicas that are up to date, the leader among them
	Leader   string
	OnDisk   bool // file storage
	MaxBytes int64
	MaxAge   time.Duration
	Messages uint64
	Bytes    uint64
}

// Info asks the server.
func (b *Bus) Info(ctx context.Context) (Info, error) {
	info := Info{
		ServerVersion: b.nc.ConnectedServerVersion(),
		Cluster:       b.nc.ConnectedClusterName(),
		MaxPayload:    b.nc.MaxPayload(),
	}
	var err error
	if info.Journal, err = b.streamInfo(ctx, JournalStream); err != nil {
		return Info{}, err
	}
	if b.hasFeed() {
		feed, err := b.streamInfo(ctx, FeedStream)
		if err != nil {
			return Info{}, err
		}
		info.Feed = &feed
	}
	cons, err := b.js.Consumer(ctx, JournalStream, Projector)
	if err != nil {
		return Info{}, fmt.Errorf("read consumer %s: %w", Projector, err)
	}
	c := cons.CachedInfo().Config
	info.AckWait, info.MaxAckPending = c.AckWait, c.MaxAckPending
	return info, nil
}

func (b *Bus) streamInfo(ctx context.Context, name string) (StreamInfo, error) {
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return StreamInfo{}, fmt.Errorf("read stream %s: %w", name, err)
	}
	i := s.CachedInfo()
	si := StreamInfo{
		Name:     name,
		Replicas: i.Config.Replicas,
		InSync:   1,
		OnDisk:   i.Config.Storage == jetstream.FileStorage,
		MaxBytes: max(i.Config.MaxBytes, 0),
		MaxAge:   i.Config.MaxAge,
		Messages: i.State.Msgs,
		Bytes:    i.State.Bytes,
	}
	if i.Cluster != nil {
		si.Leader = i.Cluster.Leader
		for _, r := range i.Cluster.Replicas {
			if r.Current && !r.Offline {
				si.InSync++
			}
		}
	}
	return si, nil
}
