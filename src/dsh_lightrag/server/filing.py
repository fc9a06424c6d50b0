"""From a file to a document: read, converted in a thread, filed, or recorded with its reason."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dsh_lightrag.convert import ConversionError, text_of
from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.server.backend import BusyError, NameTakenError, NewDocument
from dsh_lightrag.server.ordinary import read_ordinary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from dsh_lightrag.server.backend import Backend, PipelineState
    from dsh_lightrag.server.inputs import Inputs, Waiting
    from dsh_lightrag.server.pool import Pool

AT_ONCE = 2
_BUSY_S = 0.2


class Filing:
    """Files documents out of files, few at a time.

    Args:
        pool: opens their workspaces.
        inputs: where accepted uploads wait.
        max_file: most bytes of a file.
    """

    def __init__(self, pool: Pool, inputs: Inputs, *, max_file: int) -> None:
        self._pool = pool
        self._inputs = inputs
        self._max_file = max_file
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pending: Counter[str] = Counter()

    def with_pending(self, workspace: str, state: PipelineState) -> PipelineState:
        """Return what a workspace is busy with, its uploads that wait included."""
        return replace(state, pending_enqueues=state.pending_enqueues + self._pending[workspace])

    def file_upload(self, waiting: Waiting) -> Coroutine[Any, Any, None]:
        """File an upload, which counts as pending from now on."""
        self._pending[waiting.workspace] += 1
        return self._file_upload(waiting)

    async def _file_upload(self, waiting: Waiting) -> None:
        """It waits on disk until its document, or the reason, is stored."""
        try:
            async with self._lease(waiting.workspace) as backend:
                await self.file(backend, waiting.path, waiting.track_id)
            await self._inputs.release(waiting)
        except Exception as error:  # noqa: BLE001 - nobody waits; the file does, for a restart
            get_logger().warning("upload_not_filed", **fault_of(error))
        finally:
            self._pending[waiting.workspace] -= 1

    @contextlib.asynccontextmanager
    async def _lease(self, workspace: str) -> AsyncIterator[Backend]:
        """Hold a workspace open, once no removal of it goes on: one may end without it removed."""
        while True:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    backend = await stack.enter_async_context(self._pool.lease(workspace))
                except BusyError:
                    await asyncio.sleep(_BUSY_S)
                    continue
                yield backend
                return

    async def file(self, backend: Backend, path: Path, track_id: str) -> str | None:
        """File what a file holds; return why it could not be read, which is stored too."""
        async with self._turns:
            try:
                text = await asyncio.to_thread(self._text, path)
            except FileNotFoundError:  # cleared away meanwhile, as somebody wished
                return "The file is gone."
            except (ConversionError, OSError) as error:
                # An OSError's own words hold a path.
                known = isinstance(error, ConversionError)
                reason = str(error) if known else "The file cannot be read."
                await backend.record_failure(path.name, reason, track_id)
                return reason
        return await _insert(backend, NewDocument(text, path.name), track_id)

    def _text(self, path: Path) -> str:
        data = read_ordinary(path, self._max_file)
        if len(data) > self._max_file:
            raise ConversionError(f"The file is larger than {self._max_file} bytes.", "Split it.")
        return text_of(path.name, data)


async def _insert(backend: Backend, document: NewDocument, track_id: str) -> str | None:
    """File a document once no deletion holds the workspace."""
    while True:
        try:
            await backend.insert([document], track_id)
        except BusyError:
            await asyncio.sleep(_BUSY_S)
        except NameTakenError as error:
            row = await backend.named(document.file_source)
            if row and row.track_id == track_id:
                return None  # filed by a server that was killed before it let go of the file
            await backend.record_failure(document.file_source, str(error), track_id)
            return str(error)
        else:
            return None
