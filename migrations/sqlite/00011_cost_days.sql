-- +goose Up
-- What calls cost, by day: kept as events are folded, so that a sum over a large ledger reads
-- some thousand rows and not every call. An amount is milli * 10^9 + pico, in pico-USD: of each
-- call both parts are added, and no sum of a day leaves a bigint.
CREATE TABLE cost_days (
    kind          text NOT NULL CHECK (kind IN ('model','tool','owner')), -- what name is; owner has the calls of the two others once more
    run_day       text NOT NULL,                   -- 2026-01-31 in UTC: on which the runs were queued
    day           text NOT NULL,                   -- of the calls
    tenant        text NOT NULL,
    queue         text NOT NULL,
    agent         text NOT NULL,
    name          text NOT NULL,
    model_calls   integer NOT NULL DEFAULT 0,
    model_milli   integer NOT NULL DEFAULT 0,
    model_pico    integer NOT NULL DEFAULT 0,
    unpriced      integer NOT NULL DEFAULT 0,
    unsettled     integer NOT NULL DEFAULT 0,
    input_tokens  integer NOT NULL DEFAULT 0,
    output_tokens integer NOT NULL DEFAULT 0,
    tool_calls    integer NOT NULL DEFAULT 0,
    tool_milli    integer NOT NULL DEFAULT 0,
    tool_pico     integer NOT NULL DEFAULT 0,
    unmeasured    integer NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, run_day, day, tenant, queue, agent, name)
) WITHOUT ROWID;

INSERT INTO cost_days (kind, run_day, day, tenant, queue, agent, name, model_calls, model_milli, model_pico, unpriced, unsettled, input_tokens, output_tokens)
SELECT k.kind, r.run_day, date(c.at / 1000000, 'unixepoch'), c.tenant, r.queue, r.agent,
    CASE WHEN k.kind = 'owner' THEN c.owner WHEN c.served_model = '' THEN c.model ELSE c.served_model END,
    count(*), coalesce(sum(c.cost_pico / 1000000000), 0), coalesce(sum(c.cost_pico % 1000000000), 0),
    count(*) FILTER (WHERE c.state <> 'unsettled' AND c.cost_pico IS NULL AND (c.usage_missing OR c.input_tokens IS NOT NULL)),
    count(*) FILTER (WHERE c.state = 'unsettled'), coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0)
FROM model_calls c JOIN (
    SELECT id, queue, agent, date(min(ms / 86400000, 2932896) * 86400, 'unixepoch') AS run_day FROM (
        SELECT id, queue, agent, ((instr('123456789ABCDEF', substr(x, 1, 1))) << 44) + ((instr('123456789ABCDEF', substr(x, 2, 1))) << 40) + ((instr('123456789ABCDEF', substr(x, 3, 1))) << 36) + ((instr('123456789ABCDEF', substr(x, 4, 1))) << 32) + ((instr('123456789ABCDEF', substr(x, 5, 1))) << 28) + ((instr('123456789ABCDEF', substr(x, 6, 1))) << 24) + ((instr('123456789ABCDEF', substr(x, 7, 1))) << 20) + ((instr('123456789ABCDEF', substr(x, 8, 1))) << 16) + ((instr('123456789ABCDEF', substr(x, 9, 1))) << 12) + ((instr('123456789ABCDEF', substr(x, 10, 1))) << 8) + ((instr('123456789ABCDEF', substr(x, 11, 1))) << 4) + ((instr('123456789ABCDEF', substr(x, 12, 1))) << 0) AS ms
        FROM (SELECT id, queue, agent, hex(substr(id, 1, 6)) AS x FROM runs)
    )
) r ON r.id = c.run_id, (SELECT 'model' AS kind UNION ALL SELECT 'owner') k
GROUP BY 1, 2, 3, 4, 5, 6, 7;

INSERT INTO cost_days (kind, run_day, day, tenant, queue, agent, name, tool_calls, tool_milli, tool_pico, unmeasured)
SELECT k.kind, r.run_day, date(c.at / 1000000, 'unixepoch'), c.tenant, r.queue, r.agent, CASE WHEN k.kind = 'owner' THEN c.owner ELSE c.tool END,
    count(*), coalesce(sum(c.cost_pico / 1000000000), 0), coalesce(sum(c.cost_pico % 1000000000), 0), count(*) FILTER (WHERE c.cost_pico IS NULL)
FROM tool_call_records c JOIN (
    SELECT id, queue, agent, date(min(ms / 86400000, 2932896) * 86400, 'unixepoch') AS run_day FROM (
        SELECT id, queue, agent, ((instr('123456789ABCDEF', substr(x, 1, 1))) << 44) + ((instr('123456789ABCDEF', substr(x, 2, 1))) << 40) + ((instr('123456789ABCDEF', substr(x, 3, 1))) << 36) + ((instr('123456789ABCDEF', substr(x, 4, 1))) << 32) + ((instr('123456789ABCDEF', substr(x, 5, 1))) << 28) + ((instr('123456789ABCDEF', substr(x, 6, 1))) << 24) + ((instr('123456789ABCDEF', substr(x, 7, 1))) << 20) + ((instr('123456789ABCDEF', substr(x, 8, 1))) << 16) + ((instr('123456789ABCDEF', substr(x, 9, 1))) << 12) + ((instr('123456789ABCDEF', substr(x, 10, 1))) << 8) + ((instr('123456789ABCDEF', substr(x, 11, 1))) << 4) + ((instr('123456789ABCDEF', substr(x, 12, 1))) << 0) AS ms
        FROM (SELECT id, queue, agent, hex(substr(id, 1, 6)) AS x FROM runs)
    )
) r ON r.id = c.run_id, (SELECT 'tool' AS kind UNION ALL SELECT 'owner') k
WHERE c.status IN ('finished','error','resolved') AND NOT c.repeated
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT (kind, run_day, day, tenant, queue, agent, name) DO UPDATE SET
    tool_calls = excluded.tool_calls, tool_milli = excluded.tool_milli, tool_pico = excluded.tool_pico, unmeasured = excluded.unmeasured;

-- +goose Down
DROP TABLE cost_days;
