"""Work that may lag behind an insertion: vectors, and what a chat model tells.

Each function does one small, durable step and says how many chunks it settled; 0 means that
nothing is left. A step that is killed is simply done again. Models are asked outside of any
transaction, so that neither a question nor an insertion waits for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dsh_lightrag.engine import chat_extraction, keywords, vectors, writing
from dsh_lightrag.engine.embedders import unit_rows
from dsh_lightrag.engine.faults import ModelFaultError, ModelUnavailableError
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from dsh_lightrag.engine.change import Change
    from dsh_lightrag.engine.chat_extraction import ChatModel
    from dsh_lightrag.engine.embedders import Embedder
    from dsh_lightrag.engine.model import Extraction
    from dsh_lightrag.engine.store import Store

    Changing = Callable[[], AbstractContextManager[tuple[sqlite3.Connection, Change]]]

_ERROR_CHARACTERS = 300


def embed_some(
    store: Store, changing: Changing, embedder: Embedder, limit: int, attempts: int
) -> int:
    """Give vectors to the oldest chunks without one.

    A model that refuses a batch is asked about each chunk alone, so that one text which it cannot
    take holds up no other.
    """
    with store.read() as connection:
        waiting = connection.execute(
            "SELECT chunk.no, title, heading, text FROM chunk "
            "JOIN document ON document.no = chunk.document "
            "WHERE chunk.embedded = 0 ORDER BY chunk.no LIMIT ?",
            (limit,),
        ).fetchall()
    if not waiting:
        return 0
    bodies = {row[0]: keywords.body(*row[1:]) for row in waiting}
    try:
        _embed(changing, embedder, bodies)
    except ModelUnavailableError:
        raise
    except ModelFaultError as fault:
        if len(bodies) == 1:
            with changing() as (connection, _):
                _note_failure(connection, next(iter(bodies)), fault, attempts, "embedded")
        else:
            _embed_singly(changing, embedder, bodies, attempts)
    return len(waiting)


def _embed_singly(
    changing: Changing, embedder: Embedder, bodies: Mapping[int, str], attempts: int
) -> None:
    for chunk, body in bodies.items():
        try:
            _embed(changing, embedder, {chunk: body})
        except ModelUnavailableError:
            raise
        except ModelFaultError as fault:
            with changing() as (connection, _):
                _note_failure(connection, chunk, fault, attempts, "embedded")


def _embed(changing: Changing, embedder: Embedder, bodies: Mapping[int, str]) -> None:
    rows = embedder.embed(list(bodies.values()), query=False)
    rows = unit_rows(rows, len(bodies), embedder.dimension)
    with changing() as (connection, change):
        for chunk, row in zip(bodies, rows, strict=True):
            # It may have been deleted, or given a vector, since it was read.
            if connection.execute(
                "UPDATE chunk SET embedded = 1, attempts = 0, error = '' "
                "WHERE no = ? AND embedded = 0",
                (chunk,),
            ).rowcount:
                change.vectors[chunk] = vectors.encoded(row)
        connection.executemany("INSERT INTO vector VALUES (?, ?)", change.vectors.items())


def extract_some(
    store: Store, changing: Changing, model: ChatModel, limit: int, attempts: int
) -> int:
    """Ask the chat model about the chunks that were asked about least; returns chunks tried."""
    with store.read() as connection:
        waiting = connection.execute(
            "SELECT no, text FROM chunk WHERE extracted = 0 ORDER BY attempts, no LIMIT ?",
            (limit,),
        ).fetchall()
    for chunk, text in waiting:
        try:
            told = chat_extraction.extract(model, text)
        except ModelUnavailableError:
            raise
        except ModelFaultError as fault:
            with changing() as (connection, _):
                _note_failure(connection, chunk, fault, attempts, "extracted")
        else:
            with changing() as (connection, change):
                _note_success(connection, change, chunk, told)
    return len(waiting)


def retry_failed(connection: sqlite3.Connection) -> int:
    """Let what was given up be tried again; return how many documents that concerns.

    Documents that wait because of an outage count as well.
    """
    (count,) = connection.execute(
        "SELECT count(*) FROM document WHERE unembeddable + unextractable > 0 OR fault <> ''"
    ).fetchone()
    connection.execute(
        "UPDATE chunk SET extracted = 0, attempts = 0, error = '' WHERE extracted = 2"
    )
    connection.execute("UPDATE chunk SET embedded = 0, attempts = 0, error = '' WHERE embedded = 2")
    connection.execute("UPDATE document SET fault = '' WHERE fault <> ''")
    found: int = count
    return found


def _note_failure(
    connection: sqlite3.Connection,
    chunk: int,
    fault: ModelFaultError,
    attempts: int,
    what: Literal["embedded", "extracted"],
) -> None:
    connection.execute(
        f"UPDATE chunk SET attempts = attempts + 1, error = ?, "  # noqa: S608 - one of two names
        f"{what} = CASE WHEN attempts + 1 >= ? THEN 2 ELSE 0 END WHERE no = ? AND {what} = 0",
        (clean_line(fault.problem)[:_ERROR_CHARACTERS], attempts, chunk),
    )


def _note_success(
    connection: sqlite3.Connection, change: Change, chunk: int, told: Extraction
) -> None:
    if not connection.execute(
        "UPDATE chunk SET extracted = 1, error = '' WHERE no = ? AND extracted = 0", (chunk,)
    ).rowcount:
        return  # deleted meanwhile
    connection.execute(
        "UPDATE document SET tokens_spent = tokens_spent + ? "
        "WHERE no = (SELECT document FROM chunk WHERE no = ?)",
        (told.tokens, chunk),
    )
    change.add(writing.tell(connection, chunk, told))
