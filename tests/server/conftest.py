"""Our server for a test: over real sockets, or in this process where it looks closely."""

from __future__ import annotations

import contextlib

import pytest
from our_server import Process, in_process

from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.settings import ServerSettings


@pytest.fixture
def serving(tmp_path):
    """Start our server on a folder of this test's; `serving("--api-key", "k")` sets its flags."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, data=tmp_path / "data": stack.enter_context(
            Process(data, *arguments)
        )


@pytest.fixture
async def client(tmp_path):
    """A client of an empty server without key, embedder and chat model."""
    settings = ServerSettings(data=tmp_path)
    keeper = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none"))
    async with in_process(keeper, settings) as client:
        yield client
