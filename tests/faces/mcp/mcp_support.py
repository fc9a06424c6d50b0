"""What the tests of the MCP face share: a knowledge server, a child process, a listening face."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    import httpx2

KEY = "key-CANARY-77e1"
BOUND_S = 60
ROOT = Path(__file__).parents[3]

REPLIES: dict[str, Any] = {
    "/health": {"status": "healthy", "core_version": "1.5.7", "api_version": "0288"},
    "/documents/status_counts": {"status_counts": {"processed": 1, "all": 1}},
    "/query": {
        "response": "Marie Curie did.",
        "references": [{"reference_id": "1", "file_path": "curie.txt"}],
        "llm_generated": True,
    },
    "/query/data": {
        "status": "success",
        "data": {"chunks": [{"content": "Curie found polonium.", "file_path": None}]},
    },
    "/documents/paginated": {
        "documents": [{"id": "doc-1", "status": "processed", "file_path": "curie.txt"}],
        "pagination": {"total_count": 1, "has_next": False},
        "status_counts": {"processed": 1},
    },
    "/documents/text": {"status": "success", "message": "ok", "track_id": "t-1"},
    "/documents/scan": {"status": "scanning_started", "message": "ok", "track_id": "t-2"},
    "/documents/delete_document": {"status": "deletion_started", "message": "ok", "doc_id": "d"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "dsh_lightrag_query": {"question": "Who found polonium?"},
    "dsh_lightrag_documents": {},
    "dsh_lightrag_status": {},
    "dsh_lightrag_query_data": {"query": "Who found polonium?"},
    "dsh_lightrag_insert": {"text": "Curie found polonium.", "source": "curie.txt"},
    "dsh_lightrag_scan": {},
    "dsh_lightrag_delete": {"documentId": "doc-1"},
}
ALL_ON = {"evidence": {"enabled": True}, "writes": {"enabled": True}}


@dataclass
class Knowledge:
    """LightRAG's shapes over HTTP/1.1.

    `silent` never answers a question; `left` is set when a client has gone.
    """

    origin: str = ""
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    silent: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader, writer):
        try:
            while True:
                first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                headers = {
                    name.lower(): value for name, _, value in (f.partition(": ") for f in fields)
                }
                await reader.readexactly(int(headers.get("content-length", 0)))
                path = first.split()[1]
                self.paths.append(path)
                self.keys.append(headers.get("x-api-key", ""))
                self.asked.set()
                if self.silent:
                    await reader.read()  # until the other side closes
                    self.left.set()
                    return
                body = json.dumps(REPLIES[path]).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n%b" % (len(body), body)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


@dataclass
class Process:
    """`dsh-lightrag mcp` as a child: one JSON-RPC message per line each way."""

    child: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def send(self, method, params=None, **top):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}, **top}
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        await self.child.stdin.drain()

    async def receive(self):
        with anyio.fail_after(BOUND_S):
            line = (await self.child.stdout.readline()).decode()
        self.lines.append(line)
        return json.loads(line)

    async def ask(self, method, params=None, ident=1):
        await self.send(method, params, id=ident)
        while (message := await self.receive()).get("id") != ident:
            pass
        return message

    async def handshake(self, revision="2025-11-25"):
        hello = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        }
        answer = await self.ask("initialize", hello, ident=0)
        await self.send("notifications/initialized")
        return answer["result"]

    async def end(self):
        """Close stdin; return the status and what was said on stdout after that, and stderr."""
        self.child.stdin.close()
        with anyio.fail_after(BOUND_S):
            out, err = await self.child.communicate()
        return self.child.returncode, out.decode(), (err or b"").decode()


@dataclass
class Door:
    """A listening face: its URL, and requests of any revision to it."""

    url: str
    http: httpx2.AsyncClient

    async def post(self, method, params=None, **given):
        """POST one JSON-RPC message and read the whole answer."""
        request = self.request(method, params, **given)
        request.pop("method")
        return await self.http.post(**request)

    def request(self, method, params=None, *, revision="2025-11-25", ident=1, **headers):
        """Return the POST of one JSON-RPC message; header names are written with underscores."""
        params = dict(params or {})
        sent = {"accept": "application/json, text/event-stream", "mcp-protocol-version": revision}
        if revision >= "2026":
            params["_meta"] = {**MODERN_META, **params.get("_meta", {})}
            sent["mcp-method"] = method
            if "name" in params:
                sent["mcp-name"] = params["name"]
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if ident is not None:
            message["id"] = ident
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return {"method": "POST", "url": self.url, "json": message, "headers": sent}

    async def open_session(self, revision="2025-11-25", **headers):
        hello = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        }
        response = await self.post("initialize", hello, revision=revision, **headers)
        assert response.status_code == 200, response.text
        return response.headers["mcp-session-id"]


MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
