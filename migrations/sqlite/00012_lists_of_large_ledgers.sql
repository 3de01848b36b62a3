-- +goose Up
-- What a ledger of 100,000 runs showed to be read from end to end (docs/performance.md): the calls of
-- a tool that is seldom called, and the runs that run without a lease, of which there are none.

CREATE INDEX tool_call_records_tool ON tool_call_records (tool, run_id DESC, seq DESC) WHERE terminal;
CREATE INDEX runs_leaseless ON runs (created_at) WHERE state = 'running' AND lease_until IS NULL;

-- +goose Down
DROP INDEX runs_leaseless;
DROP INDEX tool_call_records_tool;
