"""One method per endpoint: a request shape goes in, a reply shape comes out.

This is the complete list of what an agent or the gateway can reach.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from dsh_lightrag import wire
from dsh_lightrag.errors import HINTS, Code, LightRagError
from dsh_lightrag.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.budget import Budget
    from dsh_lightrag.transport import Transport

R = TypeVar("R", bound=wire.Reply)

_BOM = b"\xef\xbb\xbf"
# Lists and objects in one answer. What is ignored is still parsed, and two MiB of nothing but
# brackets would take fifty times their size; a page of documents holds some hundreds.
MAX_OPENINGS = 60_000
# Below this even the worst body stays far under the bound of memory: it need not be counted.
HARMLESS_BYTES = 512 * 1024
# As much of a body as tells whether its strings are few and long.
SAMPLE_BYTES = 8192
_BACKSLASH = ord("\\")
# What a server says inside an HTTP 200 when it did not do what it was asked.
REFUSALS: dict[str, Code] = {
    "fail": Code.SERVER_ERROR,
    "failure": Code.SERVER_ERROR,
    "error": Code.SERVER_ERROR,
    "busy": Code.BUSY,
    "not_allowed": Code.BUSY,
    "scanning_skipped_pipeline_busy": Code.BUSY,
    "duplicated": Code.CONFLICT,  # LightRAG 1.4; later versions answer 409
}


class LightRagClient:
    """The endpoints, for one tool call: every request shares the call's one budget.

    Raises (all methods):
        LightRagError: as the transport; `bad-response` when a 2xx is not what the route
            promises; `busy` or `conflict` when a write was refused inside a 200.
    """

    def __init__(self, transport: Transport, budget: Budget) -> None:
        self._transport = transport
        self._budget = budget
        self._isolated = False
        self._checking = asyncio.Lock()

    async def health(self) -> wire.Health:
        """GET /health: alive? Public, so it says nothing about the key."""
        return await self._ask(wire.Route.HEALTH, wire.Health)

    async def status_counts(self) -> wire.StatusCounts:
        """GET /documents/status_counts: needs the key; counts the whole base."""
        return await self._ask(wire.Route.STATUS_COUNTS, wire.StatusCounts)

    async def openapi(self) -> wire.OpenApi:
        """GET /openapi.json: the routes that the server says it has."""
        return await self._ask(wire.Route.OPENAPI, wire.OpenApi)

    async def query(self, request: wire.QueryRequest) -> wire.QueryReply:
        """POST /query: an answer with its sources."""
        return await self._ask(wire.Route.QUERY, wire.QueryReply, request)

    async def query_data(self, request: wire.QueryDataRequest) -> wire.QueryDataReply:
        """POST /query/data: what was retrieved, without an answer; empty when nothing was."""
        reply = await self._ask(wire.Route.QUERY_DATA, wire.QueryDataReply, request)
        if reply.status == "failure" and reply.metadata.failure_reason != wire.NO_RESULTS:
            raise self._refused(Code.SERVER_ERROR, reply.status, reply.message)
        return reply

    async def documents(self, request: wire.DocumentsRequest) -> wire.DocumentsReply:
        """POST /documents/paginated: one page of the list."""
        return await self._ask(wire.Route.DOCUMENTS, wire.DocumentsReply, request)

    async def insert(self, request: wire.InsertRequest) -> wire.Acceptance:
        """POST /documents/text: accepted, processed in the background."""
        return await self._write(wire.Route.INSERT, request)

    async def scan(self) -> wire.Acceptance:
        """POST /documents/scan: started in the background."""
        return await self._write(wire.Route.SCAN)

    async def delete(self, request: wire.DeleteRequest) -> wire.Acceptance:
        """DELETE /documents/delete_document: started in the background, unknown ids too."""
        return await self._write(wire.Route.DELETE, request)

    async def tracked(self, track_id: str) -> wire.TrackReply:
        """GET /documents/track_status/{id}: what became of one insertion."""
        return await self._ask(wire.Route.TRACK, wire.TrackReply, name=track_id)

    async def make_workspace(self, workspace: str) -> wire.WorkspaceReply:
        """PUT /workspaces/{id}: there afterwards, whether it was before or not."""
        return await self._ask(wire.Route.MAKE_WORKSPACE, wire.WorkspaceReply, name=workspace)

    async def drop_workspace(self, workspace: str) -> wire.WorkspaceReply:
        """DELETE /workspaces/{id}: gone afterwards with all it held."""
        return await self._ask(wire.Route.DROP_WORKSPACE, wire.WorkspaceReply, name=workspace)

    async def _write(
        self, route: wire.Route, request: wire.Request | None = None
    ) -> wire.Acceptance:
        reply = await self._ask(route, wire.Acceptance, request)
        if reply.status != route.begun:
            code = REFUSALS.get(reply.status, Code.BAD_RESPONSE)
            raise self._refused(code, reply.status, reply.message)
        return reply

    def _refused(self, code: Code, status: str, message: str) -> LightRagError:
        said = excerpt(f"{status}: {message}", self._transport.redact)
        return LightRagError(
            code, f'The server refused in an HTTP 200. server said: "{said}"', status=200
        )

    async def _ask(
        self,
        route: wire.Route,
        shape: type[R],
        request: wire.Request | None = None,
        name: str = "",
    ) -> R:
        body = None if request is None else request.body()
        workspace = await self._workspace(route)
        data = await self._transport.send(route, self._budget, body, workspace=workspace, name=name)
        return self._parse(route, shape, data)

    async def _workspace(self, route: wire.Route) -> str:
        """Return the workspace to name, once this call has seen that the server honours it.

        A stock LightRAG server ignores the header, and would answer from another base.
        """
        workspace = self._transport.connection.workspace
        if workspace:
            async with self._checking:  # siblings wait for the one check
                await self._check_isolation(workspace, route)
        return workspace

    async def _check_isolation(self, workspace: str, route: wire.Route) -> None:
        if not self._isolated:
            data = await self._transport.send(wire.Route.HEALTH, self._budget)
            health = self._parse(wire.Route.HEALTH, wire.Health, data)
            if not health.workspace_isolation:
                raise LightRagError(
                    Code.BAD_RESPONSE,
                    f"The workspace {workspace!r} is set, but the server does not isolate "
                    f"workspaces: {route.path} was not asked.",
                    hint="Unset workspace, or set the endpoint to a server that isolates them.",
                )
            self._isolated = True

    def _parse(self, route: wire.Route, shape: type[R], data: bytearray) -> R:
        """Parse straight from bytes into the shape."""
        if data.startswith(_BOM):
            del data[: len(_BOM)]
        if _opens_too_many(data):
            raise LightRagError(
                Code.BAD_RESPONSE,
                f"{route.path} answered 200, but with too many values to be read.",
                hint=HINTS[Code.TOO_LARGE],
                status=200,
            )
        try:
            _refuse_non_finite(data)
            return shape.model_validate_json(data, context=self._transport.redact)
        except ValueError as error:  # pydantic's is one
            raise LightRagError(
                Code.BAD_RESPONSE, f"{route.path} answered 200, but {_fault(error)}.", status=200
            ) from None  # the chain would show what the server sent


def _outside_strings(body: bytearray) -> Iterator[bytearray]:
    """Yield what stands between the strings of a JSON text: its structure, numbers and words."""
    begin = 0
    while (opening := body.find(b'"', begin)) >= 0:
        yield body[begin:opening]
        closing = body.find(b'"', opening + 1)
        while closing >= 0 and _is_escaped(body, closing):
            closing = body.find(b'"', closing + 1)
        if closing < 0:
            return
        begin = closing + 1
    yield body[begin:]


def _is_escaped(body: bytearray, quote: int) -> bool:
    before = quote - 1
    while body[before] == _BACKSLASH:
        before -= 1
    return (quote - before) % 2 == 0


def _opens_too_many(data: bytearray) -> bool:
    """Count lists and objects; those quoted in strings only when they would tip the scale."""

    def openings(text: bytearray) -> int:
        return text.count(b"[") + text.count(b"{")

    if len(data) <= HARMLESS_BYTES or openings(data) <= MAX_OPENINGS:
        return False
    return sum(map(openings, _outside_strings(data))) > MAX_OPENINGS


def _refuse_non_finite(data: bytearray) -> None:
    """Refuse NaN and infinities anywhere: the model sees those of its own fields only.

    A body of few, long strings is walked faster than it is searched; both are exact.

    Raises:
        ValueError: the body is not JSON.
    """
    sample = data[:SAMPLE_BYTES]
    few_strings = sample.count(b'"') < len(sample) // 64
    if not few_strings and not _names_no_number(data):
        return
    if any(map(_names_no_number, _outside_strings(data))):
        raise ValueError("NaN or an infinity")


def _names_no_number(text: bytearray) -> bool:
    return b"NaN" in text or b"Infinity" in text


def _fault(error: ValueError) -> str:
    """Tell what is wrong with an answer, by place and kind; its content is never repeated."""
    if not isinstance(error, ValidationError):
        return "its body is not JSON"
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if fault["type"] == "json_invalid":
        return "its body is not JSON"
    place = ".".join(
        str(part) if isinstance(part, int) or part in wire.FIELD_NAMES else "<key>"
        for part in fault["loc"]
    )
    return f"{place or 'its body'} is not what LightRAG promises ({fault['type']})"
