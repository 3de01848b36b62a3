package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Scoped is the ledger as p may see it. Without the scope read that is nothing.
// It asks the database each time: a run that is another's and one that does not
// exist take the same look-up and give the same error.
func Scoped(st ledger.Store, p Principal) Reader { return &scoped{st, p} }

type scoped struct {
	st ledger.Store
	p  Principal
}

// narrow puts what p may see into a filter; false if it asks for anything else,
// and then there is nothing.
func (s *scoped) narrow(tenant, owner *string) bool {
	if !s.p.Can(Read) {
		return false
	}
	for _, f := range []struct {
		asked *string
		may   string
	}{{tenant, s.p.Tenant}, {owner, s.p.Owner}} {
		if f.may == "" {
			continue
		}
		if *f.asked != "" && *f.asked != f.may {
			return false
		}
		*f.asked = f.may
	}
	return true
}

// nothing reports whether there is nothing to list: the filter asks for what p
// may not see, or for a run that is another's, which is looked up as one that is
// not there, and no more.
func (s *scoped) nothing(ctx context.Context, tenant, owner *string, run events.RunID) (bool, error) {
	if !s.narrow(tenant, owner) {
		return true, nil
	}
	if run.IsZero() || s.p.All() {
		return false, nil
	}
	_, err := s.Run(ctx, run)
	if errors.Is(err, ledger.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// Run implements [RunReader].
func (s *scoped) Run(ctx context.Context, id events.RunID) (ledger.Run, error) {
	r, err := s.st.Run(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && !s.sees(r) {
		return ledger.Run{}, fmt.Errorf("run %s: %w", id, ledger.ErrNotFound)
	}
	if err != nil {
		return ledger.Run{}, err
	}
	return r, nil
}

func (s *scoped) sees(r ledger.Run) bool { return s.p.Can(Read) && s.p.Sees(r.Tenant, r.Owner) }

// Summaries implements [RunReader].
func (s *scoped) Summaries(ctx context.Context, f ledger.RunFilter) ([]ledger.Summary, error) {
	if !s.narrow(&f.Tenant, &f.Owner) {
		return nil, nil
	}
	return s.st.Summaries(ctx, f)
}

// Events implements [RunReader].
func (s *scoped) Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error {
	if _, err := s.Run(ctx, run); err != nil {
		return err
	}
	return s.st.Events(ctx, run, from, f)
}

// Pending implements [RunReader].
func (s *scoped) Pending(ctx context.Context, run events.RunID) ([]events.Fact, error) {
	if _, err := s.Run(ctx, run); err != nil {
		return nil, err
	}
	return s.st.Pending(ctx, run)
}

// Descendants implements [KinReader].
func (s *scoped) Descendants(ctx context.Context, run events.RunID, limit int) ([]ledger.Run, error) {
	if _, err := s.Run(ctx, run); err != nil {
		return nil, err
	}
	return s.runs(s.st.Descendants(ctx, run, limit))
}

// runs leaves those that p sees.
func (s *scoped) runs(list []ledger.Run, err error) ([]ledger.Run, error) {
	if err != nil {
		return nil, err
	}
	var own []ledger.Run
	for _, r := range list {
		if s.sees(r) {
			own = append(own, r)
		}
	}
	return own, nil
}

// Verify implements [RunReader].
func (s *scoped) Verify(ctx context.Context, run events.RunID, f func(ledger.Finding) error) (ledger.VerifyReport, error) {
	if run.IsZero() {
		if err := s.everything("verify the ledger"); err != nil {
			return ledger.VerifyReport{}, err
		}
	} else if _, err := s.Run(ctx, run); err != nil {
		return ledger.VerifyReport{}, err
	}
	return s.st.Verify(ctx, run, f)
}

// Calls implements [CallReader].
func (s *scoped) Calls(ctx context.Context, f ledger.CallFilter) ([]ledger.CallRecord, error) {
	if none, err := s.nothing(ctx, &f.Tenant, &f.Owner, f.Run); none || err != nil {
		return nil, err
	}
	return s.st.Calls(ctx, f)
}

// ModelCalls implements [CallReader].
func (s *scoped) ModelCalls(ctx context.Context, run events.RunID) ([]ledger.ModelCallRow, error) {
	if _, err := s.Run(ctx, run); err != nil {
		return nil, err
	}
	return s.st.ModelCalls(ctx, run)
}

// Costs implements [CallReader].
func (s *scoped) Costs(ctx context.Context, f ledger.CostFilter) ([]ledger.CostRow, error) {
	if none, err := s.nothing(ctx, &f.Tenant, &f.Owner, f.Run); none || err != nil {
		return nil, err
	}
	return s.st.Costs(ctx, f)
}

// ToolUses implements [CallReader].
func (s *scoped) ToolUses(ctx context.Context, f ledger.ToolFilter) ([]ledger.ToolUse, error) {
	if !s.narrow(&f.Tenant, &f.Owner) {
		return nil, nil
	}
	return s.st.ToolUses(ctx, f)
}

// Effects implements [EffectReader]. The place to go on from must be one that p sees.
func (s *scoped) Effects(ctx context.Context, f ledger.EffectFilter) ([]ledger.Effect, error) {
	if none, err := s.nothing(ctx, &f.Tenant, &f.Owner, f.Run); none || err != nil {
		return nil, err
	}
	if !f.After.IsZero() {
		if _, err := s.effect(ctx, f.After); err != nil {
			return nil, err
		}
	}
	return s.st.Effects(ctx, f)
}

// effect returns one that p sees.
func (s *scoped) effect(ctx context.Context, key events.Hash) (ledger.Effect, error) {
	f := ledger.EffectFilter{OpKey: key, Limit: 1}
	if s.narrow(&f.Tenant, &f.Owner) {
		es, err := s.st.Effects(ctx, f)
		if err != nil {
			return ledger.Effect{}, err
		}
		if len(es) == 1 {
			return es[0], nil
		}
	}
	return ledger.Effect{}, fmt.Errorf("effect %s: %w", key, ledger.ErrNotFound)
}

// Attempts implements [EffectReader]. Those of runs that p does not see are left out.
func (s *scoped) Attempts(ctx context.Context, opKey events.Hash) ([]ledger.Attempt, error) {
	if _, err := s.effect(ctx, opKey); err != nil {
		return nil, err
	}
	as, err := s.st.Attempts(ctx, opKey)
	if err != nil {
		return nil, err
	}
	var own []ledger.Attempt
	seen := map[events.RunID]bool{}
	for _, a := range as {
		sees, known := seen[a.Run]
		if !known {
			_, err := s.Run(ctx, a.Run)
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				return nil, err
			}
			sees = err == nil
			seen[a.Run] = sees
		}
		if sees {
			own = append(own, a)
		}
	}
	return own, nil
}

// Waiting implements [EffectReader].
func (s *scoped) Waiting(ctx context.Context, opKey events.Hash) ([]ledger.Run, error) {
	if !s.p.Can(Read) {
		return nil, nil
	}
	return s.runs(s.st.Waiting(ctx, opKey))
}

// Approvals implements [DecisionReader].
func (s *scoped) Approvals(ctx context.Context, f ledger.ApprovalFilter) ([]ledger.Approval, error) {
	if none, err := s.nothing(ctx, &f.Tenant, &f.Owner, f.Run); none || err != nil {
		return nil, err
	}
	return s.st.Approvals(ctx, f)
}

// Approval implements [DecisionReader].
func (s *scoped) Approval(ctx context.Context, id events.ID) (ledger.Approval, error) {
	a, err := s.st.Approval(ctx, id)
	run := a.Run
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return ledger.Approval{}, err
	}
	// Also if there is none: what is another's takes as long.
	if _, rerr := s.Run(ctx, run); err != nil || rerr != nil {
		if rerr != nil && !errors.Is(rerr, ledger.ErrNotFound) {
			return ledger.Approval{}, rerr
		}
		return ledger.Approval{}, fmt.Errorf("approval %s: %w", id, ledger.ErrNotFound)
	}
	return a, nil
}

// Artifacts implements [ContentReader].
func (s *scoped) Artifacts(ctx context.Context, f ledger.ArtifactFilter) ([]ledger.ArtifactVersion, error) {
	if none, err := s.nothing(ctx, &f.Tenant, &f.Owner, f.Run); none || err != nil {
		return nil, err
	}
	return s.st.Artifacts(ctx, f)
}

// everything refuses what only those may ask who see everything.
func (s *scoped) everything(what string) error {
	if s.p.Can(Read) && s.p.All() {
		return nil
	}
	return fmt.Errorf("%s: %w", what, ledger.ErrNotFound)
}

// QueueStats implements [LedgerReader].
func (s *scoped) QueueStats(ctx context.Context, name string) ([]ledger.QueueStats, error) {
	if err := s.everything("queues"); err != nil {
		return nil, err
	}
	return s.st.QueueStats(ctx, name)
}

// Vitals implements [LedgerReader].
func (s *scoped) Vitals(ctx context.Context) (ledger.Vitals, error) {
	if err := s.everything("vitals"); err != nil {
		return ledger.Vitals{}, err
	}
	return s.st.Vitals(ctx)
}
