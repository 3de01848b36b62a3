package ui

// The templates become Go that is checked in: whoever builds needs no other tool,
// and make check fails if the two differ.
//
//go:generate go tool templ generate -lazy=false -include-version=true
