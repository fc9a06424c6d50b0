"""Serves the suite's fixture tools through the product's own face, on a free loopback port.

The suite calls tools by fixed names that a knowledge base has no use for. Here they are a catalog
of their own; dispatcher, server, sessions and sockets are the product's.
"""

from __future__ import annotations

import asyncio

from dsh_lightrag import Access, Code, Dispatcher, LightRagError, LightRagSettings, Tool
from dsh_lightrag.dispatch import Args, Deps, Result
from dsh_lightrag.faces.mcp.door import Door
from dsh_lightrag.faces.mcp.http import app_of, serve
from dsh_lightrag.faces.mcp.offer import Offer
from dsh_lightrag.faces.mcp.server import build
from dsh_lightrag.text import TextForm

PROGRESS_EVERY_S = 0.05
PROGRESS_CALL_S = 10 * PROGRESS_EVERY_S


class Nothing(Args):
    """No arguments."""


class Done(Result):
    """No more than that."""

    done: bool


async def _text(_args: Nothing, _deps: Deps) -> Done:
    return Done(done=True)


async def _error(_args: Nothing, _deps: Deps) -> Done:
    raise LightRagError(Code.SERVER_ERROR, "This tool intentionally returns an error for testing.")


async def _slow(_args: Nothing, _deps: Deps) -> Done:
    await asyncio.sleep(PROGRESS_CALL_S)
    return Done(done=True)


def _fixture(name: str, run: object) -> Tool[Nothing, Done]:
    return Tool(
        name=name,
        title=name,
        summary="A fixture of the conformance suite.",
        access=Access.READ,
        args=Nothing,
        result=Done,
        run=run,
        show=lambda _: TextForm(summary="This is a simple text response for testing."),
    )


FIXTURES = (
    _fixture("test_simple_text", _text),
    _fixture("test_error_handling", _error),
    _fixture("test_tool_with_progress", _slow),
)


def main() -> None:
    """Print the URL, then serve until a signal."""
    door = Door("127.0.0.1", 0)
    offer = Offer(Dispatcher(LightRagSettings(), FIXTURES))
    server = build(offer, progress_every_s=PROGRESS_EVERY_S)
    asyncio.run(serve(app_of(server, door), door, lambda url: print(url, flush=True)))


main()
