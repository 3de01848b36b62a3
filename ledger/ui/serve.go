package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves on l until ctx ends, and closes it. Answers under way then get a
// second. It returns nil when ctx ended. srv has the handler and the bounds:
// [access.Guard.Server] makes one.
func Serve(ctx context.Context, l net.Listener, srv *http.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = srv.Shutdown(end) // what is under way then is cut off
	_ = srv.Close()
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
