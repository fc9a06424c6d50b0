"""How the collection writes its words, kept up to date with every insertion and deletion.

Two questions need it: whether a capitalised phrase is a name (see `local_extraction.is_name`),
and how rare a word of a question is. The first answer is stored with each entity; it changes only
when a word crosses a threshold, so that a write touches few entities.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.engine import local_extraction, names
from dsh_lightrag.engine.local_extraction import UNSEEN, Uses

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable


def load(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, Uses]:
    """Return how the collection writes these words; unknown words are left out."""
    rows = connection.execute(
        "SELECT word.word, total, lower, inner FROM json_each(?) AS asked "
        "JOIN word ON word.word = asked.value",
        (json.dumps(list(words)),),
    )
    return {word: Uses(*counts) for word, *counts in rows}


def chunk_counts(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """Return in how many chunks each of these words stands; unknown words are left out."""
    rows = connection.execute(
        "SELECT word.word, chunks FROM json_each(?) AS asked JOIN word ON word.word = asked.value",
        (json.dumps(list(words)),),
    )
    return dict(rows.fetchall())


@dataclass(frozen=True, slots=True)
class Tally:
    """The words of a document: in how many of its chunks each stands, and how it is written."""

    chunks: Counter[str]
    uses: dict[str, Uses]


def tally(title: str, texts: Iterable[str]) -> Tally:
    """Count a document's words; needs no database.

    The title counts for how many chunks have a word, but a title of several words not for how they
    are written: titles capitalise everything.
    """
    chunks: Counter[str] = Counter()
    uses: dict[str, Uses] = {}
    of_title = names.words(title)
    for text in texts:
        chunks.update({*of_title, *names.words(text)})
        for word, used in local_extraction.spelling_counts(text).items():
            uses[word] = uses.get(word, UNSEEN).plus(used)
    alone = names.words(names.shown_title(title))
    if chunks and len(alone) == 1 and title[:1].isupper():
        # A capitalised title of one word is as good as that word within a sentence.
        uses[alone[0]] = uses.get(alone[0], UNSEEN).plus(Uses(1, 0, 1))
    return Tally(chunks, uses)


def change(connection: sqlite3.Connection, counted: Tally, sign: int) -> set[str]:
    """Count a document in (`sign` 1) or out (-1); return words whose standing changed."""
    chunks, uses = counted.chunks, counted.uses
    before = load(connection, uses)
    connection.executemany(
        "INSERT INTO word VALUES (?, ?, ?, ?, ?) ON CONFLICT (word) DO UPDATE SET "
        "chunks = chunks + excluded.chunks, total = total + excluded.total, "
        "lower = lower + excluded.lower, inner = inner + excluded.inner",
        [
            (word, sign * count, *UNSEEN.plus(uses.get(word, UNSEEN), sign))
            for word, count in chunks.items()
        ],
    )
    if sign < 0:
        connection.execute(
            "DELETE FROM word WHERE chunks <= 0 AND word IN (SELECT value FROM json_each(?))",
            (json.dumps(list(chunks)),),
        )
    return {
        word
        for word, used in uses.items()
        if (known := before.get(word, UNSEEN)).standing != known.plus(used, sign).standing
    }


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
