-- One knowledge base. The file is the truth: whatever lives in memory is rebuilt from it.

-- What the file was made with: format, embedding model, versions of the text rules.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE document (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  title TEXT NOT NULL,
  title_key TEXT NOT NULL,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL,
  length INTEGER NOT NULL,
  summary TEXT NOT NULL,
  tokens_spent INTEGER NOT NULL DEFAULT 0,
  track TEXT NOT NULL DEFAULT '', -- what came in together has the same
  digest BLOB NOT NULL DEFAULT x'', -- of the text: tells equal texts
  -- How many of its chunks there are and how far they are; kept by the triggers below.
  chunks INTEGER NOT NULL DEFAULT 0,
  embedded INTEGER NOT NULL DEFAULT 0,
  extracted INTEGER NOT NULL DEFAULT 0,
  unembeddable INTEGER NOT NULL DEFAULT 0,
  unextractable INTEGER NOT NULL DEFAULT 0,
  fault TEXT NOT NULL DEFAULT '' -- why what it lacks cannot be made at this time
) STRICT;
CREATE INDEX document_digest ON document (digest);
CREATE INDEX document_track ON document (track) WHERE track <> '';

-- Documents that were not taken in: nobody could read them, or their text is there already.
CREATE TABLE failure (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  track TEXT NOT NULL,
  created_at REAL NOT NULL,
  length INTEGER NOT NULL,
  summary TEXT NOT NULL,
  reason TEXT NOT NULL,
  original TEXT NOT NULL DEFAULT '', -- the document that has this text
  original_track TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX failure_source ON failure (source);
CREATE INDEX failure_track ON failure (track) WHERE track <> '';

-- Documents whose deletion was promised and is under way.
CREATE TABLE doomed (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- The whole text, compressed: read only to show a passage in its place and to cut it anew.
CREATE TABLE document_text (
  document INTEGER PRIMARY KEY REFERENCES document (no) ON DELETE CASCADE,
  text BLOB NOT NULL
) STRICT;

CREATE TABLE chunk (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  document INTEGER NOT NULL REFERENCES document (no) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  heading TEXT NOT NULL,
  text TEXT NOT NULL,
  -- Its vector, and what a chat model tells of it: 0 waits, 1 is there, 2 was given up.
  embedded INTEGER NOT NULL DEFAULT 0,
  extracted INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX chunk_document ON chunk (document, ordinal);
CREATE INDEX chunk_to_embed ON chunk (no) WHERE embedded = 0;
CREATE INDEX chunk_to_extract ON chunk (attempts, no) WHERE extracted = 0;
CREATE TRIGGER chunk_inserted AFTER INSERT ON chunk BEGIN
  UPDATE document SET chunks = chunks + 1 WHERE no = new.document;
END;
CREATE TRIGGER chunk_worked_on AFTER UPDATE OF embedded, extracted ON chunk BEGIN
  UPDATE document SET
    embedded = embedded + (new.embedded = 1) - (old.embedded = 1),
    extracted = extracted + (new.extracted = 1) - (old.extracted = 1),
    unembeddable = unembeddable + (new.embedded = 2) - (old.embedded = 2),
    unextractable = unextractable + (new.extracted = 2) - (old.extracted = 2),
    updated_at = (julianday('now') - 2440587.5) * 86400.0
  WHERE no = new.document;
END;

-- Contentless: the terms come from `terms.py`, and the text stands in `chunk` already.
CREATE VIRTUAL TABLE keyword USING fts5 (
  body, content = '', tokenize = "porter ascii tokenchars '+#'"
);

-- Where each term stands, as that index says it: for making the index in memory.
CREATE VIRTUAL TABLE keyword_at USING fts5vocab (keyword, instance);

CREATE TABLE vector (
  chunk INTEGER PRIMARY KEY REFERENCES chunk (no) ON DELETE CASCADE,
  data BLOB NOT NULL -- float16, little endian, length one
) STRICT;

CREATE TABLE entity (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  mentions INTEGER NOT NULL DEFAULT 0, -- chunks that name it
  certain INTEGER NOT NULL DEFAULT 0, -- of these, chunks where its spelling need not prove it
  common INTEGER NOT NULL DEFAULT 0 -- 1: the collection writes it like any other word
) STRICT;
CREATE INDEX entity_common ON entity (no) WHERE common = 1;
CREATE TABLE entity_word (
  word TEXT NOT NULL,
  entity INTEGER NOT NULL,
  PRIMARY KEY (word, entity)
) STRICT, WITHOUT ROWID;

-- The graph's edges, packed by chunk (see `edges.py`): one read per chunk loads them all.
CREATE TABLE mention (
  chunk INTEGER PRIMARY KEY REFERENCES chunk (no) ON DELETE CASCADE,
  edges BLOB NOT NULL
) STRICT;

-- Titles of documents are entities wherever they are mentioned.
CREATE TABLE title (key TEXT PRIMARY KEY, documents INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE title_link (
  entity INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  PRIMARY KEY (entity, chunk)
) STRICT, WITHOUT ROWID;

-- How the collection writes each word: how many chunks have it, how often, how often in lower case,
-- how often with a capital within a sentence.
CREATE TABLE word (
  word TEXT PRIMARY KEY,
  chunks INTEGER NOT NULL,
  total INTEGER NOT NULL,
  lower INTEGER NOT NULL,
  inner INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What a chat model told about a chunk.
CREATE TABLE told (
  chunk INTEGER NOT NULL REFERENCES chunk (no) ON DELETE CASCADE,
  entity INTEGER NOT NULL,
  type TEXT NOT NULL,
  description TEXT NOT NULL,
  PRIMARY KEY (chunk, entity)
) STRICT, WITHOUT ROWID;
CREATE INDEX told_entity ON told (entity, chunk);
CREATE TABLE relation (
  chunk INTEGER NOT NULL REFERENCES chunk (no) ON DELETE CASCADE,
  source INTEGER NOT NULL,
  target INTEGER NOT NULL,
  description TEXT NOT NULL,
  keywords TEXT NOT NULL,
  weight REAL NOT NULL CHECK (weight BETWEEN 0 AND 1),
  PRIMARY KEY (chunk, source, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX relation_source ON relation (source);
CREATE INDEX relation_target ON relation (target);

-- Which chunks each transaction touched (int64, little endian), since the indexes were saved beside
-- the base. The token tells a restored copy's changes from those that it never saw.
CREATE TABLE change (
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  token INTEGER NOT NULL,
  chunks BLOB NOT NULL
) STRICT;
