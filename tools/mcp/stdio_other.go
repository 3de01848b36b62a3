//go:build !unix

package mcp

import (
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

func (*program) end() error { return nil }
