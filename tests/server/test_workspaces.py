"""Many bases behind one server: named by a header, apart from each other, made on purpose."""

from __future__ import annotations

import httpx
from our_server import in_process, settled

from dsh_lightrag.server.app import build_app
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.settings import ServerSettings

ROUTES = [
    ("GET", "/health", None),
    ("POST", "/query", {"query": "Who is Ada?"}),
    ("POST", "/query/stream", {"query": "Who is Ada?"}),
    ("POST", "/query/data", {"query": "Who is Ada?"}),
    ("POST", "/documents/text", {"text": "Ada.", "file_source": "ada.txt"}),
    ("POST", "/documents/texts", {"texts": ["Ada."], "file_sources": ["ada.txt"]}),
    ("POST", "/documents/paginated", {}),
    ("GET", "/documents/status_counts", None),
    ("GET", "/documents/pipeline_status", None),
    ("GET", "/documents/track_status/insert_x", None),
    ("GET", "/documents/scan/status/scan_x", None),
    ("GET", "/documents/supported_file_types", None),
    ("POST", "/documents/scan", None),
    ("POST", "/documents/clear_cache", {}),
    ("POST", "/documents/reprocess_failed", None),
    ("POST", "/documents/cancel_pipeline", None),
    ("DELETE", "/documents/delete_document", {"doc_ids": ["doc-x"]}),
    ("DELETE", "/documents", None),
    ("GET", "/graph/label/list", None),
    ("GET", "/graph/label/popular", None),
    ("GET", "/graph/label/search?q=a", None),
    ("GET", "/graphs?label=*", None),
    ("GET", "/graph/entity/exists?name=Ada", None),
]
BAD_NAMES = ["Team", "1a", "a-b", "a b", "..", "a/b", "a%2Fb", "a" * 42, "ä", "base", "full", "_a"]


def into(workspace):
    return {"LIGHTRAG-WORKSPACE": workspace}


async def test_an_unknown_workspace_is_404_everywhere_and_is_not_made(client):
    for method, path, body in ROUTES:
        answer = await client.request(method, path, json=body, headers=into("nobody"))
        assert (path, answer.status_code) == (path, 404)
        assert answer.json()["reason"] == "workspace_unknown"
    assert (await client.get("/workspaces")).json() == {"workspaces": ["default"]}


async def test_a_name_that_climbs_or_is_reserved_is_refused(client):
    for name in BAD_NAMES:
        header = {"LIGHTRAG-WORKSPACE": name.encode()}
        answer = await client.get("/documents/status_counts", headers=header)
        assert (name, answer.status_code) == (name, 400)
        assert answer.json()["reason"] == "workspace_name"


async def test_no_workspace_is_made_or_removed_under_a_bad_name(client):
    for name in BAD_NAMES:
        for method in ("PUT", "DELETE"):
            answer = await client.request(method, f"/workspaces/{name}")
            assert (name, answer.status_code) in ((name, 400), (name, 404), (name, 405))
    assert (await client.get("/workspaces")).json() == {"workspaces": ["default"]}


async def test_making_and_removing_can_be_repeated(client):
    seen = [
        (await client.request(method, "/workspaces/team_a"))
        for method in ("PUT", "PUT", "DELETE", "DELETE", "PUT")
    ]
    assert [answer.status_code for answer in seen] == [201, 200, 200, 200, 201]
    assert [answer.json()["status"] for answer in seen] == [
        "created",
        "exists",
        "dropped",
        "not_found",
        "created",
    ]


async def test_workspaces_see_nothing_of_each_other(client):
    for name, text in (("one", "Ada Lovelace wrote Programs."), ("two", "Niels Bohr slept.")):
        await client.put(f"/workspaces/{name}")
        body = {"text": text, "file_source": "same-name.txt"}
        answer = await client.post("/documents/text", json=body, headers=into(name))
        assert answer.status_code == 200
        assert len(await settled(client, **into(name))) == 1
    for name, own, other in (("one", "Lovelace", "Bohr"), ("two", "Bohr", "Lovelace")):
        found = await client.post(
            "/query/data", json={"query": f"{own} and {other}"}, headers=into(name)
        )
        assert own in found.text
        assert other not in found.text
        labels = (await client.get("/graph/label/list", headers=into(name))).json()
        assert any(own in label for label in labels)
        assert not any(other in label for label in labels)
    assert (await client.get("/documents/status_counts")).json()["status_counts"]["all"] == 0


async def test_a_removed_workspace_leaves_nothing_to_its_successor(client, tmp_path):
    await client.put("/workspaces/team_a")
    body = {"text": "Ada Lovelace wrote Programs.", "file_source": "ada.txt"}
    await client.post("/documents/text", json=body, headers=into("team_a"))
    await settled(client, **into("team_a"))
    (tmp_path / "inputs" / "team_a").mkdir(parents=True)
    (tmp_path / "inputs" / "team_a" / "left.txt").write_text("Left.", encoding="utf-8")
    assert (await client.delete("/workspaces/team_a")).json()["status"] == "dropped"
    assert [path for path in tmp_path.rglob("*") if "team_a" in path.as_posix()] == []
    await client.put("/workspaces/team_a")
    assert (await settled(client, **into("team_a"))) == []


async def test_health_says_that_workspaces_are_apart(client):
    health = (await client.get("/health")).json()
    assert health["workspace_isolation"] is True
    assert health["configuration"]["workspace"] == "default"


# --- who may ----------------------------------------------------------------------------------


async def test_with_a_key_it_is_needed_and_a_guest_token_is_not_enough(tmp_path):
    settings = ServerSettings(data=tmp_path, api_key="right")
    async with in_process(
        EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none")), settings
    ) as client:
        token = (await client.get("/auth-status")).json()["access_token"]
        guest = {"Authorization": f"Bearer {token}"}
        for method, path in (("PUT", "/workspaces/a"), ("DELETE", "/workspaces/a")):
            assert (await client.request(method, path)).status_code == 403
            assert (await client.request(method, path, headers=guest)).status_code == 403
        assert (await client.get("/workspaces")).status_code == 403
        key = {"X-API-Key": "right"}
        assert (await client.put("/workspaces/a", headers=key)).status_code == 201
        assert (await client.put("/workspaces/a", headers={**key, **guest})).status_code == 200
        assert "configuration" not in (await client.get("/health")).json()
        assert "configuration" in (await client.get("/health", headers=key)).json()


async def test_a_guest_token_opens_a_server_without_key_until_it_is_changed(client):
    token = (await client.get("/auth-status")).json()["access_token"]
    header, claims, signature = token.split(".")
    for sent, status in (
        (token, 200),
        (f"{header}.{claims}.{signature[::-1]}", 401),
        (f"{header}.{claims[:-4]}AAAA.{signature}", 401),
        ("x", 401),
        ("..", 401),
        ("é", 401),
    ):
        headers = {"Authorization": f"Bearer {sent}".encode()}
        assert (await client.get("/auth/verify", headers=headers)).status_code == status


async def test_without_a_key_only_this_machine_makes_workspaces(tmp_path):
    keeper = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none"))
    app = build_app(keeper, ServerSettings(data=tmp_path))
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 50000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for method in ("PUT", "DELETE"):
            assert (await client.request(method, "/workspaces/a")).status_code == 403
    assert not await keeper.exists("a")
    await keeper.close()
