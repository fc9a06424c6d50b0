"""Make a knowledge base, feed it the sample documents and search it as a worker would, over MCP.

    dsh-lightrag gateway up                          # in another terminal, until Ctrl-C
    dsh-lightrag gateway team create my-team
    export GATEWAY_KEY=$(dsh-lightrag gateway key create me --team my-team)
    python examples/gateway/walk.py

The first argument is the gateway's address, http://127.0.0.1:9630 where there is none.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable
from typing import Any

import httpx
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from dsh_lightrag.demo import sample_documents

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:9630"
QUESTION = "Who discovered polonium?"
AGENT = "researcher"
PATIENCE_S = 300


def bearer(secret: str) -> dict[str, str]:
    """Return the header that proves who calls."""
    return {"Authorization": f"Bearer {secret}"}


async def main() -> None:
    """Walk the whole way."""
    key = bearer(os.environ["GATEWAY_KEY"])
    async with httpx.AsyncClient(base_url=URL, headers=key, timeout=60) as gateway:
        base_id = await feed(gateway)
        token = await answered(
            gateway.post(
                "/session-tokens",
                json={
                    "sessionId": "walk",
                    "agentId": AGENT,
                    "baseIds": [base_id],
                    "scopes": ["search", "documents"],
                },
            )
        )
        await search(token["token"])
        (await gateway.delete(f"/session-tokens/{token['id']}")).raise_for_status()


async def feed(gateway: httpx.AsyncClient) -> str:
    """Make a base that answers one agent, put the samples and wait until they are indexed."""
    body = {"name": "Samples", "agentId": AGENT}
    base = await answered(gateway.post("/knowledge-bases", json=body))
    path = f"/knowledge-bases/{base['id']}"
    samples = sample_documents()
    for name, text in samples.items():
        body = {"externalId": name, "text": text}
        await answered(gateway.put(f"{path}/documents/text", json=body))
    print(f"{len(samples)} documents are put; a worker indexes them.")
    end = time.monotonic() + PATIENCE_S
    while (counts := await answered(gateway.get(f"{path}/counts")))["indexed"] < len(samples):
        if counts["failed"] or time.monotonic() > end:
            raise SystemExit(f"They were not indexed: {counts}")
        await asyncio.sleep(0.2)
    print(f"{counts['indexed']} documents are indexed.")
    return base["id"]


async def search(token: str) -> None:
    """Search with a worker's session token, by the MCP client that a host would use."""
    async with (
        httpx2.AsyncClient(headers=bearer(token), timeout=60) as http,
        Client(streamable_http_client(f"{URL}/mcp", http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        print("Tools:", ", ".join(tool.name for tool in tools))
        found = await client.call_tool("knowledge_search", {"query": QUESTION})
        print(f"\n{QUESTION}\n\n{found.content[0].text}")
        listed = await client.call_tool("knowledge_documents", {})
        print(f"\n{listed.content[0].text}")


async def answered(request: Awaitable[httpx.Response]) -> Any:
    """Return the JSON of an answer."""
    response = await request
    response.raise_for_status()
    return response.json()


if __name__ == "__main__":
    asyncio.run(main())
