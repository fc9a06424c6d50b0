"""One call of one tool, and what the real server 1.5.7 answers to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from dsh_lightrag import LightRagError, LightRagSettings, Outcome, toolbox
from dsh_lightrag.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DATA = Path(__file__).parent.parent / "data"
KEY = "key-CANARY-41c9"
ENDPOINT = "http://127.0.0.1:9621"
ALL_ON = {"evidence": {"enabled": True}, "writes": {"enabled": True}}
PREFIX = "dsh_lightrag_"

# Which routes each tool asks, and arguments that it accepts.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "query": {"question": "Who discovered Polonium?"},
    "documents": {},
    "status": {},
    "query_data": {"query": "Who discovered Polonium?"},
    "insert": {"text": "Marie Curie discovered Polonium.", "source": "curie.txt"},
    "scan": {},
    "delete": {"documentId": "doc-082e2a80de83262794b1010f21680642"},
}


def settings_for(**row: Any) -> LightRagSettings:
    """Return settings with a key and every switch on, but for what the row says."""
    return LightRagSettings(**{"endpoint": ENDPOINT, "apiKey": KEY, **ALL_ON, **row})


async def call(tool: str, arguments: Mapping[str, Any] | None = None, **row: Any) -> Outcome:
    """Call a tool of a fresh toolbox; without arguments, with some that it accepts."""
    with anyio.fail_after(10):
        async with toolbox(settings_for(**row)) as tools:
            return await tools.call(
                PREFIX + tool, ARGUMENTS[tool] if arguments is None else arguments
            )


async def failure(
    tool: str, arguments: Mapping[str, Any] | None = None, **row: Any
) -> LightRagError:
    """Return the error that a call ends with."""
    with pytest.raises(LightRagError) as caught:
        await call(tool, arguments, **row)
    assert KEY not in str(caught.value) + repr(caught.value) + json.dumps(caught.value.fields())
    return caught.value


# --- answers ----------------------------------------------------------------------------------


def captured(name: str) -> dict[str, Any]:
    """Return an exchange with the real server: request, status, headers, body."""
    exchange: dict[str, Any] = json.loads(
        (DATA / "captures" / f"{name}.json").read_text(encoding="utf-8")
    )
    return exchange


def body_of(name: str) -> Any:
    """Return the JSON of a captured answer."""
    return captured(name)["body"]


def serve(httpx_mock: Any, *names: str) -> None:
    """Answer the captured requests with the captured answers, each once."""
    for name in names:
        exchange = captured(name)
        httpx_mock.add_response(
            method=exchange["request"]["method"],
            url=ENDPOINT + exchange["request"]["path"],
            status_code=exchange["status"],
            headers=exchange["headers"],
            json=exchange["body"],
        )


def sent(request: httpx.Request) -> Any:
    """Return the JSON body of a request, None when it has none."""
    return json.loads(request.content) if request.content else None


async def call_over(
    handler: Callable[[httpx.Request], Any],
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    **row: Any,
) -> Outcome:
    """Call a tool whose wire ends in a function: for properties, which need many servers."""
    settings = settings_for(**row)
    async with Transport(settings.connection, inner=httpx.MockTransport(handler)) as transport:
        tools = toolbox(settings, transport=transport)
        return await tools.call(PREFIX + tool, ARGUMENTS[tool] if arguments is None else arguments)


def reply(body: Any, status: int = 200, **headers: str) -> httpx.Response:
    """Return an answer that is still to be read, as one off a wire is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))


# What a server answers to a write that it has begun; whatever else it says is a refusal.
BEGUN = {"insert": "success", "scan": "scanning_started", "delete": "deletion_started"}
