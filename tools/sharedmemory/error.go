package sharedmemory

import (
	"fmt"
	"regexp"
)

// ErrorKind says what a [StoreError] means.
type ErrorKind string

// Kinds of errors. The strings are reasons in details; never renamed.
const (
	// StoreNotFound: the store is gone, or was never provisioned.
	StoreNotFound ErrorKind = "store_not_found"
	// Refused: the host says no, and may say why.
	Refused ErrorKind = "refused"
	// Transient: it may work later.
	Transient ErrorKind = "transient"
)

// StoreError is what a [Store] may return so that the model is told more than
// that its request failed. From [Provider.Snapshot] it says nothing more.
type StoreError struct {
	Kind ErrorKind
	// Reason, of Refused, is the host's own for machines: "quota_exceeded". It is
	// a word of lower case letters, digits and "_"; another counts as "refused".
	Reason string
	// Message, of Refused, is told to the model, cut to one line.
	Message string
	Err     error // what happened; told to nobody
}

func (e *StoreError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("shared memory: %s: %v", e.Kind, e.Err)
	}
	return fmt.Sprintf("shared memory: %s", e.Kind)
}

// Unwrap returns what happened.
func (e *StoreError) Unwrap() error { return e.Err }

// Refusal is why there is no result: a reason for machines, and the sentence
// that the model reads.
type Refusal struct {
	Reason  string
	Message string
	failed  bool // nobody said no: something is broken
}

// Reasons of refusals and failures, beside those of [ErrorKind] and the host's own. Never renamed.
const (
	ReasonUnavailable   = "unavailable"
	ReasonNoStores      = "no_stores"
	ReasonStoreRequired = "store_required" // a path or a cursor without a store
	ReasonRelativePath  = "relative_path"
	ReasonInvalidPath   = "invalid_path"
	ReasonNotFound      = "not_found"
	ReasonTooLarge      = "too_large"
	ReasonMalformed     = "malformed" // the provider is defect
	ReasonFailed        = "failed"
)

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func failure(reason, message string) *Refusal {
	return &Refusal{Reason: reason, Message: message, failed: true}
}

func malformed() *Refusal {
	return failure(ReasonMalformed, "The shared memory answered in a form that cannot be used. This is a fault of the host: go on without it.")
}

func generic() *Refusal {
	return failure(ReasonFailed, "The request to the shared memory failed. Try again later.")
}

func storeNotFound(id string) *Refusal {
	return refuse(string(StoreNotFound), "Store %q was not found; it may not be provisioned yet. Call memory_list without arguments for the stores there are.", EchoUntrusted(id))
}

var hostReason = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// foldError tells the model of an error of a store. It reads kind, reason and
// message of a StoreError, and of anything else nothing at all.
func foldError(store string, err error) *Refusal {
	e := storeError(err)
	if e == nil {
		return generic()
	}
	switch e.Kind {
	case StoreNotFound:
		return storeNotFound(store)
	case Transient:
		return refuse(string(Transient), "Store %q is temporarily unavailable. Try again later.", EchoUntrusted(store))
	case Refused:
		reason := e.Reason
		// Two that are states of an identity; a host says them by a snapshot.
		if !hostReason.MatchString(reason) || reason == "paused" || reason == "trust_pending" {
			reason = string(Refused)
		}
		if text := EchoUntrusted(e.Message); text != "" {
			return refuse(reason, "Store %q refused the request: %s", EchoUntrusted(store), text)
		}
		return refuse(reason, "Store %q refused the request.", EchoUntrusted(store))
	}
	return generic()
}

// maxWraps is how deep an error is searched: chains of a provider may have no end.
const maxWraps = 16

// storeError finds a StoreError in err; nil if there is none, or the error
// panics when it is asked.
func storeError(err error) (found *StoreError) {
	defer func() {
		if recover() != nil {
			found = nil
		}
	}()
	for range maxWraps {
		if e, ok := err.(*StoreError); ok {
			return e
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil
		}
		err = u.Unwrap()
	}
	return nil
}
