package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/sandbox"
)

// CodeExecConfig is how [CodeExec] runs programs.
type CodeExecConfig struct {
	// Language is told to the model and to the sandbox, as in "javascript". Empty
	// leaves both to guess.
	Language string
	// Timeout bounds one program. Zero means 10 seconds.
	Timeout time.Duration
	// Effect is what a program can do to the world. Unset means not known: each
	// program runs at most once, and one that a crash cut off waits for a person.
	// A host that knows its sandbox to be closed says [tools.Readonly].
	Effect tools.Effect
}

// ran is what code_exec returns.
type ran struct {
	OK     bool   `json:"ok"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr,omitempty"`

	cost *int64
}

// CodeExec returns code_exec, which runs a short program in s and returns what
// it printed. A program that fails is a result with ok false and its stderr, so that
// the model can mend it. It panics without a sandbox: there is no default.
func CodeExec(s sandbox.Sandbox, cfg CodeExecConfig) tools.Tool {
	if s == nil {
		panic("builtin.CodeExec: there is no sandbox")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	description := "Runs a short program and returns what it printed. It has no files, no network and no input; print what you want to see."
	if cfg.Language != "" {
		description += fmt.Sprintf(" The language is %s.", cfg.Language)
	}
	tool := must(tools.New(tools.Definition{
		Name:        "code_exec",
		Description: fmt.Sprintf("%s It may take %v.", description, cfg.Timeout),
		Aliases:     []string{"run code", "program", "script", "compute", cfg.Language}[:4+min(len(cfg.Language), 1)],
		Effect:      cfg.Effect,
		Trust:       tools.Own,
		Timeout:     cfg.Timeout + 30*time.Second, // the sandbox says better what was wrong
	}, func(ctx context.Context, _ *tools.Invocation, in struct {
		Code string `json:"code" jsonschema:"the program"`
	},
	) (ran, error) {
		if blank(in.Code) {
			return ran{}, tools.NoEffect(&tools.ArgumentError{Tool: "code_exec", Problems: []string{"code: there is no program"}})
		}
		out, err := s.Execute(ctx, sandbox.Program{Code: in.Code, Language: cfg.Language, Timeout: cfg.Timeout})
		if err != nil {
			return ran{}, err
		}
		return ran{out.OK, strings.ToValidUTF8(out.Stdout, "\uFFFD"), strings.ToValidUTF8(out.Stderr, "\uFFFD"), out.CostMicroUSD}, nil
	}))
	return tools.WithCost(tool, func(v any) (int64, bool) {
		r, ok := v.(ran)
		if !ok || r.cost == nil {
			return 0, false
		}
		return *r.cost, true
	})
}
