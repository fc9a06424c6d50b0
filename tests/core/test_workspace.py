"""A workspace is named only to a server that said, in this very call, that it isolates them."""

from __future__ import annotations

import contextlib

from dsh_lightrag import Code, toolbox
from dsh_lightrag.budget import Budget
from dsh_lightrag.client import LightRagClient
from dsh_lightrag.transport import Transport

from .support import ARGUMENTS, ENDPOINT, body_of, call, failure, serve, settings_for

ISOLATING = {"status": "healthy", "workspace_isolation": True}
HEADER = "lightrag-workspace"


def wire_of(httpx_mock):
    return [
        (request.url.path, request.headers.get(HEADER)) for request in httpx_mock.get_requests()
    ]


async def test_without_a_workspace_no_header_and_no_question_about_it(httpx_mock):
    serve(httpx_mock, "query_mix")
    await call("query")
    assert wire_of(httpx_mock) == [("/query", None)]


async def test_a_workspace_is_sent_after_health_confirmed_isolation(httpx_mock):
    httpx_mock.add_response(url=f"{ENDPOINT}/health", json=ISOLATING)
    httpx_mock.add_response(url=f"{ENDPOINT}/query", json=body_of("query_mix"))
    await call("query", workspace="team-a")
    assert wire_of(httpx_mock) == [("/health", None), ("/query", "team-a")]


async def test_every_call_asks_anew(httpx_mock):
    httpx_mock.add_response(url=f"{ENDPOINT}/health", json=ISOLATING, is_reusable=True)
    httpx_mock.add_response(url=f"{ENDPOINT}/query", json=body_of("query_mix"), is_reusable=True)
    async with toolbox(settings_for(workspace="team-a")) as tools:
        await tools.call("dsh_lightrag_query", ARGUMENTS["query"])
        await tools.call("dsh_lightrag_query", ARGUMENTS["query"])
    assert wire_of(httpx_mock) == [("/health", None), ("/query", "team-a")] * 2


async def test_one_call_asks_once_for_many_pages(httpx_mock):
    httpx_mock.add_response(url=f"{ENDPOINT}/health", json=ISOLATING)
    for page in (1, 2):
        rows = [{"id": f"doc-{page}-{n}", "status": "processed"} for n in range(200)]
        httpx_mock.add_response(
            url=f"{ENDPOINT}/documents/paginated",
            json={"documents": rows, "pagination": {"has_next": page == 1}},
        )
    await call("documents", workspace="team-a", documents={"maxListed": 1000})
    assert [path for path, _ in wire_of(httpx_mock)].count("/health") == 1
    assert [name for path, name in wire_of(httpx_mock) if path != "/health"] == ["team-a"] * 2


async def test_against_a_stock_server_a_workspace_is_an_error_and_nothing_is_asked(httpx_mock):
    for tool in ("query", "documents", "insert", "scan", "delete", "query_data"):
        httpx_mock.reset()
        serve(httpx_mock, "health_anonymous")
        error = await failure(tool, workspace="team-a")
        assert error.code is Code.BAD_RESPONSE
        assert wire_of(httpx_mock) == [("/health", None)]


async def test_isolation_must_be_a_real_true(httpx_mock):
    for value in (False, None, "true", 1):
        httpx_mock.add_response(json={"status": "healthy", "workspace_isolation": value})
        assert (await failure("query", workspace="team-a")).code is Code.BAD_RESPONSE
    assert {path for path, _ in wire_of(httpx_mock)} == {"/health"}


async def test_a_server_that_is_down_is_said_so(httpx_mock):
    httpx_mock.add_response(status_code=500)
    assert (await failure("query", workspace="team-a")).code is Code.SERVER_ERROR


# --- what the gateway asks --------------------------------------------------------------------


@contextlib.asynccontextmanager
async def client(workspace=""):
    async with Transport(settings_for(workspace=workspace).connection) as transport:
        yield LightRagClient(transport, Budget.start(10_000))


async def test_a_workspace_is_made_and_dropped_by_its_name_in_the_path(httpx_mock):
    url = f"{ENDPOINT}/workspaces/kb_1"
    httpx_mock.add_response(method="PUT", url=url, status_code=201, json={"status": "created"})
    httpx_mock.add_response(method="DELETE", url=url, json={"status": "dropped"})
    async with client() as asked:
        assert (await asked.make_workspace("kb_1")).status == "created"
        assert (await asked.drop_workspace("kb_1")).status == "dropped"
    assert wire_of(httpx_mock) == [("/workspaces/kb_1", None)] * 2


async def test_an_insertion_is_looked_up_in_its_workspace_with_what_it_cost(httpx_mock):
    httpx_mock.add_response(url=f"{ENDPOINT}/health", json=ISOLATING)
    row = {"id": "doc-1", "status": "processed", "metadata": {"llm_tokens": 12}}
    httpx_mock.add_response(
        url=f"{ENDPOINT}/documents/track_status/insert_1", json={"documents": [row]}
    )
    async with client("kb_1") as asked:
        (found,) = (await asked.tracked("insert_1")).documents
    assert (found.status, found.metadata.llm_tokens) == ("processed", 12)
    assert wire_of(httpx_mock)[-1] == ("/documents/track_status/insert_1", "kb_1")


async def test_a_name_stays_one_segment_of_the_path_whatever_it_holds(httpx_mock):
    httpx_mock.add_response(json={"status": "not_found"})
    async with client() as asked:
        await asked.drop_workspace("../documents?x=1#y")
    (request,) = httpx_mock.get_requests()
    assert request.url.raw_path == b"/workspaces/..%2Fdocuments%3Fx%3D1%23y"
