//go:build !unix

package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// program is never made here.
type program struct {
	stderr interface{ String() string }
	kill   func()
}

func (*link) overStdio() (sdk.Transport, error) {
	return nil, errors.New("programs are started on Unix only: use a server with a url")
}

func (*program) during(context.Context, func() error) (n, of int, err error) { return 0, 1, nil }

func (*program) end() error { return nil }
