"""`bases`: made, listed, copied out and in, verified, reindexed and dropped; served or not."""

import json
import sqlite3
from contextlib import closing

import pytest

from .conftest import ran
from .hosting import QUICK, served, write

CURIE = "Marie Curie discovered polonium."


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def bases(run, data):
    """Run a command of `bases`; returns its stdout and stderr."""

    def invoke(*arguments, status=0):
        result = run("bases", *arguments, "--data", data)
        assert result.exit_code == status, result.output
        return result.stdout + result.stderr

    return invoke


@pytest.fixture
def filled(run, data, tmp_path):
    """A base `default` with one document in it."""
    write(tmp_path / "docs", curie=CURIE)
    assert run("ingest", tmp_path / "docs", "--data", data, *QUICK).exit_code == 0
    return data / "bases" / "default" / "base.sqlite"


def rows(bases):
    return {row["name"]: row["documents"] for row in json.loads(bases("list", "--json"))["bases"]}


def test_bases_are_made_listed_and_dropped(bases, filled):
    assert "made" in bases("create", "team")
    assert "there already" in bases("create", "team")
    assert rows(bases) == {"default": 1, "team": 0}
    assert "--yes" in bases("drop", "default", status=2)
    bases("drop", "default", "--yes")
    assert rows(bases) == {"team": 0}
    assert not filled.exists()


@pytest.mark.parametrize("name", ["My-Base", "TEAM", "text", "a" * 42, "../up"])
@pytest.mark.usefixtures("filled")
def test_a_base_that_no_server_could_name_is_not_made(bases, tmp_path, name):
    copy = tmp_path / "copy.base"
    bases("export", "default", copy)
    assert "lowercase letters" in bases("create", name, status=2)
    assert "lowercase letters" in bases("import", copy, name, status=2)
    assert rows(bases) == {"default": 1}


@pytest.mark.parametrize("command", ["export", "drop", "verify", "reindex"])
@pytest.mark.parametrize("name", ["nothing", "../default", ""])
def test_a_name_that_is_no_base_is_refused(bases, filled, tmp_path, command, name):
    more = {"export": [tmp_path / "out"], "drop": ["--yes"]}.get(command, [])
    bases(command, name, *more, status=2)
    assert filled.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("filled")
def test_an_export_is_a_base_again_elsewhere(bases, run, tmp_path):
    bases("export", "default", tmp_path / "out.base")
    bases("export", "default", tmp_path / "out.base", status=2)  # never over another file
    imported = run("bases", "import", tmp_path / "out.base", "copy", "--data", tmp_path / "other")
    assert imported.exit_code == 0
    other = run("bases", "list", "--data", tmp_path / "other", "--json")
    assert json.loads(other.stdout)["bases"][0]["documents"] == 1
    bases("import", tmp_path / "out.base", "default", status=2)


def damaged(path):
    data = bytearray(path.read_bytes())
    data[5000:9000] = b"\xff" * 4000
    path.write_bytes(data)


def foreign(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")


def newer(path):
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA user_version = 9999")


def cut(path):
    path.write_bytes(path.read_bytes()[:4096])


@pytest.mark.parametrize("spoil", [damaged, foreign, newer, cut])
def test_a_file_that_cannot_be_trusted_is_not_imported(bases, filled, tmp_path, spoil):
    out = tmp_path / "out.base"
    bases("export", "default", out)
    spoil(out)
    told = bases("import", out, "copy", status=2)
    assert "Traceback" not in told
    assert rows(bases) == {"default": 1}
    assert [path.name for path in filled.parents[1].iterdir()] == ["default"]


def test_damage_is_listed_and_ends_with_status_1(bases, filled):
    assert bases("verify").strip() == "default: intact"
    with closing(sqlite3.connect(filled)) as base:
        base.execute("DELETE FROM mention")
        base.commit()
    assert "chunks without their edges" in bases("verify", "default", status=1)
    damaged(filled)
    assert "damaged" in bases("verify", status=1)
    assert rows(bases) == {"default": None}


def test_a_served_base_is_exported_and_verified_and_not_dropped(data, tmp_path):
    with served(data) as (_, url):
        flags = ("--endpoint", url, "--enable", "writes", "--source", "curie.md")
        assert ran("insert", CURIE, *flags)[0] == 0
        out = tmp_path / "out.base"
        assert ran("bases", "export", "default", out, "--data", data)[0] == 0
        assert ran("bases", "verify", "--data", data)[:2] == (0, b"default: intact\n")
        for command in (("drop", "default", "--yes"), ("reindex", "default", *QUICK)):
            status, _, err = ran("bases", *command, "--data", data)
            assert status == 2
            assert b"is open in process" in err
    ran("bases", "import", out, "copy", "--data", data)
    status, listing, _ = ran("bases", "list", "--data", data, "--json")
    assert {row["name"]: row["documents"] for row in json.loads(listing)["bases"]} == {
        "default": 1,
        "copy": 1,
    }


def test_another_model_is_refused_until_the_base_is_reindexed_with_it(run, bases, filled, tmp_path):
    ingest = ("ingest", tmp_path / "docs", "--data", filled.parents[2], "--embedder", "minilm")
    result = run(*ingest)
    assert result.exit_code == 1
    assert "embedding model" in result.stderr
    assert "1 of 1 chunks" in bases("reindex", "default", "--embedder", "minilm")
    assert run(*ingest).exit_code == 0
    assert bases("verify").strip() == "default: intact"
