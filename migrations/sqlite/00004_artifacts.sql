-- +goose Up
-- Artifacts: each version that was judged, and the loop that a submission chose.

ALTER TABLE runs ADD COLUMN loop text;                              -- NULL: its agent's

-- One row for each verdict; the accepted version is in artifacts too.
CREATE TABLE artifact_versions (
    run_id    blob NOT NULL,
    seq       integer NOT NULL,                                     -- of artifact_validation_finished
    tenant    text NOT NULL,
    name      text NOT NULL,
    revision  integer NOT NULL,                                     -- 0 = the first answer
    turn      integer NOT NULL,
    verdict   text NOT NULL CHECK (verdict IN ('accepted', 'refused', 'none')),
    validator text NOT NULL,                                        -- that refused it; empty: the parser, or nobody
    issues    text NOT NULL,                                        -- or the error, where there is no verdict
    content   blob,                                                 -- NULL: nothing could be parsed, or it is too large
    bytes     integer NOT NULL,
    at        integer NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- +goose Down
DROP TABLE artifact_versions;
ALTER TABLE runs DROP COLUMN loop;
