package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Keeper is what a projector's maintenance asks of a ledger that has it.
type Keeper interface {
	Rollbacks
	Watchdog
	Maintenance
}

// Maintenance keeps a database in order. Safe for concurrent use, also by many
// processes: one of them does it, the others find it done.
type Maintenance interface {
	// Maintain makes what will be needed and throws away what is not any more,
	// and says what it did.
	Maintain(ctx context.Context) ([]string, error)
}

// comparedOnce is a store that knows what was compared in this process already, by
// a worker beside this projector.
type comparedOnce interface {
	CompareFirst(ctx context.Context, journal events.Reader) error
}

// compare compares the database with the journal, as often as needed: it
// returns an error only when ctx ends.
func (p *Projector) compare(ctx context.Context) error {
	reader, ok := p.consumer.(events.Reader)
	keeper, keeps := p.store.(ReconcileStore)
	if !ok || !keeps {
		return nil
	}
	return p.retry(ctx, "compare the database with the journal", func(ctx context.Context) error {
		if s, ok := p.store.(comparedOnce); ok {
			return s.CompareFirst(ctx, reader)
		}
		return CompareLogged(ctx, keeper, reader, p.cfg.Logger)
	})
}

// CompareJournal compares the database with how far the journal is confirmed. An
// error says that they could not be compared, or, as a [RollbackError], that the
// database went back in time.
func CompareJournal(ctx context.Context, keeper Rollbacks, reader events.Reader) error {
	at, err := reader.Position(ctx)
	if err != nil {
		return err
	}
	return keeper.CompareJournal(ctx, at)
}

// maintain compares, watches and keeps house until ctx ends. What goes wrong is
// said and tried again the next time.
func (p *Projector) maintain(ctx context.Context) {
	keeper, ok := p.store.(Keeper)
	if !ok {
		return
	}
	var watched, kept time.Time
	said := map[string]time.Time{}
	for ctx.Err() == nil {
		if reader, ok := p.consumer.(events.Reader); ok {
			_ = CompareJournal(ctx, keeper, reader) // whoever projects hears of it, too
		}
		now := p.cfg.Now()
		if now.Sub(kept) >= p.cfg.MaintainEvery {
			kept = now
			done, err := keeper.Maintain(ctx)
			if err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "maintenance of the database failed; it is tried again", "error", err)
			}
			for _, d := range done {
				p.cfg.Logger.InfoContext(ctx, "maintenance: "+d)
			}
		}
		if now.Sub(watched) >= p.cfg.WatchEvery {
			watched = now
			p.watch(ctx, keeper, now, said)
		}
		p.sleep(ctx, p.cfg.FoldEvery)
	}
}

// sayAgain is how long a stuck run that was told of is not told of again.
const sayAgain = time.Hour

// watch tells of every run that stands still without a reason.
func (p *Projector) watch(ctx context.Context, w Watchdog, now time.Time, said map[string]time.Time) {
	stuck, err := w.Stuck(ctx, StuckFilter{Limit: 100})
	if err != nil {
		if ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "cannot look for stuck runs; it is tried again", "error", err)
		}
		return
	}
	for key, at := range said {
		if now.Sub(at) > sayAgain {
			delete(said, key)
		}
	}
	for _, s := range stuck {
		key := fmt.Sprint(s.Run, s.Kind)
		if _, told := said[key]; told {
			continue
		}
		said[key] = now
		p.cfg.Logger.ErrorContext(ctx, "a run stands still", "run", s.Run, "kind", string(s.Kind), "since", s.Since, "why", s.Text, "see", "ledgerctl stuck")
	}
}
