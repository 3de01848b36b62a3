package postgres

import (
	"testing"

	"github.com/daybookhq/daybook/ledger/ledgertest"
)

func TestProjection(t *testing.T) { ledgertest.TestProjection(t, harness) }
