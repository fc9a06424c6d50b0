"""Of a base that was deleted nothing is left: in no table, file, log line or answer."""

from __future__ import annotations

import anyio
import gateway_support
import psycopg
import pytest
from gateway_support import BOUND_S, working
from psycopg import sql

from dsh_lightrag.demo.stub_model import CHAT_MODEL, EMBEDDING_MODEL, StubModel
from dsh_lightrag.server.core import CoreSettings, keeper_of
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.endpoint import Endpoint

GONE, KEPT = "zyxquorvane", "zyxpalimdor"
USER_TABLES = (
    "SELECT schemaname, tablename FROM pg_tables"
    " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
)


def embedded(folder, _url, _model):
    return EmbeddedKeeper(EmbeddedSettings(folder, embedder="none"))


def core(folder, url, model):
    """LightRAG's core with all its storages in the gateway's own database, as `gateway up` does."""
    chat, embedder = (Endpoint(model.url, name) for name in (CHAT_MODEL, EMBEDDING_MODEL))
    # A bag of words lies farther from every question than a real embedding does.
    return keeper_of(CoreSettings(folder, chat, embedder, database_url=url, cosine_threshold=0.1))


def tables_with(url, marker):
    """Return the tables in which any column of any row holds the marker, as text or as bytes."""
    with psycopg.connect(url) as connection:
        tables = [".".join(pair) for pair in connection.execute(USER_TABLES).fetchall()]
        return {
            table
            for table in tables
            if connection.execute(
                sql.SQL("SELECT EXISTS (SELECT FROM {} t WHERE t::text ILIKE ANY (%s))").format(
                    sql.Identifier(*table.split("."))
                ),
                ([f"%{marker}%", f"%{marker.encode().hex()}%"],),
            ).fetchone()[0]
        }


def files_with(folder, marker):
    """Return the files whose path or bytes hold the marker; databases' logs and indexes too."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return {
        name
        for name in found
        if marker in name.lower() or marker.encode() in (folder / name).read_bytes().lower()
    }


async def fill(gateway, headers, marker):
    """Make a base with the marker in names, ids, texts and a former version; return its id."""
    base_id = await gateway.base(headers, f"Base {marker}")
    for text in ("was blue", "is red"):
        answer = await gateway.put(
            headers, base_id, f"doc {marker}", f"The lighthouse of {marker.title()} {text}."
        )
        assert answer.status_code == 202, answer.text
        await settled(gateway, headers, base_id, f"doc {marker}")
    uploaded = await gateway.http.put(
        f"/knowledge-bases/{base_id}/documents/upload",
        params={"externalId": "file", "name": f"{marker}.md"},
        content=f"# Harbour\n\nThe harbour of {marker.title()}.",
        headers=headers,
    )
    assert uploaded.status_code == 202, uploaded.text
    await settled(gateway, headers, base_id, "file")
    return base_id


async def settled(gateway, headers, base_id, external_id):
    path = f"/knowledge-bases/{base_id}/documents/{external_id}"
    with anyio.fail_after(BOUND_S):
        while (row := (await gateway.http.get(path, headers=headers)).json())["status"] in {  # noqa: ASYNC110 - a worker tells nobody
            "pending",
            "indexing",
        }:
            await anyio.sleep(0.05)
    assert row["status"] == "indexed", row


async def removed(url, base_id):
    """Wait until the worker has removed the base's row, which goes last."""
    query = "SELECT FROM gateway_knowledge_base WHERE id = %s"
    with anyio.fail_after(BOUND_S):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            while (await connection.execute(query, (base_id,))).rowcount:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.05)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("keeper", [embedded, core])
async def test_a_deleted_base_leaves_its_text_in_no_table_file_log_line_or_answer(
    keeper, migrated_url, tmp_path, capfd
):
    with StubModel() as model:
        serving = gateway_support.knowledge_server(
            tmp_path, keeper=keeper(tmp_path, migrated_url, model)
        )
        async with (
            serving as settings,
            gateway_support.gateway(migrated_url, settings) as gateway,
            working(gateway.desk),
        ):
            _, headers = await gateway.team()
            gone, kept = [await fill(gateway, headers, marker) for marker in (GONE, KEPT)]
            _, token = await gateway.token(headers, [gone, kept])
            for base_id, marker in ((gone, GONE), (kept, KEPT)):
                found = await gateway.call(token, base=base_id, query=f"harbour of {marker}")
                assert f"harbour of {marker}" in str(found).lower()
                # A scan that finds nothing before would prove nothing afterwards.
                assert tables_with(migrated_url, marker)
                assert tables_with(migrated_url, marker) | files_with(tmp_path, marker) > {
                    "public.gateway_knowledge_document"
                }

            deleted = await gateway.http.delete(f"/knowledge-bases/{gone}", headers=headers)
            assert deleted.status_code == 204
            await removed(migrated_url, gone)

            answers = [
                await gateway.call(token, base=gone, query="harbour"),
                await gateway.call(token, base=kept, query=f"harbour of {GONE[:3]}"),
                (await gateway.http.get("/knowledge-bases", headers=headers)).text,
                (await gateway.http.get(f"/knowledge-bases/{gone}", headers=headers)).text,
            ]
            assert GONE not in str(answers).lower()
            assert KEPT in str(answers).lower()
            assert tables_with(migrated_url, GONE) == set()
            assert files_with(tmp_path, GONE) == set()
            assert tables_with(migrated_url, KEPT)
    assert files_with(tmp_path, GONE) == set()
    written = "".join(capfd.readouterr()).lower()
    assert "tool_call" in written
    assert GONE not in written
