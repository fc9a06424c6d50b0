"""The first shape: teams, keys, tokens, bases, documents and usage, and the queue's own tables."""

import sqlalchemy as sa
from alembic import op
from procrastinate.schema import SchemaManager
from sqlalchemy import text

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything; there is no way back from the first step but an empty database."""
    _create_queue()
    _create_tables()


def _create_queue() -> None:
    # Through psycopg itself, without parameters: many statements, and % as it stands.
    cursor = op.get_bind().connection.cursor()
    cursor.execute(SchemaManager.get_schema())


def _create_tables() -> None:
    op.create_table(
        "gateway_audit_entry",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=True),
        sa.Column("key_id", sa.Uuid(), nullable=True),
        sa.Column("token_id", sa.Uuid(), nullable=True),
        sa.Column("operation", sa.String(length=200), nullable=False),
        sa.Column("base_id", sa.Uuid(), nullable=True),
        sa.Column("outcome", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_audit_entry")),
    )
    op.create_index(
        op.f("ix_gateway_audit_entry_team_id_at"),
        "gateway_audit_entry",
        ["team_id", "at"],
        unique=False,
    )
    op.create_table(
        "gateway_team",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_team")),
        sa.UniqueConstraint("name", name=op.f("uq_gateway_team_name")),
    )
    op.create_table(
        "gateway_api_key",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("quota_per_minute", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("quota_per_minute > 0", name=op.f("ck_gateway_api_key_quota")),
        sa.ForeignKeyConstraint(
            ["team_id"],
            ["gateway_team.id"],
            name=op.f("fk_gateway_api_key_team_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_api_key")),
        sa.UniqueConstraint("sha256", name=op.f("uq_gateway_api_key_sha256")),
    )
    op.create_index(
        op.f("ix_gateway_api_key_team_id"), "gateway_api_key", ["team_id"], unique=False
    )
    op.create_table(
        "gateway_knowledge_base",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.String(length=200), nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("workspace", sa.String(length=35), nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("token_budget", sa.BigInteger(), nullable=True),
        sa.Column("tokens_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("tokens_spent", sa.BigInteger(), server_default=text("0"), nullable=False),
        sa.CheckConstraint(
            "state IN ('active', 'deleting')", name=op.f("ck_gateway_knowledge_base_state")
        ),
        sa.CheckConstraint(
            "workspace ~ '^kb_[0-9a-f]{32}$'", name=op.f("ck_gateway_knowledge_base_workspace")
        ),
        sa.CheckConstraint(
            "token_budget >= 0", name=op.f("ck_gateway_knowledge_base_token_budget")
        ),
        sa.CheckConstraint(
            "tokens_per_minute > 0", name=op.f("ck_gateway_knowledge_base_tokens_per_minute")
        ),
        sa.ForeignKeyConstraint(
            ["team_id"], ["gateway_team.id"], name=op.f("fk_gateway_knowledge_base_team_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_knowledge_base")),
        sa.UniqueConstraint("workspace", name=op.f("uq_gateway_knowledge_base_workspace")),
    )
    op.create_index(
        op.f("ix_gateway_knowledge_base_team_id_created_at"),
        "gateway_knowledge_base",
        ["team_id", "created_at"],
        unique=False,
    )
    op.create_table(
        "gateway_session_token",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.String(length=200), nullable=True),
        sa.Column("session_id", sa.String(length=200), nullable=False),
        sa.Column("base_ids", sa.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["team_id"],
            ["gateway_team.id"],
            name=op.f("fk_gateway_session_token_team_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_session_token")),
        sa.UniqueConstraint("sha256", name=op.f("uq_gateway_session_token_sha256")),
    )
    op.create_index(
        op.f("ix_gateway_session_token_expires_at"),
        "gateway_session_token",
        ["expires_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_gateway_session_token_team_id"), "gateway_session_token", ["team_id"], unique=False
    )
    op.create_table(
        "gateway_indexed_text",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("base_id", sa.Uuid(), nullable=False),
        sa.Column("checksum", sa.LargeBinary(), nullable=False),
        sa.Column("file_name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("server_id", sa.Text(), nullable=True),
        sa.Column("track_id", sa.Text(), nullable=True),
        sa.Column("tokens_charged", sa.BigInteger(), server_default=text("0"), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'filed', 'indexed', 'failed', 'dropping')",
            name=op.f("ck_gateway_indexed_text_state"),
        ),
        sa.ForeignKeyConstraint(
            ["base_id"],
            ["gateway_knowledge_base.id"],
            name=op.f("fk_gateway_indexed_text_base_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_indexed_text")),
        sa.UniqueConstraint("file_name", name=op.f("uq_gateway_indexed_text_file_name")),
    )
    op.create_index(
        "uq_gateway_indexed_text_base_id_checksum",
        "gateway_indexed_text",
        ["base_id", "checksum"],
        unique=True,
        postgresql_where=text("state <> 'dropping'"),
    )
    op.create_table(
        "gateway_usage_ledger",
        sa.Column("base_id", sa.Uuid(), nullable=False),
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["base_id"],
            ["gateway_knowledge_base.id"],
            name=op.f("fk_gateway_usage_ledger_base_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("base_id", "minute", name=op.f("pk_gateway_usage_ledger")),
    )
    op.create_table(
        "gateway_knowledge_document",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("base_id", sa.Uuid(), nullable=False),
        sa.Column("external_id", sa.String(length=512), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("checksum", sa.LargeBinary(), nullable=True),
        sa.Column("version", sa.BigInteger(), server_default=text("1"), nullable=False),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error", sa.String(length=2000), nullable=True),
        sa.Column("attempts", sa.BigInteger(), server_default=text("0"), nullable=False),
        sa.Column("deferrals", sa.BigInteger(), server_default=text("0"), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("tokens_spent", sa.BigInteger(), server_default=text("0"), nullable=False),
        sa.Column("tokens_counted", sa.Boolean(), server_default=text("false"), nullable=False),
        sa.Column("current_text_id", sa.Uuid(), nullable=True),
        sa.Column("wanted_text_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=text("now()"), nullable=False
        ),
        sa.CheckConstraint(
            "source IN ('catalog', 'upload', 'url')",
            name=op.f("ck_gateway_knowledge_document_source"),
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'indexing', 'indexed', 'failed')",
            name=op.f("ck_gateway_knowledge_document_status"),
        ),
        sa.ForeignKeyConstraint(
            ["base_id"],
            ["gateway_knowledge_base.id"],
            name=op.f("fk_gateway_knowledge_document_base_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["current_text_id"],
            ["gateway_indexed_text.id"],
            name=op.f("fk_gateway_knowledge_document_current_text_id"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["wanted_text_id"],
            ["gateway_indexed_text.id"],
            name=op.f("fk_gateway_knowledge_document_wanted_text_id"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_knowledge_document")),
        sa.UniqueConstraint(
            "base_id", "external_id", name=op.f("uq_gateway_knowledge_document_base_id_external_id")
        ),
    )
    op.create_index(
        op.f("ix_gateway_knowledge_document_base_id_status"),
        "gateway_knowledge_document",
        ["base_id", "status"],
        unique=False,
    )
    op.create_index(
        op.f("ix_gateway_knowledge_document_current_text_id"),
        "gateway_knowledge_document",
        ["current_text_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_gateway_knowledge_document_retry_at"),
        "gateway_knowledge_document",
        ["retry_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_gateway_knowledge_document_wanted_text_id"),
        "gateway_knowledge_document",
        ["wanted_text_id"],
        unique=False,
    )
    op.create_table(
        "gateway_content",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("is_text", sa.Boolean(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["gateway_knowledge_document.id"],
            name=op.f("fk_gateway_content_document_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("document_id", name=op.f("pk_gateway_content")),
    )
