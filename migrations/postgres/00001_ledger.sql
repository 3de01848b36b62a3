-- +goose Up
-- State tables are written by workers and operators, the archive by barriers and
-- the projector, projections by the projector alone. A zero value in Go is NULL here.

-- Test-only: moves the database's clock. Empty in production.
CREATE TABLE clock_offset (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    amount interval NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION daybook_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT clock_timestamp() + coalesce((SELECT amount FROM clock_offset), interval '0')
$$;
-- +goose StatementEnd

-- Random keys of this ledger, one per tenant: fingerprints in redaction markers and input digests.
CREATE TABLE tenant_keys (
    tenant     text PRIMARY KEY,
    key        bytea NOT NULL CHECK (length(key) = 32),
    created_at timestamptz NOT NULL
);

CREATE TABLE runs (
    id            uuid PRIMARY KEY,
    tenant        text NOT NULL CHECK (tenant ~ '^[A-Za-z0-9_-]{1,64}$'),
    queue         text NOT NULL,
    agent         text NOT NULL,
    owner         text NOT NULL DEFAULT '',
    session_id    text NOT NULL DEFAULT '',
    root_id       uuid NOT NULL,
    parent_id     uuid,
    client_key    text NOT NULL,
    input_mac     bytea NOT NULL,
    input         json NOT NULL,
    requires      text[] NOT NULL DEFAULT '{}',           -- capabilities (tool names) a worker must have
    priority      integer NOT NULL DEFAULT 0,             -- higher first
    trace         text NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL,
    due_at        timestamptz NOT NULL,                   -- not claimed before
    deadline_at   timestamptz,
    state         text NOT NULL CHECK (state IN ('queued','running','parked','cancelling','finished','failed','cancelled')),
    park_reason   text NOT NULL DEFAULT '',
    park_detail   text NOT NULL DEFAULT '',
    park_key      bytea,                                  -- the op key waited for
    wake_at       timestamptz,                            -- parked: looked at again whatever happens
    parked_at     timestamptz,
    not_before    timestamptz,                            -- back-off after a claim that appended no fact
    idle_claims   integer NOT NULL DEFAULT 0,             -- claims of an ended run in a row that appended no fact
    clean         boolean NOT NULL DEFAULT true,          -- the last holder carried its whole prefix into events
    epoch         bigint NOT NULL DEFAULT 0,
    worker        text NOT NULL DEFAULT '',               -- the last holder
    lease_until   timestamptz,                            -- NULL = no lease
    cancel_by     text NOT NULL DEFAULT '',
    cancel_reason text NOT NULL DEFAULT '',
    stopped_by    text NOT NULL DEFAULT '',
    result        json,
    error         text NOT NULL DEFAULT '',
    ended_at      timestamptz,
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
    run_id     uuid NOT NULL REFERENCES runs (id),
    epoch      bigint NOT NULL CHECK (epoch > 0),
    base_seq   bigint NOT NULL CHECK (base_seq >= 0),
    base_hash  bytea NOT NULL CHECK (length(base_hash) = 32),
    worker     text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, epoch)
);

-- Facts are events without a number yet; id gives their insertion order.
CREATE TABLE facts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     uuid NOT NULL REFERENCES runs (id),
    event_id   uuid NOT NULL,
    type       text NOT NULL,
    version    integer NOT NULL CHECK (version > 0),
    trace      text NOT NULL DEFAULT '',
    data       bytea NOT NULL CHECK (length(data) <= 262144),
    created_at timestamptz NOT NULL,
    UNIQUE (run_id, event_id)
);

CREATE TABLE effects (
    op_key        bytea PRIMARY KEY CHECK (length(op_key) = 32),
    base_key      bytea NOT NULL CHECK (length(base_key) = 32),   -- without the generation
    generation    integer NOT NULL CHECK (generation > 0),
    tenant        text NOT NULL,
    scope         text NOT NULL CHECK (scope IN ('run','session','owner','tenant')),
    scope_key     text NOT NULL,
    tool          text NOT NULL,
    identity      json NOT NULL,
    state         text NOT NULL CHECK (state IN ('started','applied','not_applied','in_doubt','abandoned')),
    recovery      text NOT NULL CHECK (recovery IN ('none','keyed','fenced','probe')),
    recovery_ttl  bigint NOT NULL DEFAULT 0,                      -- microseconds
    window_micros bigint NOT NULL DEFAULT 0,                      -- 0 = none declared; -1 = for ever
    run_id        uuid NOT NULL REFERENCES runs (id),             -- the run whose attempt is the latest
    turn          integer NOT NULL,
    call_index    integer NOT NULL,
    attempts      integer NOT NULL CHECK (attempts > 0),
    first_sent_at timestamptz NOT NULL,                           -- first attempt of this generation
    arguments     json NOT NULL,                                  -- redacted, of the attempt that settled it or the latest
    args_digest   bytea NOT NULL,
    outcome       json,                                           -- events.ToolResult, redacted
    error_kind    text NOT NULL DEFAULT '',
    evidence      text NOT NULL DEFAULT '',
    settled_by    text NOT NULL DEFAULT '',                       -- end, takeover, probe, late_evidence or a person
    settled_token uuid,                                           -- the attempt whose outcome it is
    settled_at    timestamptz,
    contradicted  boolean NOT NULL DEFAULT false,                 -- late evidence against a resolution
    possible_duplicate boolean NOT NULL DEFAULT false,            -- a second applied from another attempt
    forced        boolean NOT NULL DEFAULT false,
    approval_id   uuid,
    taint         text NOT NULL DEFAULT '',
    reserved_pico bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL,
    UNIQUE (base_key, generation),
    CHECK ((state IN ('applied','not_applied','abandoned')) = (settled_at IS NOT NULL)),
    CHECK (state <> 'applied' OR outcome IS NOT NULL),
    CHECK (scope IN ('run','session') OR window_micros <> 0)
);
CREATE INDEX effects_run  ON effects (run_id);
CREATE INDEX effects_open ON effects (state, created_at) WHERE state IN ('started','in_doubt');

CREATE TABLE effect_attempts (
    op_key      bytea NOT NULL REFERENCES effects (op_key),
    attempt     integer NOT NULL CHECK (attempt > 0),
    token       uuid NOT NULL UNIQUE,
    run_id      uuid NOT NULL REFERENCES runs (id),
    epoch       bigint NOT NULL,
    turn        integer NOT NULL,
    call_index  integer NOT NULL,
    call_attempt integer NOT NULL,
    args_digest bytea NOT NULL,
    prior       boolean NOT NULL DEFAULT false,    -- an earlier attempt without a definite outcome exists
    started_at  timestamptz NOT NULL,
    deadline    timestamptz NOT NULL,
    outcome     text NOT NULL DEFAULT '' CHECK (outcome IN ('','applied','not_applied','unclear')),
    result      json,
    error       text NOT NULL DEFAULT '',
    ended_at    timestamptz,
    arguments   json,                              -- NULL = those of the effect: kept here once another attempt's replaced them
    continues   boolean NOT NULL DEFAULT false,    -- the tool lets the model go on while in doubt
    trace       text NOT NULL DEFAULT '',          -- of the call, for the facts of this attempt
    -- a resolution said that this attempt took no effect: after quiescence, or forced before it
    resolved    text NOT NULL DEFAULT '' CHECK (resolved IN ('','not_applied','forced')),
    PRIMARY KEY (op_key, attempt)
);
CREATE INDEX effect_attempts_run ON effect_attempts (run_id, epoch) WHERE outcome = '';

CREATE TABLE approvals (
    id          uuid PRIMARY KEY,
    run_id      uuid NOT NULL REFERENCES runs (id),
    turn        integer NOT NULL,
    call_index  integer NOT NULL,
    digest      bytea NOT NULL,                     -- tool + arguments + tool schema + policy version
    state       text NOT NULL CHECK (state IN ('requested','approved','denied','consumed','expired')),
    decided_by  text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    expires_at  timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    decided_at  timestamptz,
    consumed_at timestamptz
);
CREATE TABLE budgets (
    id            uuid PRIMARY KEY,
    tenant        text NOT NULL,
    scope         text NOT NULL CHECK (scope IN ('run','owner','day')),
    scope_key     text NOT NULL,
    limit_pico    bigint NOT NULL CHECK (limit_pico >= 0),
    spent_pico    bigint NOT NULL DEFAULT 0,
    UNIQUE (tenant, scope, scope_key)
);
CREATE TABLE budget_reservations (
    budget_id   uuid NOT NULL REFERENCES budgets (id),
    run_id      uuid NOT NULL REFERENCES runs (id),
    epoch       bigint NOT NULL,
    attempt_id  uuid NOT NULL,
    amount_pico bigint NOT NULL CHECK (amount_pico >= 0),
    state       text NOT NULL CHECK (state IN ('reserved','settled','unsettled')),
    PRIMARY KEY (budget_id, attempt_id)
);

-- Values too large for an event, by hash.
CREATE TABLE blobs (
    tenant     text NOT NULL,
    hash       bytea NOT NULL CHECK (length(hash) = 32),
    media_type text NOT NULL,
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- The archive. Rows are never updated; what an epoch made invalid moves to set_aside.
CREATE TABLE events (
    run_id     uuid NOT NULL,
    seq        bigint NOT NULL CHECK (seq > 0),
    epoch      bigint NOT NULL CHECK (epoch > 0),
    event_id   uuid NOT NULL,
    type       text NOT NULL,
    version    integer NOT NULL,
    time       timestamptz NOT NULL,
    tenant     text NOT NULL,
    session_id text NOT NULL DEFAULT '',
    trace      text NOT NULL DEFAULT '',
    prev       bytea NOT NULL CHECK (length(prev) = 32),
    hash       bytea NOT NULL CHECK (length(hash) = 32),
    bytes      bytea NOT NULL,
    PRIMARY KEY (run_id, seq),
    UNIQUE (run_id, event_id)
) PARTITION BY RANGE (run_id);
CREATE TABLE events_default PARTITION OF events DEFAULT;

CREATE TABLE set_aside (
    run_id       uuid NOT NULL,
    seq          bigint NOT NULL,
    epoch        bigint NOT NULL,
    event_id     uuid NOT NULL,
    hash         bytea NOT NULL,
    bytes        bytea NOT NULL,
    reason       text NOT NULL,
    set_aside_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq, hash)
);

-- Where folding and feeding stand; the lock of everything that writes events of a run.
CREATE TABLE run_folds (
    run_id      uuid PRIMARY KEY REFERENCES runs (id),
    folded_seq  bigint NOT NULL DEFAULT 0,
    fed_seq     bigint NOT NULL DEFAULT 0,
    top_seq     bigint NOT NULL DEFAULT 0,             -- highest seq in events
    top_at      timestamptz,                           -- when it last rose
    incomplete  text NOT NULL DEFAULT '',              -- why the ledger cannot be complete here
    open        bytea NOT NULL DEFAULT ''              -- calls and model attempts still open, by the seq of their rows: where folding goes on
);
CREATE INDEX run_folds_behind ON run_folds (top_at) WHERE folded_seq < top_seq;
CREATE INDEX run_folds_unfed  ON run_folds (run_id) WHERE fed_seq < folded_seq;
CREATE INDEX run_folds_open   ON run_folds (run_id) WHERE length(open) > 0;

-- Who publishes to the feed: one projector at a time, so that no run's events change their order.
CREATE TABLE feed_lease (
    one    integer PRIMARY KEY CHECK (one = 1),
    holder text NOT NULL,
    until  timestamptz NOT NULL
);

CREATE TABLE quarantine (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      uuid,
    worker      text NOT NULL DEFAULT '',
    stream_seq  bigint NOT NULL DEFAULT 0,
    digest      bytea NOT NULL UNIQUE,                 -- of the bytes: redelivery adds no row
    bytes       bytea NOT NULL,
    reason      text NOT NULL,
    received_at timestamptz NOT NULL
);

-- Projections.
CREATE TABLE tool_call_records (
    run_id      uuid NOT NULL,
    seq         bigint NOT NULL,
    tenant      text NOT NULL,
    owner       text NOT NULL DEFAULT '',
    session_id  text NOT NULL DEFAULT '',
    turn        integer NOT NULL,
    call_index  integer NOT NULL,
    attempt     integer NOT NULL,
    status      text NOT NULL CHECK (status IN ('started','progress','finished','error','blocked','in_doubt','resolved')),
    terminal    boolean NOT NULL,
    tool        text NOT NULL,
    effect      text NOT NULL DEFAULT '',
    recovery    text NOT NULL DEFAULT '',
    op_key      bytea,
    token       uuid,
    arguments   json,
    result      json,
    reason      text NOT NULL DEFAULT '',              -- blocked reason, in-doubt cause or effect state
    detail      text NOT NULL DEFAULT '',
    repeated    boolean NOT NULL DEFAULT false,
    of_run_id   uuid,
    of_turn     integer,
    of_index    integer,
    trust       text NOT NULL DEFAULT '',
    cost_pico   bigint,                                -- NULL = unmeasured
    latency_ms  bigint,
    started_at  timestamptz,
    at          timestamptz NOT NULL,
    trace       text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);
CREATE TABLE tool_call_records_default PARTITION OF tool_call_records DEFAULT;
CREATE INDEX tool_call_records_list ON tool_call_records (tenant, run_id DESC, seq DESC) WHERE terminal;
CREATE INDEX tool_call_records_op   ON tool_call_records (op_key) WHERE op_key IS NOT NULL;

CREATE TABLE model_calls (
    run_id       uuid NOT NULL,
    seq          bigint NOT NULL,                      -- of its model_call_started; a late outcome without one has its own
    tenant       text NOT NULL,
    owner        text NOT NULL DEFAULT '',
    turn         integer NOT NULL,
    attempt      integer NOT NULL,
    epoch        bigint NOT NULL,
    state        text NOT NULL CHECK (state IN ('unsettled','finished','error','late')),
    model        text NOT NULL,
    served_model text NOT NULL DEFAULT '',
    input_tokens bigint, output_tokens bigint, cache_read_tokens bigint, cache_write_tokens bigint, reasoning_tokens bigint,
    usage_missing boolean NOT NULL DEFAULT false,
    cost_pico    bigint,                               -- NULL = unpriced
    rates        json,
    error_kind   text NOT NULL DEFAULT '',
    latency_ms   bigint,
    started_at   timestamptz,
    at           timestamptz NOT NULL,
    trace        text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, seq)
) PARTITION BY RANGE (run_id);
CREATE TABLE model_calls_default PARTITION OF model_calls DEFAULT;

CREATE TABLE artifacts (
    run_id   uuid NOT NULL,
    seq      bigint NOT NULL,
    tenant   text NOT NULL,
    name     text NOT NULL,
    content  bytea NOT NULL,
    bytes    bigint NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE run_summaries (
    run_id        uuid PRIMARY KEY,
    tenant        text NOT NULL,
    owner         text NOT NULL DEFAULT '',
    agent         text NOT NULL,
    events        bigint NOT NULL DEFAULT 0,
    turns         bigint NOT NULL DEFAULT 0,
    model_calls   bigint NOT NULL DEFAULT 0,
    tool_calls    bigint NOT NULL DEFAULT 0,           -- distinct calls that were started
    destructive   bigint NOT NULL DEFAULT 0,
    repeated      bigint NOT NULL DEFAULT 0,
    blocked       bigint NOT NULL DEFAULT 0,
    in_doubt      bigint NOT NULL DEFAULT 0,           -- calls in doubt now
    resumes       bigint NOT NULL DEFAULT 0,
    input_tokens  bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    cost_pico     numeric NOT NULL DEFAULT 0,          -- of what is priced
    unpriced      bigint NOT NULL DEFAULT 0,           -- model calls without a price
    unmeasured    bigint NOT NULL DEFAULT 0,           -- tool calls without a cost
    first_at      timestamptz NOT NULL,
    last_at       timestamptz NOT NULL,
    state         text NOT NULL DEFAULT ''             -- as folded: stopped_by, parked reason or empty
);

-- +goose StatementBegin
-- Partitions of one month each, from this month on; rows of other times live in the default partitions.
CREATE FUNCTION daybook_ensure_partitions(ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month timestamptz := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    lo uuid; hi uuid; parent text; name text;
BEGIN
    FOR i IN 0..ahead LOOP
        lo := (lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
        hi := (lpad(to_hex((extract(epoch FROM month + interval '1 month') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;
        FOREACH parent IN ARRAY ARRAY['events', 'tool_call_records', 'model_calls'] LOOP
            name := parent || '_' || to_char(month AT TIME ZONE 'UTC', 'YYYYMM');
            IF to_regclass(name) IS NULL THEN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', name, parent, lo, hi);
            END IF;
        END LOOP;
        month := month + interval '1 month';
    END LOOP;
END
$$;
-- +goose StatementEnd
SELECT daybook_ensure_partitions(2);

-- +goose Down
DROP FUNCTION daybook_ensure_partitions(integer);
DROP TABLE run_summaries, artifacts, model_calls, tool_call_records, quarantine, feed_lease, run_folds, set_aside, events, blobs,
    budget_reservations, budgets, approvals, effect_attempts, effects, facts, run_epochs, runs, tenant_keys;
DROP FUNCTION daybook_now();
DROP TABLE clock_offset;
