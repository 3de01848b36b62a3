-- +goose Up
-- Times are microseconds since 1970 in UTC; ids and hashes are their bytes; booleans are 0 and 1.
-- State tables are written by workers and operators, the archive by barriers and
-- the projector, projections by the projector alone. A zero value in Go is NULL here.

-- Random keys of this ledger, one per tenant: fingerprints in redaction markers and input digests.
CREATE TABLE tenant_keys (
    tenant     text PRIMARY KEY,
    key        blob NOT NULL CHECK (length(key) = 32),
    created_at integer NOT NULL
);

CREATE TABLE runs (
    id            blob PRIMARY KEY,
    tenant        text NOT NULL CHECK (length(tenant) BETWEEN 1 AND 64 AND tenant NOT GLOB '*[^A-Za-z0-9_-]*'),
    queue         text NOT NULL,
    agent         text NOT NULL,
    owner         text NOT NULL DEFAULT '',
    session_id    text NOT NULL DEFAULT '',
    root_id       blob NOT NULL,
    parent_id     blob,
    client_key    text NOT NULL,
    input_mac     blob NOT NULL,
    input         text NOT NULL,
    requires      text NOT NULL DEFAULT '[]',           -- capabilities (tool names) a worker must have
    priority      integer NOT NULL DEFAULT 0,             -- higher first
    trace         text NOT NULL DEFAULT '',
    created_at    integer NOT NULL,
    due_at        integer NOT NULL,                   -- not claimed before
    deadline_at   integer,
    state         text NOT NULL CHECK (state IN ('queued','running','parked','cancelling','finished','failed','cancelled')),
    park_reason   text NOT NULL DEFAULT '',
    park_detail   text NOT NULL DEFAULT '',
    park_key      blob,                                  -- the op key waited for
    wake_at       integer,                            -- parked: looked at again whatever happens
    parked_at     integer,
    not_before    integer,                            -- back-off after a claim that appended no fact
    idle_claims   integer NOT NULL DEFAULT 0,             -- claims of an ended run in a row that appended no fact
    clean         integer NOT NULL DEFAULT 1,          -- the last holder carried its whole prefix into events
    epoch         integer NOT NULL DEFAULT 0,
    worker        text NOT NULL DEFAULT '',               -- the last holder
    lease_until   integer,                            -- NULL = no lease
    cancel_by     text NOT NULL DEFAULT '',
    cancel_reason text NOT NULL DEFAULT '',
    stopped_by    text NOT NULL DEFAULT '',
    result        text,
    error         text NOT NULL DEFAULT '',
    ended_at      integer,
    UNIQUE (tenant, client_key),
    CHECK ((state IN ('finished','failed','cancelled')) = (ended_at IS NOT NULL)),
    CHECK (state <> 'parked' OR park_reason <> '')
);
CREATE INDEX runs_due      ON runs (queue, priority DESC, due_at, id) WHERE state = 'queued';
CREATE INDEX runs_leases   ON runs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX runs_wake     ON runs (wake_at) WHERE state = 'parked' AND wake_at IS NOT NULL;
CREATE INDEX runs_capable  ON runs (id) WHERE state = 'parked' AND park_reason = 'no_capable_worker';
CREATE INDEX runs_cancel   ON runs (id) WHERE state = 'cancelling';
CREATE INDEX runs_waiting  ON runs (park_key) WHERE state = 'parked' AND park_key IS NOT NULL;
CREATE INDEX runs_tenant   ON runs (tenant, id DESC);

-- The base of an epoch, written once by the claim (clean run) or by the takeover, never changed.
CREATE TABLE run_epochs (
    run_id     blob NOT NULL REFERENCES runs (id),
    epoch      integer NOT NULL CHECK (epoch > 0),
    base_seq   integer NOT NULL CHECK (base_seq >= 0),
    base_hash  blob NOT NULL CHECK (length(base_hash) = 32),
    worker     text NOT NULL,
    created_at integer NOT NULL,
    PRIMARY KEY (run_id, epoch)
);

-- Facts are events without a number yet; id gives their insertion order.
CREATE TABLE facts (
    id         integer PRIMARY KEY AUTOINCREMENT,
    run_id     blob NOT NULL REFERENCES runs (id),
    event_id   blob NOT NULL,
    type       text NOT NULL,
    version    integer NOT NULL CHECK (version > 0),
    trace      text NOT NULL DEFAULT '',
    data       blob NOT NULL CHECK (length(data) <= 262144),
    created_at integer NOT NULL,
    UNIQUE (run_id, event_id)
);

CREATE TABLE effects (
    op_key        blob PRIMARY KEY CHECK (length(op_key) = 32),
    base_key      blob NOT NULL CHECK (length(base_key) = 32),   -- without the generation
    generation    integer NOT NULL CHECK (generation > 0),
    tenant        text NOT NULL,
    scope         text NOT NULL CHECK (scope IN ('run','session','owner','tenant')),
    scope_key     text NOT NULL,
    tool          text NOT NULL,
    identity      text NOT NULL,
    state         text NOT NULL CHECK (state IN ('started','applied','not_applied','in_doubt','abandoned')),
    recovery      text NOT NULL CHECK (recovery IN ('none','keyed','fenced','probe')),
    recovery_ttl  integer NOT NULL DEFAULT 0,                      -- microseconds
    window_micros integer NOT NULL DEFAULT 0,                      -- 0 = none declared; -1 = for ever
    run_id        blob NOT NULL REFERENCES runs (id),             -- the run whose attempt is the latest
    turn          integer NOT NULL,
    call_index    integer NOT NULL,
    attempts      integer NOT NULL CHECK (attempts > 0),
    first_sent_at integer NOT NULL,                           -- first attempt of this generation
    arguments     text NOT NULL,                                  -- redacted, of the attempt that settled it or the latest
    args_digest   blob NOT NULL,
    outcome       text,                                           -- events.ToolResult, redacted
    error_kind    text NOT NULL DEFAULT '',
    evidence      text NOT NULL DEFAULT '',
    settled_by    text NOT NULL DEFAULT '',                       -- end, takeover, probe, late_evidence or a person
    settled_token blob,                                           -- the attempt whose outcome it is
    settled_at    integer,
    contradicted  integer NOT NULL DEFAULT 0,                 -- late evidence against a resolution
    possible_duplicate integer NOT NULL DEFAULT 0,            -- a second applied from another attempt
    forced        integer NOT NULL DEFAULT 0,
    approval_id   blob,
    taint         text NOT NULL DEFAULT '',
    reserved_pico integer NOT NULL DEFAULT 0,
    created_at    integer NOT NULL,
    UNIQUE (base_key, generation),
    CHECK ((state IN ('applied','not_applied','abandoned')) = (settled_at IS NOT NULL)),
    CHECK (state <> 'applied' OR outcome IS NOT NULL),
    CHECK (scope IN ('run','session') OR window_micros <> 0)
);
CREATE INDEX effects_run  ON effects (run_id);
CREATE INDEX effects_open ON effects (state, created_at) WHERE state IN ('started','in_doubt');

CREATE TABLE effect_attempts (
    op_key      blob NOT NULL REFERENCES effects (op_key),
    attempt     integer NOT NULL CHECK (attempt > 0),
    token       blob NOT NULL UNIQUE,
    run_id      blob NOT NULL REFERENCES runs (id),
    epoch       integer NOT NULL,
    turn        integer NOT NULL,
    call_index  integer NOT NULL,
    call_attempt integer NOT NULL,
    args_digest blob NOT NULL,
    prior       integer NOT NULL DEFAULT 0,    -- an earlier attempt without a definite outcome exists
    started_at  integer NOT NULL,
    deadline    integer NOT NULL,
    outcome     text NOT NULL DEFAULT '' CHECK (outcome IN ('','applied','not_applied','unclear')),
    result      text,
    error       text NOT NULL DEFAULT '',
    ended_at    integer,
    arguments   text,                              -- NULL = those of the effect: kept here once another attempt's replaced them
    continues   integer NOT NULL DEFAULT 0,    -- the tool lets the model go on while in doubt
    trace       text NOT NULL DEFAULT '',          -- of the call, for the facts of this attempt
    -- a resolution said that this attempt took no effect: after quiescence, or forced before it
    resolved    text NOT NULL DEFAULT '' CHECK (resolved IN ('','not_applied','forced')),
    PRIMARY KEY (op_key, attempt)
);
CREATE INDEX effect_attempts_run ON effect_attempts (run_id, epoch) WHERE outcome = '';

CREATE TABLE approvals (
    id          blob PRIMARY KEY,
    run_id      blob NOT NULL REFERENCES runs (id),
    turn        integer NOT NULL,
    call_index  integer NOT NULL,
    digest      blob NOT NULL,                     -- tool + arguments + tool schema + policy version
    state       text NOT NULL CHECK (state IN ('requested','approved','denied','consumed','expired')),
    decided_by  text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    expires_at  integer NOT NULL,
    created_at  integer NOT NULL,
    decided_at  integer,
    consumed_at integer
);
CREATE TABLE budgets (
    id            blob PRIMARY KEY,
    tenant        text NOT NULL,
    scope         text NOT NULL CHECK (scope IN ('run','owner','day')),
    scope_key     text NOT NULL,
    limit_pico    integer NOT NULL CHECK (limit_pico >= 0),
    spent_pico    integer NOT NULL DEFAULT 0,
    UNIQUE (tenant, scope, scope_key)
);
CREATE TABLE budget_reservations (
    budget_id   blob NOT NULL REFERENCES budgets (id),
    run_id      blob NOT NULL REFERENCES runs (id),
    epoch       integer NOT NULL,
    attempt_id  blob NOT NULL,
    amount_pico integer NOT NULL CHECK (amount_pico >= 0),
    state       text NOT NULL CHECK (state IN ('reserved','settled','unsettled')),
    PRIMARY KEY (budget_id, attempt_id)
);

-- Values too large for an event, by hash.
CREATE TABLE blobs (
    tenant     text NOT NULL,
    hash       blob NOT NULL CHECK (length(hash) = 32),
    media_type text NOT NULL,
    content    blob NOT NULL,
    created_at integer NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- The archive. Rows are never updated; what an epoch made invalid moves to set_aside.
CREATE TABLE events (
    run_id     blob NOT NULL,
    seq        integer NOT NULL CHECK (seq > 0),
    epoch      integer NOT NULL CHECK (epoch > 0),
    event_id   blob NOT NULL,
    type       text NOT NULL,
    version    integer NOT NULL,
    time       integer NOT NULL,
    tenant     text NOT NULL,
    session_id text NOT NULL DEFAULT '',
    trace      text NOT NULL DEFAULT '',
    prev       blob NOT NULL CHECK (length(prev) = 32),
    hash       blob NOT NULL CHECK (length(hash) = 32),
    bytes      blob NOT NULL,
    PRIMARY KEY (run_id, seq),
    UNIQUE (run_id, event_id)
);

CREATE TABLE set_aside (
    run_id       blob NOT NULL,
    seq          integer NOT NULL,
    epoch        integer NOT NULL,
    event_id     blob NOT NULL,
    hash         blob NOT NULL,
    bytes        blob NOT NULL,
    reason       text NOT NULL,
    set_aside_at integer NOT NULL,
    PRIMARY KEY (run_id, seq, hash)
);

-- Where folding and feeding stand; the lock of everything that writes events of a run.
CREATE TABLE run_folds (
    run_id      blob PRIMARY KEY REFERENCES runs (id),
    folded_seq  integer NOT NULL DEFAULT 0,
    fed_seq     integer NOT NULL DEFAULT 0,
    top_seq     integer NOT NULL DEFAULT 0,             -- highest seq in events
    top_at      integer,                           -- when it last rose
    incomplete  text NOT NULL DEFAULT '',              -- why the ledger cannot be complete here
    open        blob NOT NULL DEFAULT x''              -- calls and model attempts still open, by the seq of their rows: where folding goes on
);
CREATE INDEX run_folds_behind ON run_folds (top_at) WHERE folded_seq < top_seq;
CREATE INDEX run_folds_unfed  ON run_folds (run_id) WHERE fed_seq < folded_seq;
CREATE INDEX run_folds_open   ON run_folds (run_id) WHERE length(open) > 0;

-- Who publishes to the feed: one projector at a time, so that no run's events change their order.
CREATE TABLE feed_lease (
    one    integer PRIMARY KEY CHECK (one = 1),
    holder text NOT NULL,
    until  integer NOT NULL
);

CREATE TABLE quarantine (
    id          integer PRIMARY KEY AUTOINCREMENT,
    run_id      blob,
    worker      text NOT NULL DEFAULT '',
    stream_seq  integer NOT NULL DEFAULT 0,
    digest      blob NOT NULL UNIQUE,                 -- of the bytes: redelivery adds no row
    bytes       blob NOT NULL,
    reason      text NOT NULL,
    received_at integer NOT NULL
);

-- Projections.
CREATE TABLE tool_call_records (
    run_id      blob NOT NULL,
    seq         integer NOT NULL,
    tenant      text NOT NULL,
    owner       text NOT NULL DEFAULT '',
    session_id  text NOT NULL DEFAULT '',
    turn        integer NOT NULL,
    call_index  integer NOT NULL,
    attempt     integer NOT NULL,
    status      text NOT NULL CHECK (status IN ('started','progress','finished','error','blocked','in_doubt','resolved')),
    terminal    integer NOT NULL,
    tool        text NOT NULL,
    effect      text NOT NULL DEFAULT '',
    recovery    text NOT NULL DEFAULT '',
    op_key      blob,
    token       blob,
    arguments   text,
    result      text,
    reason      text NOT NULL DEFAULT '',              -- blocked reason, in-doubt cause or effect state
    detail      text NOT NULL DEFAULT '',
    repeated    integer NOT NULL DEFAULT 0,
    of_run_id   blob,
    of_turn     integer,
    of_index    integer,
    trust       text NOT NULL DEFAULT '',
    cost_pico   integer,                                -- NULL = unmeasured
    latency_ms  integer,
    started_at  integer,
    at          integer NOT NULL,
    trace       text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX tool_call_records_list ON tool_call_records (tenant, run_id DESC, seq DESC) WHERE terminal;
CREATE INDEX tool_call_records_op   ON tool_call_records (op_key) WHERE op_key IS NOT NULL;

CREATE TABLE model_calls (
    run_id       blob NOT NULL,
    seq          integer NOT NULL,                      -- of its model_call_started; a late outcome without one has its own
    tenant       text NOT NULL,
    owner        text NOT NULL DEFAULT '',
    turn         integer NOT NULL,
    attempt      integer NOT NULL,
    epoch        integer NOT NULL,
    state        text NOT NULL CHECK (state IN ('unsettled','finished','error','late')),
    model        text NOT NULL,
    served_model text NOT NULL DEFAULT '',
    input_tokens integer, output_tokens integer, cache_read_tokens integer, cache_write_tokens integer, reasoning_tokens integer,
    usage_missing integer NOT NULL DEFAULT 0,
    cost_pico    integer,                               -- NULL = unpriced
    rates        text,
    error_kind   text NOT NULL DEFAULT '',
    latency_ms   integer,
    started_at   integer,
    at           integer NOT NULL,
    trace        text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE artifacts (
    run_id   blob NOT NULL,
    seq      integer NOT NULL,
    tenant   text NOT NULL,
    name     text NOT NULL,
    content  blob NOT NULL,
    bytes    integer NOT NULL,
    at       integer NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE run_summaries (
    run_id        blob PRIMARY KEY,
    tenant        text NOT NULL,
    owner         text NOT NULL DEFAULT '',
    agent         text NOT NULL,
    events        integer NOT NULL DEFAULT 0,
    turns         integer NOT NULL DEFAULT 0,
    model_calls   integer NOT NULL DEFAULT 0,
    tool_calls    integer NOT NULL DEFAULT 0,           -- distinct calls that were started
    destructive   integer NOT NULL DEFAULT 0,
    repeated      integer NOT NULL DEFAULT 0,
    blocked       integer NOT NULL DEFAULT 0,
    in_doubt      integer NOT NULL DEFAULT 0,           -- calls in doubt now
    resumes       integer NOT NULL DEFAULT 0,
    input_tokens  integer NOT NULL DEFAULT 0,
    output_tokens integer NOT NULL DEFAULT 0,
    cost_pico     text NOT NULL DEFAULT '0',          -- of what is priced
    unpriced      integer NOT NULL DEFAULT 0,           -- model calls without a price
    unmeasured    integer NOT NULL DEFAULT 0,           -- tool calls without a cost
    first_at      integer NOT NULL,
    last_at       integer NOT NULL,
    state         text NOT NULL DEFAULT ''             -- as folded: stopped_by, parked reason or empty
);

-- +goose Down
DROP TABLE run_summaries;
DROP TABLE artifacts;
DROP TABLE model_calls;
DROP TABLE tool_call_records;
DROP TABLE quarantine;
DROP TABLE feed_lease;
DROP TABLE run_folds;
DROP TABLE set_aside;
DROP TABLE events;
DROP TABLE blobs;
DROP TABLE budget_reservations;
DROP TABLE budgets;
DROP TABLE approvals;
DROP TABLE effect_attempts;
DROP TABLE effects;
DROP TABLE facts;
DROP TABLE run_epochs;
DROP TABLE runs;
DROP TABLE tenant_keys;
