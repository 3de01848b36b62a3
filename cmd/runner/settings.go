package main

import (
	"os"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/runtime/system"
)

const defaultGrace = 30 * time.Second

// variable is the environment variable that a flag's help names at its end.
var variable = regexp.MustCompile(`\((DAYBOOK_[A-Z_]+)\)$`)

// fromEnvironment sets each flag that was not given to its variable, by the
// flag's own parser. Defaults stay what help shows: a URL in the environment
// may hold a password. A flag overrules its variable, also a malformed one, and
// where the system is: a flag for one place overrules the variables of the other.
func fromEnvironment(flags *pflag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	other := map[string]string{"dir": "postgres", "postgres": "dir", "nats": "dir"}
	if given["dir"] && !given["postgres"] && !given["nats"] {
		given["nats"] = true // it is of the other place
	}
	var fault error
	flags.VisitAll(func(f *pflag.Flag) {
		m := variable.FindStringSubmatch(f.Usage)
		if m == nil || given[f.Name] || given[other[f.Name]] || fault != nil {
			return
		}
		v, ok := os.LookupEnv(m[1])
		if !ok || v == "" {
			return
		}
		if err := f.Value.Set(v); err != nil {
			fault = usagef("%s %q: want %s: %w", m[1], v, wants[f.Value.Type()], err)
		}
	})
	return fault
}

// wants says what a kind of flag is written like.
var wants = map[string]string{
	"duration":    "a duration such as 30s or 2m",
	"stringSlice": "a list such as a,b",
}

// name is what a person calls a setting: its flag, or the variable it came from.
func (a *app) name(flag string) string {
	f := a.flags.Lookup(flag)
	if m := variable.FindStringSubmatch(f.Usage); m != nil && !f.Changed && os.Getenv(m[1]) != "" {
		return m[1]
	}
	return "--" + flag
}

// positive refuses durations that cannot be meant.
func (a *app) positive(flags map[string]time.Duration) error {
	for flag, d := range flags {
		if d <= 0 {
			return usagef("%s %s: want more than 0, such as 30s", a.name(flag), d)
		}
	}
	return nil
}

// where checks the settings that say where the system is.
func (a *app) where(needNATS bool) error {
	o := &a.opts
	switch {
	case o.Dir == "" && o.Postgres == "":
		return usageError{system.ErrOptions}
	case o.Dir != "" && o.Postgres != "":
		return usagef("%s and %s exclude each other: an embedded directory has its own database", a.name("dir"), a.name("postgres"))
	case o.Dir != "" && o.NATS != "":
		return usagef("%s and %s exclude each other: an embedded directory has its own NATS server", a.name("dir"), a.name("nats"))
	case o.Postgres != "" && o.NATS == "" && needNATS:
		return usagef("%s needs --nats URL (DAYBOOK_NATS_URL): workers write their journal to NATS JetStream", a.name("postgres"))
	case o.Sync != "" && o.Sync != "always" && o.Sync != "interval":
		return usagef("%s %q: want always or interval", a.name("nats-sync"), o.Sync)
	}
	return a.positive(map[string]time.Duration{"grace": o.Grace})
}
