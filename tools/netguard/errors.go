package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// Reason says why a request failed. Stored with results; never renamed.
type Reason string

// Reasons. The first group is decided before anything is sent anywhere.
const (
	BadURL           Reason = "bad_url"            // not a URL that all readers agree about
	BadScheme        Reason = "bad_scheme"         // not https
	NotAllowed       Reason = "not_allowed"        // host or port is not on the allow list
	NotPublic        Reason = "not_public"         // an internal name, or an address that is not public
	TooManyRedirects Reason = "too_many_redirects" // one more than Limits.Redirects

	UnknownHost Reason = "unknown_host" // the name does not resolve
	Unreachable Reason = "unreachable"  // no connection came about
	BadTLS      Reason = "bad_tls"      // no trusted certificate for this host
	TimedOut    Reason = "timed_out"    // Limits.Total or Limits.Idle
	TooLarge    Reason = "too_large"    // headers or body over the limit
	Bomb        Reason = "bomb"         // unpacks to far more than was sent
	BadEncoding Reason = "bad_encoding" // packed in a way that is not unpacked here, or broken
	Broken      Reason = "broken"       // not HTTP, or it ended early
	Cancelled   Reason = "cancelled"    // the caller's context ended
)

// Error is every error of a [Client]. Its text is meant for a model: it names
// the host, and neither address, query, header nor body.
type Error struct {
	Reason Reason
	// Host is the host the request was for; empty if there was none to name.
	Host string
	// Sent is set if something of the request may have reached the host. If it
	// is not, the request certainly had no effect.
	Sent bool
	text string
	err  error
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, whose text may name addresses.
func (e *Error) Unwrap() error { return e.err }

// Refused reports whether the guard itself refused, without a connection to
// the host being attempted.
func (e *Error) Refused() bool {
	switch e.Reason {
	case BadURL, BadScheme, NotAllowed, NotPublic, TooManyRedirects:
		return true
	}
	return false
}

func refuse(reason Reason, host, text string) *Error {
	return &Error{Reason: reason, Host: host, text: "refused: " + text}
}

// fold makes an error of what a transport said.
func fold(ctx context.Context, host string, err error) *Error {
	e := (*Error)(nil)
	if errors.As(err, &e) {
		return e
	}
	e = &Error{Host: host, err: err}
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		rec  tls.RecordHeaderError
		auth x509.UnknownAuthorityError
		name x509.HostnameError
		nete net.Error
	)
	switch {
	case errors.Is(context.Cause(ctx), errTotal):
		e.Reason, e.text = TimedOut, host+" did not answer in time"
	case ctx.Err() != nil:
		e.Reason, e.text = Cancelled, "the request to "+host+" was cancelled"
	case errors.As(err, &dns):
		e.Reason, e.text = UnknownHost, "the name "+host+" could not be resolved"
	case errors.As(err, &cert), errors.As(err, &auth), errors.As(err, &name), errors.As(err, &rec):
		e.Reason, e.text = BadTLS, host+" has no certificate that is trusted for that name"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Reason, e.text = Unreachable, host+" cannot be reached"
	case errors.As(err, &nete) && nete.Timeout():
		e.Reason, e.text = TimedOut, host+" did not answer in time"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Reason, e.text = Broken, "the answer of "+host+" ended early"
	default:
		e.Reason, e.text = Broken, "the answer of "+host+" could not be read"
	}
	return e
}
