//go:build daybook_faults

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/internal/testenv"
)

// scenario is how a run is brought to a point.
type scenario string

const (
	plain     scenario = "plain"     // nothing special: the run comes by
	takeover  scenario = "takeover"  // a worker was killed before, right after Begin's commit
	doubtful  scenario = "doubtful"  // a worker was killed before, right before the first byte
	handover  scenario = "handover"  // the worker is asked to end in the middle
	slow      scenario = "slow"      // the provider takes its time
	settling  scenario = "settling"  // the run has been cancelled, then its effect is resolved
	unmoved   scenario = "unmoved"   // killed by the provider before the money moves
	afterward scenario = "afterward" // killed by the provider after the money has moved
)

// visit is one way to be killed: at the nth hit of a point, in a scenario.
type visit struct {
	point string
	nth   int
	how   scenario
	kinds []string // recovery kinds; nil = all
}

func (v visit) String() string {
	s := fmt.Sprintf("%s@%d", v.point, v.nth)
	if v.how != plain {
		s += " " + string(v.how)
	}
	return s
}

var kinds = []string{opaque, keyed, fenced, probe}

// visits are the points and how to get there. A point in the code that is
// missing here fails the test.
func visits() []visit {
	vs := []visit{
		{"catchup.after_read", 1, takeover, nil},
		{"epoch.after_commit", 1, takeover, nil},
		{"exec.after_first_byte", 1, unmoved, nil},
		{"exec.after_first_byte", 1, afterward, nil},
		{"park.in_doubt", 1, doubtful, []string{opaque}},
		{"park.before_commit", 1, doubtful, []string{opaque}},
		{"park.after_commit", 1, doubtful, []string{opaque}},
		{"park.before_commit", 1, handover, nil},
		{"park.after_commit", 1, handover, nil},
		{"renew.before", 3, slow, nil},
		{"settle.after_record", 1, settling, nil},
		{"journal.before_send", 4, plain, []string{opaque, probe}},
		{"journal.after_send", 4, plain, []string{opaque, keyed}},
		{"journal.after_ack", 4, plain, []string{opaque, fenced}},
		{"model.after_reply", 2, plain, []string{opaque, probe}},
		{"projector.before_commit", 3, plain, []string{opaque, keyed}},
		{"projector.after_commit", 3, plain, []string{opaque, probe}},
		{"projector.before_ack", 3, plain, []string{opaque, keyed}},
	}
	for _, p := range []string{
		"claim.before_commit", "claim.after_commit", "journal.before_send", "journal.after_send", "journal.after_ack",
		"begin.before_send", "begin.after_commit", "exec.before_first_byte", "exec.after_reply", "end.before_send", "end.after_commit",
		"finish.after_record", "finish.after_commit", "model.after_reply", "projector.before_tx", "projector.before_commit",
		"projector.after_commit", "projector.before_ack", "feed.after_publish",
	} {
		vs = append(vs, visit{p, 1, plain, nil})
	}
	names := fault.Names()
	slices.SortStableFunc(vs, func(a, b visit) int { return slices.Index(names, a.point) - slices.Index(names, b.point) })
	return vs
}

// absent are registered points that no code hits yet, and why.
var absent = map[string]string{
	"exec.after_first_byte":  "only the provider knows that moment: it kills the worker while it holds the request",
	"redact.before":          "redaction is a pure step inside the recording of an event: a kill there is a kill before journal.before_send",
	"checkpoint.before_sign": "signed checkpoints are not built yet",
	"checkpoint.after_write": "signed checkpoints are not built yet",
}

// mayMiss are visits that need not happen, with the reason.
var mayMiss = map[string]string{
	"projector.before_commit@3": "one batch may hold what three could",
	"projector.after_commit@3":  "one batch may hold what three could",
	"projector.before_ack@3":    "one batch may hold what three could",
}

// TestEveryPointIsVisited compares the registered points, the code and the visits.
func TestEveryPointIsVisited(t *testing.T) {
	inCode := pointsInCode(t)
	planned := map[string]bool{}
	for _, v := range visits() {
		planned[v.point] = true
	}
	for _, point := range schedulePoints {
		planned[point] = true
	}
	for _, e := range errands {
		for _, p := range e.points {
			planned[p] = true
		}
	}
	for _, name := range fault.Names() {
		switch reason := absent[name]; {
		case inCode[name] && !planned[name]:
			t.Errorf("%s is in the code, but no visit kills there", name)
		case !inCode[name] && reason == "":
			t.Errorf("%s is registered, but nowhere in the code, and no reason is given", name)
		case inCode[name] && reason != "":
			t.Errorf("%s is in the code now: visit it", name)
		}
	}
}

func pointsInCode(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	call := regexp.MustCompile(`\.(?:Point|Err)\("([a-z]+\.[a-z_]+)"\)`)
	root := testenv.Root(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || path == filepath.Join(root, "internal", "fault") || path == filepath.Join(root, "e2e")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range call.FindAllSubmatch(b, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// place is a kind of site.
type place struct {
	name string
	open func(t testing.TB) *site
	// shared says that one site serves many cases: each has a tenant, a queue
	// and a provider of its own.
	shared bool
}

var places = []place{
	{"embedded", embeddedSite, false},
	{"postgres+nats", distributedSite, true},
}

// atOnce is how many cases run side by side.
const atOnce = 4

// TestFailpoints kills a worker at every point, for each kind of recovery, on
// both kinds of site, and lets another one go on: the run ends or waits for a
// person, the money has moved at most once, and the record is whole.
// langchain-ai/langgraph#8764
// RELIABILITY rows 1, 2, 4, 5, 7, 9, 10, 12.
func TestFailpoints(t *testing.T) {
	binary(t, "cmd/runner")
	binary(t, "e2e/worker")
	began := time.Now()
	only := regexp.MustCompile(os.Getenv("DAYBOOK_E2E_POINTS"))
	cells := &table{cells: map[string]string{}}
	for _, at := range places {
		t.Run(at.name, func(t *testing.T) {
			cases := make(chan *killing)
			var slots sync.WaitGroup
			for range atOnce {
				slots.Go(func() {
					var s *site
					for k := range cases {
						if s == nil && at.shared {
							s = at.open(t)
						}
						t.Run(k.name(), func(t *testing.T) {
							k.site = s
							if s == nil {
								k.site = at.open(t)
							}
							cells.set(at.name, k, "FAILED")
							cells.set(at.name, k, k.run(t))
						})
					}
					if s != nil {
						if err := s.whole(t, [16]byte{}); err != nil {
							t.Errorf("the ledger of all cases: %v", err)
						}
					}
				})
			}
			for _, v := range visits() {
				for _, kind := range kinds {
					k := &killing{visit: v, kind: kind}
					if (v.kinds == nil || slices.Contains(v.kinds, kind)) && only.MatchString(k.name()) {
						cases <- k
					}
				}
			}
			close(cases)
			slots.Wait()
		})
	}
	t.Logf("killed at every point; took %s\n%s", time.Since(began).Round(time.Second), cells)
	for name, reason := range absent {
		t.Logf("not in the code: %s: %s", name, reason)
	}
	// A busy machine does not keep up with leases of a second; too many cases of
	// that kind show nothing.
	if cells.kills == 0 || cells.lapsed > cells.kills/4 {
		t.Errorf("void: %d kills, and in %d cases a lease ran out under a live worker", cells.kills, cells.lapsed)
	}
}

// table is what came of the cases.
type table struct {
	mu    sync.Mutex
	cells map[string]string
	rows  []string

	kills, lapsed int
}

func (tb *table) set(place string, k *killing, cell string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if !slices.Contains(tb.rows, k.visit.String()) {
		tb.rows = append(tb.rows, k.visit.String())
	}
	if k.hit {
		tb.kills++
	}
	if k.lapsed {
		tb.lapsed++
	}
	tb.cells[place+"\x00"+k.visit.String()+"\x00"+k.kind] = cell
}

// String is a table of the state of the run and the provider's effects.
func (tb *table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "killed at\t")
	for _, at := range places {
		for _, kind := range kinds {
			fmt.Fprintf(w, "%s %s\t", at.name[:1], kind)
		}
	}
	fmt.Fprintln(w)
	for _, row := range tb.rows {
		fmt.Fprintf(w, "%s\t", row)
		for _, at := range places {
			for _, kind := range kinds {
				cell := tb.cells[at.name+"\x00"+row+"\x00"+kind]
				if cell == "" {
					cell = "."
				}
				fmt.Fprintf(w, "%s\t", cell)
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "e = embedded, p = PostgreSQL + NATS processes; a cell is the state of the run and the provider's effects; * a lease ran out under a live worker too; %d kills, %d such cases", tb.kills, tb.lapsed)
	return b.String()
}

var errDead = errStop{errors.New("the worker has died")}
