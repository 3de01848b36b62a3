-- +goose Up
-- Memory: what agents remember over runs, and the documents that a team shares
-- with them. Nothing in here belongs to a run; every statement names the tenant.

-- == Notes ==
CREATE TABLE memory_notes (
    id         integer PRIMARY KEY AUTOINCREMENT,              -- order of insertion
    locus      blob NOT NULL,                                  -- what others know the note by
    tenant     text NOT NULL,
    root       text NOT NULL,                                  -- what it belongs to; empty = the host's own
    key        blob,                                           -- digest of what makes it the same note again; NULL = always a new one
    context_id text NOT NULL,
    kind       text NOT NULL,
    source     text NOT NULL,
    text       text NOT NULL,
    details    text NOT NULL,
    links      text NOT NULL,                                  -- as they were given
    created_at integer NOT NULL
);
CREATE UNIQUE INDEX memory_notes_key ON memory_notes (tenant, key) WHERE key IS NOT NULL;

-- A gate is what a note is seen through: what it belongs to; of the host's own
-- notes each context that they extend, or empty if there is none.
CREATE TABLE memory_gates (
    tenant     text NOT NULL,
    gate       text NOT NULL,
    context_id text NOT NULL,
    note_id    integer NOT NULL,
    PRIMARY KEY (tenant, gate, context_id, note_id)
) WITHOUT ROWID;

CREATE TABLE memory_words (
    tenant   text NOT NULL,
    word     text NOT NULL,
    gate     text NOT NULL,
    note_id  integer NOT NULL,
    believed integer NOT NULL,                                 -- how much its source is, 0 to 100
    PRIMARY KEY (tenant, word, gate, note_id)
) WITHOUT ROWID;

CREATE TABLE memory_links (
    tenant       text NOT NULL,
    from_context text NOT NULL,
    gate         text NOT NULL,
    note_id      integer NOT NULL,
    position     integer NOT NULL,                             -- among the note's links
    root         text NOT NULL,                                -- of the note
    kind         text NOT NULL CHECK (kind IN ('extends','related_to','reinforces','contradicts')),
    to_context   text NOT NULL,
    PRIMARY KEY (tenant, from_context, gate, note_id, position)
) WITHOUT ROWID;
CREATE INDEX memory_links_to ON memory_links (tenant, to_context, gate, note_id);
-- The chains that open a root are those of the host's notes alone.
CREATE INDEX memory_links_host ON memory_links (tenant, to_context, from_context) WHERE root = '' AND kind = 'extends';

-- == Owners ==
CREATE TABLE memory_owners (
    tenant    text NOT NULL,
    owner     text NOT NULL,
    erased_at integer,                                         -- not NULL: nothing is remembered for it any more
    PRIMARY KEY (tenant, owner)
) WITHOUT ROWID;

-- For whom a note is kept: it goes when the last of them is erased. Empty = nobody in particular.
CREATE TABLE memory_holders (
    tenant  text NOT NULL,
    owner   text NOT NULL,
    note_id integer NOT NULL,
    PRIMARY KEY (tenant, owner, note_id)
) WITHOUT ROWID;
CREATE INDEX memory_holders_note ON memory_holders (tenant, note_id);

-- == Moments ==
-- What happened, as it happened, for whoever makes notes of it.
CREATE TABLE memory_moments (
    id         integer PRIMARY KEY AUTOINCREMENT,
    tenant     text NOT NULL,
    root       text NOT NULL,
    owner      text NOT NULL,
    source     text NOT NULL,
    stream     text NOT NULL,
    payload    text NOT NULL,
    created_at integer NOT NULL
);
CREATE INDEX memory_moments_tenant ON memory_moments (tenant, id);
CREATE INDEX memory_moments_owner ON memory_moments (tenant, owner, id);

-- == Shared memory ==
CREATE TABLE shared_stores (
    tenant      text NOT NULL,
    id          text NOT NULL,
    description text NOT NULL,
    writable    integer NOT NULL,
    put_by      text NOT NULL,
    put_at      integer NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE shared_documents (
    tenant  text NOT NULL,
    store   text NOT NULL,
    path    text NOT NULL,
    content blob NOT NULL,                                     -- redacted
    bytes   integer NOT NULL,                                  -- of content
    put_by  text NOT NULL,
    put_at  integer NOT NULL,
    PRIMARY KEY (tenant, store, path),
    FOREIGN KEY (tenant, store) REFERENCES shared_stores (tenant, id)
) WITHOUT ROWID;

-- Who did what to stores and documents, for good.
CREATE TABLE shared_changes (
    id      integer PRIMARY KEY AUTOINCREMENT,
    tenant  text NOT NULL,
    store   text NOT NULL,
    path    text NOT NULL,                                     -- empty = the store itself
    verb    text NOT NULL CHECK (verb IN ('put','remove')),
    digest  blob,                                              -- SHA-256 of what was put
    bytes   integer NOT NULL,
    by_whom text NOT NULL,
    at      integer NOT NULL
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
