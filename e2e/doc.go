//go:build daybook_faults

// Package e2e tests the promise with real processes: workers and servers that
// are killed, stopped and taken away, and a provider of its own that keeps an
// fsynced log of what really happened. It holds nothing but tests.
package e2e
