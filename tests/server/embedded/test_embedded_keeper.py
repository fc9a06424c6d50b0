"""Workspaces: made durably, opened by one, dropped without residue."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import pytest
from embedded_support import CURIE, Provider, Reply, embeddings, found, opened, rows, settled, until

from dsh_lightrag.engine import BaseUnusableError, Engine
from dsh_lightrag.engine import DiskFullError as DiskIsFull
from dsh_lightrag.server.backend import (
    DiskFullError,
    ModelFailedError,
    WorkspaceBrokenError,
    WorkspaceLockedError,
    WorkspaceUnknownError,
)
from dsh_lightrag.server.embedded import EmbeddedKeeper, EmbeddedSettings
from dsh_lightrag.server.endpoint import Endpoint
from dsh_lightrag.server.workspaces import WorkspaceNameError

BASE = "bases/team/base.sqlite"


def keeper_of(folder, **settings):
    return EmbeddedKeeper(EmbeddedSettings(folder, **{"embedder": "none", **settings}))


async def test_a_workspace_is_made_once_and_listed_without_being_opened(tmp_path):
    keeper = keeper_of(tmp_path / "data")

    assert await keeper.names() == []
    assert not await keeper.exists("team")
    assert await keeper.create("team")
    assert not await keeper.create("team")
    assert await keeper.create("another")
    assert await keeper.names() == ["another", "team"]
    assert await keeper.exists("team")
    assert not (tmp_path / "data" / BASE).exists()


@pytest.mark.parametrize(
    "name",
    ["", "..", "a/b", "a b", "-a", "a" * 42, "é", "a\n", ".dropped-x", "Team", "team-a", "text"],
)
async def test_a_name_that_could_climb_or_that_no_request_could_name_is_no_workspace(
    tmp_path, name
):
    keeper = keeper_of(tmp_path / "data")

    with pytest.raises(WorkspaceNameError):
        await keeper.create(name)
    assert not await keeper.exists(name)
    assert not await keeper.drop(name)
    with pytest.raises(WorkspaceUnknownError):
        await keeper.open(name)
    assert not (tmp_path / "data").exists()


async def test_opening_never_makes_a_workspace(tmp_path):
    keeper = keeper_of(tmp_path)

    with pytest.raises(WorkspaceUnknownError):
        await keeper.open("team")
    assert list(tmp_path.iterdir()) == []


async def test_dropping_a_workspace_leaves_nothing_of_it(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "t")
    keeper = keeper_of(tmp_path)

    assert await keeper.drop("team")
    assert not await keeper.drop("team")
    assert list((tmp_path / "bases").iterdir()) == []


async def test_what_a_killed_removal_left_is_removed_later(tmp_path):
    left = tmp_path / "bases" / ".dropped-0123"
    left.mkdir(parents=True)
    (left / "base.sqlite").write_bytes(b"x")

    async with opened(tmp_path):
        assert not left.exists()


async def test_an_open_workspace_is_not_dropped_and_not_opened_twice(tmp_path):
    keeper = keeper_of(tmp_path)
    async with opened(tmp_path) as backend:
        with pytest.raises(WorkspaceLockedError, match=str(os.getpid())):
            await keeper.open("team")
        with pytest.raises(WorkspaceLockedError):
            await keeper.drop("team")
        await backend.insert([CURIE], "t")
        assert await found(backend, "Polonium")


async def test_a_second_process_is_refused_and_told_who_holds_the_base(tmp_path):
    script = (
        "import sys, pathlib\n"
        "from dsh_lightrag.engine import Engine\n"
        "Engine.open(pathlib.Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()\n"
    )
    keeper = keeper_of(tmp_path)
    await keeper.create("team")
    with subprocess.Popen(  # noqa: ASYNC220, S603 - our own script
        [sys.executable, "-c", script, str(tmp_path / BASE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(WorkspaceLockedError, match=str(holder.pid)) as refused:
            await keeper.open("team")
        assert refused.value.mend
    async with opened(tmp_path):
        pass


async def test_a_damaged_base_is_refused_and_left_as_it_is(tmp_path):
    keeper = keeper_of(tmp_path)
    await keeper.create("team")
    (tmp_path / BASE).write_bytes(b"not a database" * 100)

    with pytest.raises(WorkspaceBrokenError, match="no knowledge base") as refused:
        await keeper.open("team")
    assert "Restore" in refused.value.mend
    assert (tmp_path / BASE).read_bytes() == b"not a database" * 100


async def test_another_embedding_model_is_refused_with_the_way_out(tmp_path):
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "t")
    keeper = keeper_of(tmp_path, embedder="minilm")

    with pytest.raises(WorkspaceBrokenError, match="all-MiniLM-L6-v2") as refused:
        await keeper.open("team")
    assert "reindex" in refused.value.mend


async def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "bases").write_text("a file where the folder should be", encoding="utf-8")

    with pytest.raises(WorkspaceBrokenError, match="cannot be made"):
        await keeper_of(tmp_path).create("team")


async def test_a_base_that_knows_its_vectors_opens_while_its_endpoint_is_down(tmp_path):
    with Provider(embeddings) as provider:
        endpoint = Endpoint(provider.url, "m", attempts=1)
        async with opened(tmp_path, embedder=endpoint) as backend:
            await backend.insert([CURIE], "t")
            await settled(backend)
        provider.replies = [Reply(401)]
        async with opened(tmp_path, embedder=endpoint) as backend:
            assert await found(backend, "Polonium")
        with pytest.raises(ModelFailedError, match="refuses the key"):
            async with opened(tmp_path / "fresh", embedder=endpoint):
                pass


async def test_the_configuration_names_models_and_no_paths_or_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("PROVIDER_KEY", "sk-secret")
    chat = Endpoint("http://127.0.0.1:1/v1", "talker", key_env="PROVIDER_KEY")
    keeper = keeper_of(tmp_path, embedder="minilm", chat=chat)

    told = str(keeper.configuration())

    assert keeper.answers
    assert "talker" in told
    assert "all-MiniLM-L6-v2" in told
    assert "sk-secret" not in told
    assert str(tmp_path) not in told
    assert not keeper_of(tmp_path).answers


async def test_an_opening_that_fails_late_lets_go_of_the_base(tmp_path, monkeypatch):
    keeper = keeper_of(tmp_path)
    await keeper.create("team")

    def unreadable(_):
        raise BaseUnusableError("The disk does not answer.", "Look at the disk.")

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "doomed", unreadable)
        with pytest.raises(WorkspaceBrokenError, match="does not answer"):
            await keeper.open("team")
    await (await keeper.open("team")).close()


async def test_a_removal_that_leaves_something_is_an_error_until_it_is_gone(tmp_path, monkeypatch):
    keeper = keeper_of(tmp_path)
    await keeper.create("team")

    def refusing(_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refusing)
        for _ in range(2):
            with pytest.raises(WorkspaceBrokenError, match="not removed whole"):
                await keeper.drop("team")
        assert await keeper.names() == []
    assert not await keeper.drop("team")
    assert list((tmp_path / "bases").iterdir()) == []


async def test_a_full_disk_while_a_workspace_is_made_is_told_as_one(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dsh_lightrag.server.embedded.keeper.sync", full)
    with pytest.raises(DiskFullError):
        await keeper_of(tmp_path).create("team")


async def test_a_deletion_that_the_disk_refuses_once_is_tried_again(tmp_path, monkeypatch):
    refusals = [DiskIsFull("The disk is full.", "Free some space.")]
    delete = Engine.delete_doomed

    def once_refused(engine, id_):
        if refusals:
            raise refusals.pop()
        delete(engine, id_)

    monkeypatch.setattr(Engine, "delete_doomed", once_refused)
    monkeypatch.setattr("dsh_lightrag.server.embedded.backend._DELETION_PAUSES_S", (0.0, 0.01))
    async with opened(tmp_path) as backend:
        await backend.insert([CURIE], "t")
        (row,) = (await rows(backend)).values()
        await backend.delete([row.id])

        async def is_empty():
            return not await rows(backend)

        await until(is_empty)
        assert "1 successful, 0 failed" in (await settled(backend)).latest_message
