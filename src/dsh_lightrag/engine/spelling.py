"""How the collection writes its words, kept up to date with every insertion and deletion.

Two questions need it: whether a capitalised phrase is a name (see `local_extraction.is_name`),
and how rare a word of a question is. The first answer is stored with each entity; it changes only
when a word crosses a threshold, so that a write touches few entities.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from dsh_lightrag.engine import local_extraction, names

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

Spelling = dict[str, tuple[int, int]]


def load(connection: sqlite3.Connection, words: Iterable[str]) -> Spelling:
    """Return total and lower-case counts of these words; unknown words are left out."""
    rows = connection.execute(
        "SELECT word.word, total, lower FROM json_each(?) AS asked "
        "JOIN word ON word.word = asked.value",
        (json.dumps(list(words)),),
    )
    return {word: (total, lower) for word, total, lower in rows}


def chunk_counts(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """Return in how many chunks each of these words stands; unknown words are left out."""
    rows = connection.execute(
        "SELECT word.word, chunks FROM json_each(?) AS asked JOIN word ON word.word = asked.value",
        (json.dumps(list(words)),),
    )
    return dict(rows.fetchall())


def change(connection: sqlite3.Connection, title: str, texts: list[str], sign: int) -> set[str]:
    """Count a document's chunks in (`sign` 1) or out (-1); return words whose standing changed.

    The title counts for how many chunks have a word, not for how the word is written: titles
    capitalise everything.
    """
    chunks: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    lowers: Counter[str] = Counter()
    of_title = names.words(title)
    for text in texts:
        chunks.update({*of_title, *names.words(text)})
        for word, (total, lower) in local_extraction.spelling_counts(text).items():
            totals[word] += total
            lowers[word] += lower
    before = load(connection, totals)
    connection.executemany(
        "INSERT INTO word VALUES (?, ?, ?, ?) ON CONFLICT (word) DO UPDATE SET "
        "chunks = chunks + excluded.chunks, total = total + excluded.total, "
        "lower = lower + excluded.lower",
        [(word, sign * chunks[word], sign * totals[word], sign * lowers[word]) for word in chunks],
    )
    if sign < 0:
        connection.execute(
            "DELETE FROM word WHERE chunks <= 0 AND word IN (SELECT value FROM json_each(?))",
            (json.dumps(list(chunks)),),
        )
    changed = set()
    for word in totals:
        total, lower = before.get(word, (0, 0))
        after = (total + sign * totals[word], lower + sign * lowers[word])
        if _standing(total, lower) != _standing(*after):
            changed.add(word)
    return changed


def judge(
    connection: sqlite3.Connection, changed: set[str], created: Iterable[str]
) -> dict[int, bool]:
    """Decide anew for entities with a changed word, and for new ones, which are common words.

    Returns the entities whose answer changed, or is new, by number.
    """
    keys: dict[str, tuple[int, int | None]] = {}
    for number, key, common in connection.execute(
        "SELECT no, key, common FROM entity WHERE no IN (SELECT entity FROM entity_word "
        "WHERE word IN (SELECT value FROM json_each(?)))",
        (json.dumps(list(changed)),),
    ):
        keys[key] = (number, common)
    for number, key in connection.execute(
        "SELECT no, key FROM entity WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(created)),),
    ):
        keys[key] = (number, None)
    known = load(connection, {word for key in keys for word in key.split(" ")})
    judged = {
        number: verdict
        for key, (number, common) in keys.items()
        if (verdict := not local_extraction.is_name(key, known)) != common
    }
    connection.executemany(
        "UPDATE entity SET common = ? WHERE no = ?",
        [(int(verdict), number) for number, verdict in judged.items()],
    )
    return judged


def _standing(total: int, lower: int) -> tuple[bool, bool]:
    """Return what `is_name` makes of a word, alone and among others."""
    alone = local_extraction.mostly_lower(total, lower, local_extraction.ALONE)
    return alone, local_extraction.mostly_lower(total, lower, local_extraction.AMONG_OTHERS)
