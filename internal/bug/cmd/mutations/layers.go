package main

import "github.com/daybookhq/daybook/internal/bug"

// A layer is some tests of one package; docs/testing.md says what each proves.
type layer struct {
	name, pkg, tests string
	args             []string
}

// Property tests shrink what they find; here it is enough that they find it.
var quick = []string{"-rapid.shrinktime=1s", "-rapid.nofailfile"}

var layers = []layer{
	{"property", "ledger/sqlite", "^TestLedger$/^effects$/^property$", quick},
	{"model", "ledger/sqlite", "^TestLedger$/^runs_against_a_model$", quick},
	{"linear", "ledger/sqlite", "^TestLedger$/^linear$", nil},
	{"effects", "ledger/sqlite", "^TestLedger$/^effects$/^(begin|end|resolve|waiters|windows|race)$", nil},
	{"ledger", "ledger/sqlite", "^TestLedger$/^(runs|claims|takeover|barriers)$", nil},
	{"gates", "ledger/sqlite", "^TestLedger$/^(approvals|switches|gates|budgets)$", nil},
	{"projection", "ledger/sqlite", "^TestProjection$", quick},
	{"projector", "ledger", "^TestProjector", nil},
	{"tools", "tools", ".", nil},
	{"redact", "redact", "^Test", quick},
	{"runtime", "runtime", "^Test(Unclear|Keyed|Probe|NoDestructive|Zombie|LostAnswers|RunWaits|SameIdentity)", nil},
	{"chaos", "runtime", "^TestChaosOfTheLedger$/^world_0$", nil},
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
