"""The fourth shape: audit entries that are too old are found without reading all of them."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Index the moments of the audit."""
    op.create_index(op.f("ix_gateway_audit_entry_at"), "gateway_audit_entry", ["at"])
