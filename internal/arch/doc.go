// Package arch holds the rules of this code base as tests: which package may
// import which, where each outside module may be used, how long a file may be
// and what is not written here at all. rules_test.go is the place to change one;
// a new edge between packages needs a decision record in docs/decisions.
package arch
