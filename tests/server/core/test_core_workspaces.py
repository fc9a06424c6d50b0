"""Many workspaces in one process: apart, reopened, held by one process, dropped without residue."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import lightrag.kg.shared_storage as shared
import psycopg
import pytest
from core_support import ADA, MARIE, ask, files_of, idle, put, settings_over
from lightrag.exceptions import PipelineNotInitializedError
from psycopg import sql

from dsh_lightrag.demo.stub_model import EMBEDDING_MODEL
from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.server.backend import (
    NewDocument,
    PageWanted,
    WorkspaceBrokenError,
    WorkspaceLockedError,
    WorkspaceUnknownError,
)
from dsh_lightrag.server.core import keeper_of
from dsh_lightrag.server.workspaces import WorkspaceNameError

MARK = "Zanzibarwhale"


async def test_two_workspaces_with_the_same_names_and_ids_see_only_their_own(settings, keeping):
    async with keeping(settings) as keeper:
        one, two = await keeper.opening("kb_one"), await keeper.opening("kb_two")
        await asyncio.gather(put(one, note=MARIE), put(two, note=ADA))
        assert (await one.named("note.md")).id == (await two.named("note.md")).id
        for backend, own, other in ((one, "Marie Curie", "Ada"), (two, "Ada Lovelace", "Marie")):
            found = await backend.evidence(ask("Who discovered polonium or wrote notes?"))
            assert found.chunks
            assert other not in repr(found)
            assert await backend.has_entity(own)
            assert not any(other in label for label in await backend.labels())
        await one.delete([(await one.named("note.md")).id])
        await idle(one)
        assert (await two.page(PageWanted())).total == 1
        assert await two.clear() == 1
        assert (await one.page(PageWanted())).total == 0


async def test_ten_workspaces_ingest_at_once(settings, keeping):
    async with keeping(settings) as keeper:
        names = [f"kb_{n}" for n in range(10)]
        opened = [await keeper.opening(name) for name in names]
        await asyncio.gather(
            *(
                put(backend, **{f"note{n}": f"{MARIE} It was case number {n}."})
                for n, backend in enumerate(opened)
            )
        )
        for n, backend in enumerate(opened):
            page = await backend.page(PageWanted())
            assert [row.file_path for row in page.rows] == [f"note{n}.md"]
        assert await keeper.names() == sorted(names)


async def test_a_closed_workspace_keeps_its_data_and_none_of_its_memory(settings, keeping):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        backend = await keeper.open("kb_a")
        await put(backend, marie=MARIE)
        before = await backend.page(PageWanted())
        await backend.close()
        assert shared.get_final_namespace("pipeline_status", "kb_a") == "kb_a:pipeline_status"
        with pytest.raises(PipelineNotInitializedError):
            await shared.get_namespace_data("pipeline_status", workspace="kb_a")
        backend = await keeper.opening("kb_a")
        assert await backend.page(PageWanted()) == before
        assert before.rows[0].metadata["llm_tokens"] > 0
        assert files_of(await backend.evidence(ask("Who discovered polonium?"))) == {"marie.md"}


async def test_a_workspace_that_nobody_made_is_unknown_and_stays_unmade(settings, keeping):
    async with keeping(settings) as keeper:
        assert await keeper.create("kb_a") is True
        assert await keeper.create("kb_a") is False
        assert await keeper.exists("kb_a")
        for name in ("kb_b", "kb-a", "../kb_a", "", "KB_A", "kb_a\n", "x" * 42):
            assert not await keeper.exists(name)
            with pytest.raises(WorkspaceUnknownError):
                await keeper.open(name)
            assert not await keeper.drop(name)
        for name in ("kb-a", "../kb_a", "", "KB_A", "x" * 42, "base"):
            with pytest.raises(WorkspaceNameError):
                await keeper.create(name)
        assert await keeper.names() == ["kb_a"]


def rows_with(url, text):
    """Return each table of each schema that shows a text in any column, as psql would."""
    found = []
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE' AND table_schema NOT IN "
            "('pg_catalog', 'information_schema')"
        ).fetchall()
        assert len(tables) > 10
        for schema, table in tables:
            query = sql.SQL("SELECT count(*) FROM {} AS row WHERE row::text ILIKE %s").format(
                sql.Identifier(schema, table)
            )
            count = connection.execute(query, [f"%{text}%"]).fetchone()[0]
            found += [(f"{schema}.{table}", count)] if count else []
    return dict(found)


def files_with(folder, text):
    """Return each file below a folder that has a text in its name or in its content."""
    return [
        path
        for path in Path(folder).rglob("*")
        if text.lower() in str(path.relative_to(folder)).lower()
        or (path.is_file() and text.lower().encode() in path.read_bytes().lower())
    ]


def residue(settings, text):
    in_tables = rows_with(settings.database_url, text) if settings.database_url else {}
    return in_tables, files_with(settings.data, text)


async def test_a_dropped_workspace_leaves_no_row_and_no_file(settings, keeping):
    name, other = "kb_" + "d" * 32, "kb_" + "e" * 32
    text = f"{MARK} Curie discovered {MARK}ium together with Pierre Curie in {MARK}town."
    async with keeping(settings) as keeper:
        await keeper.create(name)
        doomed = await keeper.open(name)
        kept = await keeper.opening(other)
        await put(doomed, **{MARK: text})
        await put(kept, marie=MARIE)
        await doomed.insert([NewDocument(text, f"{MARK}-copy.md")], "track-2")
        await doomed.record_failure(f"{MARK}.pdf", MARK, "track-3")
        await doomed.evidence(ask(f"Where is {MARK}town?"))
        await doomed.answer(ask(f"Where is {MARK}town?"), stream=False)
        await idle(doomed)
        for word in (MARK, name):
            assert any(residue(settings, word)), "the scan would not see it"
        before = [await kept.page(PageWanted()), await kept.labels()]
        kept_rows = rows_with(settings.database_url, other) if settings.database_url else {}
        await doomed.close()
        assert await keeper.drop(name) is True
        assert await keeper.drop(name) is False
        for word in (MARK, name):
            assert residue(settings, word) == ({}, [])
        assert [await kept.page(PageWanted()), await kept.labels()] == before
        if settings.database_url:
            assert rows_with(settings.database_url, other) == kept_rows
        # Made again, it is empty.
        fresh = await keeper.opening(name)
        assert (await fresh.page(PageWanted())).total == 0
        assert (await fresh.evidence(ask(f"Where is {MARK}town?"))).empty


async def test_a_drop_that_was_cut_short_is_finished_at_the_next_start(settings, keeping):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        backend = await keeper.open("kb_a")
        await put(backend, marie=MARIE)
        await backend.close()
    if settings.database_url:
        with psycopg.connect(settings.database_url) as connection:
            connection.execute("UPDATE dsh_workspaces SET dropped = true")
    else:
        (settings.folder / "kb_a").rename(settings.folder / ".dropped-0123")
    async with keeping(settings) as keeper:
        assert not await keeper.exists("kb_a")
        assert await keeper.names() == []
        assert residue(settings, "polonium") == ({}, [])


@pytest.mark.parametrize("name", ["POSTGRES_WORKSPACE", "NEO4J_WORKSPACE", "WORKSPACE_"])
async def test_a_variable_that_merges_workspaces_is_refused(on_files, monkeypatch, name):
    monkeypatch.setenv(name, "shared")
    if not name.endswith("_WORKSPACE"):
        await keeper_of(on_files).close()
        return
    with pytest.raises(ConfigurationError) as refused:
        keeper_of(on_files)
    assert name in str(refused.value)
    assert "deleted as another" in str(refused.value)
    monkeypatch.delenv(name)
    await keeper_of(on_files).close()


async def test_a_process_has_one_keeper_and_gets_its_environment_back(settings, keeping):
    before = dict(os.environ)
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        with pytest.raises(ConfigurationError, match="served by this process already"):
            keeper_of(settings)
        assert await keeper.names() == ["kb_a"]
    assert dict(os.environ) == before


async def test_files_of_the_working_folder_configure_nothing(
    settings, keeping, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.ini").write_text("[postgres]\nworkspace = shared\n", encoding="utf-8")
    async with keeping(settings) as keeper:
        one, two = await keeper.opening("kb_one"), await keeper.opening("kb_two")
        await put(one, marie=MARIE)
        assert (await two.page(PageWanted())).total == 0


async def test_a_process_reads_no_dotenv_file_and_logs_no_name_path_or_text(
    settings, keeping, elsewhere, tmp_path
):
    # LightRAG ends the process where it sees this variable.
    (tmp_path / ".env").write_text("ENTITY_TYPES=person\n", encoding="utf-8")
    async with keeping(settings) as keeper:
        await keeper.create("kb_secret")
    with elsewhere(settings, "kb_secret", folder=tmp_path, marie=MARIE) as other:
        assert other.said() == "open"
        log = other.end()
    assert log == ""


async def test_vectors_of_another_model_are_refused_and_left_alone(settings, keeping, model):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
    changed = settings_over(settings.data, model, settings.database_url, embedding="another-model")
    async with keeping(changed) as keeper:
        with pytest.raises(WorkspaceBrokenError, match=EMBEDDING_MODEL):
            await keeper.open("kb_a")
        assert await keeper.exists("kb_a")
    async with keeping(settings) as keeper:
        await (await keeper.open("kb_a")).close()


async def test_a_workspace_that_another_process_holds_is_refused(settings, keeping, elsewhere):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        with elsewhere(settings, "kb_a") as other:
            assert other.said() == "open"
            with pytest.raises(WorkspaceLockedError):
                await keeper.open("kb_a")
            with pytest.raises(WorkspaceLockedError):
                await keeper.drop("kb_a")
            other.kill()
        # The system, or the database, noticed that the other one died.
        await (await keeper.open("kb_a")).close()
