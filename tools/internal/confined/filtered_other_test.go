//go:build unix && !(linux && amd64)

package confined_test

// fork is nil where only limits hold.
var fork func() error
