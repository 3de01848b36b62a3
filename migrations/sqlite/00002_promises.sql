-- +goose Up
-- What the promises need under production: waiting, the queue, money, gates, healing, forks.
-- Each part has its own section; the columns of runs come first.

ALTER TABLE runs ADD COLUMN concurrency_key text NOT NULL DEFAULT '';               -- runs with the same key count together for a limit per key
ALTER TABLE runs ADD COLUMN started_at integer;                                     -- first claim
ALTER TABLE runs ADD COLUMN attempt integer NOT NULL DEFAULT 1;                     -- of the work, over runs that try it again
ALTER TABLE runs ADD COLUMN max_attempts integer NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN retry_of blob;                                          -- the failed run that this one tries again
ALTER TABLE runs ADD COLUMN successor blob;                                         -- the run that tries this one again
ALTER TABLE runs ADD COLUMN dead_at integer;                                        -- failed, and nothing tries it again by itself
ALTER TABLE runs ADD COLUMN held_by text NOT NULL DEFAULT '';                       -- who holds it back
ALTER TABLE runs ADD COLUMN held_reason text NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN held_at integer;                                        -- not NULL: nobody claims it
ALTER TABLE runs ADD COLUMN schedule text NOT NULL DEFAULT '';                      -- the schedule that submitted it
ALTER TABLE runs ADD COLUMN cancel_at integer;                                      -- when somebody asked for its end
ALTER TABLE runs ADD COLUMN fork_of blob;                                           -- the run whose history it begins with
ALTER TABLE runs ADD COLUMN fork_seq integer NOT NULL DEFAULT 0;                    -- up to this event
ALTER TABLE runs ADD COLUMN fork_effects text NOT NULL DEFAULT '';                  -- replay, simulate or ask
CREATE INDEX runs_dead ON runs (id) WHERE dead_at IS NOT NULL;
CREATE INDEX runs_children ON runs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_forks ON runs (fork_of) WHERE fork_of IS NOT NULL;

-- == Gates: approvals, switches ==
ALTER TABLE approvals ADD COLUMN tenant text NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN tool text NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN arguments text;                                     -- what would be executed, redacted
ALTER TABLE approvals ADD COLUMN tool_hash blob;                                    -- of the declaration
ALTER TABLE approvals ADD COLUMN policy blob;                                      -- version of the policy that asked
ALTER TABLE approvals ADD COLUMN why text NOT NULL DEFAULT '';                      -- policy, taint, fork
ALTER TABLE approvals ADD COLUMN taint_by text NOT NULL DEFAULT '';                 -- the call that brought foreign text in
ALTER TABLE approvals ADD COLUMN decided_role text NOT NULL DEFAULT '';             -- database role of whoever decided
CREATE INDEX approvals_call ON approvals (run_id, turn, call_index);
CREATE INDEX approvals_open ON approvals (id) WHERE state = 'requested';

-- Every change of a tool's switch; the newest per tool counts. No row = on.
CREATE TABLE switches (
    seq      integer PRIMARY KEY,                         -- given under the table's lock
    tenant   text NOT NULL,
    tool     text NOT NULL,                               -- or * for all of the tenant's
    mode     text NOT NULL CHECK (mode IN ('on','paused','off')),
    set_by   text NOT NULL,
    set_role text NOT NULL DEFAULT '',
    reason   text NOT NULL,
    set_at   integer NOT NULL
);
CREATE INDEX switches_tool ON switches (tenant, tool, seq);


-- == Waiting: handed-off calls ==
-- A call whose outcome comes from outside, later: an async tool, a timer, a signal, a child run.
CREATE TABLE handoffs (
    token          blob PRIMARY KEY,
    run_id         blob NOT NULL REFERENCES runs (id),
    turn           integer NOT NULL,
    call_index     integer NOT NULL,
    call_attempt   integer NOT NULL,
    tool           text NOT NULL,
    reason         text NOT NULL CHECK (reason IN ('async_tool','timer','signal','child')),
    op_key         blob,                                    -- destructive: the effect that Token is an attempt of
    child_id       blob,                                     -- the run whose end completes it
    signal         text NOT NULL DEFAULT '',                 -- the signal that completes it
    trust          text NOT NULL DEFAULT '',                 -- of the outcome
    trace          text NOT NULL DEFAULT '',
    expires_as     text,                                     -- NULL: its expiry is a timeout; else the output that it then has
    until          integer,                              -- NULL = never by itself
    state          text NOT NULL CHECK (state IN ('open','completed','expired')),
    outcome_digest blob,                                    -- of what completed it
    created_at     integer NOT NULL,
    completed_at   integer,
    completed_by   text NOT NULL DEFAULT '',
    CHECK ((state = 'open') = (completed_at IS NULL))
);
CREATE INDEX handoffs_run   ON handoffs (run_id);
CREATE INDEX handoffs_child ON handoffs (child_id) WHERE child_id IS NOT NULL;
CREATE INDEX handoffs_open  ON handoffs (token) WHERE state = 'open';

-- Messages from outside, kept until a call that waits for them takes them.
CREATE TABLE signals (
    run_id      blob NOT NULL REFERENCES runs (id),
    event_id    blob NOT NULL,
    name        text NOT NULL,
    data        text,
    sender      text NOT NULL DEFAULT '',
    received_at integer NOT NULL,
    taken_by    blob,                                        -- token of the hand-off that it completed
    PRIMARY KEY (run_id, event_id)
);

ALTER TABLE effect_attempts ADD COLUMN handed_off_at integer;  -- its outcome comes from outside, by its token
ALTER TABLE effect_attempts ADD COLUMN handed_until integer;   -- at the latest


-- == Queue: limits, shares, schedules ==

-- New work is taken per queue and tenant, highest priority first.
DROP INDEX runs_due;
CREATE INDEX runs_lanes ON runs (queue, tenant, priority DESC, due_at, id) WHERE state = 'queued' AND held_at IS NULL;
CREATE INDEX runs_begun ON runs (due_at) WHERE state = 'queued' AND started_at IS NOT NULL;   -- handed over
CREATE INDEX runs_held  ON runs (id) WHERE held_at IS NOT NULL;
UPDATE runs SET started_at = (SELECT min(e.created_at) FROM run_epochs e WHERE e.run_id = runs.id) WHERE epoch > 0;
ALTER TABLE runs ADD COLUMN crashes integer NOT NULL DEFAULT 0;   -- takeovers in a row without an outcome in between

ALTER TABLE effect_attempts ADD COLUMN inherited integer NOT NULL DEFAULT 0;   -- executed nothing: stands for an attempt of a failed run that this one tries again

-- How much of a queue its tenants have had, counted in starts; kept while several compete.
CREATE TABLE tenant_shares (
    queue  text NOT NULL,
    tenant text NOT NULL,
    vtime  integer NOT NULL,                -- where the tenant's next start stands
    served integer NOT NULL,                -- where its last one stood; the highest of a queue is the queue's virtual time
    PRIMARY KEY (queue, tenant)
);

-- A limit of 0 is none.
CREATE TABLE queue_limits (
    queue         text PRIMARY KEY,
    max_running   integer NOT NULL DEFAULT 0 CHECK (max_running >= 0),
    max_per_key   integer NOT NULL DEFAULT 0 CHECK (max_per_key >= 0),
    rate_count    integer NOT NULL DEFAULT 0 CHECK (rate_count >= 0),   -- starts, in any window
    rate_micros   integer NOT NULL DEFAULT 0 CHECK (rate_micros >= 0),   -- of this length
    paused_at     integer,
    paused_by     text NOT NULL DEFAULT '',
    paused_reason text NOT NULL DEFAULT '',
    CHECK ((rate_count > 0) = (rate_micros > 0))
);

-- Starts in queues that have a rate, for as long as they count.
CREATE TABLE queue_starts (
    queue      text NOT NULL,
    started_at integer NOT NULL,
    run_id     blob NOT NULL,
    PRIMARY KEY (queue, started_at, run_id)
);

CREATE TABLE schedules (
    tenant          text NOT NULL,
    name            text NOT NULL,
    spec            text NOT NULL,               -- five fields of cron, or @daily and the like
    timezone        text NOT NULL,               -- of the IANA database
    queue           text NOT NULL,
    agent           text NOT NULL,
    owner           text NOT NULL DEFAULT '',
    input           text NOT NULL,
    input_mac       blob NOT NULL,
    requires        text NOT NULL DEFAULT '[]',
    priority        integer NOT NULL DEFAULT 0,
    concurrency_key text NOT NULL DEFAULT '',
    max_attempts    integer NOT NULL DEFAULT 0,
    budget_pico     integer CHECK (budget_pico >= 0),   -- of each run with its retries and children; NULL = as its agent says
    missed          text NOT NULL CHECK (missed IN ('skip','once','all')),
    catch_up        integer NOT NULL CHECK (catch_up > 0),   -- with missed = all: the last so many are made up for
    overlap         text NOT NULL CHECK (overlap IN ('skip','allow')),
    next_at         integer,                -- NULL: never again
    last_at         integer,                -- the last fire that made a run
    last_run        blob,
    skipped         integer NOT NULL DEFAULT 0,      -- fires that made no run of their own
    skipped_at      integer,                -- when that was last noticed
    skipped_why     text NOT NULL DEFAULT '',
    paused_at       integer,
    paused_by       text NOT NULL DEFAULT '',
    paused_reason   text NOT NULL DEFAULT '',
    error           text NOT NULL DEFAULT '',    -- why it could not fire
    error_at        integer,                -- tried again a while after that
    created_by      text NOT NULL,
    updated_by      text NOT NULL,
    created_at      integer NOT NULL,
    updated_at      integer NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL AND paused_at IS NULL;
-- A fire looks for a run of an earlier one that has not ended.
CREATE INDEX runs_scheduled ON runs (tenant, schedule) WHERE schedule <> '' AND state IN ('queued','running','parked','cancelling');

-- What persons did to queues and schedules; what they did to a run is an event of the run.
CREATE TABLE operator_acts (
    id      integer PRIMARY KEY AUTOINCREMENT,
    kind    text NOT NULL CHECK (kind IN ('queue','schedule','ledger')),
    name    text NOT NULL,                       -- of a schedule: TENANT/NAME
    verb    text NOT NULL,
    by_whom text NOT NULL,
    detail  text NOT NULL DEFAULT '',
    at      integer NOT NULL
);
CREATE INDEX operator_acts_of ON operator_acts (kind, name, id);


-- == Money: budgets ==
DROP TABLE budget_reservations;
DROP TABLE budgets;
-- A limit on what is spent for a run's lineage, an owner or a tenant, over all or per UTC day.
CREATE TABLE budgets (
    id         blob PRIMARY KEY,
    tenant     text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('run','owner','tenant')),
    name       text NOT NULL,                                 -- the run's id, the owner, or empty
    period     text NOT NULL CHECK (period IN ('total','day')),
    limit_pico integer CHECK (limit_pico >= 0),                -- NULL = no limit any more; what is spent is still counted
    set_by     text NOT NULL,
    set_at     integer NOT NULL,
    UNIQUE (tenant, kind, name, period)
);
-- Who set which limit, in order; never changed.
CREATE TABLE budget_changes (
    id         integer PRIMARY KEY AUTOINCREMENT,
    budget_id  blob NOT NULL REFERENCES budgets (id),
    limit_pico integer,
    set_by     text NOT NULL,
    set_at     integer NOT NULL
);
CREATE INDEX budget_changes_budget ON budget_changes (budget_id, id);
-- What a budget has spent and holds back: the row that reservations lock.
CREATE TABLE budget_periods (
    budget_id  blob NOT NULL REFERENCES budgets (id),
    day        text NOT NULL,                                 -- 2026-01-31 in UTC; empty = over all
    spent_pico integer NOT NULL DEFAULT 0,                     -- settled
    held_pico  integer NOT NULL DEFAULT 0 CHECK (held_pico >= 0), -- reserved and unsettled
    PRIMARY KEY (budget_id, day)
);
-- One row per attempt and budget that it counts against.
CREATE TABLE budget_reservations (
    attempt_id  blob NOT NULL,
    budget_id   blob NOT NULL,
    day         text NOT NULL,
    run_id      blob NOT NULL REFERENCES runs (id),
    epoch       integer NOT NULL,
    what        text NOT NULL,
    amount_pico integer NOT NULL CHECK (amount_pico >= 0),     -- held until it is settled
    actual_pico integer,                                       -- NULL until it is settled
    -- unsettled: nobody knows what it cost; unpriced: no price is known, nothing is held
    state       text NOT NULL CHECK (state IN ('reserved','settled','unsettled','unpriced')),
    settled_by  text NOT NULL DEFAULT '',                     -- usage, evidence or a person
    created_at  integer NOT NULL,
    settled_at  integer,
    PRIMARY KEY (attempt_id, budget_id),
    FOREIGN KEY (budget_id, day) REFERENCES budget_periods (budget_id, day),
    CHECK ((state = 'settled') = (actual_pico IS NOT NULL))
);
CREATE INDEX budget_reservations_open ON budget_reservations (budget_id, day) WHERE state <> 'settled';
CREATE INDEX budget_reservations_run  ON budget_reservations (run_id) WHERE state = 'reserved';

-- == Seals: keys per owner ==
ALTER TABLE effect_attempts ADD COLUMN sealed blob;  -- the exact result, under the data key of the run's owner
-- Data keys, wrapped by the key-encryption key that workers are given. Destroying one erases what it sealed.
CREATE TABLE owner_keys (
    tenant       text NOT NULL,
    owner        text NOT NULL,
    wrapped      blob,                                     -- NULL = destroyed
    created_at   integer NOT NULL,
    destroyed_at integer,
    destroyed_by text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, owner),
    CHECK ((wrapped IS NULL) = (destroyed_at IS NOT NULL))
);

-- == Healing: databases that went back in time, runs that nobody can read ==
-- How far each projector has come in the journal. A database that the journal's
-- consumer is ahead of has lost commits: it was restored, or is a replica that lagged.
CREATE TABLE journal_positions (
    reader      text NOT NULL,                           -- a projector's process; empty = the baseline
    incarnation text NOT NULL,                           -- of the consumer: it changes when that is made again
    sequence    integer NOT NULL,
    at          integer NOT NULL,
    PRIMARY KEY (reader, incarnation)
);
-- While its one row is there nothing is claimed, begun or projected.
CREATE TABLE rollbacks (
    one      integer PRIMARY KEY CHECK (one = 1),
    reason   text NOT NULL,
    found_at integer NOT NULL
);
-- Why its last holder could not read the run's history; nobody may add to it then.
ALTER TABLE runs ADD COLUMN unreadable text NOT NULL DEFAULT '';
CREATE INDEX runs_unreadable ON runs (id) WHERE unreadable <> '';


-- == End ==

-- +goose Down
-- == Healing ==
DROP INDEX runs_unreadable;
ALTER TABLE runs DROP COLUMN unreadable;
DROP TABLE rollbacks;
DROP TABLE journal_positions;


-- == Seals ==
DROP TABLE owner_keys;
ALTER TABLE effect_attempts DROP COLUMN sealed;

-- == Money ==
DROP TABLE budget_reservations;
DROP TABLE budget_periods;
DROP TABLE budget_changes;
DROP TABLE budgets;
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

-- == Queue ==
DROP TABLE operator_acts;
DROP INDEX runs_scheduled;
DROP TABLE schedules;
DROP TABLE queue_starts;
DROP TABLE queue_limits;
DROP TABLE tenant_shares;
ALTER TABLE effect_attempts DROP COLUMN inherited;
ALTER TABLE runs DROP COLUMN crashes;
DROP INDEX runs_held;
DROP INDEX runs_begun;
DROP INDEX runs_lanes;
CREATE INDEX runs_due ON runs (queue, priority DESC, due_at, id) WHERE state = 'queued';


-- == Waiting ==
ALTER TABLE effect_attempts DROP COLUMN handed_until;
ALTER TABLE effect_attempts DROP COLUMN handed_off_at;
DROP TABLE signals;
DROP TABLE handoffs;


-- == Gates ==
DROP TABLE switches;
DROP INDEX approvals_open;
DROP INDEX approvals_call;
ALTER TABLE approvals DROP COLUMN decided_role;
ALTER TABLE approvals DROP COLUMN taint_by;
ALTER TABLE approvals DROP COLUMN why;
ALTER TABLE approvals DROP COLUMN policy;
ALTER TABLE approvals DROP COLUMN tool_hash;
ALTER TABLE approvals DROP COLUMN arguments;
ALTER TABLE approvals DROP COLUMN tool;
ALTER TABLE approvals DROP COLUMN tenant;


-- == Runs ==
DROP INDEX runs_forks;
DROP INDEX runs_children;
DROP INDEX runs_dead;
ALTER TABLE runs DROP COLUMN fork_effects;
ALTER TABLE runs DROP COLUMN fork_seq;
ALTER TABLE runs DROP COLUMN fork_of;
ALTER TABLE runs DROP COLUMN cancel_at;
ALTER TABLE runs DROP COLUMN schedule;
ALTER TABLE runs DROP COLUMN held_at;
ALTER TABLE runs DROP COLUMN held_reason;
ALTER TABLE runs DROP COLUMN held_by;
ALTER TABLE runs DROP COLUMN dead_at;
ALTER TABLE runs DROP COLUMN successor;
ALTER TABLE runs DROP COLUMN retry_of;
ALTER TABLE runs DROP COLUMN max_attempts;
ALTER TABLE runs DROP COLUMN attempt;
ALTER TABLE runs DROP COLUMN started_at;
ALTER TABLE runs DROP COLUMN concurrency_key;
