"""The database's shape, step by step (Alembic); `database.migrate` walks it."""
