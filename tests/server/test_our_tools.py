"""The package's own tools against the package's own server, over a socket, offline."""

from __future__ import annotations

import anyio
import httpx
import pytest

from dsh_lightrag import Code, LightRagError, LightRagSettings, toolbox

KEY = "our-servers-key-77"
TEXT = "Marie Curie discovered Polonium in Paris."
WAIT_S = 30


async def test_every_tool_works_on_a_workspace_and_sees_no_other(serving):
    url = serving("--api-key", KEY).url
    async with (
        toolbox(_settings(url, "")) as default,
        toolbox(_settings(url, "team_a")) as team,
    ):

        async def call(tools, name, **arguments):
            with anyio.fail_after(WAIT_S):
                return (await tools.call(f"dsh_lightrag_{name}", arguments)).structured

        with pytest.raises(LightRagError) as unknown:
            await call(team, "query", question="Who discovered Polonium?")
        assert unknown.value.code is Code.NOT_FOUND
        await _make(url, "team_a")
        inserted = await call(team, "insert", text=TEXT, source="curie.txt")
        with anyio.fail_after(WAIT_S):
            while (await call(team, "status"))["pipelineBusy"]:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.05)
        answer = await call(team, "query", question="Who discovered Polonium?")
        assert TEXT in answer["answer"]
        evidence = await call(team, "query_data", query="Who discovered Polonium?")
        assert [chunk["content"] for chunk in evidence["chunks"]] == [TEXT]
        (row,) = (await call(team, "documents"))["documents"]
        assert row["id"] == inserted["documentId"]
        assert (await call(default, "documents"))["documents"] == []
        assert (await call(team, "scan"))["status"] == "scanning_started"
        deleted = await call(team, "delete", documentId=row["id"])
        assert deleted["status"] == "deletion_started"
        with pytest.raises(LightRagError) as gone:
            await call(default, "delete", documentId="doc-nope")
        assert gone.value.code is Code.NOT_FOUND
        assert "doc-nope" in gone.value.message


def _settings(url, workspace):
    return LightRagSettings(
        endpoint=url,
        apiKey=KEY,
        workspace=workspace,
        evidence={"enabled": True},
        writes={"enabled": True},
    )


async def _make(url, workspace):
    async with httpx.AsyncClient(base_url=url, headers={"X-API-Key": KEY}) as client:
        assert (await client.put(f"/workspaces/{workspace}")).status_code == 201
