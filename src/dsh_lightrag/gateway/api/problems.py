"""Errors in HTTP's words: problem documents (RFC 9457) with the product's codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from dsh_lightrag.errors import HINTS, Code, LightRagError
from dsh_lightrag.gateway.api.use import use_of
from dsh_lightrag.guard import Refused, Reply
from dsh_lightrag.logs import frames_of, get_logger
from dsh_lightrag.text import Redactor, excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"
MAX_FAULTS_TOLD = 5
STATUSES: dict[Code, int] = {
    Code.INVALID_ARGUMENT: 422,
    Code.UNAUTHORIZED: 401,
    Code.NOT_FOUND: 404,
    Code.CONFLICT: 409,
    Code.BUSY: 503,
    Code.TOO_LARGE: 413,
    Code.RATE_LIMITED: 429,
    Code.SERVER_ERROR: 502,
    Code.TIMEOUT: 504,
    Code.UNREACHABLE: 502,
    Code.BAD_RESPONSE: 502,
    Code.DISABLED: 403,
    Code.FORBIDDEN: 403,
    Code.OVER_BUDGET: 403,
}
TITLES: dict[Code, str] = {
    Code.INVALID_ARGUMENT: "The request cannot be understood",
    Code.UNAUTHORIZED: "No valid key or token",
    Code.NOT_FOUND: "Not found",
    Code.CONFLICT: "It is there already",
    Code.BUSY: "Busy",
    Code.TOO_LARGE: "Too large",
    Code.RATE_LIMITED: "Too many requests",
    Code.SERVER_ERROR: "The service failed",
    Code.TIMEOUT: "It took too long",
    Code.UNREACHABLE: "The knowledge server cannot be reached",
    Code.BAD_RESPONSE: "The knowledge server answered nonsense",
    Code.DISABLED: "Switched off",
    Code.FORBIDDEN: "Not allowed",
    Code.OVER_BUDGET: "The token budget is used up",
}
# What Starlette's own refusals mean.
HTTP_CODES = {404: Code.NOT_FOUND, 405: Code.NOT_FOUND, 413: Code.TOO_LARGE}
GUARD_CODES = {
    Refused.HOST: Code.FORBIDDEN,
    Refused.ORIGIN: Code.FORBIDDEN,
    Refused.BODY: Code.TOO_LARGE,
}
BUG = LightRagError(
    Code.SERVER_ERROR,
    "The gateway failed; the request itself was in order.",
    hint="Ask the operator to look for the outcome `bug` in the gateway's log.",
)
NO_DATABASE = LightRagError(
    Code.UNREACHABLE,
    "The gateway's database does not answer.",
    hint="Call again later; if it stays, ask the operator to look at /readyz.",
)
_NOTHING_SECRET = Redactor("")


class Problem(BaseModel):
    """A problem document; `code` is what programs branch on."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(description="`urn:dsh-lightrag:problem:` with the code.")
    title: str = Field(description="What kind of problem it is.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened.")
    code: Code = Field(description="Member of the closed set of codes.")
    hint: str = Field(description="The one action that mends it.")
    retryAfterS: int | None = Field(None, description="Seconds to wait, where that helps.")  # noqa: N815 - its name in JSON


def document(error: LightRagError, status: int | None = None) -> dict[str, Any]:
    """Return the problem document of an error; a status of HTTP's own wins over the code's."""
    problem = Problem(
        type=f"urn:dsh-lightrag:problem:{error.code}",
        title=TITLES[error.code],
        status=status or STATUSES[error.code],
        detail=error.message,
        code=error.code,
        hint=error.hint,
        retryAfterS=error.retry_after_s,
    )
    return problem.model_dump(mode="json", exclude_none=True)


def response(
    error: LightRagError, status: int | None = None, challenge: str = "Bearer"
) -> Response:
    """Return an error as a response, with the headers that HTTP asks for."""
    body = document(error, status)
    headers: dict[str, str] = {"Cache-Control": "no-store"}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.code is Code.UNAUTHORIZED:
        headers["WWW-Authenticate"] = challenge
    return Response(
        json.dumps(body).encode(), body["status"], headers=headers, media_type=MEDIA_TYPE
    )


def guard_reply(refused: Refused, most: int | None) -> Reply:
    """Word what the guard refuses."""
    most_said = "" if most is None else f" At most {most} bytes are taken."
    error = LightRagError(
        GUARD_CODES[refused],
        f"{refused.message}{most_said}",
        hint="Send the request to the gateway's own address, in a smaller body.",
    )
    body = json.dumps(document(error, refused.status)).encode()
    return Reply(body, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every failure of an app leave as a problem document."""
    app.add_exception_handler(LightRagError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, LightRagError)  # noqa: S101 - the handler is installed for it alone
    return _noted(request, error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    faults = error.errors()
    told = "; ".join(map(_fault, faults[:MAX_FAULTS_TOLD]))
    more = f" (+{len(faults) - MAX_FAULTS_TOLD} more)" if len(faults) > MAX_FAULTS_TOLD else ""
    return _noted(request, LightRagError(Code.INVALID_ARGUMENT, f"{told}{more}."))


def _fault(fault: Mapping[str, Any]) -> str:
    """Tell a fault by place and rule; what was sent is not repeated."""
    place = ".".join(str(part) for part in fault["loc"])
    return excerpt(f"{place}: {fault['msg']}", _NOTHING_SECRET)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    code = HTTP_CODES.get(error.status_code, Code.INVALID_ARGUMENT)
    hint = "The OpenAPI document tells the routes." if code is Code.NOT_FOUND else HINTS[code]
    return _noted(request, LightRagError(code, f"{error.detail}.", hint=hint), error.status_code)


async def _bug(request: Request, error: Exception) -> Response:
    return _noted(request, *error_of(error))


def error_of(error: Exception) -> tuple[LightRagError, int | None]:
    """Return any failure as one that may be told, with its HTTP status where that is special.

    A bug is logged by where it rose; its message may hold what users wrote.
    """
    if isinstance(error, LightRagError):
        return error, None
    frames = frames_of(error)
    kind = type(error).__name__
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeoutError)):
        get_logger().error("gateway_database", error=kind, frames=frames)
        return NO_DATABASE, 503
    get_logger().error("gateway_request", outcome="bug", error=kind, frames=frames)
    return BUG, 500


def _noted(request: Request, error: LightRagError, status: int | None = None) -> Response:
    use_of(request.scope).outcome = error.code.value
    return response(error, status)
