"""A request that is refused in LightRAG's words, wherever that is found out."""

from __future__ import annotations


class RefusalError(Exception):
    """A request that is answered with a status and a sentence.

    Attributes:
        status: the HTTP status.
        detail: what its client is told.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail
