"""No web page reaches the server: not by its own origin, not by a name that points here."""

from __future__ import annotations

import httpx

EVIL = "https://evil.example"
FORM = {"file": ("evil.txt", b"Planted words.")}
WRITES = [
    ("POST", "/documents/upload", {"files": FORM}),
    ("POST", "/documents/scan", {}),
    ("DELETE", "/documents", {}),
    ("POST", "/documents/text", {"json": {"text": "Planted.", "file_source": "evil.txt"}}),
    ("PUT", "/workspaces/evil", {}),
    ("DELETE", "/workspaces/default", {}),
]


async def test_a_page_of_another_site_cannot_write(client):
    for method, path, body in WRITES:
        answer = await client.request(method, path, headers={"Origin": EVIL}, **body)
        assert (path, answer.status_code) == (path, 403)
        assert not [name for name in answer.headers if name.startswith("access-control")]
    await nothing_was_written(client)


async def test_a_rebound_name_cannot_write(client):
    for method, path, body in WRITES:
        answer = await client.request(method, path, headers={"Host": "evil.example:9621"}, **body)
        assert (path, answer.status_code) == (path, 421)
    await nothing_was_written(client)


async def nothing_was_written(client):
    counts = (await client.get("/documents/status_counts")).json()["status_counts"]
    assert counts["all"] == 0
    assert (await client.get("/workspaces")).json() == {"workspaces": ["default"]}


async def test_a_preflight_gets_no_permission(client):
    for path in ("/documents/upload", "/documents/scan", "/query", "/nope"):
        for origin in (EVIL, "null"):
            headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            answer = await client.options(path, headers=headers)
            assert (path, answer.status_code) == (path, 403)
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_reading_is_guarded_as_well(client):
    for path in ("/health", "/openapi.json", "/documents/status_counts", "/nope"):
        for headers in ({"Origin": EVIL}, {"Host": "evil.example"}):
            assert (await client.get(path, headers=headers)).status_code in (403, 421)


async def test_the_same_origin_is_let_in(client):
    answer = await client.get("/health", headers={"Origin": "http://127.0.0.1:9621"})
    assert answer.status_code == 200


async def test_a_body_is_bounded_before_anything_reads_it(client):
    most = 1024 * 1024
    for path in ("/query", "/documents/scan", "/nope"):
        answer = await client.post(path, content=b"x" * (most + 1))
        assert (path, answer.status_code) == (path, 413)
        assert answer.json() == {
            "detail": f"Request body too large. This endpoint accepts at most {most} bytes."
        }


def test_a_large_refused_body_still_gets_its_answer(serving):
    url = serving().url
    most = 50 * 1024 * 1024

    def pieces():
        for _ in range(most // 2**20 + 4):
            yield b"x" * 2**20

    for content in (b"x" * (most + 1), pieces()):
        answer = httpx.post(f"{url}/documents/text", content=content, timeout=30)
        assert answer.status_code == 413
        assert answer.json()["detail"].endswith(f"at most {most} bytes.")
