package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/runtime/shareddb"
	"github.com/daybookhq/daybook/runtime/system"
)

// Exit codes. Verify alone gives 3 and 4.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitTampered    = 3
	exitIncomplete  = 4
	exitInterrupted = 130
)

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// verdictError ends the program with a code of its own.
type verdictError struct {
	code int
	text string
	name string // of the error in JSON; empty: as the code says
}

func (e verdictError) Error() string { return e.text }

// hintError is an error with a line to type.
type hintError struct {
	err  error
	hint string
}

func (e hintError) Error() string { return fmt.Sprintf("%v (%s)", e.err, e.hint) }
func (e hintError) Unwrap() error { return e.err }

// hint adds a line to type to an error.
func hint(err error, line string) error { return hintError{err, line} }

func exitCode(err error) int {
	var u usageError
	var v verdictError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &v):
		return v.code
	default:
		return exitFailed
	}
}

var errInterrupted = errors.New("interrupted")

// errorCodes are the codes of errors in JSON, the first that fits. A code is never
// renamed.
func errorCodes() []errorCode {
	return []errorCode{
		{errInterrupted, "interrupted"},
		{system.ErrOptions, "no_ledger_named"},
		{system.ErrDirInUse, "directory_in_use"},
		{ledger.ErrSchema, "schema"},
		{ledger.ErrDatabaseFull, "database_full"},
		{ledger.ErrRolledBack, "rolled_back"},
		{ledger.ErrUnavailable, "unavailable"},
		{ledger.ErrNoSuchEvent, "no_such_event"},
		{ledger.ErrDecided, "decided"},
		{ledger.ErrExpired, "expired"},
		{ledger.ErrEnded, "ended"},
		{ledger.ErrCancelling, "cancelling"},
		{ledger.ErrNotPaused, "not_paused"},
		{ledger.ErrNotDead, "not_dead"},
		{ledger.ErrOtherCall, "other_call"},
		{ledger.ErrNotQuiescent, "not_quiescent"},
		{ledger.ErrNotInDoubt, "not_in_doubt"},
		{ledger.ErrAttemptedSince, "attempted_since"},
		{ledger.ErrCompleted, "completed"},
		{ledger.ErrNotAwaited, "not_awaited"},
		{ledger.ErrSettled, "settled"},
		{ledger.ErrBudget, "budget"},
		{ledger.ErrClientKeyConflict, "key_conflict"},
		{ledger.ErrSignalConflict, "key_conflict"},
		{ledger.ErrInvalidSchedule, "invalid_schedule"},
		{ledger.ErrTooDeep, "too_deep"},
		{ledger.ErrTooManyChildren, "too_many_children"},
		{ledger.ErrFenced, "fenced"},
		{ledger.ErrSessionOwner, "session_owner"},
		{ledger.ErrSessionErased, "session_erased"},
		{ledger.ErrLeaseTooShort, "lease_too_short"},
		{ledger.ErrAuditBehind, "audit_behind"},
		{ledger.ErrWindowMissing, "window_missing"},
		{ledger.ErrWouldWaitOnAncestor, "would_wait_on_ancestor"},
		{ledger.ErrFactsPending, "facts_pending"},
		{ledger.ErrNotFound, "not_found"},
		{memorydb.ErrNotFound, "not_found"},
		{shareddb.ErrNotFound, "not_found"},
		{errNotStarted, "not_started"},
		{errNotThere, "not_found"},
	}
}

type errorCode struct {
	err  error
	code string
}

// codeOf is the stable name of what went wrong.
func codeOf(err error) string {
	for _, c := range errorCodes() {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	var v verdictError
	if errors.As(err, &v) && v.name != "" {
		return v.name
	}
	switch exitCode(err) {
	case exitUsage:
		return "usage"
	case exitTampered:
		return "tampered"
	case exitIncomplete:
		return "incomplete"
	}
	if errors.As(err, &v) {
		return "found" // what was looked for is there
	}
	return "failed"
}

// errNotThere is that nothing in the ledger has a name that a person gave.
var errNotThere = errors.New("not there")

// notThere is an error that is errNotThere and says something else, in which the line
// to type is already.
func notThere(line, format string, args ...any) error {
	return missing{fmt.Errorf(format, args...), line}
}

type missing struct {
	error
	line string
}

func (missing) Is(target error) bool { return target == errNotThere }
func (m missing) Unwrap() error      { return m.error }

// errorView is an error on stderr in JSON mode.
type errorView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Exit    int    `json:"exit"`
}

// tell writes an error on stderr: in words, or as {"error": …} if the command was to
// write JSON.
func (a *app) tell(err error, c *cobra.Command, args []string) {
	if !a.machine && !wantsJSON(args) {
		fmt.Fprintf(a.err, "ledgerctl: %s\n", clean(err.Error()))
		return
	}
	v := errorView{Code: codeOf(err), Message: clean(err.Error()), Exit: exitCode(err)}
	var h hintError
	var m missing
	if errors.As(err, &h) {
		v.Hint = clean(h.hint)
	} else if errors.As(err, &m) {
		v.Hint = clean(m.line)
	} else if v.Exit == exitUsage && c != nil {
		v.Hint = c.CommandPath() + " -h"
	}
	a.notice(struct {
		Error errorView `json:"error"`
	}{v})
}

// notice writes one line of JSON on stderr.
func (a *app) notice(v any) {
	e := json.NewEncoder(a.err)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // nothing is left to write to
}

// wantsJSON reads from a command line that could not be parsed whether JSON was wanted.
func wantsJSON(args []string) bool {
	json := []string{formatJSON, formatJSONL, formatYAML}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, value, has := strings.Cut(arg, "=")
		switch {
		case name == "--jq":
			return true
		case (name == "-o" || name == "--output") && !has && i+1 < len(args) && slices.Contains(json, args[i+1]),
			name == "--output" && has && slices.Contains(json, value),
			strings.HasPrefix(arg, "-o") && slices.Contains(json, strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")):
			return true
		}
	}
	return false
}

// exitCodesHelp is what `ledgerctl help exit-codes` says.
func exitCodesHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the program's exit codes say, and its errors in JSON",
		Long: fmt.Sprintf(`%3d  ok: done, or nothing was found that should not be
%3d  failed: it could not be done, or what a command looks for is there (stuck: a run stands
     still; rehearse: a decision differs; runs dead and the like list, and give 0)
%3d  wrong usage: the command line, a --filter or a --jq expression; nothing was done
%3d  verify: tampered; leakscan: a secret that was given; doctor: something is broken
%3d  verify: incomplete; export: the archive had a hole; leakscan: what looks like a secret; doctor: warnings
%3d  interrupted; tail and --follow end with 0 when they are: that is how one leaves them

With -o json, jsonl or yaml, or --jq, an error is one line of JSON on stderr:
  {"error":{"code":"not_found","message":"…","hint":"ledgerctl runs list","exit":1}}
Codes are never renamed; hint is a line to type, and may be missing:
  %s`,
			exitOK, exitFailed, exitUsage, exitTampered, exitIncomplete, exitInterrupted, strings.Join(codeNames(), "\n  ")),
	}
}

// codeNames are all codes, a few to a line.
func codeNames() []string {
	names := []string{"failed", "found", "usage", "tampered", "incomplete", "leaked", "suspected", "hole", "broken", "warnings"}
	for _, c := range errorCodes() {
		if !slices.Contains(names, c.code) {
			names = append(names, c.code)
		}
	}
	slices.Sort(names)
	var lines []string
	for group := range slices.Chunk(names, 6) {
		lines = append(lines, strings.Join(group, " "))
	}
	return lines
}
