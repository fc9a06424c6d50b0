"""The API as its clients see it: real sockets, a real database, a real knowledge server."""

from __future__ import annotations

import re
from uuid import uuid4

import gateway_support
import psycopg
import pytest
from gateway_support import bearer

from dsh_lightrag.errors import Code
from dsh_lightrag.gateway.api.problems import STATUSES, TITLES


def problem(response, status, code):
    """Check a problem document and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert (told["status"], told["code"]) == (status, code)
    assert told["type"] == f"urn:dsh-lightrag:problem:{code}"
    assert {"title", "detail", "hint"} < set(told)
    return told


def test_every_code_has_a_status_and_a_title():
    assert set(STATUSES) == set(TITLES) == set(Code)


# --- knowledge bases --------------------------------------------------------------------------


async def test_a_base_is_made_looked_at_renamed_listed_and_deleted(gateway):
    team_id, key = await gateway.team()
    made = await gateway.http.post("/knowledge-bases", json={"name": "Grüße"}, headers=key)
    base = made.json()
    assert base == {
        "id": base["id"],
        "teamId": str(team_id),
        "agentId": None,
        "name": "Grüße",
        "createdAt": base["createdAt"],
    }
    path = f"/knowledge-bases/{base['id']}"
    renamed = await gateway.http.patch(path, json={"name": "Rules"}, headers=key)
    assert renamed.json() == base | {"name": "Rules"}
    assert (await gateway.http.get(path, headers=key)).json() == base | {"name": "Rules"}
    second = await gateway.base(key, "second", agentId="agent-1")
    listed = (await gateway.http.get("/knowledge-bases", headers=key)).json()
    assert [one["id"] for one in listed["knowledgeBases"]] == [base["id"], second]
    assert (await gateway.http.delete(path, headers=key)).status_code == 204
    problem(await gateway.http.get(path, headers=key), 404, "not-found")
    problem(await gateway.http.delete(path, headers=key), 404, "not-found")
    listed = (await gateway.http.get("/knowledge-bases", headers=key)).json()
    assert [one["id"] for one in listed["knowledgeBases"]] == [second]


async def test_no_answer_ever_tells_a_workspace(gateway, shared_url):
    team_id, key = await gateway.team()
    base_id = await gateway.base(key)
    await gateway.put(key, base_id, "one", "text")
    with psycopg.connect(shared_url) as connection:
        found = connection.execute(
            "SELECT workspace FROM gateway_knowledge_base WHERE team_id = %s", [team_id]
        )
        [workspace] = found.fetchone()
    paths = ("", f"/{base_id}", f"/{base_id}/usage", f"/{base_id}/documents")
    for path in paths:
        answer = await gateway.http.get(f"/knowledge-bases{path}", headers=key)
        assert workspace not in answer.text
        assert workspace.removeprefix("kb_") not in answer.text


async def test_another_teams_base_is_as_if_it_did_not_exist(gateway):
    _, key = await gateway.team()
    _, other = await gateway.team()
    base_id = await gateway.base(key)
    await gateway.put(key, base_id, "doc", "text")
    nowhere = uuid4()
    asked = [
        ("GET", "", None),
        ("PATCH", "", {"name": "x"}),
        ("DELETE", "", None),
        ("GET", "/counts", None),
        ("GET", "/usage", None),
        ("GET", "/failures", None),
        ("GET", "/documents", None),
        ("GET", "/documents/doc", None),
        ("DELETE", "/documents/doc", None),
        ("PUT", "/documents/text", {"externalId": "doc", "text": "x"}),
        ("PUT", "/documents/url", {"externalId": "doc", "url": "http://example.com/"}),
    ]
    for method, path, body in asked:
        told = []
        for one in (base_id, nowhere):
            answer = await gateway.http.request(
                method, f"/knowledge-bases/{one}{path}", json=body, headers=other
            )
            told.append(problem(answer, 404, "not-found"))
        assert told[0] == told[1]
    assert (await gateway.http.get(f"/knowledge-bases/{base_id}/counts", headers=key)).json()[
        "total"
    ] == 1


# --- documents --------------------------------------------------------------------------------


async def test_a_text_is_put_looked_at_listed_and_deleted(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    put = await gateway.put(key, base_id, "docs/a b?#.txt", "Curie found polonium.", name="A")
    assert put.status_code == 202
    document = put.json()["document"]
    assert put.json()["queued"] is True
    assert (document["externalId"], document["name"]) == ("docs/a b?#.txt", "A")
    assert (document["status"], document["source"], document["version"]) == (
        "pending",
        "catalog",
        1,
    )
    assert re.fullmatch("[0-9a-f]{64}", document["checksum"])
    again = await gateway.put(key, base_id, "docs/a b?#.txt", "Curie found polonium.", name="A")
    assert (again.status_code, again.json()["queued"]) == (200, False)
    path = f"/knowledge-bases/{base_id}/documents/docs/a%20b%3F%23.txt"
    assert (await gateway.http.get(path, headers=key)).json()["id"] == document["id"]
    counts = await gateway.http.get(f"/knowledge-bases/{base_id}/counts", headers=key)
    assert counts.json() == {"pending": 1, "indexing": 0, "indexed": 0, "failed": 0, "total": 1}
    assert (await gateway.http.delete(path, headers=key)).status_code == 204
    problem(await gateway.http.get(path, headers=key), 404, "not-found")


async def test_a_file_is_uploaded_as_the_body(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    path = f"/knowledge-bases/{base_id}/documents/upload"
    query = {"externalId": "r-1", "name": "report.pdf"}
    put = await gateway.http.put(path, params=query, content=b"%PDF-1.7 \x00\xff", headers=key)
    assert put.status_code == 202
    assert put.json()["document"]["source"] == "upload"
    assert put.json()["document"]["name"] == "report.pdf"
    problem(await gateway.http.put(path, params=query, headers=key), 422, "invalid-argument")
    named = await gateway.http.put(path, params={"externalId": "r"}, content=b"x", headers=key)
    problem(named, 422, "invalid-argument")


async def test_a_url_is_put_when_its_text_can_be_fetched_at_all(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    path = f"/knowledge-bases/{base_id}/documents/url"
    body = {"externalId": "u-1", "url": "https://example.com/page#part"}
    put = await gateway.http.put(path, json=body, headers=key)
    assert put.status_code == 202
    assert put.json()["document"]["url"] == "https://example.com/page"
    for url in (
        "ftp://example.com",
        "http://u:p@example.com",
        "http://example.com:22",
        "x",
        "http://xn--/",
    ):
        answer = await gateway.http.put(path, json=body | {"url": url}, headers=key)
        problem(answer, 422, "invalid-argument")


async def test_documents_are_listed_page_by_page(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    for number in range(5):
        await gateway.put(key, base_id, f"doc-{number}", f"text {number}")
    seen, after = [], ""
    while after is not None:
        page = await gateway.http.get(
            f"/knowledge-bases/{base_id}/documents",
            params={"limit": 2, "after": after},
            headers=key,
        )
        seen += [one["externalId"] for one in page.json()["documents"]]
        after = page.json()["next"]
    assert seen == [f"doc-{number}" for number in range(5)]


async def test_failures_are_listed_with_their_reasons(gateway, shared_url):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    await gateway.put(key, base_id, "bad", "text")
    await gateway.put(key, base_id, "good", "text two")
    with psycopg.connect(shared_url) as connection:
        connection.execute(
            "UPDATE gateway_knowledge_document SET status = 'failed', error_code = 'over-budget',"
            " error = 'The token budget is used up.' WHERE external_id = 'bad' AND base_id = %s",
            [base_id],
        )
    failures = await gateway.http.get(f"/knowledge-bases/{base_id}/failures", headers=key)
    [failed] = failures.json()["documents"]
    assert (failed["externalId"], failed["errorCode"]) == ("bad", "over-budget")
    assert failed["error"] == "The token budget is used up."


async def test_usage_is_told_beside_the_budget(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key, tokenBudget=1000, tokensPerMinute=10)
    usage = await gateway.http.get(f"/knowledge-bases/{base_id}/usage", headers=key)
    assert usage.json() == {
        "tokensSpent": 0,
        "tokenBudget": 1000,
        "tokensThisMinute": 0,
        "tokensPerMinute": 10,
    }


# --- who may ----------------------------------------------------------------------------------

ROUTES = [
    ("POST", "/knowledge-bases", "manage"),
    ("GET", "/knowledge-bases", "documents"),
    ("GET", "/knowledge-bases/{base}", "documents"),
    ("PATCH", "/knowledge-bases/{base}", "manage"),
    ("DELETE", "/knowledge-bases/{base}", "manage"),
    ("GET", "/knowledge-bases/{base}/counts", "documents"),
    ("GET", "/knowledge-bases/{base}/usage", "documents"),
    ("GET", "/knowledge-bases/{base}/failures", "documents"),
    ("GET", "/knowledge-bases/{base}/documents", "documents"),
    ("GET", "/knowledge-bases/{base}/documents/x", "documents"),
    ("DELETE", "/knowledge-bases/{base}/documents/x", "ingest"),
    ("PUT", "/knowledge-bases/{base}/documents/text", "ingest"),
    ("PUT", "/knowledge-bases/{base}/documents/url", "ingest"),
    ("PUT", "/knowledge-bases/{base}/documents/upload", "ingest"),
    ("POST", "/session-tokens", "manage"),
    ("DELETE", "/session-tokens/{base}", "manage"),
]


async def test_every_route_needs_a_key_and_its_own_scope(gateway):
    team_id, key = await gateway.team()
    base_id = await gateway.base(key)
    others = {}
    for scope in ("search", "documents", "ingest", "manage"):
        rest = {"search", "documents", "ingest", "manage"} - {scope}
        issued = await gateway.desk.identities.create_key(team_id, "k", rest)
        others[scope] = bearer(issued.text)
    for method, pattern, scope in ROUTES:
        path = pattern.format(base=base_id)
        refused = await gateway.http.request(method, path)
        problem(refused, 401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
        told = problem(
            await gateway.http.request(method, path, headers=others[scope]), 403, "forbidden"
        )
        assert scope in told["detail"]


async def test_two_authorizations_prove_nothing(gateway):
    _, key = await gateway.team()
    headers = [("authorization", key["authorization"])] * 2
    problem(await gateway.http.get("/knowledge-bases", headers=headers), 401, "unauthorized")


async def test_a_token_sees_the_bases_that_it_names_and_changes_nothing(gateway):
    _, key = await gateway.team()
    own, other = await gateway.base(key, agentId="agent-1"), await gateway.base(key, "shared")
    _, token = await gateway.token(key, [own], agentId="agent-1", scopes=["documents"])
    listed = await gateway.http.get("/knowledge-bases", headers=token)
    assert [one["id"] for one in listed.json()["knowledgeBases"]] == [own]
    problem(await gateway.http.get(f"/knowledge-bases/{other}", headers=token), 404, "not-found")
    problem(await gateway.put(token, own, "x", "x"), 403, "forbidden")


async def test_a_token_is_issued_and_revoked_over_the_api(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    token_id, token = await gateway.token(key, [base_id], scopes=["documents"])
    assert (await gateway.http.get("/knowledge-bases", headers=token)).status_code == 200
    _, other = await gateway.team()
    path = f"/session-tokens/{token_id}"
    problem(await gateway.http.delete(path, headers=other), 404, "not-found")
    assert (await gateway.http.delete(path, headers=key)).status_code == 204
    problem(await gateway.http.get("/knowledge-bases", headers=token), 401, "unauthorized")


@pytest.mark.usefixtures("within_a_minute")
async def test_over_its_quota_a_key_is_told_to_wait(gateway):
    _, key = await gateway.team(quota_per_minute=2)
    for _ in range(2):
        assert (await gateway.http.get("/knowledge-bases", headers=key)).status_code == 200
    refused = await gateway.http.get("/knowledge-bases", headers=key)
    told = problem(refused, 429, "rate-limited")
    assert refused.headers["retry-after"] == str(told["retryAfterS"])


async def test_every_use_is_recorded_without_any_text(gateway, shared_url):
    team_id, key = await gateway.team()
    base_id = await gateway.base(key, "secret name")
    await gateway.put(key, base_id, "secret-id", "secret text")
    await gateway.http.get(f"/knowledge-bases/{uuid4()}", headers=key)
    await gateway.http.post("/knowledge-bases", json={}, headers=key)
    await gateway.http.get("/nowhere", headers=key)
    await gateway.http.get("/knowledge-bases")
    with psycopg.connect(shared_url) as connection:
        rows = connection.execute(
            "SELECT operation, outcome, base_id::text FROM gateway_audit_entry"
            " WHERE team_id = %s ORDER BY id",
            [team_id],
        ).fetchall()
        whole = str(connection.execute("SELECT * FROM gateway_audit_entry").fetchall())
    assert [row[:2] for row in rows] == [
        ("createKnowledgeBase", "ok"),
        ("putText", "ok"),
        ("getKnowledgeBase", "not-found"),
        ("createKnowledgeBase", "invalid-argument"),
        ("unknown", "not-found"),
    ]
    assert rows[1][2] == base_id
    assert "secret" not in whole


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "LIGHTRAG-WORKSPACE",
        "lightrag-workspace",
        "LIGHTRAG_WORKSPACE",
        "X-Workspace",
        "X-Work-Space",
        "Workspace-Id",
        "X-Tenant-Id",
    ],
)
@pytest.mark.parametrize("value", ["", "kb_0", "default"])
async def test_a_header_that_names_a_workspace_is_refused_on_every_face(gateway, name, value):
    _, key = await gateway.team()
    headers = {**key, name: value}
    for method, path in (("GET", "/knowledge-bases"), ("POST", "/mcp"), ("GET", "/healthz")):
        told = problem(
            await gateway.http.request(method, path, headers=headers), 422, "invalid-argument"
        )
        assert "workspace" in told["detail"]


@pytest.mark.parametrize("query", ["workspace=", "workspace=kb_0", "Work%53pace=x", "work_space=x"])
async def test_a_query_that_names_a_workspace_is_refused(gateway, query):
    _, key = await gateway.team()
    for path in ("/knowledge-bases", "/mcp"):
        answer = await gateway.http.get(f"{path}?{query}", headers=key)
        assert "workspace" in problem(answer, 422, "invalid-argument")["detail"]


@pytest.mark.parametrize("name", ["workspace", "teamId", "workspaceId", "state", "id"])
async def test_a_body_with_a_field_that_is_not_taken_is_refused(gateway, name):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    bodies = [
        ("POST", "/knowledge-bases", {"name": "x"}),
        ("PATCH", f"/knowledge-bases/{base_id}", {"name": "x"}),
        ("PUT", f"/knowledge-bases/{base_id}/documents/text", {"externalId": "x", "text": "x"}),
        ("POST", "/session-tokens", {"sessionId": "s", "baseIds": [base_id]}),
    ]
    for method, path, body in bodies:
        answer = await gateway.http.request(method, path, json=body | {name: "kb_0"}, headers=key)
        assert name in problem(answer, 422, "invalid-argument")["detail"]
    for path in ("", f"/{base_id}", f"/{base_id}/documents", f"/{base_id}/documents/x"):
        answer = await gateway.http.get(f"/knowledge-bases{path}?other=1", headers=key)
        assert "other" in problem(answer, 422, "invalid-argument")["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"name": null}',
        b'{"name": ""}',
        b'{"name": " x"}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "a\\nb"}',
        b'{"name": "\\ud800"}',
        b'{"name": "\\u202ex"}',
        b'{"name": 1}',
        b'{"name": "x", "tokenBudget": -1}',
        b'{"name": "x", "tokenBudget": 1e400}',
        b'{"name": "x", "tokenBudget": NaN}',
        b'{"name": "x", "tokensPerMinute": 99999999999999999999999}',
        b'{"name": "x", "agentId": "a\\u0000"}',
        b"\xff\xfe",
        b"[" * 20_000,
    ],
)
async def test_a_body_that_cannot_be_understood_is_a_problem_and_never_a_fault(gateway, body):
    _, key = await gateway.team()
    headers = {**key, "content-type": "application/json"}
    answer = await gateway.http.post("/knowledge-bases", content=body, headers=headers)
    assert answer.status_code in {400, 422}
    problem(answer, answer.status_code, "invalid-argument")


@pytest.mark.parametrize("external_id", ["", " x", "x\x00", "x\ny", "x" * 513])
async def test_an_id_that_does_not_read_as_it_is_is_refused(gateway, external_id):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    problem(await gateway.put(key, base_id, external_id, "x"), 422, "invalid-argument")


async def test_an_id_that_no_document_can_have_is_not_found(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    for spelled in ("a%00b", "%0A", "%20x"):
        path = f"/knowledge-bases/{base_id}/documents/{spelled}"
        problem(await gateway.http.get(path, headers=key), 404, "not-found")
    listed = await gateway.http.get(
        f"/knowledge-bases/{base_id}/documents?after=a%00b", headers=key
    )
    problem(listed, 422, "invalid-argument")


async def test_foreign_hosts_and_web_pages_do_not_come_in(gateway):
    _, key = await gateway.team()
    for path in ("/knowledge-bases", "/mcp", "/healthz", "/readyz"):
        foreign = await gateway.http.get(path, headers={**key, "host": "evil.example"})
        problem(foreign, 421, "forbidden")
        page = await gateway.http.get(path, headers={**key, "origin": "https://evil.example"})
        problem(page, 403, "forbidden")


async def test_a_body_that_is_too_large_is_refused_unread(gateway):
    _, key = await gateway.team()
    huge = b'{"name": "' + b"x" * (2 * 1024 * 1024) + b'"}'
    problem(
        await gateway.http.post("/knowledge-bases", content=huge, headers=key), 413, "too-large"
    )


async def test_unknown_routes_and_methods_are_problems(gateway):
    _, key = await gateway.team()
    problem(await gateway.http.get("/nowhere", headers=key), 404, "not-found")
    problem(await gateway.http.put("/knowledge-bases", headers=key), 405, "not-found")
    problem(await gateway.http.get("/openapi.json", headers=key), 404, "not-found")
    problem(await gateway.http.get("/docs", headers=key), 404, "not-found")


# --- probes -----------------------------------------------------------------------------------


async def test_the_probes_need_no_key_and_readiness_is_real(migrated_url, knowledge):
    async with gateway_support.gateway(migrated_url, knowledge) as gateway:
        await check_probes(gateway, migrated_url)


async def check_probes(gateway, migrated_url):
    assert (await gateway.http.get("/healthz")).json() == {"status": "ok", "checks": {}}
    ready = await gateway.http.get("/readyz")
    assert ready.json() == {
        "status": "ok",
        "checks": {"database": "ok", "knowledgeServer": "ok"},
    }
    with psycopg.connect(migrated_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    ready = await gateway.http.get("/readyz")
    assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "not migrated")
    with psycopg.connect(migrated_url) as connection:
        connection.execute("DROP TABLE alembic_version")
    assert (await gateway.http.get("/readyz")).json()["checks"]["database"] == "not migrated"
    assert (await gateway.http.get("/healthz")).status_code == 200
