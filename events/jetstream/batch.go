package jetstream

import (
	"context"
	"crypto/rand"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
)

// Headers of the server's atomic batches, for which nats.go has no call: the
// messages of one batch are stored together, in order, or not at all. A server
// that syncs always does so once per batch and not once per message.
const (
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// Limits of one batch. A batch has a price of its own, so few events go one by
// one. The server takes at most 1,000 messages.
const (
	minBatch      = 16
	maxBatch      = 500
	maxBatchBytes = 4 << 20
)

// cutBatch returns how many of es go into the next batch, at least one.
func cutBatch(es []events.Sealed) int {
	n, size := 0, 0
	for _, e := range es {
		size += len(e.Bytes())
		if n > 0 && (n == maxBatch || size > maxBatchBytes) {
			break
		}
		n++
	}
	return n
}

// publishBatch tries once to store es as one batch. An error means that nobody
// knows; the caller then goes one by one, which the message ids make safe: what
// the batch stored is not stored again, and a batch that arrives late holds a
// duplicate by then, so the server refuses all of it.
func (f *Feed) publishBatch(ctx context.Context, es []events.Sealed) error {
	if !f.bus.nc.IsConnected() {
		return errDisconnected
	}
	ctx, cancel := f.bus.request(ctx)
	defer cancel()
	id := rand.Text()
	for i, e := range es {
		m := feedMessage(e)
		m.Header[batchIDHeader] = []string{id}
		m.Header[batchSeqHeader] = []string{strconv.Itoa(i + 1)}
		if i == len(es)-1 {
			m.Header[batchCommitHeader] = []string{"1"}
			_, err := f.bus.js.PublishMsg(ctx, m, jetstream.WithExpectStream(FeedStream), jetstream.WithRetryAttempts(0))
			return err
		}
		m.Header[nats.ExpectedStreamHdr] = []string{FeedStream}
		if err := f.bus.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}
