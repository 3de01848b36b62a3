package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"sync"

	sqlitedriver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/daybookhq/daybook/ledger"
)

var (
	lockClause = regexp.MustCompile(`(?i)\s+FOR\s+(NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)\b(\s+OF\s+\w+(\s*,\s*\w+)*)?(\s+SKIP\s+LOCKED|\s+NOWAIT)?`)
	lockTable  = regexp.MustCompile(`(?i)^\s*LOCK\s+TABLE\s.*`)
	parameter  = regexp.MustCompile(`\$(\d+)`)
	rewritten  sync.Map // statement for PostgreSQL → for SQLite; statements are constants, so it stays small
)

// rewrite turns a statement written for PostgreSQL into SQLite's: parameters
// are ?n, and lock clauses and table locks fall away since there is one writer.
func rewrite(q string) string {
	if s, ok := rewritten.Load(q); ok {
		return s.(string)
	}
	s := lockTable.ReplaceAllString(lockClause.ReplaceAllString(q, ""), `SELECT 1`)
	s = parameter.ReplaceAllString(s, `?$1`)
	rewritten.Store(q, s)
	return s
}

// errBad makes database/sql give up a connection.
var errBad = driver.ErrBadConn

// translate marks the errors that mean the database could not be asked.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, driver.ErrBadConn) {
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	var e *sqlitedriver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff { // without the extended part
	case codes.SQLITE_FULL:
		return fmt.Errorf("%w: %w: %w", ledger.ErrUnavailable, ledger.ErrDatabaseFull, err)
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_IOERR, codes.SQLITE_CANTOPEN, codes.SQLITE_NOMEM, codes.SQLITE_PROTOCOL:
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	return err
}
