"""Every framework as a host, once, against the real LightRAG server."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from dsh_lightrag import LightRagSettings, toolbox

from .hosts import HOSTS
from .server import KEY

WAIT_S = 60
SOURCE = "katherine-johnson.md"
TEXT = "Katherine Johnson computed the orbit of Friendship 7 by hand."

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def real(lightrag_server, lightrag_key):
    """Settings against the server, with one document in it; other tests find it gone."""
    writing = LightRagSettings(
        endpoint=lightrag_server.url, apiKey=lightrag_key, writes={"enabled": True}
    )
    one = asyncio.run(filled(writing))
    yield LightRagSettings(endpoint=lightrag_server.url, apiKey=lightrag_key)
    asyncio.run(emptied(writing, one))


async def filled(settings):
    async with toolbox(settings) as tools:
        arguments = {"text": TEXT, "source": SOURCE}
        inserted = await tools.call("dsh_lightrag_insert", arguments)
        await until(tools, lambda listed: listed.get(SOURCE) == "processed")
        return inserted.structured["documentId"]


async def emptied(settings, one):
    async with toolbox(settings) as tools:
        await tools.call("dsh_lightrag_delete", {"documentId": one})
        await until(tools, lambda listed: SOURCE not in listed)


async def until(tools, met):
    """Wait until the listing is as it should be and nothing is being done any more."""
    with anyio.fail_after(WAIT_S):
        while True:
            found = (await tools.call("dsh_lightrag_documents")).structured["documents"]
            status = (await tools.call("dsh_lightrag_status")).structured
            if (
                met({one["filePath"]: one["status"] for one in found})
                and not (status["pipelineBusy"])
            ):
                return
            await anyio.sleep(0.1)  # it happens in another process


@pytest.mark.parametrize("host_type", HOSTS, ids=lambda host: host.__name__)
async def test_lists_asks_and_checks(host_type, real):
    expected = [tool.name for tool in toolbox(real).tools]
    async with host_type(real) as host:
        assert [name for name, _, _ in await host.definitions()] == expected
        answer = await host.call("dsh_lightrag_query", {"question": TEXT, "mode": "naive"})
        status = await host.call("dsh_lightrag_status", {})
    assert not answer.failed
    assert SOURCE in answer.text
    assert not status.failed
    assert "1.5.7" in status.text
    assert "lets this deployment in" in status.text
    if host_type.keeps_structure:
        assert SOURCE in [one["filePath"] for one in answer.structured["references"]]
        assert status.structured["statusCounts"]["processed"] >= 1


@pytest.mark.parametrize("host_type", HOSTS, ids=lambda host: host.__name__)
async def test_shows_a_wrong_key_as_an_error(host_type, real):
    wrong = LightRagSettings(endpoint=real.endpoint, apiKey=KEY)
    async with host_type(wrong) as host:
        shown = await host.call("dsh_lightrag_query", {"question": TEXT})
    assert shown.failed
    assert "dsh-lightrag (unauthorized): " in shown.text
    assert KEY not in shown.text
