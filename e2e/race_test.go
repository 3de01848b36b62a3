//go:build daybook_faults && race

package e2e

// raceFlags build the binaries under test as the test itself was built.
// The detector has nothing to find in SQLite, C translated to Go, and makes it
// four times as slow.
func raceFlags() []string {
	return []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false"}
}
