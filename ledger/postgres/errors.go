package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

func unavailable(err error) error {
	if err == nil || errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// serverError reports whether the server itself answered with an error.
func serverError(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe)
}

// conflict reports whether the transaction lost against another one and may
// simply run again.
func conflict(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01") && !errors.Is(err, ledger.ErrUnavailable)
}

// translate marks the errors that mean the database could not be asked. closed
// says that the connection did not survive.
func translate(err error, closed bool) error {
	if err == nil || errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return sqlstore.ErrNoRows
	}
	var pe *pgconn.PgError
	var ce *pgconn.ConnectError
	switch {
	case errors.As(err, &pe) && pe.Code == diskFull:
		return unavailable(fmt.Errorf("%w: %w", ledger.ErrDatabaseFull, err))
	case closed || errors.As(err, &ce):
		return unavailable(err)
	case errors.As(err, &pe) && away(pe.Code):
		return unavailable(err)
	}
	return err
}

// diskFull is what PostgreSQL says when it finds no room for rows, and with its
// last breath when it finds none for its log.
const diskFull = "53100"

// away reports whether a SQLSTATE is about the server and not the statement:
// connection trouble, no resources, shutting down or starting, a standby, a
// statement cut short.
func away(code string) bool {
	switch code[:min(2, len(code))] {
	case "08", "53", "58", "XX":
		return true
	}
	switch code {
	case "57014", "57P01", "57P02", "57P03", "57P05", "25006", "25P03", "55P03":
		return true
	}
	return false
}
