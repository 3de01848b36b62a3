-- +goose Up
-- Sessions: runs that go on with one transcript, one after another.

CREATE TABLE sessions (
    tenant     text NOT NULL CHECK (tenant <> ''),
    session_id text NOT NULL CHECK (session_id <> ''),
    owner      text NOT NULL DEFAULT '',          -- whose session it is: nobody else continues it
    places     integer NOT NULL DEFAULT 0,         -- given out, in the order of submission
    head_run   blob,                              -- the last run that has ended and begun; NULL: none
    head_seq   integer NOT NULL DEFAULT 0,         -- an event of it, the one that ended it or behind that
    created_at integer NOT NULL,
    last_at    integer NOT NULL,              -- of the last submission or end
    erased_at  integer,                       -- its owner was erased: nobody continues it
    PRIMARY KEY (tenant, session_id)
);
CREATE INDEX sessions_last ON sessions (tenant, last_at DESC, session_id);

ALTER TABLE runs ADD COLUMN session_place integer NOT NULL DEFAULT 0;  -- its place in the session, from 1; 0: it takes no part
ALTER TABLE runs ADD COLUMN behind_at integer;                    -- since when it waits for runs before it in the session; NULL: it does not
ALTER TABLE runs ADD COLUMN continues_run blob;                       -- what its transcript begins with, written by the first claim
ALTER TABLE runs ADD COLUMN continues_seq integer NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN continues_hash blob;
CREATE INDEX runs_sessions ON runs (tenant, session_id, session_place, id) WHERE session_place > 0;
CREATE INDEX runs_behind ON runs (behind_at) WHERE behind_at IS NOT NULL;
DROP INDEX runs_lanes;
CREATE INDEX runs_lanes ON runs (queue, tenant, priority DESC, due_at, id) WHERE state = 'queued' AND held_at IS NULL AND behind_at IS NULL;

-- +goose Down
DROP INDEX runs_lanes;
CREATE INDEX runs_lanes ON runs (queue, tenant, priority DESC, due_at, id) WHERE state = 'queued' AND held_at IS NULL;
DROP INDEX runs_behind;
DROP INDEX runs_sessions;
ALTER TABLE runs DROP COLUMN continues_hash;
ALTER TABLE runs DROP COLUMN continues_seq;
ALTER TABLE runs DROP COLUMN continues_run;
ALTER TABLE runs DROP COLUMN behind_at;
ALTER TABLE runs DROP COLUMN session_place;
DROP TABLE sessions;
