"""LightRAG's core behind our routes: two workspaces, from their making to their removal."""

from __future__ import annotations

from core_support import ADA, MARIE
from our_server import in_process, settled

from dsh_lightrag.demo.stub_model import Backend
from dsh_lightrag.server.core import keeper_of
from dsh_lightrag.server.settings import ServerSettings

KB = {"LIGHTRAG-WORKSPACE": "kb_" + "a" * 32}
QUESTION = {"query": "Who discovered polonium?", "include_chunk_content": True}


async def test_two_workspaces_are_served_apart_over_http(settings, model):
    async with in_process(keeper_of(settings), ServerSettings(data=settings.data)) as client:
        health = (await client.get("/health")).json()
        assert health["workspace_isolation"] is True
        assert (await client.post("/query/data", json=QUESTION, headers=KB)).status_code == 404
        made = await client.put(f"/workspaces/{KB['LIGHTRAG-WORKSPACE']}")
        assert made.status_code in (200, 201), made.text
        text = {"text": MARIE, "file_source": "marie.md"}
        assert (await client.post("/documents/text", json=text, headers=KB)).status_code == 200
        again = await client.post("/documents/text", json=text, headers=KB)
        assert again.status_code == 409
        other = {"text": ADA, "file_source": "marie.md"}
        assert (await client.post("/documents/text", json=other)).status_code == 200
        (row,) = await settled(client, **KB)
        assert (row["file_path"], row["status"]) == ("marie.md", "processed")
        await settled(client)

        found = (await client.post("/query/data", json=QUESTION, headers=KB)).json()
        assert MARIE in str(found)
        assert "Ada" not in str(found)
        elsewhere = (await client.post("/query/data", json=QUESTION)).json()
        assert "polonium" not in str(elsewhere).replace(QUESTION["query"], "")
        answered = (await client.post("/query", json=QUESTION, headers=KB)).json()
        assert "polonium" in answered["response"]
        assert answered["references"][0]["content"] == [MARIE]
        streamed = await client.post("/query/stream", json=QUESTION, headers=KB)
        assert "polonium" in streamed.text
        labels = (await client.get("/graph/label/list", headers=KB)).json()
        assert "Marie Curie" in labels
        graph = await client.get("/graphs", params={"label": "Marie Curie"}, headers=KB)
        assert len(graph.json()["nodes"]) > 1

        model.embeddings = Backend.UNAUTHORIZED
        try:
            assert (await client.post("/query", json=QUESTION, headers=KB)).status_code == 502
        finally:
            model.embeddings = Backend.OK

        doomed = {"doc_ids": [row["id"]]}
        deleted = await client.request(
            "DELETE", "/documents/delete_document", json=doomed, headers=KB
        )
        assert deleted.json()["status"] == "deletion_started"
        assert await settled(client, **KB) == []
        assert (await client.delete(f"/workspaces/{KB['LIGHTRAG-WORKSPACE']}")).status_code < 300
        assert (await client.post("/query/data", json=QUESTION, headers=KB)).status_code == 404
        assert [row["file_path"] for row in await settled(client)] == ["marie.md"]
