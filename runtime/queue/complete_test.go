package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/embedded"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/queue"
)

// completer answers as told, and keeps what it was asked.
type completer struct {
	mu    sync.Mutex
	asked []ledger.Completion
	fail  []error // one per call; then none
}

func (c *completer) Complete(_ context.Context, in ledger.Completion) (ledger.Settlement, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, in)
	if len(c.fail) > 0 {
		err := c.fail[0]
		c.fail = c.fail[1:]
		if err != nil {
			return ledger.Settlement{}, fmt.Errorf("complete: %w", err)
		}
	}
	return ledger.Settlement{State: events.EffectApplied}, nil
}

func (c *completer) calls() []ledger.Completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]ledger.Completion(nil), c.asked...)
}

func TestCompleteOverNATS(t *testing.T) {
	srv, err := embedded.Start(embedded.Config{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	n, r := queue.NewNATS(nc), redact.New(redact.Config{})
	token := events.NewIDs(nil, nil).Event()
	req := queue.Complete{Token: token, Status: "completed", Output: "42", By: "billing"}

	t.Run("nobody serves it", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := n.Complete(ctx, req); !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	serve := func(t *testing.T, fail ...error) *completer {
		t.Helper()
		c := &completer{fail: fail}
		stop, err := n.ServeCompletions(c, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return c
	}
	t.Run("outcomes arrive as they are meant", func(t *testing.T) {
		c := serve(t)
		for _, q := range []queue.Complete{
			req, {Token: token, Status: "failed", Error: "broke", By: "b"}, {Token: token, Status: "failed", Error: "broke", NotApplied: true, By: "b"},
		} {
			if state, err := n.Complete(t.Context(), q); err != nil || state != events.EffectApplied {
				t.Fatalf("%+v: %s, %v", q, state, err)
			}
		}
		got := c.calls()
		if len(got) != 3 || got[0].Kind != ledger.Applied || got[0].Result.Output != "42" || got[0].By != "billing" || got[0].Token != token ||
			got[1].Kind != ledger.Unclear || got[1].Error.Message != "broke" || got[2].Kind != ledger.NotApplied {
			t.Errorf("asked %+v", got)
		}
	})
	t.Run("what may help is tried again", func(t *testing.T) {
		c := serve(t, ledger.ErrUnavailable, ledger.ErrNotFound)
		if _, err := n.Complete(t.Context(), req); err != nil || len(c.calls()) != 3 {
			t.Errorf("%v after %d tries", err, len(c.calls()))
		}
	})
	t.Run("what cannot is an error", func(t *testing.T) {
		for _, want := range []error{ledger.ErrCompleted, ledger.ErrNotAwaited} {
			t.Run(want.Error(), func(t *testing.T) { // which ends its server: two would share the requests
				c := serve(t, want)
				if _, err := n.Complete(t.Context(), req); !errors.Is(err, want) || len(c.calls()) != 1 {
					t.Errorf("error %v after %d tries, want %v", err, len(c.calls()), want)
				}
			})
		}
	})
	t.Run("bad requests are refused before anybody is asked", func(t *testing.T) {
		c := serve(t)
		for name, q := range map[string]queue.Complete{
			"no token":   {Status: "completed", By: "b"},
			"no status":  {Token: token, By: "b"},
			"nobody":     {Token: token, Status: "completed"},
			"no reason":  {Token: token, Status: "failed", By: "b"},
			"both":       {Token: token, Status: "completed", Error: "x", By: "b"},
			"too large":  {Token: token, Status: "completed", By: "b", Output: strings.Repeat("x", 600<<10)},
			"not failed": {Token: token, Status: "completed", NotApplied: true, By: "b"},
		} {
			if _, err := n.Complete(t.Context(), q); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		for _, raw := range []string{``, `[]`, `{"token":"x"}`, `{"token":"` + token.String() + `","state":"completed"}`, `{}{}`} {
			m, err := nc.Request(queue.CompleteSubject, []byte(raw), 10*time.Second)
			var out struct{ Code, Error string }
			if err != nil || json.Unmarshal(m.Data, &out) != nil || out.Code != "invalid" || out.Error == "" {
				t.Errorf("%s: %v, %s", raw, err, m.Data)
			}
		}
		if n := len(c.calls()); n != 0 {
			t.Errorf("the ledger was asked %d times", n)
		}
	})
}
