-- +goose Up
-- Which call wrote a note, and what people took out of the memory.

ALTER TABLE memory_notes ADD COLUMN run_id     uuid;               -- of the call that wrote it first; NULL: a host did, or an earlier version
ALTER TABLE memory_notes ADD COLUMN turn       integer;
ALTER TABLE memory_notes ADD COLUMN call_index integer;
CREATE INDEX memory_notes_list  ON memory_notes (tenant, id);
CREATE INDEX memory_notes_root  ON memory_notes (tenant, root, id);
CREATE INDEX memory_notes_locus ON memory_notes (tenant, locus);

-- Who had what forgotten and why, for good; never what it said.
CREATE TABLE memory_removals (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    root    text COLLATE "C" NOT NULL,
    locus   uuid,                                              -- NULL: notes of the whole root
    notes   bigint NOT NULL,
    moments bigint NOT NULL,
    digest  bytea NOT NULL,                                    -- of the notes: see memorydb.Removal
    by_whom text NOT NULL,
    reason  text NOT NULL,
    at      timestamptz NOT NULL
);
CREATE INDEX memory_removals_of ON memory_removals (tenant, id);

-- +goose Down
DROP TABLE memory_removals;
DROP INDEX memory_notes_locus;
DROP INDEX memory_notes_root;
DROP INDEX memory_notes_list;
ALTER TABLE memory_notes DROP COLUMN call_index;
ALTER TABLE memory_notes DROP COLUMN turn;
ALTER TABLE memory_notes DROP COLUMN run_id;
