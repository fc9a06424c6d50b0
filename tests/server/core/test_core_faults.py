"""Faults: models that fail, processes and databases that die, work that is cut short."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from core_support import ADA, MARIE, ask, eventually, files_of, idle, put, settings_over

from dsh_lightrag.demo.stub_model import Backend
from dsh_lightrag.demo.stub_replies import MARK, Ask
from dsh_lightrag.server.backend import (
    BusyError,
    ModelFailedError,
    NewDocument,
    PageWanted,
    Turn,
)
from postgres import running_postgres

QUESTION = "Who discovered polonium?"


@pytest.fixture
def failing(model):
    """The stub, set right again after the test."""
    model.slow_s = 600
    yield model
    model.chat = model.embeddings = Backend.OK


async def text_of(answer):
    if isinstance(answer.text, str):
        return answer.text
    return "".join([piece async for piece in answer.text])


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_rests_on_its_references(on_files, keeping, stream):
    async with keeping(on_files) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE)
        answer = await backend.answer(ask(QUESTION), stream=stream)
        assert isinstance(answer.text, str) is not stream
        assert (await text_of(answer)).startswith(MARK)
        assert answer.llm_generated
        (reference,) = answer.references
        assert (reference.file_path, reference.content) == ("marie.md", (MARIE,))
        history = (Turn("user", "Hello"), Turn("assistant", "Good day"))
        bypass = await backend.answer(ask("Hi", mode="bypass", history=history), stream=stream)
        assert await text_of(bypass)
        assert (bypass.llm_generated, bypass.references) == (True, ())
        context = await backend.answer(ask(QUESTION, only_need_context=True), stream=False)
        assert "polonium" in context.text
        assert not context.llm_generated


async def test_nothing_found_is_no_failure(on_files, keeping):
    async with keeping(on_files) as keeper:
        backend = await keeper.opening("kb_a")
        for mode in ("local", "global", "hybrid", "naive", "mix"):
            assert (await backend.evidence(ask(QUESTION, mode=mode))).empty
            answer = await backend.answer(ask(QUESTION, mode=mode), stream=True)
            assert answer.text.startswith("Sorry")
            assert not answer.llm_generated


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "naive", "mix"])
async def test_a_failing_model_is_a_failure_and_no_empty_answer(on_files, keeping, failing, mode):
    async with keeping(on_files) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE)
        failing.embeddings = Backend.UNAUTHORIZED
        for stream in (False, True):
            with pytest.raises(ModelFailedError, match="embedding endpoint refuses the key"):
                await backend.answer(ask(QUESTION, mode=mode), stream=stream)
        with pytest.raises(ModelFailedError):
            await backend.evidence(ask(QUESTION, mode=mode))
        failing.embeddings, failing.chat = Backend.OK, Backend.UNAUTHORIZED
        for stream in (False, True):
            with pytest.raises(ModelFailedError, match="chat endpoint refuses the key"):
                await text_of(await backend.answer(ask(QUESTION, mode=mode), stream=stream))
        failing.chat = Backend.OK
        assert (await backend.answer(ask(QUESTION, mode=mode), stream=False)).llm_generated


async def test_an_answer_is_never_one_of_before(on_files, keeping):
    async with keeping(on_files) as keeper:
        backend = await keeper.opening("kb_a")
        await put(backend, radium="Marie Curie discovered radium with Pierre Curie.")
        before = await backend.answer(ask(QUESTION), stream=False)
        assert before.llm_generated
        assert "polonium" not in before.text
        await put(backend, marie=MARIE)
        assert "polonium" in (await backend.answer(ask(QUESTION), stream=False)).text


async def test_a_document_that_a_model_failed_says_why_and_is_processed_when_asked_again(
    settings, keeping, failing
):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        failing.chat = Backend.UNAUTHORIZED
        await backend.insert([NewDocument(MARIE, "marie.md")], "track-1")
        await idle(backend)
        row = await backend.named("marie.md")
        assert row.status == "failed"
        assert "chat endpoint refuses the key" in row.error_msg
        failing.chat = Backend.OK
        assert await backend.retry_failed("") == 1
        await idle(backend)
        row = await backend.named("marie.md")
        assert (row.status, row.track_id) == ("processed", "track-1")
        assert row.metadata["llm_tokens"] > 0


async def test_the_pipelines_messages_hold_no_path_and_no_traceback(settings, keeping, failing):
    async with keeping(settings) as keeper:
        backend = await keeper.opening("kb_a")
        failing.chat = Backend.UNAUTHORIZED
        await backend.insert([NewDocument(MARIE, "marie.md")], "track-1")
        await idle(backend)
        state = await backend.pipeline()
        said = "\n".join([state.latest_message, *state.history_messages])
        assert "marie.md" in said
        for secret in ("Traceback", "site-packages", str(settings.data), 'File "'):
            assert secret not in said


async def test_all_workspaces_share_the_models_bound_and_a_question_goes_first(
    on_files, keeping, failing
):
    settings = replace(on_files, chat=replace(on_files.chat, concurrency=4))
    async with keeping(settings) as keeper:
        opened = [await keeper.opening(f"kb_{n}") for n in range(6)]
        await put(opened[0], marie=MARIE)
        failing.chat = Backend.SLOW
        before = failing.requests[Ask.EXTRACT]
        for n, backend in enumerate(opened):
            await backend.insert([NewDocument(f"{ADA} {n}", "ada.md")], "track-1")

        async def both_are_out():
            return failing.requests[Ask.EXTRACT] - before >= 2

        await eventually(both_are_out)
        found = await opened[0].evidence(ask(QUESTION, mode="naive"))
        assert files_of(found) == {"marie.md"}
        keywords = failing.requests[Ask.KEYWORDS]
        asking = asyncio.create_task(opened[1].evidence(ask(QUESTION)))

        async def question_is_out():
            return failing.requests[Ask.KEYWORDS] > keywords

        await eventually(question_is_out)
        # Half of four for the background, however many workspaces wait.
        assert failing.requests[Ask.EXTRACT] - before == 2
        failing.chat = Backend.OK
        await asking
        for backend in opened:
            await idle(backend)
            assert (await backend.named("ada.md")).status == "processed"


async def test_a_workspace_that_is_closed_amid_its_work_goes_on_when_it_is_opened(
    settings, keeping, failing
):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        backend = await keeper.open("kb_a")
        failing.chat = Backend.SLOW
        asked = failing.requests[Ask.EXTRACT]
        await backend.insert([NewDocument(MARIE, "marie.md")], "track-1")

        async def is_asked():
            return failing.requests[Ask.EXTRACT] > asked

        await eventually(is_asked)
        assert (await backend.pipeline()).busy
        with pytest.raises(BusyError):
            await backend.clear()
        with pytest.raises(BusyError):
            await backend.delete([(await backend.named("marie.md")).id])
        await backend.close()
        failing.chat = Backend.OK
        backend = await keeper.opening("kb_a")
        await idle(backend)
        assert (await backend.named("marie.md")).status == "processed"
        assert files_of(await backend.evidence(ask(QUESTION))) == {"marie.md"}


async def test_a_killed_process_loses_no_document_that_it_acknowledged(
    settings, keeping, failing, elsewhere
):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        failing.chat = Backend.SLOW
        asked = failing.requests[Ask.EXTRACT]
        with elsewhere(settings, "kb_a", marie=MARIE, ada=ADA) as other:
            assert other.said() == "open"

            async def is_asked():
                return failing.requests[Ask.EXTRACT] > asked

            await eventually(is_asked)
            other.kill()
        failing.chat = Backend.OK
        backend = await keeper.opening("kb_a")
        await idle(backend)
        page = await backend.page(PageWanted())
        assert {(row.file_path, row.status) for row in page.rows} == {
            ("marie.md", "processed"),
            ("ada.md", "processed"),
        }
        assert "marie.md" in files_of(await backend.evidence(ask(QUESTION)))


async def test_a_deletion_that_was_acknowledged_is_finished_by_the_next_process(settings, keeping):
    async with keeping(settings) as keeper:
        await keeper.create("kb_a")
        backend = await keeper.open("kb_a")
        await put(backend, marie=MARIE, ada=ADA)
        doomed = (await backend.named("marie.md")).id
        await backend.delete([doomed])
        await backend.close()  # before the deletion had its first turn
        backend = await keeper.opening("kb_a")
        await idle(backend)
        page = await backend.page(PageWanted())
        assert [row.file_path for row in page.rows] == ["ada.md"]
        await backend.close()
        # Nothing is left to delete: the same name may be filed and stays.
        backend = await keeper.opening("kb_a")
        await put(backend, marie=MARIE)
        await backend.close()
        backend = await keeper.opening("kb_a")
        await idle(backend)
        assert (await backend.named("marie.md")).id == doomed


async def test_a_database_that_is_killed_amid_the_work_is_survived(tmp_path, keeping, failing):
    with running_postgres() as postgres:
        settings = settings_over(tmp_path / "data", failing, postgres.new_database())
        async with keeping(settings) as keeper:
            backend = await keeper.opening("kb_a")
            failing.chat = Backend.SLOW
            asked = failing.requests[Ask.EXTRACT]
            await backend.insert([NewDocument(MARIE, "marie.md")], "track-1")

            async def is_asked():
                return failing.requests[Ask.EXTRACT] > asked

            await eventually(is_asked)
            postgres.kill()
            failing.chat = Backend.OK
            postgres.start()
            await idle(backend)
            row = await backend.named("marie.md")
            if row.status == "failed":  # it was the document's write that the crash hit
                assert await backend.retry_failed("") == 1
                await idle(backend)
                row = await backend.named("marie.md")
            assert row.status == "processed"
            await put(backend, ada=ADA)
            assert json.dumps(row.metadata, default=str)
