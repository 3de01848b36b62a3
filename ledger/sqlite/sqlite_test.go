package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

func openTest(t *testing.T) *database {
	t.Helper()
	d, err := open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "a b?c#d%e.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDB(t *testing.T) {
	ledgertest.TestDB(t, func(t *testing.T) sqlstore.DB { return openTest(t) })
}

func TestFileIsPrivate(t *testing.T) {
	d := openTest(t)
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := d.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenant_keys (tenant, key, created_at) VALUES ($1, $2, 0)`, "t", make([]byte, 32))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		fi, err := os.Stat(d.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if m := fi.Mode().Perm(); m != 0o600 {
			t.Errorf("mode of %s is %o, want 600", filepath.Base(d.path+suffix), m)
		}
	}
}

func TestPragmas(t *testing.T) {
	d := openTest(t)
	want := map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "10000"}
	for name, w := range want {
		err := d.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			var got any
			if err := tx.QueryRow(ctx, "PRAGMA "+name).Scan(&got); err != nil {
				return err
			}
			if s := fmt.Sprint(got); s != w {
				t.Errorf("%s = %s, want %s", name, s, w)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteAfterClose(t *testing.T) {
	d := openTest(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	err := d.Write(t.Context(), func(context.Context, sqlstore.Tx) error { return nil })
	if !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("Write after Close: %v", err)
	}
}

func TestRewrite(t *testing.T) {
	tests := []struct{ in, want string }{
		{"SELECT a FROM b WHERE c = $1 AND d = $12", "SELECT a FROM b WHERE c = ?1 AND d = ?12"},
		{"SELECT a FROM b FOR NO KEY UPDATE", "SELECT a FROM b"},
		{"SELECT a FROM b\n\tFOR NO KEY UPDATE SKIP LOCKED", "SELECT a FROM b"},
		{"SELECT a FROM b x FOR UPDATE OF x SKIP LOCKED", "SELECT a FROM b x"},
		{"SELECT a FROM (SELECT c FROM d for share) e", "SELECT a FROM (SELECT c FROM d) e"},
		{"UPDATE a SET for_update = 1", "UPDATE a SET for_update = 1"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			if got := rewrite(tt.in); got != tt.want {
				t.Errorf("rewrite = %q, want %q", got, tt.want)
			}
		})
	}
}
