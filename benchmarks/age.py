"""Does this Apache AGE serve two workspaces apart, and does a dropped one leave nothing?

    python benchmarks/age.py postgresql://user@host/database

Run by hand: no published CI machine has AGE. The database should be an empty one, with `age` and
`vector` among its available extensions. A stub stands where the models would be.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import asyncpg

from dsh_lightrag.demo.stub_model import CHAT_MODEL, EMBEDDING_MODEL, StubModel
from dsh_lightrag.server.backend import Ask, Backend, NewDocument
from dsh_lightrag.server.core import CoreSettings, Graph, keeper_of
from dsh_lightrag.server.endpoint import Endpoint

TEXTS = {
    "kb_one": "Marie Curie discovered polonium together with Pierre Curie in Paris.",
    "kb_two": "Ada Lovelace wrote notes on the Analytical Engine of Charles Babbage.",
}
WAIT_S = 120.0


async def filled(backend: Backend, text: str) -> None:
    """Insert a text and wait until it is processed."""
    await backend.insert([NewDocument(text, "note.md")], "track")
    deadline = time.monotonic() + WAIT_S
    while (await backend.pipeline()).busy:
        assert time.monotonic() < deadline, "the document was not processed in time"  # noqa: S101 - the script's verdict
        await asyncio.sleep(0.1)
    row = await backend.named("note.md")
    assert row is not None, "the document is gone"  # noqa: S101 - as above
    assert row.status == "processed", row.error_msg  # noqa: S101 - as above


async def main(url: str) -> None:
    """Print the version, then one line per step."""
    with StubModel() as model, tempfile.TemporaryDirectory() as folder:
        keeper = keeper_of(
            CoreSettings(
                data=Path(folder),
                chat=Endpoint(model.url, CHAT_MODEL),
                embedder=Endpoint(model.url, EMBEDDING_MODEL),
                database_url=url,
                graph=Graph.AGE,
                cosine_threshold=0.1,
            )
        )
        opened = {}
        for name, text in TEXTS.items():
            await keeper.create(name)
            opened[name] = await keeper.open(name)
            await filled(opened[name], text)
            print(name, "labels", await opened[name].labels())
        found = await opened["kb_two"].evidence(Ask("Who discovered polonium?"))
        print("apart", "Marie Curie" not in repr(found))
        for name, backend in opened.items():
            await backend.close()
            print(name, "dropped", await keeper.drop(name))
        await keeper.close()
    connection = await asyncpg.connect(url)
    version = await connection.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'age'")
    graphs = await connection.fetch("SELECT name FROM ag_catalog.ag_graph")
    await connection.close()
    print("AGE", version, "graphs left", [row["name"] for row in graphs])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
