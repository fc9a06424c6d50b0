"""The tables: teams and their keys, knowledge bases, documents, and what waits to be indexed.

No row but `Content` holds a document's text, and a content is gone once it is indexed. Moments are
aware of their time zone. Sets of words are CHECKs, so that no other writer can add one.

A document points at two texts: the one that answers now (`current_text_id`) and the one that was
put last (`wanted_text_id`). A text that no document points at is removed from the server.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar, Literal, get_args

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Source = Literal["catalog", "upload", "url"]
DocumentStatus = Literal["pending", "indexing", "indexed", "failed"]
BaseState = Literal["active", "deleting"]
# waiting: not filed; filed: the server works on it; dropping: to be removed from the server.
TextState = Literal["waiting", "filed", "indexed", "failed", "dropping"]

MAX_NAME = 200
MAX_EXTERNAL_ID = 512
MAX_ERROR = 2000
WORKSPACE_PATTERN = "^kb_[0-9a-f]{32}$"


def _one_of(column: str, words: Any) -> CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in get_args(words))
    return CheckConstraint(f"{column} IN ({listed})", name=column)


class Table(DeclarativeBase):
    """What all tables share: names of constraints, and how Python's types are stored."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        uuid.UUID: Uuid(),
        int: BigInteger(),
        bytes: LargeBinary(),
        str: Text(),
        list[str]: ARRAY(Text()),
    }


# --- who may ----------------------------------------------------------------------------------


class Team(Table):
    """Whose knowledge it is: the wall between tenants."""

    __tablename__ = "gateway_team"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(String(MAX_NAME), unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ApiKey(Table):
    """A team's key; only its SHA-256 is kept.

    `quota_per_minute` bounds the requests that are taken with it.
    """

    __tablename__ = "gateway_api_key"
    __table_args__ = (CheckConstraint("quota_per_minute > 0", name="quota"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    team_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_team.id", ondelete="CASCADE"), index=True
    )
    name: Mapped[str] = mapped_column(String(MAX_NAME))
    sha256: Mapped[bytes] = mapped_column(unique=True)
    scopes: Mapped[list[str]]
    quota_per_minute: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class SessionToken(Table):
    """A short-lived token of one worker: team, agent, session and the bases it may search.

    It lives no longer than the key that issued it, and counts towards that key's quota.
    """

    __tablename__ = "gateway_session_token"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    sha256: Mapped[bytes] = mapped_column(unique=True)
    team_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_team.id", ondelete="CASCADE"), index=True
    )
    key_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_api_key.id", ondelete="CASCADE"), index=True
    )
    agent_id: Mapped[str | None] = mapped_column(String(MAX_NAME))
    session_id: Mapped[str] = mapped_column(String(MAX_NAME))
    base_ids: Mapped[list[uuid.UUID]] = mapped_column(ARRAY(Uuid()))
    scopes: Mapped[list[str]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime] = mapped_column(index=True)
    revoked_at: Mapped[datetime | None]


class KeyUsage(Table):
    """How many requests were made in one minute with a key and the tokens that it issued."""

    __tablename__ = "gateway_key_usage"

    key_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_api_key.id", ondelete="CASCADE"), primary_key=True
    )
    minute: Mapped[datetime] = mapped_column(primary_key=True)
    requests: Mapped[int]


class AuditEntry(Table):
    """One use of a key or a token: who, what, on which base, with what outcome; never a text.

    It names ids without foreign keys: it outlives what it tells of.
    """

    __tablename__ = "gateway_audit_entry"
    __table_args__ = (Index(None, "team_id", "at"), Index(None, "at"))

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    team_id: Mapped[uuid.UUID | None]
    key_id: Mapped[uuid.UUID | None]
    token_id: Mapped[uuid.UUID | None]
    operation: Mapped[str] = mapped_column(String(MAX_NAME))
    base_id: Mapped[uuid.UUID | None]
    outcome: Mapped[str] = mapped_column(String(MAX_NAME))


# --- what is known ----------------------------------------------------------------------------


class KnowledgeBase(Table):
    """A knowledge base: of one agent, or shared by its team when `agent_id` is None.

    `workspace` names it on the knowledge server; the gateway makes it and nobody can choose it.
    `token_budget` bounds what indexing may spend in all, `tokens_per_minute` how fast; None
    bounds nothing. A base that is `deleting` is in no list and no answer.
    """

    __tablename__ = "gateway_knowledge_base"
    __table_args__ = (
        _one_of("state", BaseState),
        CheckConstraint(f"workspace ~ '{WORKSPACE_PATTERN}'", name="workspace"),
        CheckConstraint("token_budget >= 0", name="token_budget"),
        CheckConstraint("tokens_per_minute > 0", name="tokens_per_minute"),
        Index(None, "team_id", "created_at"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    team_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("gateway_team.id"))
    agent_id: Mapped[str | None] = mapped_column(String(MAX_NAME))
    name: Mapped[str] = mapped_column(String(MAX_NAME))
    workspace: Mapped[str] = mapped_column(String(35), unique=True)
    state: Mapped[BaseState] = mapped_column(Text(), server_default="active")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    deleted_at: Mapped[datetime | None]
    token_budget: Mapped[int | None]
    tokens_per_minute: Mapped[int | None]
    tokens_spent: Mapped[int] = mapped_column(server_default=text("0"))


class IndexedText(Table):
    """A text as the knowledge server files it; documents with the same text share one.

    `file_name` is `<document id>-v<n>.txt`, of the document that brought the text first. How many
    documents share it is counted from their rows and never stored. `tokens_charged` is what the
    base has paid for it since it was filed.
    """

    __tablename__ = "gateway_indexed_text"
    __table_args__ = (
        _one_of("state", TextState),
        Index(
            "uq_gateway_indexed_text_base_id_checksum",
            "base_id",
            "checksum",
            unique=True,
            postgresql_where=text("state <> 'dropping'"),
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    base_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_knowledge_base.id", ondelete="CASCADE")
    )
    checksum: Mapped[bytes]
    file_name: Mapped[str] = mapped_column(String(MAX_NAME), unique=True)
    state: Mapped[TextState] = mapped_column(Text(), server_default="waiting")
    server_id: Mapped[str | None]
    track_id: Mapped[str | None]
    tokens_charged: Mapped[int] = mapped_column(server_default=text("0"))
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class KnowledgeDocument(Table):
    """A document of a base under the caller's own id.

    `checksum` is the SHA-256 of what was put (of a URL: of what was fetched), `version` counts
    what was put. `tokens_spent` is what indexing cost: counted by the server, or estimated from
    the length of the text when `tokens_counted` is false. `error_code` with `retry_at` tells why
    a pending document waits; with status `failed`, why it failed. `attempts` counts how often
    indexing it failed, `deferrals` how often in a row it could not begin.
    """

    __tablename__ = "gateway_knowledge_document"
    __table_args__ = (
        UniqueConstraint("base_id", "external_id"),
        _one_of("source", Source),
        _one_of("status", DocumentStatus),
        Index(None, "base_id", "status"),
        Index(None, "retry_at"),
        Index(None, "current_text_id"),
        Index(None, "wanted_text_id"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    base_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_knowledge_base.id", ondelete="CASCADE")
    )
    external_id: Mapped[str] = mapped_column(String(MAX_EXTERNAL_ID))
    source: Mapped[Source] = mapped_column(Text())
    name: Mapped[str] = mapped_column(String(MAX_EXTERNAL_ID))
    url: Mapped[str | None]
    checksum: Mapped[bytes | None]
    version: Mapped[int] = mapped_column(server_default=text("1"))
    status: Mapped[DocumentStatus] = mapped_column(Text(), server_default="pending")
    error_code: Mapped[str | None]
    error: Mapped[str | None] = mapped_column(String(MAX_ERROR))
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    deferrals: Mapped[int] = mapped_column(server_default=text("0"))
    retry_at: Mapped[datetime | None]
    tokens_spent: Mapped[int] = mapped_column(server_default=text("0"))
    tokens_counted: Mapped[bool] = mapped_column(server_default=text("false"))
    current_text_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("gateway_indexed_text.id", ondelete="SET NULL")
    )
    wanted_text_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("gateway_indexed_text.id", ondelete="SET NULL")
    )
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())


class Content(Table):
    """What was put and waits to be indexed, at most one per document: the newest.

    `body` is UTF-8 text or a file's bytes (`is_text` tells which; the suffix of `file_name` tells
    the format); None until a URL is fetched.
    """

    __tablename__ = "gateway_content"

    document_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_knowledge_document.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int]
    is_text: Mapped[bool]
    file_name: Mapped[str]
    body: Mapped[bytes | None]


class UsageLedger(Table):
    """Tokens that indexing a base spent in one minute, for its rate limit."""

    __tablename__ = "gateway_usage_ledger"

    base_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("gateway_knowledge_base.id", ondelete="CASCADE"), primary_key=True
    )
    minute: Mapped[datetime] = mapped_column(primary_key=True)
    tokens: Mapped[int]
