package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
)

// agent is what the runs of one agent have in common.
type agent struct {
	name, queue, loop string
	models            []int // of models
	tools             []tool
	share             int // of all runs
}

type tool struct {
	name string
	cost events.PicoUSD // 0 = it never says what it costs
}

// priced is a model with what a token costs, in pico-USD; 0 = nobody knows.
type priced struct {
	name          string
	input, output events.PicoUSD
}

var models = []priced{
	{"acme/large-4", 3_000_000, 15_000_000},
	{"acme/small-4", 250_000, 1_250_000},
	{"globex/reason-2", 1_100_000, 4_400_000},
	{"globex/fast-2", 150_000, 600_000},
	{"own/tuned-7b", 0, 0},
}

var agents = []agent{
	{"refunds", "default", singleshot.Name, []int{0, 1}, []tool{{"find_order", 0}, {"check_refund", 0}, {"read_policy", 0}, {"write_mail", 120_000_000}}, 35},
	{"triage", "default", singleshot.Name, []int{1, 3}, []tool{{"read_ticket", 0}, {"search", 5_000_000_000}, {"label_ticket", 0}}, 30},
	{"research", "batch", singleshot.Name, []int{0, 2}, []tool{{"search", 5_000_000_000}, {"fetch_page", 0}, {"read_paper", 800_000_000}, {"take_note", 0}}, 15},
	{"reports", "batch", revise.Name, []int{2, 0}, []tool{{"query_sales", 0}, {"calculate", 0}, {"draw_chart", 40_000_000}}, 10},
	{"review", "slow", singleshot.Name, []int{0}, []tool{{"list_files", 0}, {"read_file", 0}, {"run_tests", 300_000_000}}, 7},
	{"sync", "slow", singleshot.Name, []int{4}, []tool{{"read_contact", 0}, {"read_invoice", 0}}, 3},
}

// Tenants and owners: a few of them have most of the runs.
const (
	tenants         = 12
	ownersPerTenant = 150
)

// kind is what becomes of a run.
type kind int

const (
	plain     kind = iota
	refund         // a destructive call that is applied
	artifact       // ends with an artifact, often after a revision
	dies           // fails for good
	retried        // fails and is tried again
	cancelled      // on somebody's request
	doubtful       // a destructive call of which nobody can know
	approved       // a destructive call that a person is asked about
	waits          // parked until the model's provider can be asked again
	signalled      // parked for a signal that never comes
	parent         // starts a child and waits for it
	forked         // ends, and is forked
	abandoned      // its worker dies: it is taken over
)

// mix is how many of a thousand runs are of a kind; the rest is plain.
var mix = []struct {
	kind kind
	n    int
}{
	{refund, 140},
	{artifact, 50},
	{dies, 20},
	{retried, 15},
	{cancelled, 10},
	{doubtful, 8},
	{approved, 25},
	{waits, 10},
	{signalled, 1},
	{parent, 15},
	{forked, 4},
	{abandoned, 10},
}

func kindOf(r *rand.Rand) kind {
	n := r.IntN(1000)
	for _, m := range mix {
		if n -= m.n; n < 0 {
			return m.kind
		}
	}
	return plain
}

// skewed is below n; small numbers come up more often.
func skewed(r *rand.Rand, n int) int {
	f := r.Float64()
	return int(f * f * float64(n))
}

func pickAgent(r *rand.Rand) *agent {
	n := r.IntN(100)
	for i := range agents {
		if n -= agents[i].share; n < 0 {
			return &agents[i]
		}
	}
	return &agents[0]
}

const said = "the order was paid in full and shipped on time but the customer says that one of the parcels never arrived at the door so the carrier was asked " +
	"and the answer is that it was left with a neighbour whose name nobody wrote down which is why a second look at the account is needed before anything goes out "

// prose is about n bytes of text that differs from call to call.
func prose(r *rand.Rand, n int) string {
	n = n/2 + r.IntN(n)
	at := r.IntN(len(said))
	return fmt.Sprint("case ", r.IntN(100_000), ": ", strings.Repeat(said, 2+n/len(said))[at:])[:n]
}
