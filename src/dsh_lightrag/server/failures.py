"""How requests fail: every refusal and fault as LightRAG's JSON, and one record of each.

A reply says what its client can do something about. Where a fault is the server's, it holds an id
that stands in the log too; it never holds a stack, a path or a provider's words.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from dsh_lightrag.guard import Refused, Reply
from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.server import backend
from dsh_lightrag.server.refusal import RefusalError
from dsh_lightrag.server.workspaces import WorkspaceNameError
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

QUERY_DATA = "/query/data"
_INTERNAL = "Internal server error"
_SERVER_FAULT = 500
_LONGEST_LOC = 80

# From what a backend raises to status and reason; the most specific class that matches counts.
BACKEND_FAILURES: Mapping[type[backend.BackendError], tuple[int, str]] = {
    WorkspaceNameError: (400, "workspace_name"),
    backend.ModelMissingError: (400, "model_missing"),
    backend.ModelFailedError: (502, "model_failed"),
    backend.NameTakenError: (409, "name_taken"),
    backend.BusyError: (409, "busy"),
    backend.UnknownDocumentsError: (404, "unknown_documents"),
    backend.WorkspaceUnknownError: (404, "workspace_unknown"),
    backend.WorkspaceLockedError: (503, "workspace_locked"),
    backend.WorkspaceBrokenError: (500, "workspace_broken"),
    backend.DiskFullError: (507, "disk_full"),
    backend.BackendError: (500, "backend_failed"),
}


def error_id() -> str:
    """Return an id that joins a reply and its record."""
    return secrets.token_hex(6)


def classify(error: backend.BackendError) -> tuple[int, str]:
    """Return the status and the reason of a backend's error."""
    return next(BACKEND_FAILURES[kind] for kind in type(error).__mro__ if kind in BACKEND_FAILURES)


def said_of(error: backend.BackendError, marked: str) -> str:
    """Return what a client is told: the problem, its mend, and the id of a server's fault."""
    status, _ = classify(error)
    if isinstance(error, backend.WorkspaceBrokenError):  # its words name files
        return f"The workspace cannot be opened; the server's log says why. (error_id: {marked})"
    said = f"{error.problem.rstrip('.')}. {error.mend}".rstrip()
    return f"{said} (error_id: {marked})" if status >= _SERVER_FAULT else said


def told_late(scope: Scope, error: Exception) -> str:
    """Record what broke a reply whose status was sent, and return what its client is told."""
    marked = error_id()
    if isinstance(error, backend.BackendError):
        status, reason = classify(error)
        record(scope, status, reason=reason, error_id=marked, streaming=True)
        return said_of(error, marked)
    record(scope, _SERVER_FAULT, reason="bug", error_id=marked, streaming=True, **fault_of(error))
    return f"{_INTERNAL} (error_id: {marked})"


def record(scope: Scope, status: int, **facts: object) -> None:
    """Write the one record of a failed request; the path is the route's, never the client's."""
    route = getattr(scope.get("route"), "path", None)
    write = get_logger().warning if status >= _SERVER_FAULT else get_logger().info
    write("request_failed", method=scope["method"], route=route, status=status, **facts)


# --- refusals and faults of routes ------------------------------------------------------------


async def _answer_backend(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, backend.BackendError)  # noqa: S101 - what this is registered for
    status, reason = classify(error)
    marked = error_id()
    broken = isinstance(error, backend.WorkspaceBrokenError)
    why = {"problem": error.problem} if broken else {}
    record(request.scope, status, reason=reason, error_id=marked, **why)
    body = {"detail": said_of(error, marked), "reason": reason}
    return JSONResponse(body | ({"error_id": marked} if status >= _SERVER_FAULT else {}), status)


async def _answer_refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RefusalError)  # noqa: S101 - what this is registered for
    record(request.scope, error.status, reason="refused")
    return JSONResponse({"detail": error.detail}, error.status)


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what this is registered for
    record(request.scope, error.status_code, reason="http")
    return JSONResponse({"detail": error.detail}, error.status_code, headers=error.headers)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """Answer as LightRAG does, without the refused input, which may be long or secret."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what this is registered for
    faults = [_fault(one) for one in error.errors()]
    if request.scope["path"] == QUERY_DATA:
        record(request.scope, 400, reason="invalid")
        places = (
            f"{' -> '.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults
        )
        message = f"Validation error: {'; '.join(places)}"
        return JSONResponse(
            {"status": "failure", "message": message, "data": {}, "metadata": {}}, 400
        )
    record(request.scope, 422, reason="invalid")
    return JSONResponse({"detail": faults}, 422)


def _fault(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return one fault; of its context only what a rule says, nothing that was sent."""
    loc = [
        part if isinstance(part, int) else clean_line(part)[:_LONGEST_LOC] for part in error["loc"]
    ]
    fault = {"type": error["type"], "loc": loc, "msg": clean_line(error["msg"])}
    rule = {
        name: value for name, value in error.get("ctx", {}).items() if isinstance(value, int | str)
    }
    return fault | ({"ctx": rule} if rule else {})


def answer_failures(app: FastAPI) -> None:
    """Register an answer for each kind of failure."""
    app.add_exception_handler(backend.BackendError, _answer_backend)
    app.add_exception_handler(RefusalError, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_invalid)


# --- around the whole application --------------------------------------------------------------


class LastResort:
    """Pure ASGI: answers what nothing else did, a bug, with its id and without its words."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer for it if it fails."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # a bug, whatever its kind: its id is told, never its words
            marked = error_id()
            record(scope, _SERVER_FAULT, reason="bug", error_id=marked, **fault_of(error))
            if begun:
                raise  # the connection must end visibly cut
            detail = f"{_INTERNAL} (error_id: {marked})"
            await JSONResponse({"detail": detail}, _SERVER_FAULT)(scope, receive, send)


def word_refusal(refused: Refused, most: int | None) -> Reply:
    """Word what the guard refuses, as LightRAG does where it does."""
    get_logger().info("request_refused", status=refused.status, reason=refused.name.lower())
    detail = refused.message
    if refused is Refused.BODY:
        detail = f"Request body too large. This endpoint accepts at most {most} bytes."
    return Reply(json.dumps({"detail": detail}).encode())
