"""Files: uploaded or scanned, converted in the background, refused with their reason."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import resource
import shutil
import zipfile
from contextlib import closing

import anyio
import httpx
import pytest
from our_server import in_process, settled, settled_over

from dsh_lightrag.engine.schema import BaseLock
from dsh_lightrag.server.backend import BusyError
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.filing import Filing
from dsh_lightrag.server.inputs import UPLOADS, Inputs
from dsh_lightrag.server.ordinary import read_ordinary
from dsh_lightrag.server.pool import Pool
from dsh_lightrag.server.settings import ServerSettings
from dsh_lightrag.server.workspaces import BASE_FILE

PAGE = b"# Turing\n\nAlan Turing worked at Bletchley Park."


async def never(_):
    """Tell that there is no such workspace."""
    return False


async def upload(client, name, data, **headers):
    return await client.post("/documents/upload", files={"file": (name, data)}, headers=headers)


async def scan(client, **headers):
    """Scan, wait for the end, and return the job."""
    begun = (await client.post("/documents/scan", headers=headers)).json()
    assert begun["status"] == "scanning_started"
    await settled(client, **headers)
    path = f"/documents/scan/status/{begun['track_id']}"
    return (await client.get(path, headers=headers)).json()


def packed(**parts):
    """Return a package of files as the current Office formats are."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        for name, part in parts.items():
            package.writestr(name.replace("__", "/"), part)
    return data.getvalue()


async def test_an_uploaded_file_becomes_a_document_of_its_name(client, tmp_path):
    answer = await upload(client, "turing.md", PAGE)
    assert (answer.status_code, answer.json()["status"]) == (200, "success")
    (row,) = await settled(client)
    assert (row["file_path"], row["status"]) == ("turing.md", "processed")
    assert row["track_id"] == answer.json()["track_id"]
    found = await client.post("/query/data", json={"query": "Where did Turing work?"})
    assert "Bletchley" in found.json()["data"]["chunks"][0]["content"]
    assert [path for path in (tmp_path / "inputs").rglob("*") if path.is_file()] == []


async def test_a_name_that_is_stored_waiting_or_lying_there_is_refused(client, tmp_path):
    await upload(client, "turing.md", PAGE)
    await settled(client)
    again = await upload(client, "turing.md", b"Other words.")
    assert (again.status_code, "already contains" in again.json()["detail"]) == (409, True)
    folder = tmp_path / "inputs" / "default"
    (folder / "lying.md").write_text("Lying there.", encoding="utf-8")
    assert (await upload(client, "lying.md", PAGE)).status_code == 409


async def test_of_many_uploads_of_one_name_one_is_taken(client):
    answers = await asyncio.gather(
        *(upload(client, "race.md", f"Words of number {i}.".encode()) for i in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    (row,) = await settled(client)
    assert row["status"] == "processed"


async def test_of_many_texts_of_one_name_one_is_taken(client):
    bodies = [{"text": f"Words of {i}.", "file_source": "race.txt"} for i in range(8)]
    answers = await asyncio.gather(*(client.post("/documents/text", json=body) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert len(await settled(client)) == 1


async def test_names_that_climb_touch_nothing(client, tmp_path):
    for name in ("../../evil.txt", "/etc/evil.txt", "a\\evil.txt", "C:evil.txt", ".."):
        answer = await upload(client, name, PAGE)
        assert (name, answer.status_code) == (name, 400)
    assert list(tmp_path.rglob("*evil*")) == []
    assert await settled(client) == []


async def test_files_that_give_no_text_fail_with_their_reason(client):
    bomb = packed(**{"word__media__a.bin": b"0" * 50_000_000, "word__document.xml": b"<w/>"})
    climbing = packed(**{"..__..__evil.xml": b"<a/>", "word__document.xml": b"<w/>"})
    entities = packed(
        **{"word__document.xml": b'<!DOCTYPE x [<!ENTITY a "aaaa">]><w>&a;</w>'},
    )
    bad = {
        "empty.txt": b"",
        "picture.pdf": b"\x89PNG not a page",
        "bomb.docx": bomb,
        "climbing.docx": climbing,
        "entities.docx": entities,
        "binary.txt": bytes(range(256)) * 10,
    }
    for name, data in bad.items():
        assert (name, (await upload(client, name, data)).status_code) == (name, 200)
    await upload(client, "good.md", PAGE)
    rows = {row["file_path"]: row for row in await settled(client, of=len(bad) + 1)}
    assert rows.pop("good.md")["status"] == "processed"
    for name, row in rows.items():
        assert (name, row["status"]) == (name, "failed")
        assert row["error_msg"]
        assert "/" not in row["error_msg"]


async def test_a_file_that_is_too_large_is_refused(tmp_path):
    settings = ServerSettings(data=tmp_path, max_upload=100_000)
    keeper = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none"))
    async with in_process(keeper, settings) as client:
        answer = await upload(client, "large.txt", b"x" * 100_001)
        assert answer.status_code == 413
        assert answer.json()["detail"].startswith("File too large. Maximum size: 0.1MB")
        assert (await upload(client, "right.txt", b"word " * 20_000)).status_code == 200
        assert (await upload(client, "huge.txt", b"x" * 3_000_000)).status_code == 413


async def test_a_scan_takes_new_files_and_leaves_the_others_alone(client, tmp_path):
    folder = tmp_path / "inputs" / "default"
    folder.mkdir(parents=True)
    (folder / "one.md").write_bytes(PAGE)
    (folder / "two.txt").write_text("Niels Bohr lived in Copenhagen.", encoding="utf-8")
    (folder / "bad.pdf").write_bytes(b"no page")
    (folder / "no-type").write_text("No type.", encoding="utf-8")
    (folder / "linked.md").symlink_to("/etc/hostname")
    (folder / "below").mkdir()
    (folder / "below" / "deep.md").write_bytes(PAGE)
    job = await scan(client)
    assert (job["status"], job["counts"]) == (
        "completed",
        {"discovered": 3, "claimed_new": 2, "errors": 1},
    )
    assert job["samples"]["error"]["items"][0].startswith("bad.pdf: ")
    rows = {row["file_path"]: row for row in await settled(client)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "one.md": "processed",
        "two.txt": "processed",
        "bad.pdf": "failed",
    }
    assert {row["track_id"] for row in rows.values()} == {job["track_id"]}
    again = await scan(client)
    assert again["counts"]["already_processed"] == 2
    assert len(await settled(client)) == 3


async def test_a_second_scan_while_one_runs_is_skipped(client, tmp_path):
    folder = tmp_path / "inputs" / "default"
    folder.mkdir(parents=True)
    for number in range(20):
        (folder / f"{number}.md").write_text(f"Words of {number}.", encoding="utf-8")
    first, second = [(await client.post("/documents/scan")).json() for _ in range(2)]
    assert first["status"] == "scanning_started"
    assert second["status"] == "scanning_skipped_pipeline_busy"
    assert len(await settled(client)) == 20


async def test_scans_of_workspaces_read_their_own_folders(client, tmp_path):
    for name in ("one", "two"):
        await client.put(f"/workspaces/{name}")
        folder = tmp_path / "inputs" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.md").write_bytes(PAGE)
    job = await scan(client, **{"LIGHTRAG-WORKSPACE": "one"})
    rows = await settled(client, **{"LIGHTRAG-WORKSPACE": "one"})
    assert [row["file_path"] for row in rows] == ["one.md"]
    for other in ("two", "default"):
        headers = {"LIGHTRAG-WORKSPACE": other}
        assert await settled(client, **headers) == []
        path = f"/documents/scan/status/{job['track_id']}"
        assert (await client.get(path, headers=headers)).status_code == 404


async def test_clearing_and_deleting_take_the_files_that_they_are_told_to(client, tmp_path):
    folder = tmp_path / "inputs" / "default"
    folder.mkdir(parents=True)
    for name in ("one.md", "two.md"):
        (folder / name).write_text(f"Words of {name}.", encoding="utf-8")
    await scan(client)
    ids = {row["file_path"]: row["id"] for row in await settled(client)}
    for name, delete_file in (("one.md", True), ("two.md", False)):
        body = {"doc_ids": [ids[name]], "delete_file": delete_file}
        answer = await client.request("DELETE", "/documents/delete_document", json=body)
        assert answer.json()["status"] == "deletion_started"
        await settled(client)
    assert [path.name for path in folder.iterdir()] == ["two.md"]
    cleared = (await client.delete("/documents")).json()
    assert cleared["message"] == "All documents cleared successfully. Deleted 1 files."
    assert [path.name for path in folder.iterdir()] == []


async def test_what_is_cleared_before_it_is_filed_does_not_come_back(client, tmp_path):
    for number in range(10):
        await upload(client, f"{number}.md", f"Words of {number}.".encode())
    with anyio.fail_after(30):
        while (await client.delete("/documents")).json()["status"] == "busy":
            pass
    await settled(client)
    (await upload(client, "after.md", PAGE)).raise_for_status()
    rows = {row["file_path"]: row["status"] for row in await settled(client, of=1)}
    assert rows.pop("after.md") == "processed"
    # What was being read at that moment may have come through; nothing failed, nothing is left.
    assert set(rows.values()) <= {"processed"}
    assert not any(path.is_file() for path in (tmp_path / "inputs").rglob("*"))


async def test_of_several_ids_one_unknown_lets_all_others_live(client):
    await client.post("/documents/text", json={"text": "Words.", "file_source": "a.txt"})
    (row,) = await settled(client)
    body = {"doc_ids": [row["id"], "doc-nope"]}
    answer = await client.request("DELETE", "/documents/delete_document", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (404, "unknown_documents")
    assert "doc-nope" in answer.json()["detail"]
    assert len(await settled(client)) == 1


async def test_an_upload_is_filed_when_the_removal_of_its_workspace_came_to_nothing(tmp_path):
    """It waits meanwhile, instead of for the next start of the server."""
    keeper = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none"))
    pool = Pool(keeper, most_open=4, idle_s=60)
    inputs = Inputs(tmp_path / "inputs", never, max_file=1000)
    filing = Filing(pool, inputs, max_file=1000)
    await keeper.create("default")
    waiting = await inputs.keep("default", "upload_x", "turing.md", io.BytesIO(PAGE))
    async with pool.lease("default") as backend:
        removal = asyncio.create_task(pool.drop("default", wait_s=0.3))
        await asyncio.sleep(0)  # it begins
        upload = asyncio.create_task(filing.file_upload(waiting))
        with pytest.raises(BusyError):
            await removal
        await asyncio.wait_for(upload, 30)
        assert await backend.named("turing.md") is not None
    await pool.close()
    await keeper.close()


def test_an_upload_that_was_taken_outlives_a_kill(serving, tmp_path):
    """Killed at once after the answer, the file is filed by the next server, under its track."""
    data = tmp_path / "data"
    first = serving(data=data)
    many = [
        httpx.post(
            f"{first.url}/documents/upload", files={"file": (f"{i}.md", f"Words of {i}.".encode())}
        )
        for i in range(6)
    ]
    first.process.kill()
    first.process.wait(30)
    tracks = {answer.json()["track_id"] for answer in many}
    second = serving(data=data)
    with httpx.Client(base_url=second.url) as client:
        rows = settled_over(client, of=len(many))
    assert {row["track_id"] for row in rows} == tracks
    assert second.end() == ""
    assert not any((data / "inputs" / "default" / UPLOADS).rglob("*.md"))


def test_an_upload_that_finds_no_room_leaves_nothing_and_can_be_repeated(serving, tmp_path):
    server = serving()
    with httpx.Client(base_url=server.url) as client:
        settled_over(client)  # its base is made
        limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (100_000, limit[1]))
        refused = client.post("/documents/upload", files={"file": ("a.md", b"word " * 100_000)})
        assert refused.status_code == 507
        assert str(tmp_path) not in refused.text
        assert list((tmp_path / "data" / "inputs").rglob("*.md")) == []
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
        again = client.post("/documents/upload", files={"file": ("a.md", PAGE)})
        assert again.status_code == 200
        (row,) = settled_over(client, of=1)
        assert row["status"] == "processed"


async def test_an_upload_that_was_refused_late_is_not_filed_later(client, tmp_path, monkeypatch):
    def full_at_last(folder):
        if folder.name == UPLOADS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("dsh_lightrag.server.inputs.sync", full_at_last)
        assert (await upload(client, "turing.md", PAGE)).status_code == 507
    assert list((tmp_path / "inputs").rglob("*.md")) == []
    assert (await upload(client, "turing.md", PAGE)).status_code == 200
    (row,) = await settled(client, of=1)
    assert row["status"] == "processed"


async def test_a_path_in_place_of_a_name_removes_nothing(tmp_path):
    precious = tmp_path / "precious.md"
    precious.write_text("Mine.", encoding="utf-8")
    inputs = Inputs(tmp_path / "inputs", never, max_file=1)
    for name in (str(precious), "../precious.md", ".."):
        assert await inputs.discard("default", name) == 0
    assert precious.exists()


async def test_a_workspace_that_is_not_removed_keeps_its_files(client, tmp_path):
    await client.put("/workspaces/team")
    file = tmp_path / "inputs" / "team" / "mine.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(PAGE)
    base = tmp_path / "bases" / "team" / BASE_FILE
    with closing(BaseLock(base)):  # as another process that has it open
        assert (await client.delete("/workspaces/team")).status_code == 503
    assert file.exists()
    assert (await client.delete("/workspaces/team")).json()["status"] == "dropped"
    assert [path.name for path in (tmp_path / "inputs").iterdir()] == []


async def test_files_of_a_removal_that_was_killed_go_with_its_workspace_or_stay_with_it(tmp_path):
    keeper = EmbeddedKeeper(EmbeddedSettings(tmp_path, embedder="none"))
    await keeper.create("whole")
    for workspace in ("whole", "gone", "default"):
        folder = tmp_path / "inputs" / workspace
        folder.mkdir(parents=True)
        (folder / "mine.md").write_bytes(PAGE)
        (tmp_path / "inputs" / f".going-{workspace}").touch()
    async with in_process(keeper, ServerSettings(data=tmp_path)):
        assert [path.name for path in (tmp_path / "inputs").iterdir()] == ["whole"]
        assert (tmp_path / "inputs" / "whole" / "mine.md").exists()


async def test_a_pipe_that_takes_a_files_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "link.md").symlink_to(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    for name in ("pipe.md", "link.md", "folder.md"):
        with pytest.raises(OSError, match=r"ordinary|symbolic|Is a directory"):
            read_ordinary(tmp_path / name, 10)


async def test_files_that_cannot_be_removed_keep_a_workspace_from_going(
    client, tmp_path, monkeypatch
):
    await client.put("/workspaces/team")
    folder = tmp_path / "inputs" / "team"
    folder.mkdir(parents=True)
    (folder / "left.md").write_bytes(PAGE)

    def refusing(_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refusing)
        refused = await client.delete("/workspaces/team")
        # Its name is gone, and so is that of its files: nothing takes them up again.
        assert (await client.put("/workspaces/team")).status_code == 201
        assert not (tmp_path / "inputs" / "team").exists()
    assert (refused.status_code, str(tmp_path) in refused.text) == (500, False)
    assert (await client.delete("/workspaces/team")).json()["status"] == "dropped"
    assert list((tmp_path / "inputs").rglob("*.md")) == []
    assert [path.name for path in (tmp_path / "bases").iterdir()] == ["default"]


def test_an_upload_whose_server_was_killed_between_filing_and_letting_go_is_one_row(
    serving, tmp_path
):
    data = tmp_path / "data"
    first = serving(data=data)
    with httpx.Client(base_url=first.url) as client:
        files = {"file": ("turing.md", PAGE)}
        track = client.post("/documents/upload", files=files).json()["track_id"]
        settled_over(client, of=1)
    first.process.kill()
    first.process.wait(30)
    waiting = data / "inputs" / "default" / UPLOADS / track
    waiting.mkdir(parents=True)
    (waiting / "turing.md").write_bytes(PAGE)
    with httpx.Client(base_url=serving(data=data).url) as client:
        (row,) = settled_over(client, of=1)
    assert (row["status"], row["track_id"]) == ("processed", track)
    assert not waiting.exists()


def test_what_a_killed_server_had_half_written_is_never_filed(serving, tmp_path):
    """Whoever sent it was told nothing, and sends it again."""
    uploads = tmp_path / "data" / "inputs" / "default" / UPLOADS
    half = uploads / ".arriving-upload_20260131_120000_1a2b3c4d"
    half.mkdir(parents=True)
    (half / "turing.md").write_bytes(PAGE[:20])
    server = serving()
    with httpx.Client(base_url=server.url) as client:
        assert settled_over(client) == []
        files = {"file": ("turing.md", PAGE)}
        assert client.post("/documents/upload", files=files).status_code == 200
        settled_over(client, of=1)
    assert not half.exists()
