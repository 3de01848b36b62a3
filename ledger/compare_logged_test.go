package ledger

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
)

// slow is a journal of 1,000 messages, each of which takes 20 milliseconds.
type slow struct{ events.Reader }

func (slow) Position(context.Context) (events.Position, error) {
	return events.Position{First: 1, Last: 1000}, nil
}

func (slow) Read(_ context.Context, from, to uint64, f func(events.Message) error) error {
	for seq := from; seq <= to; seq++ {
		<-time.After(20 * time.Millisecond) // on the clock of the bubble
		if err := f(events.Message{Sequence: seq}); err != nil {
			return err
		}
	}
	return nil
}

// agreeing has all that a journal tells of.
type agreeing struct{ ReconcileStore }

func (agreeing) CompareJournal(context.Context, events.Position) error  { return nil }
func (agreeing) Accounted(context.Context, string) (uint64, error)      { return 0, nil }
func (agreeing) Known(context.Context, []Incoming) (k Known, err error) { return k, nil }

// TestCompareSaysHowFar: a comparison that takes 20 seconds says four times how
// far it is; one that is quick says nothing.
func TestCompareSaysHowFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		if err := CompareLogged(t.Context(), agreeing{}, slow{}, slog.New(slog.NewTextHandler(&b, nil))); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "comparing the database"); n < 3 || n > 4 || !strings.Contains(b.String(), "last=1000") {
			t.Errorf("said %d times:\n%s", n, b.String())
		}
	})
}
