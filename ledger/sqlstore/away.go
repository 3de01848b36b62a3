package sqlstore

import (
	"fmt"

	"github.com/daybookhq/daybook/ledger"
)

// away is what a failpoint's error means to whoever asked: the database did not
// answer. Before a commit nothing was done; after it all was.
func away(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}
