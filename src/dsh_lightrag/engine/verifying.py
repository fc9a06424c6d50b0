"""Whether a base agrees with itself: the file's pages, and every index with the chunks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dsh_lightrag.engine import edges
from dsh_lightrag.engine.edges import Role

if TYPE_CHECKING:
    import sqlite3

# Each counts what should not be: rows of one table that another one does not answer for.
_STRAYS = {
    "chunks without their document": "SELECT count(*) FROM chunk WHERE document NOT IN "
    "(SELECT no FROM document)",
    "documents without their text": "SELECT count(*) FROM document WHERE no NOT IN "
    "(SELECT document FROM document_text)",
    "chunks without their edges": "SELECT count(*) FROM chunk WHERE no NOT IN "
    "(SELECT chunk FROM mention)",
    "edges without their chunk": "SELECT count(*) FROM mention WHERE chunk NOT IN "
    "(SELECT no FROM chunk)",
    "vectors without their chunk": "SELECT count(*) FROM vector WHERE chunk NOT IN "
    "(SELECT no FROM chunk WHERE embedded = 1)",
    "embedded chunks without their vector": "SELECT count(*) FROM chunk WHERE embedded = 1 "
    "AND no NOT IN (SELECT chunk FROM vector)",
    "documents that count their chunks wrong": "SELECT count(*) FROM document WHERE "
    "(chunks, embedded, extracted, unembeddable, unextractable) IS NOT (SELECT count(*), "
    "coalesce(sum(chunk.embedded = 1), 0), coalesce(sum(chunk.extracted = 1), 0), "
    "coalesce(sum(chunk.embedded = 2), 0), coalesce(sum(chunk.extracted = 2), 0) "
    "FROM chunk WHERE chunk.document = document.no)",
    "entities that nothing names": "SELECT count(*) FROM entity WHERE mentions <= 0",
    "titles of no document": "SELECT count(*) FROM title WHERE key NOT IN "
    "(SELECT title_key FROM document)",
    "told entities that are none": "SELECT count(*) FROM told WHERE entity NOT IN "
    "(SELECT no FROM entity)",
    "relations of entities that are none": "SELECT count(*) FROM relation WHERE source NOT IN "
    "(SELECT no FROM entity) OR target NOT IN (SELECT no FROM entity)",
    "words counted wrong": "SELECT count(*) FROM word WHERE chunks <= 0 OR lower < 0 OR inner < 0 "
    "OR total < lower + inner",
}


def problems(connection: sqlite3.Connection) -> list[str]:
    """Return what is wrong with a base, one line each; an intact one has nothing to say."""
    found = [
        f"file: {row[0]}"
        for row in connection.execute("PRAGMA integrity_check(10)")
        if row[0] != "ok"
    ]
    for what, statement in _STRAYS.items():
        count = connection.execute(statement).fetchone()[0]
        if count:
            found.append(f"{count} {what}")
    found += _miscounted(connection)
    indexed = connection.execute("SELECT count(*) FROM keyword_docsize").fetchone()
    if indexed != connection.execute("SELECT count(*) FROM chunk").fetchone():
        found.append("the keyword index has another number of chunks")
    return found


def _miscounted(connection: sqlite3.Connection) -> list[str]:
    """Compare how often each entity says it is named with the edges that there are."""
    named: Counter[int] = Counter()
    certain: Counter[int] = Counter()
    links: set[tuple[int, int]] = set()
    for chunk, packed in connection.execute("SELECT chunk, edges FROM mention"):
        for edge in edges.unpack(packed):
            named[edge.entity] += 1
            certain[edge.entity] += Role.CERTAIN in edge.role
            if Role.LINKED in edge.role:
                links.add((edge.entity, chunk))
    stored = connection.execute("SELECT no, mentions, certain FROM entity").fetchall()
    wrong = sum((named[no], certain[no]) != (mentions, sure) for no, mentions, sure in stored)
    lost = len(named.keys() - {row[0] for row in stored})
    found = []
    if wrong or lost:
        found.append(f"{wrong} entities miscounted, {lost} lost")
    if links != set(connection.execute("SELECT entity, chunk FROM title_link")):
        found.append("the links to titles are not those of the graph")
    return found
