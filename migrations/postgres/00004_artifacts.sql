-- +goose Up
-- Artifacts: each version that was judged, and the loop that a submission chose.

ALTER TABLE runs ADD COLUMN loop json;                              -- NULL: its agent's

-- One row for each verdict; the accepted version is in artifacts too.
CREATE TABLE artifact_versions (
    run_id    uuid NOT NULL,
    seq       bigint NOT NULL,                                      -- of artifact_validation_finished
    tenant    text NOT NULL,
    name      text NOT NULL,
    revision  integer NOT NULL,                                     -- 0 = the first answer
    turn      integer NOT NULL,
    verdict   text NOT NULL CHECK (verdict IN ('accepted', 'refused', 'none')),
    validator text NOT NULL,                                        -- that refused it; empty: the parser, or nobody
    issues    json NOT NULL,                                        -- or the error, where there is no verdict
    content   bytea,                                                -- NULL: nothing could be parsed, or it is too large
    bytes     bigint NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- +goose Down
DROP TABLE artifact_versions;
ALTER TABLE runs DROP COLUMN loop;
