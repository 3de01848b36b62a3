// Package shelf has no code, only tests that take every tool on the shelf at
// once: what each does with bad input, and what each builtin depends on. A
// package that makes tools and is not in their table fails them.
package shelf
