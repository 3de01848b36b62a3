package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

var errNoMessage = errors.New("an event of its answer is no message of the protocol")

// eventStream is the body of a call's answer, event by event, each let through
// once it is whole. For one that is no message the SDK would end the session, with
// all other calls in it; here it ends the call whose answer it stands in.
type eventStream struct {
	io.Closer
	lines *bufio.Reader
	ctx   context.Context //nolint:containedctx // of the request whose body this is
	x     *exchange

	ready []byte // events that nobody has read yet
	err   error  // what comes after them
}

func newEventStream(ctx context.Context, body io.ReadCloser, x *exchange) *eventStream {
	return &eventStream{Closer: body, lines: bufio.NewReader(body), ctx: ctx, x: x}
}

// Read reads of the next event.
func (s *eventStream) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.ready, s.err = s.next()
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// next reads one event. What an event without an end holds counts, as the SDK has it.
func (s *eventStream) next() (event []byte, err error) {
	var data []byte
	message, line := true, []byte(nil)
	for err == nil {
		var part []byte
		part, err = s.lines.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
			if len(event)+len(line) <= maxMessage {
				continue
			}
		}
		if len(event)+len(line) > maxMessage {
			return nil, s.giveUp(errTooLong)
		}
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 && err == nil {
			event = append(event, line...)
			break
		}
		key, value, ok := bytes.Cut(text, []byte{':'})
		switch string(key) {
		case "data":
			data = append(append(data, value...), '\n')
		case "event":
			name := string(bytes.TrimSpace(value))
			message = name == "" || name == "message"
		}
		event = append(event, text...)
		if !ok && len(text) > 0 {
			event = append(event, ':') // a field without a value, which the SDK takes for a fault
		}
		event = append(event, '\n')
		line = line[:0]
	}
	if message && len(bytes.TrimSpace(data)) > 0 {
		if _, e := jsonrpc.DecodeMessage(bytes.TrimSpace(data)); e != nil && (err == nil || errors.Is(err, io.EOF)) {
			return nil, s.giveUp(errNoMessage)
		}
	}
	return event, err
}

// giveUp ends the call, and waits until that is known everywhere.
func (s *eventStream) giveUp(err error) error {
	if s.x.giveUp == nil {
		return err
	}
	s.x.giveUp(err)
	<-s.ctx.Done()
	return err
}
