"""One open workspace over the engine: asking, documents and graph behind the seam's protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dsh_lightrag.engine import Listing, Mode, UnknownDocumentError, Worker
from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.server.backend import (
    Answer,
    Evidence,
    ModelFailedError,
    ModelMissingError,
    Page,
)
from dsh_lightrag.server.embedded import documents, evidence, graph, wording
from dsh_lightrag.server.embedded.identity import canonical_name, document_id
from dsh_lightrag.server.embedded.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_lightrag.engine import Engine
    from dsh_lightrag.server.backend import (
        Ask,
        DocumentRow,
        NewDocument,
        PageWanted,
        PipelineState,
        Subgraph,
    )
    from dsh_lightrag.server.embedded.threads import Threads
    from dsh_lightrag.server.models import ChatEndpoint

_NO_MODEL = "no chat model configured"
# Before each attempt to delete what was promised: a full disk may get room, a lock may be let go.
_DELETION_PAUSES_S = (0.0, 0.5, 2.0, 8.0)
_PATIENCE_S = 5.0  # for a step of the worker, which may wait for a model that is silent


class EmbeddedBackend:
    """An open base and the thread that indexes it; `EmbeddedKeeper.open` makes one."""

    def __init__(self, engine: Engine, threads: Threads, chat: ChatEndpoint | None) -> None:
        self._engine = engine
        self._threads = threads
        self._chat = chat
        self._pipeline = Pipeline()
        self._worker = Worker(engine).start()
        self._deletion: asyncio.Task[None] | None = None

    async def resume(self) -> None:
        """Go on with a deletion that was promised before the process ended."""
        promised = await self._threads.read(self._engine.doomed)
        if promised:
            self._begin_deletion(promised)

    # --- asking -------------------------------------------------------------------------------

    async def evidence(self, ask: Ask) -> Evidence:
        """Retrieve; a signal that fails is told in `processing_info`, all of them raise."""
        if ask.mode == "bypass":
            return Evidence()
        return await self._threads.read(self._retrieve, ask)

    async def answer(self, ask: Ask, *, stream: bool) -> Answer:
        """Answer by the chat model, or without one by quoting the best passages."""
        if ask.mode == "bypass":
            return await self._told(ask, None, stream=stream)
        found = await self.evidence(ask)
        if found.empty:
            return Answer(wording.NO_CONTEXT, llm_generated=False)
        if ask.only_need_context:
            return Answer(wording.context(found), llm_generated=False, references=found.references)
        if ask.only_need_prompt:
            return Answer(
                wording.prompt(ask, found), llm_generated=False, references=found.references
            )
        if self._chat is None:
            return Answer(wording.quoted(found), llm_generated=False, references=found.references)
        return await self._told(ask, found, stream=stream)

    async def _told(self, ask: Ask, found: Evidence | None, *, stream: bool) -> Answer:
        if self._chat is None:
            raise ModelMissingError(_NO_MODEL, "Configure one, or ask in another mode.")
        messages = wording.messages(ask, found)
        references = found.references if found else ()
        ask_model = self._chat.stream if stream else self._chat.say
        return Answer(await ask_model(messages), llm_generated=True, references=references)

    def _retrieve(self, ask: Ask) -> Evidence:
        question = "\n".join([ask.query, *ask.hl_keywords, *ask.ll_keywords])
        answer = self._engine.query(question, Mode(ask.mode), ask.chunk_top_k)
        if answer.faults:
            get_logger().warning(
                "signals_failed", signals=[signal.value for signal in answer.faults]
            )
            if not answer.hits:
                raise ModelFailedError(
                    "The embedding model failed, and nothing was found without it.",
                    "Look for its reason in the documents' list or the server's log.",
                )
        places = self._engine.places(evidence.chunk_ids(answer.entities, answer.relations))
        return evidence.build(ask, answer, places)

    # --- documents ----------------------------------------------------------------------------

    async def insert(self, documents_: Sequence[NewDocument], track_id: str) -> None:
        """File documents, all or none; those whose text is stored already become failed rows."""
        with self._pipeline.filing(len(documents_)):
            filed = [documents.to_engine(document, track_id) for document in documents_]
            await self._threads.write(self._engine.file, filed)

    async def record_failure(self, file_source: str, reason: str, track_id: str) -> None:
        """File a document that could not be read, in place of its last such row."""
        name = canonical_name(file_source)
        await self._threads.write(self._engine.record_failure, name, reason, track_id)

    async def page(self, wanted: PageWanted) -> Page:
        """Return a part of the document list."""
        return await self._threads.read(self._listed, wanted)

    def _listed(self, wanted: PageWanted) -> Page:
        asked = documents.to_listing(wanted)
        none_of_ours = bool(wanted.statuses) and not asked.statuses
        found = self._engine.listed(Listing(limit=0) if none_of_ours else asked)
        return Page(
            rows=tuple(map(documents.to_row, found.states)),
            total=0 if none_of_ours else found.total,
            counts={documents.to_status(status): count for status, count in found.counts.items()},
        )

    async def tracked(self, track_id: str) -> Sequence[DocumentRow]:
        """Return the documents of one insertion."""
        states = await self._threads.read(self._engine.tracked, track_id)
        return tuple(map(documents.to_row, states))

    async def named(self, file_name: str) -> DocumentRow | None:
        """Return the document filed under a name; a file that could not be read is not filed."""
        return await self._threads.read(self._named, document_id(file_name))

    def _named(self, id_: str) -> DocumentRow | None:
        try:
            return documents.to_row(self._engine.document(id_))
        except UnknownDocumentError:
            return None

    async def delete(self, ids: Sequence[str]) -> None:
        """Promise a deletion, durably, and begin it; a restart goes on with it."""
        self._pipeline.begin_deleting(len(ids))
        try:
            await self._threads.write(self._engine.doom, ids)
        except BaseException:  # cancelled or refused, the workspace is free again
            self._pipeline.end_deleting("Deletion refused")
            raise
        self._start_deletion(list(ids))

    def _begin_deletion(self, ids: list[str]) -> None:
        self._pipeline.begin_deleting(len(ids))
        self._start_deletion(ids)

    def _start_deletion(self, ids: list[str]) -> None:
        self._deletion = asyncio.create_task(self._delete(ids), name="deletion")

    async def _delete(self, ids: list[str]) -> None:
        done = tried = 0
        try:
            for id_ in ids:
                done += await self._is_deleted(id_)
                tried += 1
        finally:
            failed = tried - done
            self._pipeline.end_deleting(f"Deletion completed: {done} successful, {failed} failed")

    async def _is_deleted(self, id_: str) -> bool:
        """Delete a promised document, with patience; False leaves it to the next opening."""
        for pause in _DELETION_PAUSES_S:
            await asyncio.sleep(pause)
            try:
                await self._threads.write(self._engine.delete_doomed, id_)
            except Exception as error:  # noqa: BLE001 - nobody waits for the answer but the log
                get_logger().warning("deletion_failed", **fault_of(error))
            else:
                return True
        return False

    async def clear(self) -> int:
        """Delete every document and all that came of them, in one transaction."""
        self._pipeline.begin_deleting(0)
        ended = "Clearing failed"
        try:
            count = await self._threads.write(self._engine.clear)
            ended = "All documents cleared"
        finally:
            self._pipeline.end_deleting(ended)
        return count

    async def clear_cache(self) -> None:
        """Do nothing: no answer is ever cached."""

    async def retry_failed(self, track_id: str) -> int:
        """Let failed documents be tried again; each keeps the track it came with."""
        del track_id
        self._pipeline.refuse_while_deleting()
        count = await self._threads.write(self._engine.retry_failed)
        self._worker.rouse()
        return count

    async def pipeline(self) -> PipelineState:
        """Tell what the workspace is busy with."""
        progress = await self._threads.read(self._engine.progress)
        fault = self._worker.fault
        return self._pipeline.state(progress, fault.problem if fault else "")

    # --- graph --------------------------------------------------------------------------------

    async def labels(self) -> Sequence[str]:
        """Return every entity's name, sorted."""
        return await self._threads.read(self._engine.names)

    async def popular_labels(self, limit: int) -> Sequence[str]:
        """Return the names that most chunks have."""
        return await self._threads.read(self._engine.popular_names, limit)

    async def search_labels(self, text: str, limit: int) -> Sequence[str]:
        """Return names that contain a text, whatever its case."""
        return await self._threads.read(self._engine.search_names, text, limit)

    async def subgraph(self, label: str, depth: int, most: int) -> Subgraph:
        """Return what lies around a name, or the most frequent names for `*`."""
        return await self._threads.read(graph.subgraph, self._engine, label, depth, most)

    async def has_entity(self, name: str) -> bool:
        """Tell whether there is an entity of exactly this name."""
        return await self._threads.read(self._engine.has_name, name)

    async def close(self) -> None:
        """Close the base; what was under way goes on when it is opened again."""
        self._engine.break_off()  # a large text that nobody waits for any more takes a minute
        if self._deletion is not None:
            self._deletion.cancel()
            await asyncio.wait([self._deletion])
        await self._threads.write(self._shut)

    def _shut(self) -> None:
        self._worker.close(_PATIENCE_S)
        self._engine.close()
