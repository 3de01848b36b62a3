package arch

// A path in these rules is a package below the module's root; "x/..." is x and
// everything below it; "." is the root. The most specific rule holds.

// packages: package → what it may import of this module. A package without a
// rule fails: decide what it may know before it is written.
var packages = map[string]string{
	"redact":     "internal/canonical internal/fault internal/bug",
	"redact/...": "redact internal/canonical internal/fault internal/bug",

	"events":              "redact internal/canonical internal/fault",
	"events/internal/...": "events redact internal/canonical internal/fault internal/telemetry",
	"events/memory":       "events events/internal/... redact internal/canonical internal/fault",
	"events/jetstream":    "events events/internal/... redact internal/canonical internal/fault internal/telemetry",
	"events/eventstest":   "events redact internal/canonical",

	"model":           "internal/strictyaml events redact internal/canonical internal/fault internal/telemetry",
	"model/...":       "model internal/strictyaml events redact internal/canonical internal/fault internal/telemetry",
	"model/modeltest": "model model/scripted events redact internal/canonical",
	// What clients of providers share; see docs/decisions/0022.
	"model/internal/...": "model events redact",
	"model/openai":       "model model/internal/... events redact internal/canonical",
	"model/anthropic":    "model model/internal/... events redact internal/canonical",
	// The clients that ship, made of a file.
	"model/providers": "model model/openai model/anthropic events redact internal/strictyaml",

	"tools":           "events redact internal/canonical internal/fault internal/bug internal/telemetry",
	"tools/...":       "tools tools/netguard events redact internal/canonical internal/fault internal/telemetry",
	"tools/toolstest": "tools tools/bogus events redact internal/canonical",
	// Hits are read as documents.
	"tools/search": "tools tools/netguard tools/extract tools/internal/fanout events redact internal/canonical",
	"tools/papers": "tools tools/netguard tools/internal/fanout events redact internal/canonical",
	// Asking several sources at once, and an API for tests of those who ask.
	"tools/internal/fanout":  "",
	"tools/internal/apitest": "",

	// Rules about calls; agents read them, the runtime asks them; see docs/decisions/0035.
	"tools/policy": "events redact internal/canonical internal/strictyaml",

	"tools/memory":            "tools events redact",
	"tools/memory/memorytest": "tools tools/memory tools/toolstest events redact",
	// Providers and their kit know the contract; see docs/decisions/0019.
	"tools/sharedmemory":     "tools events",
	"tools/sharedmemory/...": "tools/sharedmemory events",

	// What runs code knows its contract alone; see docs/decisions/0016.
	"tools/builtin":     "tools tools/sandbox tools/netguard events redact internal/canonical internal/fault internal/telemetry",
	"tools/sandbox":     "",
	"tools/sandbox/...": "tools/sandbox tools/sandbox/internal/child tools/internal/confined",
	// The one place that starts, kills and reaps programs for tools; see docs/decisions/0018.
	"tools/internal/process": "",
	// What confines a child, for all that run or parse what strangers made; see docs/decisions/0016.
	"tools/internal/confined": "tools/sandbox tools/internal/process",
	"tools/command":           "tools tools/sandbox tools/internal/process internal/canonical",
	"tools/extract":           "tools tools/netguard tools/internal/confined events redact internal/canonical",
	// Servers are programs, or on the network; see docs/decisions/0020.
	"tools/mcp":             "tools tools/netguard tools/internal/process events redact internal/canonical internal/strictyaml",
	"tools/mcp/mcptest":     "",
	"tools/mcp/mcptest/...": "tools/mcp/mcptest",
	// The door to the network, for all tools that have one; see docs/decisions/0014.
	"tools/netguard":              "redact", // credentials are withheld as secrets are
	"tools/netguard/netguardtest": "tools/netguard",

	// Tests that take every tool at once.
	"tools/internal/shelf": "tools/... events redact",

	"loops":     "model tools events redact internal/canonical",
	"loops/...": "loops model tools events redact internal/canonical",

	// A program's exit code as a verdict; see docs/decisions/0023.
	"loops/revise/exitcode": "loops/revise tools/command events",

	"loops/loopstest": "loops model model/scripted tools tools/bogus events redact internal/canonical",

	"agents":     "agents/... loops model internal/strictyaml tools tools/policy events redact internal/canonical",
	"agents/...": "agents agents/... loops model internal/strictyaml tools events redact internal/canonical",
	// What a skill needs is written as commands are narrowed; see docs/decisions/0033.
	"agents/skill": "agents/internal/... agents/pathtrust agents/prompt tools tools/command events internal/strictyaml internal/canonical",

	"ledger":            "events redact internal/canonical internal/fault internal/bug internal/telemetry",
	"ledger/sqlstore":   "ledger events redact internal/canonical internal/fault internal/bug internal/telemetry",
	"ledger/postgres":   "ledger ledger/sqlstore migrations events redact internal/canonical internal/fault internal/telemetry",
	"ledger/sqlite":     "ledger ledger/sqlstore migrations events redact internal/canonical internal/fault internal/telemetry",
	"ledger/export":     "ledger events redact", // see docs/decisions/0041
	"ledger/leakscan":   "ledger/sqlstore events redact",
	"ledger/ledgertest": "ledger ledger/sqlstore events events/memory redact internal/canonical internal/fault",
	"migrations":        "internal/fault",
	// The page reads the record as whoever embeds it hands it over; it knows no runtime
	// and no SDK; see docs/decisions/0039.
	"ledger/ui": "ledger ledger/ui/... events redact internal/trace internal/telling",
	// Who may see and do what on the page; see docs/decisions/0038.
	"ledger/ui/access": "ledger events redact internal/strictyaml",

	"runtime":       "runtime/queue agents agents/... loops loops/singleshot loops/revise tools tools/policy model ledger events redact internal/canonical internal/fault internal/bug internal/telemetry internal/trace",
	"runtime/queue": "ledger events redact internal/canonical internal/fault internal/telemetry",
	// The parts as they ship, wired for whoever embeds Daybook; see docs/decisions/0005.
	"runtime/system": "runtime runtime/queue ledger ledger/sqlstore ledger/postgres ledger/sqlite events events/jetstream model redact internal/embedded internal/fault internal/telemetry",
	// What tools keep in the ledger's database; see docs/decisions/0021.
	"runtime/memorydb": "tools tools/memory tools/sharedmemory ledger ledger/sqlstore events redact internal/fault",
	"runtime/shareddb": "tools tools/sharedmemory ledger ledger/sqlstore events redact",
	// The tools that ship, wired by a file; see docs/decisions/0024.
	"runtime/shelf": "tools tools/... events redact internal/strictyaml",
	"runtime/...":   "runtime runtime/queue agents loops loops/revise tools model ledger events redact internal/canonical internal/fault internal/telemetry",

	// cmd is the only wiring: it may see every public package and what makes one
	// process of them, but nothing that only tests should.
	"cmd/...":              wiring + " cmd/internal/...",
	"cmd/internal/webpage": "ledger ledger/ui ledger/ui/access redact", // the page, for both programs
	"cmd/internal/...":     "cmd/internal/... runtime/system events events/jetstream",

	"internal/arch":        "internal/fault",
	"internal/bug":         "",
	"internal/bug/cmd/...": "internal/bug",
	"internal/canonical":   "",
	"internal/embedded":    "",
	"internal/fault":       "",
	"internal/strictyaml":  "",
	"internal/telemetry":   "events redact internal/trace",
	"internal/telling":     "ledger events",
	"internal/trace":       "events", // the record read as a trace; see docs/decisions/0036
	// Receives what is sent, in tests.
	"internal/telemetry/otlptest": "",
	// A whole plant, its faults and its judge; see runner torture.
	"internal/torture":          "runtime runtime/system agents tools tools/builtin model ledger events events/jetstream internal/testenv/pgserver internal/testenv/powercut internal/embedded",
	"internal/testenv":          "internal/embedded internal/testenv/pgserver",
	"internal/testenv/browser":  "internal/testenv",
	"internal/testenv/pgserver": "",
	"internal/testenv/powercut": "",
	// A provider on the wire, whose answers are those of a model.
	"internal/testenv/modelserver": "model",
	"internal/testenv/cmd/...":     "internal/embedded internal/testenv/pgserver",
	"e2e/...":                      "...",
	"bench/...":                    "...",
	"docs":                         "", // tests that do what pages say
	"deploy":                       "", // configuration, and tests that read it; see docs/decisions/0042
	"examples/...":                 "examples/... runtime/... agents/... loops/... tools/... model/... ledger/... events/... redact migrations",
}

const wiring = "examples/... runtime/... agents/... loops/... tools/... model/... ledger ledger/export ledger/leakscan ledger/ui/... ledger/sqlstore ledger/postgres ledger/sqlite " +
	"events events/memory events/jetstream redact migrations " +
	"internal/canonical internal/telemetry internal/telling internal/trace internal/embedded internal/fault internal/strictyaml internal/torture"

// forTests is what any test may import of this module, besides what its package
// may: servers, and the adapters that stand in for the outside world.
const forTests = "internal/testenv/... internal/telemetry/otlptest internal/embedded internal/fault internal/canonical " +
	"events/memory events/eventstest model/scripted model/modeltest tools/bogus tools/toolstest tools/mcp/mcptest tools/memory/memorytest tools/netguard/netguardtest tools/internal/apitest tools/sharedmemory/sharedmemorytest " +
	"loops/singleshot loops/revise/... loops/script loops/loopstest ledger/ledgertest ledger/sqlite ledger/postgres ledger/sqlstore tools/builtin migrations"

// spans is where the OpenTelemetry API may be used.
const spans = "internal/telemetry runtime/... tools model events/jetstream events/internal/... ledger/... cmd/..."

// modules: outside module, or standard package that is rationed → where it may
// be imported. An outside module without a rule fails: it needs its line here
// and in docs/decisions.
var modules = map[string]string{
	"github.com/nats-io/nats.go":        "events/jetstream runtime/queue internal/... runtime/system e2e/... bench/...",
	"github.com/nats-io/nats-server/v2": "internal/embedded internal/testenv/...",
	"github.com/jackc/pgx/v5":           "ledger/postgres migrations internal/testenv/... e2e/... bench/...",
	"modernc.org/sqlite":                "ledger/sqlite migrations",
	"github.com/pressly/goose/v3":       "migrations",

	"go.opentelemetry.io/otel":            spans,
	"go.opentelemetry.io/otel/sdk":        "internal/telemetry",
	"go.opentelemetry.io/otel/exporters":  "internal/telemetry",
	"go.opentelemetry.io/contrib":         "internal/telemetry",
	"go.opentelemetry.io/proto/otlp":      "internal/telemetry/otlptest",
	"google.golang.org/grpc":              "internal/telemetry/otlptest",
	"google.golang.org/protobuf":          "internal/telemetry/otlptest",
	"github.com/prometheus/client_golang": "internal/telemetry",

	"github.com/a-h/templ":                     "ledger/ui", // the runtime of its templates; the generator is a tool
	"github.com/oklog/ulid/v2":                 "events",
	"github.com/go-json-experiment/json":       "events redact internal/canonical",
	"github.com/santhosh-tekuri/jsonschema/v6": "tools loops/revise model/openai", // the last in tests alone; see docs/decisions/0028
	"github.com/google/jsonschema-go":          "tools tools/...",
	"github.com/modelcontextprotocol/go-sdk":   "tools/mcp examples/...", // the client; see docs/decisions/0020
	"github.com/openai/openai-go/v3":           "model/openai",           // heavy: linked by cmd/runner and the examples; see docs/decisions/0022
	"github.com/expr-lang/expr":                "tools/policy",           // reads and type-checks conditions; see docs/decisions/0035
	"github.com/tetratelabs/wazero":            "tools/sandbox/wasm",
	"github.com/dop251/goja":                   "tools/sandbox/javascript",
	"github.com/coregx/ahocorasick":            "redact",
	"github.com/goccy/go-yaml":                 "agents cmd/...",
	"gopkg.in/yaml.v3":                         "internal/strictyaml agents deploy cmd/...",
	"github.com/robfig/cron/v3":                "ledger",                  // the parser; see docs/decisions/0007
	"github.com/rogpeppe/go-internal/diff":     "cmd/ledgerctl ledger/ui", // of two versions of an artifact
	"github.com/itchyny/gojq":                  "cmd/ledgerctl",           // --jq; see docs/decisions/0040
	"github.com/spf13/cobra":                   "cmd/...",
	"github.com/vbauerster/mpb/v8":             "cmd/ledgerctl", // bars of progress on a terminal
	"github.com/spf13/pflag":                   "cmd/...",       // cobra's own flags
	"code.dny.dev/ssrf":                        "tools/netguard",
	"mvdan.cc/sh/v3":                           "tools/command", // the reader of commands; see docs/decisions/0018
	"golang.org/x/mod":                         "ledger",
	"golang.org/x/net":                         "tools/netguard tools/extract",
	"golang.org/x/sync":                        "runtime/... events/... ledger/... tools cmd/... e2e/... bench/...",
	"golang.org/x/time":                        "runtime/... model/...",

	"github.com/anthropics/anthropic-sdk-go/v2":       "model/anthropic",
	"codeberg.org/readeck/go-readability/v2":          "tools/extract",
	"github.com/JohannesKaufmann/html-to-markdown/v2": "tools/extract",
	"github.com/ledongthuc/pdf":                       "tools/extract",

	// Packages named runtime hide it; see docs/decisions/0001.
	// One thread makes both calls that filter system calls: confined.
	// The code of a script ends where it stands (Goexit), and its mistakes are named.
	"runtime": "internal/telemetry events/internal/commit tools/internal/confined loops/script e2e/... bench/...",
}

// modulesInTests is like modules, for tests that need a foreign server to be
// other than ours would ever be.
var modulesInTests = map[string]string{
	"github.com/nats-io/nats-server/v2": "events/jetstream",
	"runtime":                           "tools tools/toolstest runtime", // Goexit inside a tool, or a validator
}

// testModules may be imported by tests alone.
const testModules = "github.com/google/go-cmp go.uber.org/goleak pgregory.net/rapid " +
	"github.com/anishathalye/porcupine github.com/rogpeppe/go-internal " +
	"github.com/go-rod/rod " + // drives Chromium; see internal/testenv/browser
	// What dashboards ask, what is served, and docker-compose.yml, by the readers that they are for; see docs/decisions/0042.
	"github.com/prometheus/prometheus github.com/prometheus/common github.com/prometheus/client_model github.com/compose-spec/compose-go/v2"

// conformance is what is test code although its files are not named _test.go.
const conformance = "events/eventstest model/modeltest model/internal/wiretest tools/toolstest tools/mcp/mcptest tools/memory/memorytest tools/netguard/netguardtest tools/internal/apitest tools/sharedmemory/sharedmemorytest loops/loopstest ledger/ledgertest internal/testenv internal/testenv/browser internal/testenv/modelserver internal/telemetry/otlptest e2e/... bench/..."

// maxLines is how long a file may be that nobody generated. Review asks for 400.
const maxLines = 600

// longFiles: file → why it may be longer.
var longFiles = map[string]string{}

// sleeps: test file → why a test in it waits by the clock. Others poll for what
// they wait for, or run in a synctest bubble, where sleeping costs nothing.
var sleeps = map[string]string{
	"internal/testenv/postgres.go":  "between two looks at the connections of a database, which nothing announces",
	"tools/effect_time_test.go":     "in a synctest bubble: a tool that is deaf to its context",
	"model/openai/refusal_test.go":  "in a synctest bubble: a provider that is slow",
	"tools/netguard/limits_test.go": "in a synctest bubble: a site that is slow",
	"bench/load.go":                 "a program: it looks at a consumer's lag, which nothing announces",
	"bench/queue.go":                "a program: it looks at the ledger, and waits for leases to lapse",
}

// globals: "package.name" → why this package-level variable may change.
var globals = map[string]string{
	"sqlite.rewritten": "a cache: what it holds is a function of its key, and the keys are constants",
}
