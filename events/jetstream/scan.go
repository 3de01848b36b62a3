package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Stored is a message as a stream keeps it.
type Stored struct {
	Stream, Subject string
	Sequence        uint64
	Header          nats.Header
	Data            []byte
}

// Scan calls f with every message of every stream on nc's server that the account can
// see, also of streams that are not ours, and changes none: nothing is declared, the
// consumers that read are gone afterwards. total is told how many there are, first.
func Scan(ctx context.Context, nc *nats.Conn, total func(messages uint64), f func(Stored) error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("scan streams: %w", err)
	}
	var names []string
	sum := uint64(0)
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		names = append(names, info.Config.Name)
		sum += info.State.Msgs
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("scan streams: %w", err)
	}
	total(sum)
	for _, name := range names {
		if err := scanStream(ctx, js, name, f); err != nil {
			return fmt.Errorf("scan stream %s: %w", name, err)
		}
	}
	return nil
}

// scanStream reads what a stream has now. An ordered consumer begins again by itself
// where a message did not arrive.
func scanStream(ctx context.Context, js jetstream.JetStream, name string, f func(Stored) error) error {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	st := s.CachedInfo().State
	if st.Msgs == 0 {
		return nil
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	for {
		ms, err := cons.Fetch(readPage, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return err
		}
		got := false
		for m := range ms.Messages() {
			md, err := m.Metadata()
			if err != nil {
				return err
			}
			got = true
			if md.Sequence.Stream > st.LastSeq {
				return nil
			}
			if err := f(Stored{Stream: name, Subject: m.Subject(), Sequence: md.Sequence.Stream, Header: m.Headers(), Data: m.Data()}); err != nil {
				return err
			}
			if md.Sequence.Stream == st.LastSeq || md.NumPending == 0 {
				return nil
			}
		}
		if err := ms.Error(); err != nil {
			return err
		}
		if !got { // what was left has been deleted, or the server is slow to say
			if info, err := s.Info(ctx); err != nil || info.State.Msgs == 0 {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("the server gave nothing in 5s: try again")
		}
	}
}
