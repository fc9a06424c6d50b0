"""What the API takes and gives, in camelCase; every body is a closed object."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dsh_lightrag.gateway.caller import Scope
from dsh_lightrag.gateway.names import plain
from dsh_lightrag.gateway.tables import (
    MAX_EXTERNAL_ID,
    MAX_NAME,
    DocumentStatus,
    KnowledgeBase,
    KnowledgeDocument,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_lightrag.gateway.bases import Usage
    from dsh_lightrag.gateway.documents import Counts, Put
    from dsh_lightrag.gateway.identity import Issued

MAX_TEXT_CHARS = 8 * 1024 * 1024
MAX_UPLOAD_BYTES = 20 * 1024 * 1024
MAX_URL_CHARS = 2048
PAGE = 50
MAX_PAGE = 200


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(plain)]
ExternalId = Annotated[str, Field(min_length=1, max_length=MAX_EXTERNAL_ID), AfterValidator(plain)]


class Taken(BaseModel):
    """A body or query that is taken: closed, so that no field is ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        hide_input_in_errors=True,
        str_max_length=2**31,  # having a limit makes pydantic refuse lone surrogates
    )


class Given(BaseModel):
    """An answer."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=False,
        serialize_by_alias=True,
    )


# --- knowledge bases --------------------------------------------------------------------------


class NewBase(Taken):
    """A knowledge base to be made."""

    name: Name = Field(description="What people call it.")
    agent_id: Name | None = Field(
        None, description="The one agent that it answers; absent: every agent of the team."
    )
    token_budget: int | None = Field(
        None, ge=0, le=2**53, description="Most tokens that indexing may spend in all."
    )
    tokens_per_minute: int | None = Field(
        None, ge=1, le=2**53, description="Most tokens that indexing may spend in a minute."
    )


class Renaming(Taken):
    """A base's new name."""

    name: Name = Field(description="What people call it from now on.")


class Base(Given):
    """A knowledge base."""

    id: uuid.UUID
    team_id: uuid.UUID
    agent_id: str | None
    name: str
    created_at: datetime

    @classmethod
    def of(cls, base: KnowledgeBase) -> Self:
        """Return a row as the API gives it."""
        return cls(**{name: getattr(base, name) for name in cls.model_fields})


class Bases(Given):
    """Knowledge bases, oldest first."""

    knowledge_bases: list[Base]


class BaseCounts(Given):
    """How many documents are in which status."""

    pending: int
    indexing: int
    indexed: int
    failed: int
    total: int

    @classmethod
    def of(cls, counts: Counts) -> Self:
        """Return counts as the API gives them."""
        return cls(**{name: getattr(counts, name) for name in cls.model_fields})


class BaseUsage(Given):
    """What indexing a base has spent, in tokens, beside what it may; null bounds nothing."""

    tokens_spent: int
    token_budget: int | None
    tokens_this_minute: int
    tokens_per_minute: int | None

    @classmethod
    def of(cls, usage: Usage) -> Self:
        """Return usage as the API gives it."""
        return cls(**{name: getattr(usage, name) for name in cls.model_fields})


# --- documents --------------------------------------------------------------------------------


class TextDocument(Taken):
    """A text to be put under the caller's own id."""

    external_id: ExternalId = Field(description="The caller's id; putting it again replaces it.")
    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS, description="The document.")
    name: ExternalId | None = Field(None, description="What people call it; absent: the id.")


class UrlDocument(Taken):
    """A page or file that the worker fetches."""

    external_id: ExternalId = Field(description="The caller's id; putting it again replaces it.")
    url: str = Field(
        min_length=1, max_length=MAX_URL_CHARS, description="A public http or https address."
    )
    name: ExternalId | None = Field(None, description="What people call it; absent: the id.")


class Upload(Taken):
    """A file, which is the body itself."""

    external_id: ExternalId = Field(description="The caller's id; putting it again replaces it.")
    name: ExternalId = Field(description="The file's name; its ending tells what it is.")


class Paging(Taken):
    """Which part of a list is wanted."""

    after: Annotated[str, AfterValidator(plain)] = Field(
        "", max_length=MAX_EXTERNAL_ID, description="Go on behind this id."
    )
    limit: int = Field(PAGE, ge=1, le=MAX_PAGE, description="Most documents of one answer.")


class Listing(Paging):
    """Which documents are wanted."""

    status: DocumentStatus | None = Field(None, description="Only those in this status.")


class Nothing(Taken):
    """No query field is known here."""


class Document(Given):
    """A document and what became of it."""

    id: uuid.UUID
    base_id: uuid.UUID
    external_id: str
    source: Source
    name: str
    url: str | None
    checksum: str | None = Field(description="SHA-256 of what was put, in hex.")
    version: int
    status: DocumentStatus
    error_code: str | None
    error: str | None
    attempts: int
    tokens_spent: int
    tokens_counted: bool = Field(description="False: estimated from the length of the text.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: KnowledgeDocument) -> Self:
        """Return a row as the API gives it."""
        fields = {name: getattr(row, name) for name in cls.model_fields if name != "checksum"}
        return cls(**fields, checksum=row.checksum.hex() if row.checksum else None)


class Documents(Given):
    """Documents ordered by external id; `next` goes into `after` for what follows."""

    documents: list[Document]
    next: str | None

    @classmethod
    def of(cls, rows: Sequence[KnowledgeDocument], limit: int) -> Self:
        """Return one page as the API gives it; a full page may have a next one."""
        last = rows[-1].external_id if len(rows) == limit else None
        return cls(documents=list(map(Document.of, rows)), next=last)


class PutDocument(Given):
    """What became of a put; `queued` is false when the very same content is there already."""

    document: Document
    queued: bool

    @classmethod
    def of(cls, put: Put) -> Self:
        """Return a put as the API gives it."""
        return cls(document=Document.of(put.document), queued=put.queued)


# --- session tokens ---------------------------------------------------------------------------


class NewToken(Taken):
    """A session token to be issued for a worker."""

    session_id: Name = Field(description="The worker's session, for the audit.")
    agent_id: Name | None = Field(None, description="The agent it is; absent: shared bases only.")
    base_ids: list[uuid.UUID] = Field(
        min_length=1, max_length=100, description="The knowledge bases that it may ask."
    )
    scopes: list[Scope] = Field(
        [Scope.SEARCH], min_length=1, description="search, documents, or both."
    )
    seconds: int = Field(3600, ge=60, le=86_400, description="How long it lives.")


class Token(Given):
    """A session token as it is shown, once."""

    id: uuid.UUID
    token: str
    expires_at: datetime | None

    @classmethod
    def of(cls, issued: Issued) -> Self:
        """Return what was issued as the API gives it."""
        return cls(id=issued.id, token=issued.text, expires_at=issued.expires_at)


class State(Given):
    """Whether the gateway lives, or is ready."""

    status: str
    checks: dict[str, str] = Field(default_factory=dict)
