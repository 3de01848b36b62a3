package torture

import (
	"context"
	"fmt"
	"io"

	"github.com/daybookhq/daybook/internal/embedded"
)

// NATS is the body of a process that is a NATS server: it says its URL and
// serves until ctx ends.
func NATS(ctx context.Context, store, listen string, out io.Writer) error {
	s, err := embedded.Start(embedded.Config{StoreDir: store, Listen: listen})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if _, err := fmt.Fprintln(out, s.ClientURL()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
