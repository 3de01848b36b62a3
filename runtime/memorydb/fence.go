package memorydb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/memory"
)

// statement collects the arguments of one statement; the first is the tenant.
type statement struct{ args []any }

func (f fence) statement() *statement { return &statement{[]any{f.tenant}} }

// add returns the number of the parameter that has v.
func (s *statement) add(v any) int {
	s.args = append(s.args, v)
	return len(s.args)
}

// param is add, as SQL.
func (s *statement) param(v any) string { return "$" + strconv.Itoa(s.add(v)) }

// fence is what a request may see: the notes with one of these gates.
type fence struct {
	tenant string
	gates  []string // nil = the whole tenant; never empty
}

// maxProbes is how often an index is asked, for one of so many contexts or words
// behind one of so many gates. Beyond it is cheaper to read all that the tenant
// has of these, and look at the gate of each.
const maxProbes = 10_000

// within is the SQL for "the row's gate is one of the fence's". The statement
// asks for n contexts or words beside it.
func (f fence) within(tx sqlstore.Tx, s *statement, column string, n int) string {
	if f.gates == nil {
		return ""
	}
	if len(f.gates) > 1 && len(f.gates)*n > maxProbes {
		column += " || ''" // which no index has
	}
	return " AND " + tx.In(column, s.add(f.gates))
}

// distinct is what to count where a note may stand more than once.
func (f fence) distinct(column string) string {
	if len(f.gates) == 1 {
		return "count(*)"
	}
	return "count(DISTINCT " + column + ")"
}

// open makes the fence of a scope: its root, and the contexts from which links
// of the host's notes lead to it.
func open(ctx context.Context, tx sqlstore.Tx, scope memory.Scope) (fence, error) {
	f := fence{tenant: scope.Tenant}
	if scope.Root == "" {
		return f, nil
	}
	seen, err := follow(ctx, []string{scope.Root}, func(ctx context.Context, from []string) ([]string, error) {
		s := f.statement()
		return sources(ctx, tx, s, `tenant = $1 AND root = '' AND kind = 'extends' AND `+tx.In("to_context", s.add(from)))
	}, -1)
	if err != nil {
		return f, fmt.Errorf("follow the host's links to %q: %w", scope.Root, err)
	}
	f.gates = seen
	return f, nil
}

// follow returns what is at most depth links from where it starts, in the order
// in which it is reached; a negative depth is none. next returns what is one
// link further.
func follow(ctx context.Context, from []string, next func(context.Context, []string) ([]string, error), depth int) ([]string, error) {
	var reached []string
	seen := map[string]bool{}
	keep := func(ids []string) (fresh []string) {
		for _, id := range ids {
			if !seen[id] {
				seen[id] = true
				fresh = append(fresh, id)
			}
		}
		reached = append(reached, fresh...)
		return fresh
	}
	for from = keep(from); len(from) > 0 && depth != 0; depth-- {
		ids, err := next(ctx, from)
		if err != nil {
			return nil, err
		}
		if from = keep(ids); len(reached) > maxReach {
			return nil, fmt.Errorf("more than %d contexts hang together: ask for a part of them", maxReach)
		}
	}
	return reached, nil
}

// sources are the contexts from which links lead that are as where says, each
// once: many notes may have the same link. It reads one more than [follow]
// allows, which then says so. DISTINCT of the bare column would have SQLite read
// the tenant's whole table in the order of its key.
func sources(ctx context.Context, tx sqlstore.Tx, s *statement, where string) ([]string, error) {
	return texts(ctx, tx, `SELECT DISTINCT from_context || '' FROM memory_links WHERE `+where+` LIMIT `+s.param(maxReach+1), s)
}

// texts runs a query for one column of text.
func texts(ctx context.Context, tx sqlstore.Tx, q string, s *statement) (all []string, err error) {
	rows, err := tx.Query(ctx, q, s.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t string
		if err := rows.Scan(&t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// known are the ids that can be in the database at all.
func known(ids []string) []string {
	kept := []string{}
	for _, id := range ids {
		if storable(id) && len(id) <= maxID {
			kept = append(kept, id)
		}
	}
	return kept
}
