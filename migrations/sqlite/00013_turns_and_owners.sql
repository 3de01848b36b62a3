-- +goose Up
-- Whose turn it is in a session, without its runs that have ended; and the runs of one owner, which is
-- all that a token for the page may be limited to.

CREATE INDEX runs_session_turn ON runs (tenant, session_id, session_place) WHERE session_place > 0 AND ended_at IS NULL;
CREATE INDEX runs_owner ON runs (tenant, owner, id DESC);

-- +goose Down
DROP INDEX runs_owner;
DROP INDEX runs_session_turn;
