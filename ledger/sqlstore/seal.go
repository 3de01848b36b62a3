package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/ledger"
)

// maxSealed bounds an exact result; a larger one is kept redacted alone.
const maxSealed = 1 << 20

// seal keeps the exact result of an attempt, encrypted under the data key of its
// run's owner. That it cannot be sealed does not keep an outcome from being recorded.
func (s *Store) seal(ctx context.Context, tx Tx, a attemptRow, exact []byte) error {
	if s.cfg.Sealer == nil || exact == nil || len(exact) > maxSealed {
		return nil
	}
	var tenant, owner string
	if err := tx.QueryRow(ctx, `SELECT tenant, owner FROM runs WHERE id = $1`, a.Run).Scan(&tenant, &owner); err != nil {
		return fmt.Errorf("read owner of run %s: %w", a.Run, err)
	}
	wrapped, err := ownerKey(ctx, tx, tenant, owner)
	if errors.Is(err, ErrNoRows) {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO owner_keys (tenant, owner, wrapped, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, owner) DO NOTHING`,
			tenant, owner, s.cfg.Sealer.NewDataKey(tenant, owner), now)
		if err != nil {
			return fmt.Errorf("make data key of owner %q: %w", owner, err)
		}
		if wrapped, err = ownerKey(ctx, tx, tenant, owner); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if len(wrapped) == 0 {
		return nil // erased: nothing of this owner's is sealed any more
	}
	sealed, err := s.cfg.Sealer.Seal(tenant, owner, wrapped, a.opKey, a.Token, exact)
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "exact result not sealed: a replay will be the redacted one", "run", a.Run, "token", a.Token, "error", err)
		return nil
	}
	if _, err := tx.Exec(ctx, `UPDATE effect_attempts SET sealed = $2 WHERE token = $1`, a.Token, sealed); err != nil {
		return fmt.Errorf("store sealed result of attempt %s: %w", a.Token, err)
	}
	return nil
}

func ownerKey(ctx context.Context, tx Tx, tenant, owner string) (wrapped []byte, err error) {
	err = tx.QueryRow(ctx, `SELECT wrapped FROM owner_keys WHERE tenant = $1 AND owner = $2`, tenant, owner).Scan(&wrapped)
	if err != nil {
		return nil, fmt.Errorf("read data key of owner %q: %w", owner, err)
	}
	return wrapped, nil
}

// unseal gives a replay the exact result, if it is there and can be read. If it
// cannot, the redacted outcome is as true, and the effect is not made again.
func (s *Store) unseal(ctx context.Context, tx Tx, v *ledger.Verdict) error {
	if s.cfg.Sealer == nil || v.Kind != ledger.Replay {
		return nil
	}
	var sealed []byte
	var tenant, owner string
	err := tx.QueryRow(ctx, `SELECT a.sealed, r.tenant, r.owner FROM effect_attempts a JOIN runs r ON r.id = a.run_id WHERE a.token = $1`, v.Ref.Token).Scan(&sealed, &tenant, &owner)
	if errors.Is(err, ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read sealed result of attempt %s: %w", v.Ref.Token, err)
	}
	if len(sealed) == 0 {
		return nil
	}
	wrapped, err := ownerKey(ctx, tx, tenant, owner)
	if err != nil && !errors.Is(err, ErrNoRows) {
		return err
	}
	if len(wrapped) == 0 {
		return nil // erased
	}
	exact, err := s.cfg.Sealer.Open(tenant, owner, wrapped, v.Ref.OpKey, v.Ref.Token, sealed)
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "sealed result cannot be read: the redacted one is replayed", "op_key", v.Ref.OpKey, "token", v.Ref.Token, "error", err)
		return nil
	}
	v.Exact, v.Redacted = exact, false
	return nil
}

// Erase implements ledger.Seals.
func (s *Store) Erase(ctx context.Context, tenant, owner, by string) (out ledger.Erasure, err error) {
	by = s.cfg.Redactor.String(by)
	if tenant == "" || owner == "" || by == "" {
		return out, errors.New("erase: a tenant, an owner and who erases are required")
	}
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		out = ledger.Erasure{Tenant: tenant, Owner: owner}
		var n int
		err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM owner_keys WHERE tenant = $1 AND owner = $2)
			+ (SELECT count(*) FROM memory_owners WHERE tenant = $1 AND owner = $2)
			+ (SELECT count(*) FROM (SELECT 1 FROM runs WHERE tenant = $1 AND owner = $2 LIMIT 1) r)`, tenant, owner).Scan(&n)
		if err == nil && n == 0 {
			err = ledger.ErrNotFound
		}
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO owner_keys (tenant, owner, wrapped, created_at, destroyed_at, destroyed_by) VALUES ($1, $2, NULL, $3, $3, $4)
			ON CONFLICT (tenant, owner) DO UPDATE SET wrapped = NULL, destroyed_at = excluded.destroyed_at, destroyed_by = excluded.destroyed_by
			WHERE owner_keys.destroyed_at IS NULL`, tenant, owner, now, by)
		if err != nil {
			return err
		}
		if err := eraseMemory(ctx, tx, &out, now); err != nil {
			return err
		}
		if err := eraseSessions(ctx, tx, &out, now); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `
			SELECT k.destroyed_at, k.destroyed_by,
				(SELECT count(*) FROM effect_attempts a JOIN runs r ON r.id = a.run_id WHERE r.tenant = $1 AND r.owner = $2 AND a.sealed IS NOT NULL)
			FROM owner_keys k WHERE k.tenant = $1 AND k.owner = $2`, tenant, owner).Scan(&out.At, &out.By, &out.Sealed)
	})
	if err != nil {
		return ledger.Erasure{}, fmt.Errorf("erase owner %q of tenant %q: %w", owner, tenant, err)
	}
	return out, nil
}
