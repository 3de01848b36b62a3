// Package script is the loop for work that is written down as ordinary Go: one
// function that asks a model, calls tools, waits, and goes on, from top to bottom.
//
//	refunds := script.New(script.Config{Name: "refunds", Version: 1}, func(s *script.Script, in Claim) (any, error) {
//		answer, err := s.Model(script.Ask{Text: "Is this claim justified? " + in.Text})
//		if err != nil || answer.Text != "yes" {
//			return "refused", err
//		}
//		s.Sleep(24 * time.Hour)
//		return "refunded", s.Tool("refund", map[string]any{"charge": in.Charge}).Err()
//	})
//
// What the function asks for is recorded (step_planned) before any of it is done, and
// so is what came of it. A worker that takes the run over runs the function
// again from its top: each step that is recorded returns at once what it returned
// before, and the function stands where it stood. A call of a tool is the same call
// with the same guarantees as one that a model asks for.
//
// # Rules
//
// The function must ask for the same each time it is run over the same record.
//
//   - Decide by what the steps return and by the input, by nothing else: no files,
//     network, environment, clock or dice. [Script.Now], [Script.Rand] and
//     [Script.NewID] are the same each time; a map must not be ranged over to make steps.
//   - No goroutines: [Script.Tools] does several things side by side. The function
//     runs alone, must not wait for anything outside of its Script, and must not keep
//     the Script. Deferred functions run when a worker lets go of a run half-way, too:
//     they must not act.
//   - A panic fails the run, not the worker.
//
// # Changing the code under running runs
//
// Whatever the code asks for is compared with what is recorded. If they differ
// nothing is done: the run is parked, says what was recorded and what the code now
// asks for, and goes on as soon as a worker has code that fits. New code that is to
// go on with old runs says where it differs:
//
//	if s.Patched("ask twice") {
//		// for runs that get here with this code, or one newer
//	}
//
// Raise Config.Version with each change: a worker with older code leaves the run alone.
package script
