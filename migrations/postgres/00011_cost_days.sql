-- +goose Up
-- What calls cost, by day: kept as events are folded, so that a sum over a large ledger reads
-- some thousand rows and not every call. An amount is milli * 10^9 + pico, in pico-USD: of each
-- call both parts are added, and no sum of a day leaves a bigint.
CREATE TABLE cost_days (
    kind          text COLLATE "C" NOT NULL CHECK (kind IN ('model','tool','owner')), -- what name is; owner has the calls of the two others once more
    run_day       text COLLATE "C" NOT NULL,                   -- 2026-01-31 in UTC: on which the runs were queued
    day           text COLLATE "C" NOT NULL,                   -- of the calls
    tenant        text COLLATE "C" NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    agent         text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    model_calls   bigint NOT NULL DEFAULT 0,
    model_milli   bigint NOT NULL DEFAULT 0,
    model_pico    bigint NOT NULL DEFAULT 0,
    unpriced      bigint NOT NULL DEFAULT 0,
    unsettled     bigint NOT NULL DEFAULT 0,
    input_tokens  bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    tool_calls    bigint NOT NULL DEFAULT 0,
    tool_milli    bigint NOT NULL DEFAULT 0,
    tool_pico     bigint NOT NULL DEFAULT 0,
    unmeasured    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, run_day, day, tenant, queue, agent, name)
) WITH (fillfactor = 70); -- the rows of today change all the time: room for them in their pages

INSERT INTO cost_days (kind, run_day, day, tenant, queue, agent, name, model_calls, model_milli, model_pico, unpriced, unsettled, input_tokens, output_tokens)
SELECT k.kind, r.run_day, to_char(c.at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), c.tenant, r.queue, r.agent,
    CASE WHEN k.kind = 'owner' THEN c.owner WHEN c.served_model = '' THEN c.model ELSE c.served_model END,
    count(*), coalesce(sum(c.cost_pico / 1000000000), 0), coalesce(sum(c.cost_pico % 1000000000), 0),
    count(*) FILTER (WHERE c.state <> 'unsettled' AND c.cost_pico IS NULL AND (c.usage_missing OR c.input_tokens IS NOT NULL)),
    count(*) FILTER (WHERE c.state = 'unsettled'), coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0)
FROM model_calls c JOIN (
    SELECT id, queue, agent, to_char(DATE '1970-01-01' + least(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 86400000, 2932896)::integer, 'YYYY-MM-DD') AS run_day FROM runs
) r ON r.id = c.run_id, (VALUES ('model'), ('owner')) k (kind)
GROUP BY 1, 2, 3, 4, 5, 6, 7;

INSERT INTO cost_days (kind, run_day, day, tenant, queue, agent, name, tool_calls, tool_milli, tool_pico, unmeasured)
SELECT k.kind, r.run_day, to_char(c.at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), c.tenant, r.queue, r.agent, CASE WHEN k.kind = 'owner' THEN c.owner ELSE c.tool END,
    count(*), coalesce(sum(c.cost_pico / 1000000000), 0), coalesce(sum(c.cost_pico % 1000000000), 0), count(*) FILTER (WHERE c.cost_pico IS NULL)
FROM tool_call_records c JOIN (
    SELECT id, queue, agent, to_char(DATE '1970-01-01' + least(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 86400000, 2932896)::integer, 'YYYY-MM-DD') AS run_day FROM runs
) r ON r.id = c.run_id, (VALUES ('tool'), ('owner')) k (kind)
WHERE c.status IN ('finished','error','resolved') AND NOT c.repeated
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT (kind, run_day, day, tenant, queue, agent, name) DO UPDATE SET
    tool_calls = excluded.tool_calls, tool_milli = excluded.tool_milli, tool_pico = excluded.tool_pico, unmeasured = excluded.unmeasured;

-- +goose Down
DROP TABLE cost_days;
