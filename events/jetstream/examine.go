package jetstream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An Exam is what a server is like, for whoever asks what is wrong; nothing is declared
// or changed.
type Exam struct {
	ServerVersion string
	MaxPayload    int64
	SmallPayload  bool  // it takes smaller messages than the journal sends
	JetStream     error // why it cannot be used; nil = it can
	// ServerTime is the server's clock, Asked and Answered ours around it; zero if no
	// stream could say.
	ServerTime, Asked, Answered time.Time
	Streams                     []StreamExam
	// Projector: the durable consumer is there; Lag is what it has not confirmed.
	Projector bool
	Lag       uint64
}

// StreamExam is one of our streams.
type StreamExam struct {
	StreamInfo
	Missing bool
	// Differs are the settings that are not as Open would set them.
	Differs []string
	Frozen  error // see [events.ErrJournalFrozen]
}

// Examine asks nc's server. now is our clock; nil = time.Now.
func Examine(ctx context.Context, nc *nats.Conn, now func() time.Time) (Exam, error) {
	if now == nil {
		now = time.Now
	}
	e := Exam{ServerVersion: nc.ConnectedServerVersion(), MaxPayload: nc.MaxPayload(), SmallPayload: nc.MaxPayload() < minPayload}
	js, err := jetstream.New(nc)
	if err != nil {
		return e, fmt.Errorf("examine NATS: %w", err)
	}
	b := &Bus{nc: nc, js: js, cfg: Config{}.withDefaults()}
	rctx, cancel := b.request(ctx)
	defer cancel()
	if _, e.JetStream = js.AccountInfo(rctx); e.JetStream != nil {
		return e, nil
	}
	for _, want := range []struct {
		name string
		lay  func(*jetstream.StreamConfig)
	}{{JournalStream, b.journalConfig}, {FeedStream, b.feedConfig}} {
		x := StreamExam{StreamInfo: StreamInfo{Name: want.name}}
		asked := now()
		s, err := js.Stream(rctx, want.name)
		answered := now()
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			x.Missing = true
		case err != nil:
			return e, fmt.Errorf("examine stream %s: %w", want.name, err)
		default:
			info := s.CachedInfo()
			e.ServerTime, e.Asked, e.Answered = info.TimeStamp, asked, answered
			laid := info.Config
			want.lay(&laid)
			x.Differs = differing(info.Config, laid)
			if x.StreamInfo, err = b.streamInfo(rctx, want.name); err != nil {
				return e, err
			}
			x.Frozen = b.whyFrozen(ctx, want.name)
		}
		e.Streams = append(e.Streams, x)
	}
	cons, err := js.Consumer(rctx, JournalStream, Projector)
	if err == nil {
		info := cons.CachedInfo()
		e.Projector, e.Lag = true, info.NumPending+uint64(max(info.NumAckPending, 0)) //nolint:gosec // not negative
	}
	return e, nil
}

// differing names the settings of a that b has otherwise, but for texts for people.
func differing(a, b jetstream.StreamConfig) (names []string) {
	av, bv := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range av.NumField() {
		name := av.Type().Field(i).Name
		if !slices.Contains([]string{"Description", "Metadata"}, name) && !reflect.DeepEqual(av.Field(i).Interface(), bv.Field(i).Interface()) {
			names = append(names, fmt.Sprintf("%s is %v, want %v", name, av.Field(i).Interface(), bv.Field(i).Interface()))
		}
	}
	return names
}
