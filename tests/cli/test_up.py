"""`up`: a folder is served, its changes are followed, and Ctrl-C ends it."""

import json
import os
import shutil
import signal
import time

import pytest

from .conftest import WAIT_S, ran
from .hosting import listed, served, write

# Root without its right to read everything.
RIGHTS = "-dac_override,-dac_read_search"
BARE = ("setpriv", f"--bounding-set={RIGHTS}", f"--inh-caps={RIGHTS}")

pytestmark = pytest.mark.timeout(240)


def until(condition):
    """Wait until a look at another process tells something true."""
    deadline = time.monotonic() + WAIT_S
    while not (met := condition()):
        assert time.monotonic() < deadline
    return met


def line_with(process, text):
    """Read on until a line holds a text; the watchdog of the test bounds it."""
    for line in process.stdout:
        if text in line.decode():
            return line.decode()
    raise AssertionError(process.stderr.read().decode())


def test_a_folder_is_served_and_its_changes_are_followed(tmp_path):
    docs, data = tmp_path / "docs", tmp_path / "data"
    write(docs, curie="Marie Curie discovered polonium.", lovelace="Ada Lovelace wrote programs.")
    with served(data, command=("up", docs)) as (process, url):
        told = line_with(process, "claude mcp add") + line_with(process, "mcpServers")
        told += line_with(process, "dsh-patch")
        assert told.count(url) == 3
        assert line_with(process, "added").strip() == "2 added."
        write(docs, curie="Marie Curie discovered radium.", turing="Alan Turing broke codes.")
        (docs / "lovelace.md").unlink()
        until(lambda: set(listed(url)) == {"curie.md", "turing.md"})
        status, out, _ = ran("query", "What is radium?", "--endpoint", url, "--json")
        assert status == 0
        answer = json.loads(out)["result"]["answer"]
        assert "discovered radium" in answer
        assert "polonium" not in answer
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
        assert b"Traceback" not in err
    assert not (data / "server.json").exists()


def test_it_fills_a_folder_that_is_served_already_and_leaves_that_server(tmp_path):
    docs, data = tmp_path / "docs", tmp_path / "data"
    write(docs, curie="Marie Curie discovered polonium.")
    with served(data) as (_, url):
        with served(data, command=("up", docs)) as (process, same):
            assert same == url
            line_with(process, "1 added.")
        assert listed(url) == {"curie.md": "processed"}


def test_what_is_no_folder_and_data_inside_the_folder_are_refused(run, tmp_path):
    assert run("up", tmp_path / "nowhere", "--data", tmp_path / "data").exit_code == 2
    result = run("up", tmp_path, "--data", tmp_path / "data")
    assert result.exit_code == 2
    assert "--data" in result.stderr


def test_a_folder_that_is_removed_and_made_anew_is_followed_again(tmp_path):
    docs, data = tmp_path / "docs", tmp_path / "data"
    write(docs, curie="Marie Curie discovered polonium.")
    with served(data, command=("up", docs)) as (process, url):
        line_with(process, "1 added.")
        docs.rename(tmp_path / "elsewhere")
        write(docs, turing="Alan Turing broke codes.")
        until(lambda: "turing.md" in listed(url))


def test_a_folder_that_is_deleted_and_made_in_its_own_place_is_followed_again(tmp_path):
    docs, data = tmp_path / "docs", tmp_path / "data"
    write(docs, curie="Marie Curie discovered polonium.")
    with served(data, command=("up", docs)) as (process, url):
        line_with(process, "1 added.")
        shutil.rmtree(docs)
        docs.mkdir()  # with the number that the file system has just got back
        write(docs, turing="Alan Turing broke codes.")
        until(lambda: "turing.md" in listed(url))
        write(docs, lovelace="Ada Lovelace wrote programs.")
        until(lambda: "lovelace.md" in listed(url))


def test_a_folder_that_may_not_be_read_keeps_nothing_else_from_being_served(tmp_path):
    docs, data = tmp_path / "docs", tmp_path / "data"
    write(docs, curie="Marie Curie discovered polonium.", closed__in="Not to be read.")
    (docs / "closed").chmod(0)
    with served(data, command=("up", docs), prefix=BARE if os.geteuid() == 0 else ()) as (_, url):
        until(lambda: "curie.md" in listed(url))
        write(docs, turing="Alan Turing broke codes.")
        until(lambda: "turing.md" in listed(url))
