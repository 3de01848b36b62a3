package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/providers"
)

const (
	modelConfigUsage = "file that says which model providers there are, docs/models.md (DAYBOOK_MODEL_CONFIG)"
	modelUsage       = "model that every agent uses, whatever its file says: a NAME of --model-config, or scripted/NAME of --policy (DAYBOOK_MODEL)"
)

// configuredModels adds the models of --model-config, and their prices.
func (w *workerFlags) configuredModels(models map[string]model.Model) error {
	var err error
	if w.table, err = w.priceTable(); err != nil || w.modelConfig == "" {
		return err
	}
	set := providers.Set{Models: models, Prices: w.table}
	if err := set.Read(w.modelConfig, w.secrets); err != nil {
		return usagef("--model-config: %w", err)
	}
	w.table, w.roles, w.modelLimits = set.Prices, set.Roles, set.Limits
	return nil
}

// useModel puts --model in the place of what an agent's file says.
func (w *workerFlags) useModel(as []*agents.Agent) {
	for _, a := range as {
		if w.model != "" {
			a.Model, a.Fallbacks = w.model, nil
		}
	}
}

// checkModel refuses a --model that there is not.
func (w *workerFlags) checkModel(models map[string]model.Model) error {
	if _, ok := models[w.model]; ok || w.model == "" || w.roles[w.model] != nil {
		return nil
	}
	return usagef("--model: there is no model %q; there are %s; others come with --model-config FILE (docs/models.md)",
		w.model, strings.Join(slices.Sorted(maps.Keys(models)), ", "))
}
