package main

import (
	"time"

	"github.com/daybookhq/daybook/internal/bug"
)

// A layer is some tests of one package; docs/testing.md says what each proves.
type layer struct {
	name, pkg, tests string
	args             []string
	limit            time.Duration // if it takes longer than others, bug or no bug
}

// Property tests shrink what they find; here it is enough that they find it.
var quick = []string{"-rapid.shrinktime=1s", "-rapid.nofailfile"}

var layers = []layer{
	{name: "property", pkg: "ledger/sqlite", tests: "^TestLedger$/^effects$/^property$", args: quick},
	{name: "model", pkg: "ledger/sqlite", tests: "^TestLedger$/^runs_against_a_model$", args: quick},
	{name: "linear", pkg: "ledger/sqlite", tests: "^TestLedger$/^linear$"},
	{name: "effects", pkg: "ledger/sqlite", tests: "^TestLedger$/^effects$/^(begin|end|resolve|waiters|windows|race)$"},
	{name: "ledger", pkg: "ledger/sqlite", tests: "^TestLedger$/^(runs|claims|takeover|barriers)$"},
	{name: "gates", pkg: "ledger/sqlite", tests: "^TestLedger$/^(approvals|switches|gates|budgets)$"},
	{name: "projection", pkg: "ledger/sqlite", tests: "^TestProjection$", args: quick},
	{name: "projector", pkg: "ledger", tests: "^TestProjector"},
	{name: "tools", pkg: "tools", tests: "."},
	{name: "redact", pkg: "redact", tests: "^Test", args: quick},
	{name: "runtime", pkg: "runtime", tests: "^Test(Unclear|Keyed|Probe|NoDestructive|Zombie|LostAnswers|RunWaits|SameIdentity|TaintGoesDown)"},
	{name: "simulation", pkg: "runtime/simulation", tests: "^TestSimulation$", args: []string{"-seeds=60"}, limit: 10 * time.Minute},
	{name: "chaos", pkg: "runtime", tests: "^TestChaosOfTheLedger$/^world_0$"},
}

// findable: bug → the layers that must find it, the quickest first. What else
// finds it is found with -all.
var findable = map[bug.Bug][]string{
	bug.RereadDecides:         {"effects", "property", "linear"},
	bug.ReexecStarted:         {"effects", "property", "linear"},
	bug.ExpireStarted:         {"effects", "property"},
	bug.BeginNotDurable:       {"effects", "property"},
	bug.ExecuteUnavailable:    {"runtime"},
	bug.NoBegin:               {"tools", "runtime"},
	bug.RecordFirst:           {"tools", "runtime"},
	bug.TimeoutIsFailure:      {"tools"},
	bug.EarlyProbe:            {"effects", "property"},
	bug.DefiniteAfterUnclear:  {"effects", "property", "linear"},
	bug.KeyedForever:          {"effects", "property"},
	bug.TokenBlind:            {"effects", "property", "linear"},
	bug.ConflictReplays:       {"effects", "property"},
	bug.EndNeedsLease:         {"effects", "property"},
	bug.WaitersNotWoken:       {"effects"},
	bug.ApprovalNotConsumed:   {"gates"},
	bug.ApprovalNoDigest:      {"gates"},
	bug.BudgetNotReserved:     {"gates"},
	bug.BudgetOfChildAlone:    {"gates"},
	bug.BudgetGrantNotDrawn:   {"gates"},
	bug.BudgetGrantKept:       {"gates"},
	bug.TaintLaundered:        {"runtime"},
	bug.SwitchIgnored:         {"gates"},
	bug.NoFence:               {"effects", "ledger", "linear"},
	bug.HeartbeatIgnoresEpoch: {"ledger", "model"},
	bug.NoEpochBase:           {"projection"},
	bug.AckBeforeCommit:       {"projector"},
	bug.FactsTrusted:          {"ledger", "model"},
	bug.DuplicateKey:          {"ledger"},
	bug.CostLost:              {"ledger"},
	bug.RedactorSkipsKeys:     {"redact"},
	bug.VerifyIgnoresTail:     {"projection"},
}

// foundFast is what CI runs: of each part of the test programme that is quick.
var foundFast = []bug.Bug{
	bug.NoBegin, bug.RecordFirst, bug.TimeoutIsFailure, bug.BeginNotDurable, bug.EarlyProbe,
	bug.ApprovalNotConsumed, bug.BudgetNotReserved, bug.AckBeforeCommit,
}
