"""The second shape: a token knows the key that issued it, and requests are counted per key."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Tokens of the first shape name no key and live a day at most: they are dropped."""
    op.execute("DELETE FROM gateway_session_token")
    op.add_column("gateway_session_token", sa.Column("key_id", sa.Uuid(), nullable=False))
    op.create_foreign_key(
        op.f("fk_gateway_session_token_key_id"),
        "gateway_session_token",
        "gateway_api_key",
        ["key_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_index(op.f("ix_gateway_session_token_key_id"), "gateway_session_token", ["key_id"])
    op.create_table(
        "gateway_key_usage",
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"],
            ["gateway_api_key.id"],
            name=op.f("fk_gateway_key_usage_key_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("key_id", "minute", name=op.f("pk_gateway_key_usage")),
    )
