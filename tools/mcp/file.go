package mcp

import (
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
)

// Parse reads the servers from a file in YAML, or in JSON, which is YAML too:
//
//	servers:
//	  files:
//	    command: npx
//	    args: [-y, "@modelcontextprotocol/server-filesystem@2026.7.10", /srv/docs]
//	    tools:
//	      read_text_file: {effect: readonly}
//	      write_file: {effect: destructive, recovery: keyed, ttl: 24h}
//	  crm:
//	    url: https://mcp.example.com/mcp
//	    headers: {Authorization: "Bearer secret://crm_token"}
//
// "mcpServers", as other hosts call it, will do for "servers". All faults are
// reported at once, each with its line; name is how they call the file. What is
// not in the file ([Config.Redactor], [Config.Secrets]) is for the caller to set.
func Parse(name string, text []byte) (Config, error) {
	f, m := strictyaml.Parse(name, text, 0)
	var cfg Config
	list := "servers"
	if m.Has("mcpServers") {
		list = "mcpServers"
		if m.Has("servers") {
			m.Fault("servers", "there are mcpServers too; write one of the two")
		}
	}
	all := m.Map(list)
	if all == nil && !m.Has(list) {
		m.Fault(list, "missing; write the servers, each under its name")
	}
	cfg.Servers = ParseServers(all)
	m.Done("a file of MCP servers")
	return cfg, f.Err()
}

// ParseServers reads the servers of a part of a file, each under its name. It is
// for this module's own files.
func ParseServers(all *strictyaml.Map) []Server {
	var servers []Server
	for _, key := range all.Keys() {
		if s := all.Map(key); s != nil {
			servers = append(servers, parseServer(key, s))
		}
	}
	return servers
}

func parseServer(name string, m *strictyaml.Map) Server {
	s := Server{
		Name: name, Dir: m.Text("dir"), Env: texts(m.Map("env")), URL: m.Text("url"), Headers: texts(m.Map("headers")),
		Only: m.Texts("only"), StartTimeout: m.Duration("start_timeout"), CallTimeout: m.Duration("call_timeout"),
		Restarts: int(m.Int("restarts", -1)), Recheck: m.Duration("recheck"), Optional: m.Bool("optional"),
	}
	if m.Has("restarts") && s.Restarts == 0 {
		s.Restarts = -1 // written out, it means never
	}
	args := m.Texts("args")
	if c := m.Text("command"); c != "" {
		s.Command = append([]string{c}, args...)
	} else if len(args) > 0 {
		m.Fault("args", "there is no command that they belong to")
	}
	switch t := m.Text("type"); t { // other hosts write it
	case "", "stdio", "http", "streamable-http":
	default:
		m.Fault("type", "want stdio or http, got %q; leave it out, command or url says enough", t)
	}
	if s.URL == "" && len(s.Command) == 0 {
		m.Fault("command", "missing; write a command, or a url")
	}
	declared := m.Map("tools")
	for _, own := range declared.Keys() {
		if t := declared.Map(own); t != nil {
			if s.Tools == nil {
				s.Tools = map[string]Tool{}
			}
			s.Tools[own] = parseTool(t)
		}
	}
	m.Done("a server")
	return s
}

func parseTool(m *strictyaml.Map) Tool {
	t := Tool{
		As: m.Text("as"), Description: m.Text("description"),
		Effect:          tools.Effect(oneOf(m, "effect", "readonly", "idempotent", "destructive")),
		Trust:           tools.Trust(oneOf(m, "trust", "own", "external")),
		Scope:           tools.Scope(oneOf(m, "scope", "run", "session", "owner", "tenant")),
		ErrorMeans:      ErrorMeaning(oneOf(m, "error_means", "unknown", "no_effect")),
		Identity:        m.Texts("identity"),
		InDoubtContinue: oneOf(m, "in_doubt", "park", "continue") == "continue",
		Approval:        m.Bool("approval"), Aliases: m.Texts("aliases"), Pinned: m.Bool("pinned"),
		Price: m.Int("price", 0), Timeout: m.Duration("timeout"), MaxOutput: int(m.Int("max_output", 1)), Digest: m.Text("digest"),
	}
	if v, ok := m.Scalar("window"); ok && v == "forever" {
		t.Window = tools.Forever
	} else {
		t.Window = m.Duration("window")
	}
	ttl := m.Duration("ttl")
	switch r := oneOf(m, "recovery", "none", "keyed", "fenced"); r {
	case "keyed":
		t.Recovery = tools.Keyed(ttl)
		if ttl == 0 {
			m.Fault("ttl", "missing; keyed recovery needs it: for how long the server remembers a key, such as 24h")
		}
	case "fenced":
		t.Recovery = tools.Fenced()
	}
	if ttl != 0 && t.Recovery.Kind != tools.RecoveryKeyed {
		m.Fault("ttl", "belongs to recovery: keyed")
	}
	if t.Effect == tools.Readonly || t.Effect == tools.Idempotent {
		for _, field := range []string{"recovery", "identity", "window", "approval", "error_means"} {
			if m.Has(field) {
				m.Fault(field, "is about destructive calls, and the tool is declared %s", t.Effect)
			}
		}
	}
	m.Done("a tool")
	return t
}

// oneOf returns a text field that is one of the words; empty if it is not there.
func oneOf(m *strictyaml.Map, key string, words ...string) string {
	v := m.Text(key)
	for _, w := range words {
		if v == "" || v == w {
			return v
		}
	}
	want := words[0]
	for i, w := range words[1:] {
		sep := ", "
		if i == len(words)-2 {
			sep = " or "
		}
		want += sep + w
	}
	m.Fault(key, "want %s, got %q", want, v)
	return ""
}

// texts returns all fields of a mapping, which must be texts.
func texts(m *strictyaml.Map) map[string]string {
	keys := m.Keys()
	if len(keys) == 0 {
		return nil
	}
	out := make(map[string]string, len(keys))
	for _, k := range keys {
		out[k] = m.Text(k)
	}
	return out
}
