// Package modelflag gives an example the flags by which it runs on a real model
// instead of its script: --model NAME --model-config FILE, and --secret NAME=FILE
// for the keys that the file names. Without them it needs neither network nor key.
package modelflag

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/providers"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

// Flags are what was given. They can be handed to another process as JSON: no
// key is in them. The zero value is the script.
type Flags struct {
	Model   string   `json:"model,omitempty"`
	Config  string   `json:"model_config,omitempty"`
	Secrets []string `json:"secrets,omitempty"` // NAME=FILE
}

// Add adds the flags to an example's own.
func (f *Flags) Add(fs *flag.FlagSet) {
	fs.StringVar(&f.Model, "model", "", "a model of --model-config instead of the script")
	fs.StringVar(&f.Config, "model-config", "", "file that says which model providers there are, see docs/models.md")
	fs.Func("secret", "key that the file names, as NAME=FILE; repeatable", func(s string) error {
		f.Secrets = append(f.Secrets, s)
		return nil
	})
}

// Choice is the model that an example works with.
type Choice struct {
	// Secrets are for system.Options: a key that is not registered is not redacted.
	Secrets map[string]string

	name   string
	models map[string]model.Model
}

// Open reads the files that the flags name. No call is made.
func (f Flags) Open() (Choice, error) {
	c := Choice{name: f.Model, models: map[string]model.Model{}}
	switch {
	case f.Model == "" && f.Config == "":
		return Choice{}, nil
	case f.Config == "":
		return c, fmt.Errorf("--model %s: say with --model-config FILE who serves it (docs/models.md has one to copy)", f.Model)
	}
	var err error
	if c.Secrets, err = system.ReadSecrets(f.Secrets); err != nil {
		return c, err
	}
	if err := providers.Add(c.models, f.Config, c.Secrets); err != nil {
		return c, fmt.Errorf("--model-config: %w", err)
	}
	if _, ok := c.models[f.Model]; !ok {
		return c, fmt.Errorf("--model %q: want one that %s has: %s", f.Model, f.Config, strings.Join(slices.Sorted(maps.Keys(c.models)), ", "))
	}
	return c, nil
}

// Use makes every agent of a worker use the model that was chosen, if one was.
// What the configuration has already stays: agents may name it in other places.
func (c Choice) Use(cfg *runtime.Config) {
	if c.name == "" {
		return
	}
	if cfg.Models == nil {
		cfg.Models = map[string]model.Model{}
	}
	maps.Copy(cfg.Models, c.models)
	for _, a := range cfg.Agents {
		a.Model = c.name
	}
}

// Key is the client key of a submission: with another model it is another run,
// or the one that the script has finished would be handed back.
func (c Choice) Key(key string) string {
	if c.name == "" {
		return key
	}
	return key + "-" + c.name
}
