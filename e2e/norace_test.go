//go:build daybook_faults && !race

package e2e

// raceFlags build the binaries under test as the test itself was built.
const raceFlags = "-race=false"
