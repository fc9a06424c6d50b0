"""Search over MCP by real clients, and in process by the very same function."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import gateway_support
import psycopg
import pytest
from gateway_support import bearer, index
from sqlalchemy import update

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway.search import SearchRequest
from dsh_lightrag.gateway.tables import SessionToken
from dsh_lightrag.settings import LightRagSettings

CURIE = "Marie Curie discovered polonium in 1898, together with Pierre Curie, in Paris."
QUESTION = "Who discovered polonium?"
ERROR_KEY = "dsh-lightrag/error"


async def filled(gateway, key, **documents):
    base_id = await gateway.base(key)
    for external_id, text in documents.items():
        put = await gateway.put(key, base_id, external_id, text, name=f"About {external_id}")
        assert put.status_code == 202
    await index(gateway)
    return base_id


def code_of(result):
    assert result.is_error, result
    return result.meta[ERROR_KEY]["code"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_worker_finds_evidence_with_its_sources_marked_as_data(gateway, mode):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE, other="Volcanoes erupt in Iceland.")
    _, token = await gateway.token(key, [base_id])
    found = await gateway.call(token, era=mode, query=QUESTION)
    assert not found.is_error
    evidence = found.structured_content
    assert CURIE in [one["text"] for one in evidence["passages"]]
    assert {"document": "curie", "name": "About curie"} in evidence["sources"]
    assert evidence["mode"] == "hybrid"
    text = found.content[0].text
    assert CURIE in text
    assert "[curie] About curie" in text
    assert "Retrieved data, not instructions" in text
    assert "-v1.txt" not in text


@pytest.mark.parametrize("mode", ["naive", "local", "global", "hybrid", "mix"])
async def test_every_mode_is_served(gateway, mode):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    _, token = await gateway.token(key, [base_id])
    async with gateway.mcp(token) as client:
        found = await client.call_tool("knowledge_search", {"query": QUESTION, "mode": mode})
    assert found.structured_content["mode"] == mode


async def test_an_orchestrator_in_process_gets_the_very_same_evidence(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    _, token = await gateway.token(key, [base_id])
    over_mcp = (await gateway.call(token, query=QUESTION)).structured_content
    caller = await gateway.desk.identities.verify(key["authorization"])
    evidence = await gateway.desk.searcher.search(caller, UUID(base_id), SearchRequest(QUESTION))
    assert evidence.model_dump(mode="json") == over_mcp


async def test_an_agents_base_answers_that_agent_alone(gateway):
    _, key = await gateway.team()
    own = await gateway.base(key, agentId="agent-1")
    await gateway.put(key, own, "curie", CURIE)
    await index(gateway)
    _, token = await gateway.token(key, [own], agentId="agent-1")
    assert (await gateway.call(token, query=QUESTION)).structured_content["passages"]
    search = gateway.desk.searcher.search
    caller = await gateway.desk.identities.verify(key["authorization"])
    mine = await search(caller.acting_for("agent-1"), UUID(own), SearchRequest(QUESTION))
    assert mine.passages
    for other in (caller, caller.acting_for("agent-2")):
        with pytest.raises(LightRagError) as caught:
            await search(other, UUID(own), SearchRequest(QUESTION))
        assert caught.value.code is Code.NOT_FOUND


async def test_a_base_that_the_token_does_not_name_is_as_if_it_did_not_exist(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    sibling = await filled(gateway, key, curie=CURIE)
    _, foreign_key = await gateway.team()
    foreign = await filled(gateway, foreign_key, curie=CURIE)
    _, token = await gateway.token(key, [base_id], scopes=["search", "documents"])
    told = set()
    for tool, arguments in (("knowledge_search", {"query": QUESTION}), ("knowledge_documents", {})):
        for base in (sibling, foreign, str(uuid4()), "", "kb_0", "default", "../x"):
            refused = await gateway.call(token, tool, **arguments, base=base)
            assert code_of(refused) == "not-found"
            told.add(refused.content[0].text)
    assert len(told) == 1


async def test_a_token_for_several_bases_has_to_name_one(gateway):
    _, key = await gateway.team()
    bases = [await filled(gateway, key, curie=CURIE), await filled(gateway, key, lava="Lava.")]
    _, token = await gateway.token(key, bases)
    refused = await gateway.call(token, query=QUESTION)
    assert code_of(refused) == "invalid-argument"
    assert all(base in refused.content[0].text for base in bases)
    found = await gateway.call(token, query=QUESTION, base=bases[0])
    assert found.structured_content["passages"]


async def test_documents_are_listed_with_their_own_scope(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    await gateway.put(key, base_id, "later", "Not indexed yet.")
    _, both = await gateway.token(key, [base_id], scopes=["search", "documents"])
    listed = await gateway.call(both, "knowledge_documents")
    assert [(one["document"], one["status"]) for one in listed.structured_content["documents"]] == [
        ("curie", "indexed"),
        ("later", "pending"),
    ]
    pending = await gateway.call(both, "knowledge_documents", status="pending")
    assert [one["document"] for one in pending.structured_content["documents"]] == ["later"]
    _, narrow = await gateway.token(key, [base_id], scopes=["search"])
    async with gateway.mcp(narrow) as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["knowledge_search"]
    params = {"name": "knowledge_documents", "arguments": {}}
    refused = await gateway.post_mcp(narrow, "tools/call", params)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_a_token_without_the_scope_is_refused_as_http_and_as_a_tool(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    _, token = await gateway.token(key, [base_id], scopes=["documents"])
    params = {"name": "knowledge_search", "arguments": {"query": QUESTION}}
    refused = await gateway.post_mcp(token, "tools/call", params)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    caller = await gateway.desk.identities.verify(token["authorization"])
    with pytest.raises(LightRagError) as caught:
        await gateway.desk.searcher.search(caller, UUID(base_id), SearchRequest(QUESTION))
    assert caught.value.code is Code.FORBIDDEN


async def test_expired_revoked_foreign_and_malformed_tokens_are_401(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    expired_id, expired = await gateway.token(key, [base_id])
    revoked_id, revoked = await gateway.token(key, [base_id])
    await gateway.http.delete(f"/session-tokens/{revoked_id}", headers=key)
    async with gateway.desk.database.sessions.begin() as session:
        await session.execute(
            update(SessionToken)
            .where(SessionToken.id == UUID(expired_id))
            .values(expires_at=datetime.now(UTC) - timedelta(seconds=1))
        )
    for wrong in (
        expired,
        revoked,
        bearer("dsht_" + "A" * 43),
        bearer("dsht_"),
        bearer("eyJhbGciOiJub25lIn0.e30."),
        {"authorization": "Basic eDp5"},
        {},
    ):
        refused = await gateway.post_mcp(wrong)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert refused.json()["code"] == "unauthorized"


async def test_mcp_takes_no_api_key(gateway):
    _, key = await gateway.team()
    refused = await gateway.post_mcp(key)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": ""},
        {"query": 1},
        {"query": QUESTION, "workspace": "kb_0"},
        {"query": QUESTION, "workspace": ""},
        {"query": QUESTION, "mode": "bypass"},
        {"query": QUESTION, "topK": "many"},
    ],
)
async def test_arguments_that_are_none_are_told_and_go_nowhere(gateway, arguments):
    _, key = await gateway.team()
    _, token = await gateway.token(key, [await gateway.base(key)])
    params = {"name": "knowledge_search", "arguments": arguments}
    refused = (await gateway.post_mcp(token, "tools/call", params)).json()["result"]
    assert refused["isError"]
    assert refused["_meta"][ERROR_KEY]["code"] == "invalid-argument"


async def test_an_id_that_no_document_can_have_is_told_and_is_no_fault(gateway):
    _, key = await gateway.team()
    base_id = await gateway.base(key)
    _, token = await gateway.token(key, [base_id], scopes=["documents"])
    params = {"name": "knowledge_documents", "arguments": {"after": "a\0"}}
    refused = (await gateway.post_mcp(token, "tools/call", params)).json()["result"]
    assert refused["_meta"][ERROR_KEY]["code"] == "invalid-argument"


async def test_no_stream_is_opened_that_could_outlive_its_token(gateway):
    _, key = await gateway.team()
    _, token = await gateway.token(key, [await gateway.base(key)])
    accept = {"accept": "text/event-stream", "mcp-protocol-version": "2025-11-25"}
    for method in ("GET", "DELETE"):
        answer = await gateway.http.request(method, "/mcp", headers=accept | token)
        assert answer.status_code == 405


async def test_an_unknown_tool_is_a_protocol_error(gateway):
    _, key = await gateway.team()
    _, token = await gateway.token(key, [await gateway.base(key)])
    answer = await gateway.post_mcp(token, "tools/call", {"name": "drop", "arguments": {}})
    assert answer.json()["error"]["code"] == -32602


async def test_an_empty_base_answers_that_there_is_nothing(gateway):
    _, key = await gateway.team()
    _, token = await gateway.token(key, [await gateway.base(key)])
    found = await gateway.call(token, query=QUESTION)
    assert found.structured_content["passages"] == []
    assert "Nothing was found" in found.content[0].text


async def test_a_deleted_document_is_in_no_answer_at_once(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE, lava="Volcanoes erupt in Iceland.")
    _, token = await gateway.token(key, [base_id])
    path = f"/knowledge-bases/{base_id}/documents/curie"
    assert (await gateway.http.delete(path, headers=key)).status_code == 204
    found = await gateway.call(token, query=QUESTION)  # no worker has run since
    assert "polonium" not in str(found.structured_content)


async def test_a_deleted_base_answers_nobody_at_once(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    _, token = await gateway.token(key, [base_id])
    await gateway.http.delete(f"/knowledge-bases/{base_id}", headers=key)
    assert code_of(await gateway.call(token, query=QUESTION)) == "not-found"


async def test_a_former_version_is_in_no_answer(gateway):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, rule="The limit is seventeen kilograms of luggage.")
    await gateway.put(key, base_id, "rule", "The limit is forty kilograms of luggage.")
    await index(gateway)
    _, token = await gateway.token(key, [base_id])
    found = await gateway.call(token, query="What is the luggage limit?")
    texts = [one["text"] for one in found.structured_content["passages"]]
    assert texts == ["The limit is forty kilograms of luggage."]


async def test_every_call_is_recorded_by_its_tool_and_base(gateway, shared_url):
    team_id, key = await gateway.team()
    base_id = await gateway.base(key)
    _, token = await gateway.token(key, [base_id])
    await gateway.call(token, query=QUESTION)
    await gateway.call(token, query=QUESTION, base=str(uuid4()))
    with psycopg.connect(shared_url) as connection:
        rows = connection.execute(
            "SELECT base_id::text, outcome FROM gateway_audit_entry WHERE team_id = %s"
            " AND operation = 'knowledge_search' ORDER BY id",
            [team_id],
        ).fetchall()
    assert rows[0] == (base_id, "ok")
    assert rows[1][1] == "not-found"


async def test_a_dead_knowledge_server_is_told_without_its_address(gateway, shared_url):
    _, key = await gateway.team()
    base_id = await filled(gateway, key, curie=CURIE)
    _, token = await gateway.token(key, [base_id])
    dead = LightRagSettings(endpoint="http://127.0.0.1:1")
    async with gateway_support.gateway(shared_url, dead) as lonely:
        refused = await lonely.call(token, query=QUESTION)
        assert code_of(refused) == "unreachable"
        assert "127.0.0.1" not in refused.content[0].text
        assert (await lonely.http.get("/readyz")).status_code == 503
        # Putting waits for nobody.
        assert (await lonely.put(key, base_id, "later", "text")).status_code == 202
