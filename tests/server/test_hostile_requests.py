"""Requests that are well-formed and meant badly: each gets a refusal, and none a server's fault."""

from __future__ import annotations

import hashlib

import pytest
from our_server import settled

from dsh_lightrag import engine
from dsh_lightrag.server import backend
from dsh_lightrag.server.embedded.faults import translated
from dsh_lightrag.server.failures import classify, said_of

HALF = '"\\ud800"'  # one half of a surrogate pair, as JSON lets it be written


async def sent(client, method, path, body):
    headers = {"content-type": "application/json"}
    return await client.request(method, path, content=body, headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/documents/texts", f'{{"texts": [{HALF}], "file_sources": ["a.txt"]}}'),
        ("DELETE", "/documents/delete_document", f'{{"doc_ids": [{HALF}]}}'),
        ("POST", "/query/data", f'{{"query": "Who was it?", "hl_keywords": [{HALF}]}}'),
        ("POST", "/query/data", f'{{"query": "Who was it?", "ll_keywords": [{HALF}]}}'),
    ],
)
async def test_half_a_character_is_refused_wherever_it_stands(client, method, path, body):
    answer = await sent(client, method, path, body)
    assert answer.status_code == (400 if path == "/query/data" else 422)
    assert "surrogate" in answer.text


@pytest.mark.parametrize("page", [2**31, 2**62, 10**400])
async def test_a_page_that_no_list_has_is_refused(client, page):
    answer = await sent(client, "POST", "/documents/paginated", f'{{"page": {page}}}')
    assert answer.status_code == 422


async def test_the_last_page_that_may_be_asked_for_is_empty(client):
    asked = {"page": 2**31 - 1, "page_size": 200}
    answer = await client.post("/documents/paginated", json=asked)
    assert (answer.status_code, answer.json()["documents"]) == (200, [])


@pytest.mark.parametrize("source", ["..", "notes/..", "a" * 4097])
async def test_a_source_that_can_be_no_files_name_is_refused(client, source):
    body = {"text": "Some words.", "file_source": source}
    assert (await client.post("/documents/text", json=body)).status_code in (400, 422)
    assert await settled(client) == []


@pytest.mark.parametrize("name", [".uploads", "a" * 4000])
async def test_deleting_a_document_takes_nothing_but_an_ordinary_file_along(client, tmp_path, name):
    folder = tmp_path / "inputs" / "default"
    (folder / ".uploads" / "upload_x").mkdir(parents=True)
    await client.post("/documents/text", json={"text": "Some words.", "file_source": name})
    await settled(client)
    id_ = f"doc-{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"
    body = {"doc_ids": [id_], "delete_file": True}
    answer = await client.request("DELETE", "/documents/delete_document", json=body)
    assert (answer.status_code, answer.json()["status"]) == (200, "deletion_started")
    assert (folder / ".uploads" / "upload_x").is_dir()
    assert await settled(client) == []


async def test_of_many_unknown_ids_the_refusal_names_a_few(client):
    body = {"doc_ids": [f"{number}-{'x' * 200}" for number in range(2000)]}
    answer = await client.request("DELETE", "/documents/delete_document", json=body)
    assert answer.status_code == 404
    assert "and 1990 more" in answer.json()["detail"]
    assert len(answer.content) < 2000


def test_a_full_disk_is_told_as_such_and_not_as_a_broken_workspace():
    with pytest.raises(backend.DiskFullError) as caught, translated():
        raise engine.DiskFullError("The disk is full.", "Free some space, then try again.")
    assert classify(caught.value) == (507, "disk_full")
    assert said_of(caught.value, "1a2b").startswith("The disk is full. Free some space")
