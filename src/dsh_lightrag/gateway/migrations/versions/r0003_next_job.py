"""The third shape: a job that ends announces the next one with its lock.

The queue itself announces new jobs alone. The jobs of a base share a lock, so that each of them
would wait for the worker's next look at the clock.
"""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Announce as the queue's own triggers do, on the channel that every worker hears."""
    op.execute(
        """
        CREATE FUNCTION gateway_announce_next_job() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (
                SELECT FROM procrastinate_jobs WHERE lock = OLD.lock AND status = 'todo'
            ) THEN
                PERFORM pg_notify(
                    'procrastinate_any_queue_v1',
                    json_build_object('type', 'job_inserted', 'job_id', OLD.id)::text
                );
            END IF;
            RETURN NULL;
        END;
        $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER gateway_announce_next_job AFTER DELETE ON procrastinate_jobs
        FOR EACH ROW WHEN (OLD.status = 'doing') EXECUTE FUNCTION gateway_announce_next_job()
        """
    )
