package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveFiles is an MCP server over standard input and output, for one folder.
// Its tools have the names and arguments of the reference filesystem server, so
// that either can be used. Nothing outside of the folder is reached, also not by
// a link.
func serveFiles(ctx context.Context, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer root.Close()
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	yes, no := true, false
	type readArgs struct {
		Path string `json:"path" jsonschema:"the file, within the folder"`
	}
	mcp.AddTool(s, &mcp.Tool{
		Name: "read_text_file", Description: "Reads a file of the folder.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in readArgs) (*mcp.CallToolResult, any, error) {
		text, err := readFile(root, in.Path)
		return said(text), nil, err
	})
	type writeArgs struct {
		Path    string `json:"path" jsonschema:"the file, within the folder"`
		Content string `json:"content" jsonschema:"all that will be in it"`
	}
	mcp.AddTool(s, &mcp.Tool{
		Name: "write_file", Description: "Writes a file of the folder; what was in it before is gone.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in writeArgs) (*mcp.CallToolResult, any, error) {
		if err := root.WriteFile(in.Path, []byte(in.Content), 0o600); err != nil {
			return nil, nil, err
		}
		return said(fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path)), nil, nil
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// maxFile is more than a model wants to read, in bytes.
const maxFile = 1 << 20

func readFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}
