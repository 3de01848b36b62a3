package main

import (
	"os"

	"github.com/daybookhq/daybook/ledger"
)

// readSealKey reads the key file of --seal-key; without one nothing is sealed.
func readSealKey(file string) (*ledger.Sealer, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--seal-key: %w", err)
	}
	s, err := ledger.ParseSealKey(string(b))
	if err != nil {
		return nil, usagef("--seal-key %s: %w", file, err)
	}
	return s, nil
}
