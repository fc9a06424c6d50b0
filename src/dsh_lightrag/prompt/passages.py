"""Passages for a question, over POST /query/data: what every framework's retriever is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_lightrag.budget import Budget
from dsh_lightrag.client import LightRagClient
from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.logs import recorded
from dsh_lightrag.question import accepted_question
from dsh_lightrag.text import Allowance, utf8_size
from dsh_lightrag.wire import QueryDataReply, QueryDataRequest

if TYPE_CHECKING:
    from dsh_lightrag.settings import LightRagSettings


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved chunk.

    Attributes:
        text: the passage, cleaned; untrusted data.
        file_path: the source as it was filed.
        chunk_id: names the document too (`<document id>-chunk-000`).
        rank: 1 for the best; LightRAG tells no scores.
    """

    text: str
    file_path: str
    chunk_id: str
    rank: int

    @property
    def metadata(self) -> dict[str, str | int]:
        """Everything but the text, for a framework's own document."""
        return {"file_path": self.file_path, "chunk_id": self.chunk_id, "rank": self.rank}


def retrieving(settings: LightRagSettings) -> LightRagSettings:
    """Return the settings, once it is known that their mode retrieves.

    Raises:
        ConfigurationError: for mode bypass.
    """
    if settings.query.mode == "bypass":
        raise ConfigurationError("query.mode", "is bypass, which retrieves nothing.", "Use mix.")
    return settings


async def passages(settings: LightRagSettings, question: str) -> list[Passage]:
    """Return what the server retrieves, best first, under `query.maxContentBytes` together.

    An empty list means that the index has nothing: a failure is never an empty result.

    Raises:
        LightRagError: the retrieval failed.
    """
    with recorded("retriever_call", mode=settings.query.mode) as facts:
        reply = await _asked(settings, question)
        found = _passages_of(reply, settings.query.max_content_bytes)
        size = sum(utf8_size(passage.text) for passage in found)
        facts |= {"passages": len(found), "text_bytes": size}
    return found


async def _asked(settings: LightRagSettings, question: str) -> QueryDataReply:
    # Not at the top: httpx loads Rich where Rich is installed.
    from dsh_lightrag.transport import Transport  # noqa: PLC0415 - as above

    query = settings.query
    request = QueryDataRequest(
        query=accepted_question(question, query.mode, "the question"),
        mode=query.mode,
        top_k=query.top_k,
        chunk_top_k=query.top_k,
    )
    budget = Budget.start(settings.timeout_ms)
    async with Transport(settings.connection) as transport:
        return await LightRagClient(transport, budget).query_data(request)


def _passages_of(reply: QueryDataReply, max_bytes: int) -> list[Passage]:
    allowance = Allowance(max_bytes)
    found: list[Passage] = []
    for rank, chunk in enumerate(reply.data.chunks, 1):
        text = allowance.take(chunk.content)
        if text is None:
            break
        found.append(Passage(text, chunk.file_path or "", chunk.chunk_id or "", rank))
    return found
