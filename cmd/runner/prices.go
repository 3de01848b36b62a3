package main

import (
	"os"
	"path/filepath"

	"github.com/daybookhq/daybook/model"
)

// priceTable is the one that ships with the files of --prices put upon it.
func (w *workerFlags) priceTable() (*model.Prices, error) {
	p := model.DefaultPrices()
	for _, name := range w.prices {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, usagef("--prices: %w", err)
		}
		if p, err = p.With(filepath.Base(name), b); err != nil {
			return nil, usagef("--prices: %w", err)
		}
	}
	return p, nil
}
