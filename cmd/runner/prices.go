package main

import "github.com/daybookhq/daybook/model"

// priceTable is the one that ships with the files of --prices put upon it.
func (w *workerFlags) priceTable() (*model.Prices, error) {
	p, err := model.DefaultPricesWith(w.prices...)
	if err != nil {
		return nil, usagef("--prices: %w", err)
	}
	return p, nil
}
