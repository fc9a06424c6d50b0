"""The whole way: the SDK's own client, `dsh-lightrag mcp` as a child, the real LightRAG server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_support import BOUND_S, ROOT

from dsh_lightrag import TOOLS

NAMES = [tool.name for tool in TOOLS]
ARGUMENTS = ["-m", "dsh_lightrag", "mcp", "--enable", "evidence,writes"]

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def variables(lightrag_server):
    """Return a child's variables with a key in them."""

    def make(key):
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "LIGHTRAG_ENDPOINT": lightrag_server.url,
            "LIGHTRAG_API_KEY": key,
        }

    return make


@contextlib.asynccontextmanager
async def over_stdio(variables, log):
    parameters = StdioServerParameters(command=sys.executable, args=ARGUMENTS, env=variables)
    with log.open("w") as errlog:
        async with Client(stdio_client(parameters, errlog)) as client:
            yield client


@contextlib.asynccontextmanager
async def over_http(variables, log):
    with log.open("w") as errlog:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *ARGUMENTS,
            *("--transport", "http", "--port", "0"),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=variables,
        )
        try:
            record = (await child.stderr.readline()).decode()
            async with Client(streamable_http_client(json.loads(record)["url"])) as client:
                yield client
        finally:
            child.terminate()
            _, rest = await child.communicate()
            errlog.write(record + rest.decode())


async def until(met):
    while not await met():  # noqa: ASYNC110 - it happens in another process
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("transport", [over_stdio, over_http])
async def test_a_document_goes_in_is_asked_about_and_goes_out(
    transport, variables, lightrag_key, tmp_path
):
    source = f"grace-{transport.__name__}.md"
    text = f"Grace Hopper wrote the first compiler, A-0, as {source} tells."
    log = tmp_path / "log"
    with anyio.fail_after(2 * BOUND_S):
        async with transport(variables(lightrag_key), log) as client:

            async def call(name, **arguments):
                result = await client.call_tool(f"dsh_lightrag_{name}", arguments)
                assert not result.is_error, result.content[0].text
                return result.structured_content

            async def listed(source, status):
                found = (await call("documents"))["documents"]
                return {one["filePath"]: one["status"] for one in found}.get(source) == status

            async def idle():
                return not (await call("status"))["pipelineBusy"]

            assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
            inserted = await call("insert", text=text, source=source)
            await until(lambda: listed(source, "processed"))
            status = await call("status")
            assert status["coreVersion"] == "1.5.7"
            assert status["statusCounts"]["processed"] >= 1
            answer = await call("query", question=text, mode="naive")
            assert source in [one["filePath"] for one in answer["references"]]
            evidence = await call("query_data", query=text, mode="naive")
            assert text in [chunk["content"] for chunk in evidence["chunks"]]
            await until(idle)
            deleted = await call("delete", documentId=inserted["documentId"])
            assert deleted["status"] == "deletion_started"
            await until(lambda: listed(source, None))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert {one.get("outcome", "ok") for one in records} == {"ok"}
    assert lightrag_key not in log.read_text()
    assert "Hopper" not in log.read_text()


@pytest.mark.parametrize("transport", [over_stdio, over_http])
async def test_a_wrong_key_is_a_typed_error(transport, variables, tmp_path):
    log = tmp_path / "log"
    with anyio.fail_after(BOUND_S):
        async with transport(variables("wrong-CANARY"), log) as client:
            result = await client.call_tool(NAMES[0], {"question": "Who wrote A-0?"})
    assert result.is_error
    assert result.meta["dsh-lightrag/error"]["code"] == "unauthorized"
    assert "LIGHTRAG_API_KEY" in result.content[0].text
    assert "CANARY" not in result.model_dump_json() + log.read_text()
