package runtime

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/tools"
)

// shutdown asks every session to hand over, waits for the grace, then cuts acts off.
func (w *Worker) shutdown() {
	n := 0
	w.each(func(s *session) { s.askHandover(); n++ })
	w.log.Info("shutting down", "handing_over", n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.wg.Wait()
		w.waitForHost()
		// Tools that did not heed their time may still report what became of them.
		w.disps.Range(func(_, d any) bool { return d.(*tools.Dispatcher).Wait(w.life) == nil })
	}()
	grace := time.NewTimer(w.cfg.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-done:
		return
	case <-grace.C:
		w.log.Warn("shutdown grace is over, cutting off what still runs")
		w.die(errShutdown)
		w.each(func(s *session) { s.stop(errShutdown) })
	}
	<-done
}

// waitForHost waits for the host's code that runs still left behind, until the
// shutdown's grace is over: nothing can end a function that is deaf to its context.
func (w *Worker) waitForHost() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.hostCode.Wait()
	}()
	select {
	case <-done:
	case <-w.life.Done():
	}
}

// cutOff reports whether the shutdown's grace is over.
func (w *Worker) cutOff() bool { return w.life.Err() != nil }

func (w *Worker) each(f func(*session)) {
	w.mu.Lock()
	ss := make([]*session, 0, len(w.sessions))
	for _, s := range w.sessions {
		ss = append(ss, s)
	}
	w.mu.Unlock()
	for _, s := range ss {
		f(s)
	}
}

// heartbeats extends the leases until stop is closed.
func (w *Worker) heartbeats(stop <-chan struct{}) {
	tick := time.NewTicker(w.cfg.LeaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			w.beat()
		}
	}
}

func (w *Worker) beat() {
	var ls []ledger.Lease
	byRun := map[events.RunID]*session{}
	w.each(func(s *session) {
		if s.local.check() {
			return // it has stopped acting; to hold on would only keep others away
		}
		ls = append(ls, s.lease)
		byRun[s.lease.RunID] = s
	})
	if len(ls) == 0 {
		return
	}
	// A heartbeat that takes longer than the lease is worth nothing.
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.LeaseTTL)
	defer cancel()
	sent := w.cfg.Now()
	beats, err := w.cfg.Ledger.Heartbeat(ctx, w.cfg.Name, ls)
	if err != nil {
		w.log.Warn("heartbeat failed; leases run on to their end", "error", w.cfg.Redactor.Error(err))
		return
	}
	for _, b := range beats {
		if s := byRun[b.RunID]; s != nil {
			s.beat(b, sent)
		}
	}
}
