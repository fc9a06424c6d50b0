"""From a put to an answer: a real worker, a real queue, our real server."""

from __future__ import annotations

import pytest

from .harness import Shelf, filed, knowledge, passages, served, working


@pytest.fixture
async def server(tmp_path):
    """The knowledge server, empty."""
    async with served(tmp_path / "server") as door:
        yield knowledge(door)


@pytest.fixture
async def shelf(database, team_id):
    """An empty base."""
    return await Shelf.make(database, team_id)


async def test_a_document_is_indexed_and_found(database, server, shelf):
    await shelf.put("a", "The lighthouse of Oslo burns whale oil.")
    async with working(database, server):
        row = await shelf.until("a", "indexed", "failed")
    assert (row.status, row.error) == ("indexed", None)
    assert await filed(server, shelf.base.workspace) == {f"{row.id}-v1.txt": "processed"}
    assert await shelf.current() == {f"{row.id}-v1.txt": ["a"]}
    assert "whale oil" in (await passages(server, shelf.base.workspace, "lighthouse"))[0]
