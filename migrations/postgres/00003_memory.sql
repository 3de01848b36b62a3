-- +goose Up
-- Memory: what agents remember over runs, and the documents that a team shares
-- with them. Nothing in here belongs to a run; every statement names the tenant.

-- == Notes ==
CREATE TABLE memory_notes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order of insertion
    locus      uuid NOT NULL,                                  -- what others know the note by
    tenant     text COLLATE "C" NOT NULL,
    root       text COLLATE "C" NOT NULL,                      -- what it belongs to; empty = the host's own
    key        bytea,                                          -- digest of what makes it the same note again; NULL = always a new one
    context_id text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    source     text NOT NULL,
    text       text NOT NULL,
    details    json NOT NULL,
    links      json NOT NULL,                                  -- as they were given
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX memory_notes_key ON memory_notes (tenant, key) WHERE key IS NOT NULL;

-- A gate is what a note is seen through: what it belongs to; of the host's own
-- notes each context that they extend, or empty if there is none.
CREATE TABLE memory_gates (
    tenant     text COLLATE "C" NOT NULL,
    gate       text COLLATE "C" NOT NULL,
    context_id text COLLATE "C" NOT NULL,
    note_id    bigint NOT NULL,
    PRIMARY KEY (tenant, gate, context_id, note_id)
);

CREATE TABLE memory_words (
    tenant   text COLLATE "C" NOT NULL,
    word     text COLLATE "C" NOT NULL,
    gate     text COLLATE "C" NOT NULL,
    note_id  bigint NOT NULL,
    believed smallint NOT NULL,                                -- how much its source is, 0 to 100
    PRIMARY KEY (tenant, word, gate, note_id) INCLUDE (believed)
);

CREATE TABLE memory_links (
    tenant       text COLLATE "C" NOT NULL,
    from_context text COLLATE "C" NOT NULL,
    gate         text COLLATE "C" NOT NULL,
    note_id      bigint NOT NULL,
    position     bigint NOT NULL,                              -- among the note's links
    root         text COLLATE "C" NOT NULL,                    -- of the note
    kind         text NOT NULL CHECK (kind IN ('extends','related_to','reinforces','contradicts')),
    to_context   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, from_context, gate, note_id, position)
);
CREATE INDEX memory_links_to ON memory_links (tenant, to_context, gate, note_id);
-- The chains that open a root are those of the host's notes alone.
CREATE INDEX memory_links_host ON memory_links (tenant, to_context, from_context) WHERE root = '' AND kind = 'extends';

-- == Owners ==
CREATE TABLE memory_owners (
    tenant    text COLLATE "C" NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    erased_at timestamptz,                                     -- not NULL: nothing is remembered for it any more
    PRIMARY KEY (tenant, owner)
);

-- For whom a note is kept: it goes when the last of them is erased. Empty = nobody in particular.
CREATE TABLE memory_holders (
    tenant  text COLLATE "C" NOT NULL,
    owner   text COLLATE "C" NOT NULL,
    note_id bigint NOT NULL,
    PRIMARY KEY (tenant, owner, note_id)
);
CREATE INDEX memory_holders_note ON memory_holders (tenant, note_id);

-- == Moments ==
-- What happened, as it happened, for whoever makes notes of it.
CREATE TABLE memory_moments (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    root       text NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    source     text NOT NULL,
    stream     text NOT NULL,
    payload    json NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX memory_moments_tenant ON memory_moments (tenant, id);
CREATE INDEX memory_moments_owner ON memory_moments (tenant, owner, id);

-- == Shared memory ==
CREATE TABLE shared_stores (
    tenant      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    description text NOT NULL,
    writable    boolean NOT NULL,
    put_by      text NOT NULL,
    put_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE shared_documents (
    tenant  text COLLATE "C" NOT NULL,
    store   text COLLATE "C" NOT NULL,
    path    text COLLATE "C" NOT NULL,
    content bytea NOT NULL,                                    -- redacted
    bytes   bigint NOT NULL,                                   -- of content
    put_by  text NOT NULL,
    put_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, store, path),
    FOREIGN KEY (tenant, store) REFERENCES shared_stores (tenant, id)
);

-- Who did what to stores and documents, for good.
CREATE TABLE shared_changes (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    store   text COLLATE "C" NOT NULL,
    path    text COLLATE "C" NOT NULL,                         -- empty = the store itself
    verb    text NOT NULL CHECK (verb IN ('put','remove')),
    digest  bytea,                                             -- SHA-256 of what was put
    bytes   bigint NOT NULL,
    by_whom text NOT NULL,
    at      timestamptz NOT NULL
);
CREATE INDEX shared_changes_of ON shared_changes (tenant, store, id);

-- +goose Down
DROP TABLE shared_changes;
DROP TABLE shared_documents;
DROP TABLE shared_stores;
DROP TABLE memory_moments;
DROP TABLE memory_holders;
DROP TABLE memory_owners;
DROP TABLE memory_links;
DROP TABLE memory_words;
DROP TABLE memory_gates;
DROP TABLE memory_notes;
