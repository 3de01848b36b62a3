//go:build unix

package main

import (
	"context"
	_ "embed"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/tools"
)

//go:embed change.diff
var diff string

// repository stands in for where the team merges: a file with a line for each thing
// that was done. Like many real ones it remembers keys, and does nothing twice for one.
type repository struct {
	file string
	die  bool // as soon as a merge is done, before anybody has heard of it

	mu sync.Mutex
}

type about struct {
	Change string `json:"change" jsonschema:"which change"`
}

func (r *repository) act(verb, change, key string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done, err := os.ReadFile(r.file)
	if err != nil && !os.IsNotExist(err) {
		return "", tools.NoEffect(err)
	}
	if strings.Contains(string(done), key) {
		return verb + " " + change + ": done before under this key", nil
	}
	f, err := os.OpenFile(r.file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", tools.NoEffect(err)
	}
	defer f.Close()
	if _, err := f.WriteString(verb + " " + change + " " + key + "\n"); err != nil {
		return "", err
	}
	if r.die {
		die()
	}
	return verb + " " + change + ": done", nil
}

// die ends this process as a crash or a lost machine would.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (r *repository) tools() (*tools.Registry, error) {
	def := func(name, what string, e tools.Effect) tools.Definition {
		return tools.Definition{Name: name, Description: what, Effect: e, Trust: tools.Own}
	}
	read, err := tools.New(def("read_change", "Reads a change.", tools.Readonly), func(context.Context, *tools.Invocation, about) (string, error) { return diff, nil })
	if err != nil {
		return nil, err
	}
	rate, err := tools.New(def("error_rate", "Says how many requests have failed since a merge.", tools.Readonly),
		func(context.Context, *tools.Invocation, struct{}) (string, error) {
			return "2 of 1,000 requests; 9 before", nil
		})
	if err != nil {
		return nil, err
	}
	all := []tools.Tool{read, rate}
	for _, verb := range []string{"merge", "revert"} {
		d := def(verb, "Changes what runs in production.", tools.Destructive)
		d.Recovery = tools.Keyed(24 * time.Hour)
		t, err := tools.New(d, func(_ context.Context, in *tools.Invocation, a about) (string, error) {
			return r.act(verb, a.Change, in.OpKey)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return tools.NewRegistry(all...)
}
