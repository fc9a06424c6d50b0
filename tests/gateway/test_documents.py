"""Bases and documents as rows, on a real PostgreSQL; no worker runs here."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from sqlalchemy import text

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway import bases, documents
from dsh_lightrag.gateway.documents import FilePut, TextPut, UrlPut
from dsh_lightrag.gateway.tables import Team


async def jobs(database):
    async with database.sessions() as session:
        rows = await session.execute(
            text("SELECT task_name, status::text FROM procrastinate_jobs ORDER BY id")
        )
        return [tuple(row) for row in rows]


async def make_base(database, team_id, **fields):
    async with database.sessions.begin() as session:
        return await bases.create_base(session, team_id, "catalogue", **fields)


async def put(database, base, external_id="a", content=None, **fields):
    settings = {"source": "catalog", "name": "a.txt"} | fields
    async with database.sessions.begin() as session:
        return await documents.put_document(
            session, base.id, external_id, content=content or TextPut("Oslo"), **settings
        )


async def test_a_put_and_its_job_commit_together(database, team_id):
    base = await make_base(database, team_id)
    answer = await put(database, base)
    assert (answer.queued, answer.document.status) == (True, "pending")
    assert await jobs(database) == [("index_document", "todo")]


async def test_a_put_that_is_rolled_back_leaves_neither_row_nor_job(database, team_id):
    base = await make_base(database, team_id)
    async with database.sessions() as session:
        await documents.put_document(
            session, base.id, "a", source="catalog", name="a", content=TextPut("x")
        )
        await session.rollback()
    assert await jobs(database) == []
    async with database.sessions() as session:
        assert (await documents.counts(session, base.id)).total == 0


async def test_unchanged_content_queues_nothing(database, team_id):
    base = await make_base(database, team_id)
    await put(database, base)
    await forget_jobs(database)
    answer = await put(database, base, name="renamed.txt")
    assert (answer.queued, answer.document.name) == (False, "renamed.txt")
    assert await jobs(database) == []


async def test_content_that_failed_is_queued_again(database, team_id):
    base = await make_base(database, team_id)
    await put(database, base)
    async with database.sessions.begin() as session:
        (await documents.get_document(session, base.id, "a")).status = "failed"
    assert (await put(database, base)).queued


async def test_many_puts_of_one_document_are_one_queued_job(database, team_id):
    base = await make_base(database, team_id)
    await asyncio.gather(*(put(database, base, content=TextPut(f"v{n}")) for n in range(20)))
    assert await jobs(database) == [("index_document", "todo")]
    async with database.sessions() as session:
        assert (await documents.get_document(session, base.id, "a")).version == 20


async def test_a_url_is_fetched_by_a_worker_each_time_it_is_put(database, team_id):
    base = await make_base(database, team_id)
    page = UrlPut("https://example.org/page")
    for _ in range(2):
        assert (await put(database, base, content=page, source="url")).queued
    assert await jobs(database) == [("fetch_document", "todo")]


async def test_characters_that_no_text_should_hold_do_not_stop_a_put(database, team_id):
    base = await make_base(database, team_id)
    assert (await put(database, base, content=TextPut("a\x00b\ud800c"))).queued
    assert (await put(database, base, "b", content=FilePut(b"\x00\xff"))).queued


async def test_documents_are_listed_counted_and_deleted(database, team_id):
    base = await make_base(database, team_id)
    for name in "cab":
        await put(database, base, name, content=TextPut(name))
    async with database.sessions.begin() as session:
        listed = await documents.list_documents(session, base.id, limit=2)
        assert [row.external_id for row in listed] == ["a", "b"]
        rest = await documents.list_documents(session, base.id, after="b")
        assert [row.external_id for row in rest] == ["c"]
        await documents.delete_document(session, base.id, "b")
        assert await documents.counts(session, base.id) == documents.Counts(pending=2)
        assert await documents.list_documents(session, base.id, status="failed") == []
    assert ("delete_document", "todo") in await jobs(database)
    async with database.sessions() as session:
        with pytest.raises(LightRagError) as raised:
            await documents.get_document(session, base.id, "b")
    assert raised.value.code is Code.NOT_FOUND


async def test_another_teams_base_does_not_exist(database, team_id):
    base = await make_base(database, team_id)
    async with database.sessions.begin() as session:
        session.add(Team(name="others", id=(other := uuid4())))
    async with database.sessions() as session:
        for call in (bases.get_base, bases.delete_base):
            with pytest.raises(LightRagError) as raised:
                await call(session, other, base.id)
            assert raised.value.code is Code.NOT_FOUND
        assert await bases.list_bases(session, other) == []


async def test_a_deleted_base_is_gone_at_once_and_its_jobs_with_it(database, team_id):
    base = await make_base(database, team_id)
    await put(database, base)
    await put(database, base, "b", content=UrlPut("https://example.org/"), source="url")
    async with database.sessions.begin() as session:
        await bases.delete_base(session, team_id, base.id)
    assert await jobs(database) == [("delete_base", "todo")]
    with pytest.raises(LightRagError) as raised:
        await put(database, base, "c")
    assert raised.value.code is Code.NOT_FOUND


async def test_a_workspace_is_named_by_the_server_and_by_nothing_else(database, team_id):
    first, second = [await make_base(database, team_id) for _ in range(2)]
    assert first.workspace != second.workspace
    for chosen in ("", "kb_1", "default", "kb_" + "g" * 32):
        with pytest.raises(Exception, match="ck_gateway_knowledge_base_workspace"):
            async with database.sessions.begin() as session:
                await session.execute(
                    text("UPDATE gateway_knowledge_base SET workspace = :w WHERE id = :id"),
                    {"w": chosen, "id": first.id},
                )


async def forget_jobs(database):
    async with database.sessions.begin() as session:
        await session.execute(text("DELETE FROM procrastinate_jobs"))
