package ledgertest

import "testing"

// TestEffects checks the protocol of destructive calls: open returns a store
// that has been migrated, and its clock.
func TestEffects(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []conformance{
		{"a first begin executes and leaves a trace that outlives it", testBegun},
		{"a token asked again executes while it is its own", testSameToken},
		{"a token asked again after it ended does not execute", testSameTokenEnded},
		{"a lost lease begins nothing and commits nothing", testFencedBegin},
		{"a short lease begins nothing and commits the prefix", testShortLease},
		{"an ended run begins nothing", testEndedRun},
		{"pending effect facts stop further effects", testAuditBehind},
		{"too many pending effect facts stop everybody", testAuditMax},
		{"an opaque attempt is never made again", testOpaqueTakeover},
		{"started and in doubt never age", testNeverAges},
		{"a keyed attempt is made again within its time", testKeyedRepeat},
		{"a keyed attempt is not made again when the key may be forgotten", testKeyedExpired},
		{"a keyed attempt ends before the key may be forgotten", testKeyedDeadline},
		{"a fenced attempt is made again with the next fence", testFencedRepeat},
		{"a declaration that became weaker does not allow a repetition", testStricterRecovery},
		{"a cancelling run repeats nothing", testCancellingRepeatsNothing},
		{"the same call gets its own outcome", testOwnOutcome},
		{"another call gets the outcome as repeated, other arguments conflict", testReplayAndConflict},
		{"another run gets the outcome and where it came from", testReplayAcrossRuns},
		{"after not applied other arguments may begin", testNotAppliedBeginsAgain},
		{"another run waits for what is started or in doubt", testBusy},
		{"a child does not wait for its ancestor", testAncestor},
		{"an owner or tenant effect needs a window", testWindowMissing},
		{"what an intent must have", testMalformedIntents},
	} {
		t.Run("begin/"+c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
	for _, c := range []conformance{
		{"outcomes settle the effect and tell the run", testEndKinds},
		{"an end asked twice is told the same", testEndTwice},
		{"a late definite outcome follows an unclear one", testLateAfterUnclear},
		{"an unknown token is not found", testEndUnknown},
		{"without the lease the outcome counts and the prefix does not", testEndFenced},
		{"a prefix that is refused does not lose the outcome", testEndBadPrefix},
		{"late evidence settles what a takeover put in doubt", testLateApplied},
		{"a definite error after an unclear attempt is no failure", testErrorAfterUnclear},
		{"a late not applied waits for the other attempts", testLateNotApplied},
		{"an outcome against a resolution is kept and flagged", testContradicted},
		{"late evidence against not applied is never run again", testContradictedIsNotRunAgain},
		{"two applied attempts are a possible duplicate", testPossibleDuplicate},
		{"late evidence keeps the arguments of its attempt", testLateArguments},
		{"every call of the effect is told, once", testOtherCallsAreTold},
		{"an ended run is told by facts", testEndOfEndedRun},
		{"a large result is cut, not lost", testLargeResult},
		{"a result that fits is kept and replayed byte for byte", testResultThatFits},
	} {
		t.Run("end/"+c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
	testMoreEffects(t, open)
}

func testMoreEffects(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []conformance{
		{"resolve/only what is in doubt", testResolveStates},
		{"resolve/not applied and abandoned wait for quiescence", testResolveQuiescence},
		{"resolve/a live lease is not quiet", testResolveLiveLease},
		{"resolve/applied needs no quiet", testResolveAppliedAtOnce},
		{"resolve/force is recorded", testResolveForce},
		{"resolve/only the attempt that was looked at", testResolveSeen},
		{"resolve/a probe of a former holder is fenced", testResolveFencedProbe},
		{"resolve/what the model is told", testResolveTells},
		{"resolve/no half of a secret is left where a result is cut", testResolveCutSecret},
		{"resolve/abandoned is never begun again", testAbandoned},
		{"resolve/not applied clears the attempts before", testResolveClears},
		{"scopes/each scope with each recovery", testScopesAndRecoveries},
		{"scopes/strangers share nothing", testStrangers},
		{"windows/run from the outcome and make generations", testWindows},
		{"windows/for ever", testForever},
		{"windows/the same call always gets its own outcome", testOwnGeneration},
		{"waiters/are woken by each way of deciding", testWaiters},
		{"waiters/no wake-up is lost, whoever commits first", testNoLostWakeUp},
		{"race/of 32 first begins one executes", testOneOfMany},
		{"race/of many begins after a window one executes", testOneOfManyGenerations},
		{"list/effects and attempts", testListEffects},
		{"property/effects against a model", testEffectsProperty},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}
