"""From a put to an answer: a real worker, a real queue, our real server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from sqlalchemy import func, select, text, update

from dsh_lightrag.demo.stub_model import CHAT_MODEL, Backend, StubModel
from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway import bases, ingest, outcomes, progress, removal, worker
from dsh_lightrag.gateway.documents import FilePut, UrlPut
from dsh_lightrag.gateway.tables import Content, IndexedText, KnowledgeBase, UsageLedger
from dsh_lightrag.server.endpoint import Endpoint

from .harness import Shelf, eventually, filed, knowledge, passages, served, working


@pytest.fixture
async def server(tmp_path):
    """The knowledge server, empty."""
    async with served(tmp_path) as door:
        yield knowledge(door)


@pytest.fixture
async def shelf(database, team_id):
    """An empty base."""
    return await Shelf.make(database, team_id)


async def rows_of(database, table):
    async with database.sessions() as session:
        return await session.scalar(select(func.count()).select_from(table))


async def settled(database):
    """Tell whether no job is queued or running."""
    async with database.sessions() as session:
        return not await session.scalar(text("SELECT count(*) FROM procrastinate_jobs"))


# --- versions ---------------------------------------------------------------------------------


async def test_a_document_is_indexed_found_and_replaced_by_its_next_version(
    database, server, shelf
):
    await shelf.put("a", "The lighthouse of Oslo burns whale oil.")
    async with working(database, server):
        row = await shelf.until("a", "indexed", "failed")
        assert (row.status, row.error) == ("indexed", None)
        assert await filed(server, shelf.base.workspace) == {f"{row.id}-v1.txt": "processed"}
        assert await shelf.current() == {f"{row.id}-v1.txt": ["a"]}
        assert "whale oil" in (await passages(server, shelf.base.workspace, "lighthouse"))[0]
        assert await rows_of(database, Content) == 0

        await shelf.put("a", "The lighthouse of Oslo runs on electricity.")
        await shelf.until("a", "indexed", "failed")
        assert await shelf.current() == {f"{row.id}-v2.txt": ["a"]}

        async def only_the_new_one():
            return await filed(server, shelf.base.workspace) == {f"{row.id}-v2.txt": "processed"}

        await eventually(only_the_new_one)
    found = await passages(server, shelf.base.workspace, "lighthouse Oslo")
    assert ["electricity" in one for one in found] == [True]


class DroppedBeforeFiling(httpx.AsyncBaseTransport):
    """The way to the real server, on which a base is deleted just before a text gets there."""

    def __init__(self, door, drop):
        self.door, self.drop = door, drop

    async def handle_async_request(self, request):
        if request.url.path == "/documents/text" and self.drop:
            drop, self.drop = self.drop, None
            await drop()
        return await self.door.handle_async_request(request)


async def test_a_text_that_comes_late_makes_no_workspace_of_a_base_that_was_deleted(
    database, tmp_path, shelf
):
    put = await shelf.put("a", "A late text about herons.")
    async with served(tmp_path) as door:
        server = knowledge(door)

        async def drop():
            async with database.sessions.begin() as session:
                await bases.delete_base(session, shelf.team_id, shelf.base.id)
            await removal.drop_base(database, server, shelf.base.id)

        late = knowledge(DroppedBeforeFiling(door, drop))
        await ingest.Indexer(database, late).index(put.document.id)
        http = httpx.AsyncClient(transport=door, base_url="http://127.0.0.1:9621")
        left = (await http.get("/workspaces")).json()

    assert await rows_of(database, KnowledgeBase) == 0
    assert shelf.base.workspace not in str(left)


async def test_what_is_put_twice_before_a_worker_looks_is_indexed_once(database, server, shelf):
    for n in range(3):
        await shelf.put("a", f"Edition {n} of the almanac.")
    async with working(database, server):
        row = await shelf.until("a", "indexed", "failed")
    assert await filed(server, shelf.base.workspace) == {f"{row.id}-v3.txt": "processed"}


async def test_the_former_text_put_again_is_not_indexed_again(database, server, shelf):
    async with working(database, server):
        await shelf.put("a", "One.")
        await shelf.until("a", "indexed")
        await shelf.put("b", "One.")
        await shelf.until("b", "indexed")
        await shelf.put("a", "Two.")
        await shelf.until("a", "indexed")
        await shelf.put("a", "One.")
        row = await shelf.until("a", "indexed")
        assert await shelf.current() == {f"{row.id}-v1.txt": ["a", "b"]}


# --- sharing and deleting ---------------------------------------------------------------------


async def test_documents_with_the_same_text_share_it_until_the_last_one_is_deleted(
    database, server, shelf
):
    await shelf.put("a", "A shared recipe for rye bread.")
    await shelf.put("b", "A shared recipe for rye bread.")
    async with working(database, server):
        first = await shelf.until("a", "indexed", "failed")
        second = await shelf.until("b", "indexed", "failed")
        name = f"{first.id}-v1.txt"
        assert await shelf.current() == {name: ["a", "b"]}
        assert await filed(server, shelf.base.workspace) == {name: "processed"}
        assert second.tokens_spent == 0

        await shelf.delete("a")
        await eventually(lambda: settled(database))
        assert await shelf.current() == {name: ["b"]}
        assert await filed(server, shelf.base.workspace) == {name: "processed"}

        await shelf.delete("b")

        async def nothing_filed():
            return await filed(server, shelf.base.workspace) == {}

        await eventually(nothing_filed)
        await eventually(lambda: settled(database))
    assert await rows_of(database, IndexedText) == 0


async def test_a_deleted_base_leaves_no_workspace_and_no_row(database, server, shelf):
    await shelf.put("a", "Soon to be gone.")
    async with working(database, server):
        await shelf.until("a", "indexed")
        async with database.sessions.begin() as session:
            await bases.delete_base(session, shelf.team_id, shelf.base.id)

        async def gone():
            return not await rows_of(database, KnowledgeBase)

        await eventually(gone)
    assert await rows_of(database, IndexedText) == 0
    with pytest.raises(LightRagError) as raised:
        await server.client(shelf.base.workspace).status_counts()
    assert raised.value.code is Code.NOT_FOUND


# --- files and addresses ----------------------------------------------------------------------


async def test_an_upload_is_converted_and_what_cannot_be_says_why(database, server, shelf):
    page = b"<html><body><h1>Harbour</h1><p>Ships of pine.</p></body></html>"
    await shelf.put("page", FilePut(page), source="upload", name="page.html")
    await shelf.put("odd", FilePut(b"\x00\x01"), source="upload", name="odd.pdf")
    async with working(database, server):
        assert (await shelf.until("page", "indexed", "failed")).status == "indexed"
        odd = await shelf.until("odd", "indexed", "failed")
    assert (odd.status, odd.error_code) == ("failed", "invalid-argument")
    assert "damaged" in odd.error
    assert "pine" in (await passages(server, shelf.base.workspace, "ships"))[0]
    assert await rows_of(database, Content) == 0


@dataclass(frozen=True)
class Page:
    data: bytes
    media_type: str = "text/html"
    charset: str = ""


async def test_an_address_is_fetched_by_the_worker_and_its_failure_is_told(database, server, shelf):
    async def fetch(url):
        if url.endswith("missing"):
            raise LightRagError(Code.NOT_FOUND, "The URL answered 404.")
        return Page("<p>Käse und Brot</p>".encode("latin-1"), charset="latin-1")

    await shelf.put("page", UrlPut("https://example.org/page"), source="url")
    await shelf.put("missing", UrlPut("https://example.org/missing"), source="url")
    async with working(database, server, fetch):
        assert (await shelf.until("page", "indexed", "failed")).error is None
        missing = await shelf.until("missing", "indexed", "failed")
    assert (missing.status, missing.error) == ("failed", "The URL answered 404.")
    assert "Käse" in (await passages(server, shelf.base.workspace, "Brot"))[0]


@pytest.mark.parametrize("charset", ["unicode_escape", "undefined", "idna", "punycode", "hex", "?"])
async def test_a_charset_that_no_text_is_in_is_not_believed(database, server, shelf, charset):
    async def fetch(_url):
        return Page(b"A plain page. \\ud800" * 10_000, "text/plain", charset)

    await shelf.put("page", UrlPut("https://example.org/page"), source="url")
    async with working(database, server, fetch):
        assert (await shelf.until("page", "indexed", "failed")).status == "indexed"


async def test_a_fetch_that_breaks_is_an_attempt_and_not_repeated_at_once(database, server, shelf):
    asked = []

    async def fetch(url):
        asked.append(url)
        raise RuntimeError(url)

    await shelf.put("page", UrlPut("https://example.org/page"), source="url")

    async def tried():
        row = await shelf.get("page")
        return row if row.attempts else None

    async with working(database, server, fetch):
        row = await eventually(tried)
    assert (row.status, row.error_code, len(asked)) == ("pending", "server-error", 1)
    assert row.retry_at > datetime.now(UTC)


async def test_a_site_that_asks_to_wait_for_years_is_asked_again_within_the_hour(
    database, server, shelf
):
    async def fetch(_url):
        raise LightRagError(Code.SERVER_ERROR, "Down.", retry_after_s=10**12)

    await shelf.put("page", UrlPut("https://example.org/page"), source="url")

    async def waits():
        row = await shelf.get("page")
        return row if row.retry_at else None

    async with working(database, server, fetch):
        row = await eventually(waits)
    assert row.retry_at < datetime.now(UTC) + timedelta(hours=1)


async def test_a_text_of_blanks_fails_instead_of_being_indexed(database, server, shelf):
    await shelf.put("blank", "   \n ")
    async with working(database, server):
        row = await shelf.until("blank", "indexed", "failed")
    assert (row.status, row.error) == ("failed", "It holds no text.")


# --- budgets ----------------------------------------------------------------------------------


async def test_what_is_over_the_budget_fails_with_its_own_reason(database, server, team_id):
    shelf = await Shelf.make(database, team_id, token_budget=100)
    await shelf.put("a", "word " * 300)
    async with working(database, server):
        row = await shelf.until("a", "indexed", "failed")
        assert (row.status, row.error_code) == ("failed", "over-budget")
        assert await filed(server, shelf.base.workspace) == {}
        async with database.sessions.begin() as session:
            await session.execute(update(KnowledgeBase).values(token_budget=None))
        await shelf.put("a", "word " * 300)
        row = await shelf.until("a", "indexed", "failed")
    assert row.status == "indexed"


async def test_what_is_over_the_rate_waits_visibly_and_is_not_filed(database, server, team_id):
    shelf = await Shelf.make(database, team_id, tokens_per_minute=10)
    async with database.sessions.begin() as session:
        for minutes in range(3):  # whichever minute the worker looks in
            minute = func.date_trunc("minute", func.now()) + text(f"interval '{minutes} minutes'")
            ledger = {"base_id": shelf.base.id, "minute": minute, "tokens": 9}
            await session.execute(UsageLedger.__table__.insert().values(ledger))
    await shelf.put("a", "word " * 30)
    async with working(database, server):

        async def waits():
            row = await shelf.get("a")
            return row if row.error_code else None

        row = await eventually(waits)
    assert (row.status, row.error_code) == ("pending", "rate-limited")
    assert row.retry_at is not None
    assert await filed(server, shelf.base.workspace) == {}


async def test_tokens_that_the_server_counts_replace_the_estimate(database, server, shelf):
    await shelf.put("a", "No chat model reads this, so that nothing is spent.")
    async with working(database, server):
        row = await shelf.until("a", "indexed")
    assert (row.tokens_spent, row.tokens_counted) == (0, True)
    async with database.sessions() as session:
        base = await bases.get_base(session, shelf.team_id, shelf.base.id)
        assert (await bases.usage(session, base)).tokens_spent == 0


# --- a server that fails ----------------------------------------------------------------------


class Faulty(httpx.AsyncBaseTransport):
    """The way to the server, which fails while told to."""

    def __init__(self, inner, answer):
        self.inner = inner
        self.answer = answer
        self.refused = 0

    async def handle_async_request(self, request):
        if self.answer is None or request.url.path == "/health":
            return await self.inner.handle_async_request(request)
        self.refused += 1
        return self.answer()


def unreachable():
    raise httpx.ConnectError("refused")


def busy():
    body = httpx.ByteStream(b'{"detail": "at capacity"}')
    return httpx.Response(429, headers={"Retry-After": "1"}, stream=body)


@pytest.mark.parametrize(("answer", "code"), [(unreachable, "unreachable"), (busy, "rate-limited")])
async def test_while_the_server_fails_a_document_waits_and_then_goes_on(
    database, shelf, tmp_path, answer, code
):
    async with served(tmp_path) as door:
        way = Faulty(door, answer)
        server = knowledge(way)
        await shelf.put("a", "Patience.")
        async with working(database, server):

            async def waits():
                return (await shelf.get("a")).error_code

            assert await eventually(waits) == code
            assert (await shelf.get("a")).status in {"pending", "indexing"}
            way.answer = None
            row = await shelf.until("a", "indexed", "failed")
    assert (row.status, row.error, row.error_code) == ("indexed", None, None)


# --- a model behind the server that fails -----------------------------------------------------


@pytest.fixture
def model():
    """The language model of the server's side; a test makes it fail."""
    with StubModel() as model:
        yield model


@pytest.fixture
async def reading_server(tmp_path, model):
    """A knowledge server that reads texts with the model."""
    chat = Endpoint(model.url, CHAT_MODEL, attempts=1, timeout_s=30)
    async with served(tmp_path, chat=chat) as door:
        yield knowledge(door)


@pytest.fixture
def impatient(monkeypatch):
    """Waits that a test has time for."""
    monkeypatch.setattr(outcomes, "TRIED_S", (0.02, 1.0))
    monkeypatch.setattr(progress, "WATCH_AGAIN_S", 0.1)
    monkeypatch.setattr(ingest, "WATCH_S", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_while_the_model_is_down_its_error_is_seen_and_then_indexing_goes_on(
    database, reading_server, shelf, model
):
    model.chat = Backend.UNAUTHORIZED
    await shelf.put("a", "Marie Curie discovered Polonium.")
    async with working(database, reading_server):

        async def told():
            row = await shelf.get("a")
            return row if row.error else None

        row = await eventually(told)
        assert row.status in {"pending", "indexing"}
        assert row.error_code == "server-error"
        model.chat = Backend.OK
        row = await shelf.until("a", "failed", "indexed")
    assert (row.status, row.error) == ("indexed", None)


@pytest.mark.usefixtures("impatient")
async def test_what_the_server_fails_to_index_fails_with_its_reason_until_it_is_put_again(
    database, server, shelf, monkeypatch
):
    monkeypatch.setattr(progress, "MAX_ATTEMPTS", 1)
    await server.file(shelf.base.workspace, "stranger.txt", "The server takes a text once.")
    await shelf.put("a", "The server takes a text once.")
    async with working(database, server):
        row = await shelf.until("a", "indexed", "failed")
        assert (row.status, row.error_code, row.attempts) == ("failed", "server-error", 1)
        assert "Identical content" in row.error

        async def nothing_filed():  # the stranger is removed by the comparison at the start
            return await filed(server, shelf.base.workspace) == {}

        await eventually(nothing_filed)
        await shelf.put("a", "The server takes a text once.")
        assert (await shelf.until("a", "indexed", "failed")).status == "indexed"


@pytest.mark.usefixtures("impatient")
async def test_a_slow_model_holds_no_worker_and_its_tokens_are_counted(
    database, reading_server, shelf, model, team_id
):
    model.slow_s = 60
    model.chat = Backend.SLOW
    others = await Shelf.make(database, team_id)
    await shelf.put("a", "Marie Curie discovered Polonium.")
    async with working(database, reading_server):

        async def watched():
            row = await shelf.get("a")
            return row.retry_at and row.status == "indexing"

        await eventually(watched)
        model.chat = Backend.OK
        await others.put("b", "Irene Curie studied Radium.")
        assert (await others.until("b", "indexed", "failed")).status == "indexed"
        row = await shelf.until("a", "indexed", "failed")
    assert (row.status, row.tokens_counted) == ("indexed", True)
    assert row.tokens_spent > 0


async def test_the_jobs_of_a_base_follow_each_other_without_waiting_for_the_clock(
    database, server, shelf, monkeypatch
):
    monkeypatch.setattr(worker, "POLL_S", 600.0)
    for name in "abcd":
        await shelf.put(name, f"The lighthouse of {name} burns whale oil.")
    async with working(database, server):
        for name in "abcd":
            await shelf.until(name, "indexed")
