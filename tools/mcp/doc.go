// Package mcp brings the tools of MCP servers onto the shelf: programs that are
// started here and spoken to over their standard input and output, and servers
// on the network that speak streamable HTTP.
//
// A server's tools are named after it, as in files__read_text_file. What a call
// does to the world, whether it can be recovered and who can write what comes
// back is declared by the host, tool by tool ([Tool]); a tool that is not
// declared counts as destructive, and what it says as foreign. What a server
// says of its own tools (annotations) can only make that stricter.
//
// A call is sent once. Whatever happens to its answer, it is never sent again
// from here: an answer that is lost after the request may have reached the
// server leaves a destructive call in doubt, and one that certainly never left
// is told as such. A server that ends is started again for a later call, a
// bounded number of times. Declarations are pinned when the servers are opened:
// a tool whose declaration has changed since is refused until they are opened
// anew. See docs/mcp.md and docs/decisions/0020.
package mcp
