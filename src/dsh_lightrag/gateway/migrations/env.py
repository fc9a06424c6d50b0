"""What Alembic runs: the steps on the connection that `database.migrate` hands over."""

from alembic import context

from dsh_lightrag.gateway.tables import Table

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Table.metadata
)
with context.begin_transaction():
    context.run_migrations()
