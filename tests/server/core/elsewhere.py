"""Another process with a keeper: opens a workspace, does what it is told, and can be killed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from dsh_lightrag.server.backend import BackendError, NewDocument
from dsh_lightrag.server.core import CoreSettings, keeper_of
from dsh_lightrag.server.endpoint import Endpoint


def say(word):
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def main():
    told = json.loads(sys.argv[1])
    keeper = keeper_of(
        CoreSettings(
            data=Path(told["data"]),
            chat=Endpoint(*told["chat"]),
            embedder=Endpoint(*told["embedder"]),
            database_url=told["url"],
            cosine_threshold=0.1,
            database_connections=4,
        )
    )
    try:
        backend = await keeper.open(told["workspace"])
    except BackendError as error:
        say(type(error).__name__)
        return
    documents = [NewDocument(text, name) for name, text in told["documents"].items()]
    if documents:
        await backend.insert(documents, "track-elsewhere")
    say("open")
    await asyncio.to_thread(sys.stdin.read)
    await backend.close()
    await keeper.close()


asyncio.run(main())
