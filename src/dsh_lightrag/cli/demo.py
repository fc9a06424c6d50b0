"""`demo`: a server on bundled documents, and the tools against it: our own, or the real LightRAG.

With our own nothing is a stub: answers are quoted passages. LightRAG cannot work without models,
so these are stubs there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dsh_lightrag.cli.hosting.flags import Hosting
from dsh_lightrag.cli.hosting.own_server import own_server
from dsh_lightrag.cli.terminal import complain, show, terminated_like_interrupted, waiting
from dsh_lightrag.cli.views import rendered
from dsh_lightrag.demo import sample_documents
from dsh_lightrag.logs import without_info
from dsh_lightrag.loop_thread import run
from dsh_lightrag.settings import LightRagSettings
from dsh_lightrag.tools.catalog import TOOLS, toolbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.dispatch import Dispatcher, Outcome

QUESTION = "Who discovered polonium?"
# The read tools as an agent would call them.
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dsh_lightrag_status", {}),
    ("dsh_lightrag_documents", {}),
    ("dsh_lightrag_query", {"question": QUESTION}),
    ("dsh_lightrag_query_data", {"query": QUESTION, "mode": "naive", "chunk_top_k": 1}),
)
INGESTION_S = 60.0
POLL_S = 0.2
ABOUT_OURS = (
    "All of it is local: a SQLite file and MiniLM embeddings on this processor. There is no chat "
    "model, so answers are quoted passages. No key is needed, and nothing leaves this machine."
)
ABOUT_LIGHTRAG = (
    "Real: the LightRAG server, its storage, graph and retrieval, and the tools. A stub: the "
    "language and embedding models, rules in place of a model; answers say so. Nothing leaves "
    "this machine."
)


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the server running until Ctrl-C.")
    ] = False,
    lightrag: Annotated[
        bool, typer.Option("--lightrag", help="The real LightRAG server, with stub models.")
    ] = False,
) -> int:
    """See the tools work on a server of their own, offline and without a key.

    Serves five bundled documents on loopback and runs the read tools.
    """
    start = _lightrag_server if lightrag else _our_server
    with terminated_like_interrupted(), start() as url:
        status = run(_tour(url))
        if keep and not status:
            _stay(url)
    return status


@contextlib.contextmanager
def _our_server() -> Iterator[str]:
    """Serve a folder that goes at the end."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dsh-lightrag-demo-"))
        with waiting("starting a server …"):
            url = stack.enter_context(own_server(Hosting(Path(folder), named=True)))
        show(Text(f"A server runs at {url}", style="bold"), Text(ABOUT_OURS))
        yield url


@contextlib.contextmanager
def _lightrag_server() -> Iterator[str]:
    """Run the real server with stub models.

    Raises:
        typer.Exit: it did not start; the reason was told.
    """
    # Not at the top: the server and what it needs are loaded by those who want them.
    from dsh_lightrag.demo.server import LightRagServer, ServerStartError  # noqa: PLC0415 - as above
    from dsh_lightrag.demo.stub_model import StubModel  # noqa: PLC0415 - as above
    from dsh_lightrag.vocabulary import VocabularyError  # noqa: PLC0415 - as above

    with StubModel() as model:
        server = LightRagServer(model)
        try:
            with waiting("starting a LightRAG server …"):
                server.start()
        except (ServerStartError, VocabularyError) as error:
            complain(str(error))
            raise typer.Exit(1) from None
        with contextlib.closing(server):
            show(Text(f"A LightRAG server runs at {server.url}", style="bold"))
            show(Text(ABOUT_LIGHTRAG))
            yield server.url


async def _tour(endpoint: str) -> int:
    settings = LightRagSettings(
        endpoint=endpoint, writes={"enabled": True}, evidence={"enabled": True}
    )
    with without_info():  # the records of some thirty calls are no part of the tour
        return await _calls(settings)


async def _calls(settings: LightRagSettings) -> int:
    async with toolbox(settings) as tools:
        with waiting("inserting the sample documents …"):
            failure = await _ingest(tools)
        if failure:
            complain(failure)
            return 1
        for name, arguments in CALLS:
            with waiting(name):
                outcome = await tools.call(name, arguments)
            _show(outcome, arguments)
    return 0


async def _ingest(tools: Dispatcher) -> str:
    """Insert the samples with the insert tool and wait; return what went wrong, or nothing."""
    samples = sample_documents()
    for source, text in samples.items():
        await tools.call("dsh_lightrag_insert", {"text": text, "source": source})
    show(Text(f"\n$ dsh-lightrag insert --enable writes --file …  ({len(samples)} documents)"))
    deadline = time.monotonic() + INGESTION_S
    while time.monotonic() < deadline:
        counts = (await tools.call("dsh_lightrag_status")).structured["statusCounts"]
        if counts.get("failed", 0):
            return "A sample document failed: `dsh-lightrag documents` would say why."
        if counts.get("processed", 0) == len(samples):
            return ""
        await asyncio.sleep(POLL_S)
    return f"The sample documents were not processed within {INGESTION_S:g} s."


def _show(outcome: Outcome, arguments: dict[str, Any]) -> None:
    told = json.dumps(arguments) if arguments else ""
    show(Text(f"\n$ dsh-lightrag call {outcome.tool} {told and repr(told)}".rstrip(), style="cyan"))
    tool = next(tool for tool in TOOLS if tool.name == outcome.tool)
    show(*rendered(tool, outcome))


def _stay(endpoint: str) -> None:
    """Wait for Ctrl-C, which is how this ends."""
    show(Text("\nThe server stays until Ctrl-C. To use it from another terminal:"))
    show(Text(f"export LIGHTRAG_ENDPOINT={endpoint}"))
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
