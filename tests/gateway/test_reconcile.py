"""What is mended after a crash: rows, queue and server that do not agree."""

from __future__ import annotations

import pytest
from sqlalchemy import text, update

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.gateway import reconcile
from dsh_lightrag.gateway.knowledge import KnowledgeServer
from dsh_lightrag.gateway.tables import KnowledgeDocument
from dsh_lightrag.settings import LightRagSettings

from .harness import URL, Shelf, eventually, filed, knowledge, served, working


@pytest.fixture
async def server(tmp_path):
    """The knowledge server, empty."""
    async with served(tmp_path) as door:
        yield knowledge(door)


@pytest.fixture
async def shelf(database, team_id):
    """An empty base."""
    return await Shelf.make(database, team_id)


async def run_sql(database, statement):
    async with database.sessions.begin() as session:
        await session.execute(text(statement))


async def test_a_job_that_was_lost_is_queued_again(database, server, shelf):
    await shelf.put("a", "Not forgotten.")
    await run_sql(database, "DELETE FROM procrastinate_jobs")
    async with working(database, server):
        assert (await shelf.until("a", "indexed", "failed")).status == "indexed"


async def test_the_job_of_a_worker_that_was_killed_is_taken_up_by_the_next(database, server, shelf):
    await shelf.put("a", "Half done.")
    await run_sql(
        database,
        "WITH gone AS (INSERT INTO procrastinate_workers (last_heartbeat)"
        " VALUES (now() - interval '1 minute') RETURNING id)"
        " UPDATE procrastinate_jobs SET status = 'doing', worker_id = gone.id FROM gone",
    )
    async with database.sessions.begin() as session:
        await session.execute(update(KnowledgeDocument).values(status="indexing"))
    async with working(database, server):
        assert (await shelf.until("a", "indexed", "failed")).status == "indexed"


async def test_what_is_not_due_is_left_and_what_is_due_is_queued_once(database, shelf):
    await shelf.put("a", "Later.")
    await run_sql(database, "DELETE FROM procrastinate_jobs")
    await run_sql(
        database, "UPDATE gateway_knowledge_document SET retry_at = now() + interval '1 hour'"
    )
    assert await reconcile.queue_what_is_due(database) == 0
    assert await reconcile.queue_what_was_lost(database) == 0
    await run_sql(database, "UPDATE gateway_knowledge_document SET retry_at = now()")
    assert await reconcile.queue_what_is_due(database) == 1
    assert await reconcile.queue_what_is_due(database) == 0
    assert await reconcile.queue_what_was_lost(database) == 0


async def test_a_comparison_removes_what_no_document_knows(database, server, shelf):
    await shelf.put("a", "Known.")
    async with working(database, server):
        row = await shelf.until("a", "indexed")
    await server.file(shelf.base.workspace, "stranger-v1.txt", "Nobody asked for this.")
    await reconcile.compare(database, server, shelf.base.id)

    async def only_the_known():
        return await filed(server, shelf.base.workspace) == {f"{row.id}-v1.txt": "processed"}

    await eventually(only_the_known)


async def test_a_text_that_was_filed_before_the_crash_is_not_filed_twice(database, server, shelf):
    answer = await shelf.put("a", "Filed, and then the worker was killed.")
    name = f"{answer.document.id}-v1.txt"
    await server.file(shelf.base.workspace, name, "Filed, and then the worker was killed.")
    async with working(database, server):
        await shelf.until("a", "indexed", "failed")
    assert await filed(server, shelf.base.workspace) == {name: "processed"}


async def test_a_row_that_a_listing_skipped_is_not_taken_for_lost(
    database, server, shelf, monkeypatch
):
    await shelf.put("a", "Here all the time.")
    async with working(database, server):
        await shelf.until("a", "indexed", "failed")

    async def skipping(_workspace):
        for row in ():  # as when a deletion moves the row to a page that was read
            yield row

    monkeypatch.setattr(server, "documents", skipping)
    await reconcile.compare(database, server, shelf.base.id)
    assert (await shelf.get("a")).status == "indexed"


async def test_what_the_server_has_lost_is_said_and_can_be_put_again(database, server, shelf):
    await shelf.put("a", "Lost.")
    async with working(database, server):
        await shelf.until("a", "indexed")
        await server.drop(shelf.base.workspace)
        await reconcile.compare(database, server, shelf.base.id)
        row = await shelf.get("a")
        assert (row.status, row.error_code) == ("failed", "not-found")
        assert await shelf.current() == {}
        assert (await shelf.put("a", "Lost.")).queued
        assert (await shelf.until("a", "indexed", "failed")).status == "indexed"


async def test_a_server_that_does_not_isolate_workspaces_is_refused(httpx_mock):
    httpx_mock.add_response(url=f"{URL}/health", json={"status": "healthy"})
    server = KnowledgeServer(LightRagSettings(endpoint=URL))
    with pytest.raises(ConfigurationError) as raised:
        await server.check()
    assert raised.value.key == "--server-url"
    assert "isolate" in raised.value.problem
    await server.close()


async def test_a_server_that_isolates_workspaces_is_taken(server):
    await server.check()
