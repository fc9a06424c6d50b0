"""What a document is called: LightRAG's names and ids, so that its clients find what they know."""

from __future__ import annotations

import hashlib

from dsh_lightrag.server.file_names import filed_as

SEPARATOR = "<SEP>"


def canonical_name(file_source: str) -> str:
    """Return the last path segment of a source, without a parser's hint; may be empty."""
    return filed_as(file_source.rpartition("/")[2])


def document_id(file_source: str) -> str:
    """Return the id under which a source is filed: it depends on its canonical name alone."""
    name = canonical_name(file_source)
    return f"doc-{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"


def chunk_id(document: str, ordinal: int) -> str:
    """Return LightRAG's id of a document's chunk, counted from 0."""
    return f"{document}-chunk-{ordinal:03d}"
