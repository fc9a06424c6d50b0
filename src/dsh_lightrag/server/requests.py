"""What clients may send: LightRAG's request bodies with its limits and coercions.

Unknown fields are ignored and numbers in strings are read, as LightRAG does. Messages of refusals
are LightRAG's own; the refused text itself is never repeated.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from dsh_lightrag.errors import LightRagError
from dsh_lightrag.question import accepted_question
from dsh_lightrag.server.backend import Ask, Mode, PageWanted, SortField, Turn
from dsh_lightrag.server.file_names import UNSAFE
from dsh_lightrag.text import clean

MAX_CHARS = 65_536
MAX_TOTAL_CHARS = 131_072
MAX_TOP_K = 1000
MAX_TOKENS = 1_000_000
MAX_KEYWORDS = 64
MAX_KEYWORD_CHARS = 512
MAX_TURNS = 128
MAX_ROLE_CHARS = 64
MAX_TURN_CHARS = 32_768
MAX_RESPONSE_TYPE_CHARS = 256
# As long as a path may be; a folder's file is called after its whole path.
MAX_SOURCE_BYTES = 4096
# What counts pages is a 64-bit number, also once it is multiplied.
MAX_PAGE = 2**31 - 1
_NO_SOURCES = ("", ".", "..", "unknown_source", "no-file-path")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOO_SHORT = (
    "RAG query is too short. Enter at least 3 English characters or an equivalent combination "
    "where each Chinese, Japanese or Korean character counts as 2."
)


def _unicode(text: str) -> str:
    if _SURROGATE.search(text):  # it can be neither stored nor sent back
        raise ValueError("must not contain half of a surrogate pair")
    return text


Unicode = Annotated[str, AfterValidator(_unicode)]


def _not_blank(query: str) -> str:
    if not query.strip():
        raise ValueError("Query must not be empty.")
    return query.strip()


def _short_keywords(keywords: list[str]) -> list[str]:
    if any(len(keyword) > MAX_KEYWORD_CHARS for keyword in keywords):
        raise ValueError(f"each keyword must be at most {MAX_KEYWORD_CHARS} characters")
    return keywords


def _turns(history: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Check a conversation; what else a turn holds is counted and otherwise ignored."""
    if history is not None and len(history) > MAX_TURNS:
        raise ValueError(f"conversation_history must hold at most {MAX_TURNS} messages")
    for turn in history or ():
        for name, most in (("role", MAX_ROLE_CHARS), ("content", MAX_TURN_CHARS)):
            if name not in turn:
                raise ValueError(f"Each message must have a '{name}' key.")
            if not isinstance(turn[name], str) or (name == "role" and not turn[name].strip()):
                kind = "non-empty string" if name == "role" else "string"
                raise ValueError(f"Each message '{name}' must be a {kind}.")
            if len(turn[name]) > most:
                raise ValueError(f"Each message '{name}' must be at most {most} characters.")
    return history


Count = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
Budget = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Keywords = Annotated[list[Unicode], Field(max_length=MAX_KEYWORDS), AfterValidator(_short_keywords)]


class QueryRequest(BaseModel):
    """POST /query, /query/stream and /query/data."""

    query: Annotated[str, Field(max_length=MAX_CHARS), AfterValidator(_not_blank)]
    mode: Mode = "mix"
    only_need_context: bool | None = None
    only_need_prompt: bool | None = None
    response_type: Annotated[
        str | None, Field(min_length=1, max_length=MAX_RESPONSE_TYPE_CHARS)
    ] = None
    top_k: Count | None = None
    chunk_top_k: Count | None = None
    max_entity_tokens: Budget | None = None
    max_relation_tokens: Budget | None = None
    max_total_tokens: Budget | None = None
    hl_keywords: Keywords = []
    ll_keywords: Keywords = []
    conversation_history: Annotated[list[dict[str, Any]] | None, AfterValidator(_turns)] = None
    user_prompt: Annotated[str | None, Field(max_length=MAX_CHARS)] = None
    disable_user_prompt_prefix: bool | None = None
    enable_rerank: bool | None = None
    include_references: bool | None = True
    include_chunk_content: bool | None = False
    include_progress: bool | None = False
    stream: bool | None = None

    @model_validator(mode="after")
    def _is_long_enough(self) -> QueryRequest:
        try:
            accepted_question(self.query, self.mode, "query")
        except LightRagError:  # neither blank nor too long any more
            raise ValueError(_TOO_SHORT) from None
        return self

    @model_validator(mode="after")
    def _is_not_too_much(self) -> QueryRequest:
        """Bound all that a model will read; a history counts as it is sent on."""
        total = len(self.query) + len(self.user_prompt or "")
        if self.conversation_history:
            total += len(json.dumps(self.conversation_history, ensure_ascii=False))
        if total > MAX_TOTAL_CHARS:
            raise ValueError(
                f"total request text is {total} characters, over the {MAX_TOTAL_CHARS} character "
                "limit"
            )
        return self

    def ask(self) -> Ask:
        """Return the question; what is null takes its default."""
        given: dict[str, Any] = {
            "top_k": self.top_k,
            "chunk_top_k": self.chunk_top_k,
            "max_entity_tokens": self.max_entity_tokens,
            "max_relation_tokens": self.max_relation_tokens,
            "max_total_tokens": self.max_total_tokens,
            "response_type": self.response_type,
            "user_prompt": self.user_prompt,
        }
        turns = self.conversation_history or ()
        return Ask(
            query=clean(self.query),
            mode=self.mode,
            hl_keywords=tuple(self.hl_keywords),
            ll_keywords=tuple(self.ll_keywords),
            history=tuple(Turn(clean(turn["role"]), clean(turn["content"])) for turn in turns),
            enable_rerank=self.enable_rerank is not False,
            only_need_context=bool(self.only_need_context),
            only_need_prompt=bool(self.only_need_prompt),
            **{name: value for name, value in given.items() if value is not None},
        )


# --- documents --------------------------------------------------------------------------------


def canonical_name(source: str) -> str:
    """Return what a source is filed under: its last path segment; empty where it has none."""
    name = PurePosixPath(source.strip()).name
    return "" if name in _NO_SOURCES else name


def _source(source: object) -> object:
    if isinstance(source, str) and (match := UNSAFE.search(source)):
        raise ValueError(f"file_source must not contain the character U+{ord(match[0]):04X}")
    if isinstance(source, str) and len(source.encode()) > MAX_SOURCE_BYTES:
        raise ValueError(f"file_source must be at most {MAX_SOURCE_BYTES} bytes")
    return canonical_name(source) if isinstance(source, str) else source


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("text cannot be empty or whitespace-only")
    return text.strip()


def _texts(texts: list[str]) -> list[str]:
    if not all(text.strip() for text in texts):
        raise ValueError("texts cannot contain empty or whitespace-only entries")
    return [text.strip() for text in texts]


def _no_chunking(chunking: object) -> None:
    """Refuse what would not be done: documents of a workspace are all cut alike."""
    if chunking is not None:
        raise ValueError("this server cuts all documents of a workspace alike; leave it out")


Source = Annotated[str, BeforeValidator(_source)]
Chunking = Annotated[None, BeforeValidator(_no_chunking)]


class InsertTextRequest(BaseModel):
    """POST /documents/text."""

    text: Annotated[str, Field(min_length=1), AfterValidator(_text)]
    file_source: Source | None = None
    chunking: Chunking = None


class InsertTextsRequest(BaseModel):
    """POST /documents/texts."""

    texts: Annotated[list[Unicode], Field(min_length=1), AfterValidator(_texts)]
    file_sources: list[Source] | None = None
    chunking: Chunking = None


class StatusName(StrEnum):
    """A status as clients name it."""

    PENDING = "pending"
    PARSING = "parsing"
    ANALYZING = "analyzing"
    PROCESSING = "processing"
    PREPROCESSED = "preprocessed"
    PROCESSED = "processed"
    FAILED = "failed"


class DocumentsRequest(BaseModel):
    """POST /documents/paginated."""

    status_filter: StatusName | None = None
    status_filters: list[StatusName] | None = None
    page: int = Field(default=1, ge=1, le=MAX_PAGE)
    page_size: int = Field(default=50, ge=10, le=200)
    sort_field: SortField = "updated_at"
    sort_direction: Literal["asc", "desc"] = "desc"

    def wanted(self) -> PageWanted:
        """Return what is wanted; the list of statuses wins over the single one."""
        single = [] if self.status_filter is None else [self.status_filter]
        names = single if self.status_filters is None else self.status_filters
        return PageWanted(
            page=self.page,
            page_size=self.page_size,
            statuses=tuple(name.value for name in names),
            sort_field=self.sort_field,
            descending=self.sort_direction == "desc",
        )


def _ids(ids: list[str]) -> list[str]:
    if not ids:
        raise ValueError("Document IDs list cannot be empty")
    if not all(one.strip() for one in ids):
        raise ValueError("Document ID cannot be empty")
    stripped = [one.strip() for one in ids]
    if len(set(stripped)) != len(stripped):
        raise ValueError("Document IDs must be unique")
    return stripped


class DeleteRequest(BaseModel):
    """DELETE /documents/delete_document."""

    doc_ids: Annotated[list[Unicode], AfterValidator(_ids)]
    delete_file: bool = False
    delete_llm_cache: bool = False
