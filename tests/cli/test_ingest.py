"""`ingest`: what goes in, what is skipped, replaced, refused, and how it goes on after an end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import docx
import pytest

from dsh_lightrag.engine import Engine, Listing

from .conftest import WAIT_S, ran, spawned
from .hosting import QUICK, listed, served, write

MANY = 60


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    write(folder, curie="Marie Curie discovered polonium.", guide__setup="Run the frobnicator.")
    return folder


@pytest.fixture
def ingest(run, data):
    """Ingest in this process, without a server; returns counts and failures."""

    def invoke(*arguments, status=0):
        result = run("ingest", *arguments, "--data", data, *QUICK, "--json")
        assert result.exit_code == status, result.output
        told = json.loads(result.stdout)
        return {kind: count for kind, count in told["counts"].items() if count}, told["failures"]

    return invoke


def texts(data):
    """What the base holds, by name, once nobody serves it."""
    with Engine.open(data / "bases" / "default" / "base.sqlite") as engine:
        states = engine.listed(Listing(limit=1000)).states
        return {state.source: engine.text(state.id) for state in states}


def test_new_files_go_in_unchanged_ones_are_skipped_and_changed_ones_replaced(ingest, docs, data):
    assert ingest(docs) == ({"added": 2}, {})
    assert ingest(docs) == ({"unchanged": 2}, {})
    write(docs, curie="Marie Curie discovered radium.")
    assert ingest(docs) == ({"replaced": 1, "unchanged": 1}, {})
    assert texts(data) == {
        "curie.md": "Marie Curie discovered radium.",
        "guide__setup.md": "Run the frobnicator.",
    }


def test_files_of_one_name_in_different_folders_are_different_documents(ingest, docs, data):
    write(docs, setup="Start here.", other__setup="Or here.")
    ingest(docs)
    assert {"setup.md", "guide__setup.md", "other__setup.md"} <= set(texts(data))


def test_a_name_is_never_taken_over_from_another_file(ingest, docs, tmp_path):
    ingest(docs)
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, curie="Another Curie.")
    counts, failures = ingest(elsewhere, status=1)
    assert counts == {"failed": 1}
    assert str(docs / "curie.md") in failures["curie.md"]
    write(docs, guide__setup__x="deep")
    (docs / "guide__setup.md").write_text("flat", encoding="utf-8")
    _, failures = ingest(docs, status=1)
    assert "guide__setup.md" in failures


def test_a_folder_that_was_moved_is_the_same_folder(ingest, docs, tmp_path):
    ingest(docs)
    docs.rename(tmp_path / "moved")
    assert ingest(tmp_path / "moved") == ({"unchanged": 2}, {})


def test_a_folder_in_the_place_of_a_file_is_not_that_file(ingest, docs, data):
    ingest(docs)
    (docs / "curie.md").unlink()
    (docs / "curie.md").mkdir()
    assert ingest(docs, "--prune") == ({"unchanged": 1, "removed": 1}, {})
    assert set(texts(data)) == {"guide__setup.md"}


def test_a_link_is_a_file_for_who_names_it_and_none_below_a_folder(ingest, docs, data, tmp_path):
    write(tmp_path, elsewhere="Not in the folder.")
    (docs / "link.md").symlink_to(tmp_path / "elsewhere.md")
    assert ingest(docs) == ({"added": 2}, {})
    assert ingest(docs / "link.md") == ({"added": 1}, {})
    (docs / "curie.md").unlink()
    (docs / "curie.md").symlink_to(tmp_path / "elsewhere.md")
    assert ingest(docs, "--prune") == ({"unchanged": 1, "removed": 1}, {})
    assert set(texts(data)) == {"guide__setup.md", "link.md"}


def test_documents_of_files_that_are_gone_go_only_when_asked_to(ingest, docs, data):
    ingest(docs)
    (docs / "curie.md").unlink()
    assert ingest(docs) == ({"unchanged": 1}, {})
    assert ingest(docs, "--prune") == ({"unchanged": 1, "removed": 1}, {})
    assert set(texts(data)) == {"guide__setup.md"}


def test_each_failure_has_its_reason_and_the_others_go_in(ingest, docs, tmp_path):
    (docs / "bad.txt").write_bytes(b"\0\1")
    (docs / "cut.pdf").write_bytes(b"no pdf")
    counts, failures = ingest(docs, tmp_path / "nowhere", status=1)
    assert counts == {"added": 2, "failed": 3}
    assert "binary" in failures["bad.txt"]
    assert "damaged" in failures["cut.pdf"]
    assert "no file or folder" in failures["nowhere"]


def test_the_same_text_under_two_names_is_no_failure_and_is_not_sent_again(ingest, docs):
    write(docs, copy="Marie Curie discovered polonium.")
    counts, failures = ingest(docs)
    assert (counts["added"], counts["same text as another file"], failures) == (3, 1, {})
    counts, failures = ingest(docs)
    assert (counts["unchanged"], failures) == (3, {})


def test_hidden_files_links_and_other_types_are_left_out(run, docs, data, tmp_path):
    (docs / ".hidden.md").write_text("secret", encoding="utf-8")
    (docs / ".git").mkdir()
    (docs / ".git" / "notes.md").write_text("secret", encoding="utf-8")
    (tmp_path / "outside.md").write_text("outside", encoding="utf-8")
    (docs / "link.md").symlink_to(tmp_path / "outside.md")
    (docs / "program.exe").write_bytes(b"MZ")
    result = run("ingest", docs, "--data", data, *QUICK)
    assert result.exit_code == 0
    assert result.stdout == "2 added.\n"
    assert "1 files of other types were left out." in result.stderr
    assert set(texts(data)) == {"curie.md", "guide__setup.md"}


def test_office_files_are_converted(ingest, docs, data):
    document = docx.Document()
    document.add_paragraph("Found in a Word document.")
    document.save(docs / "find.docx")
    ingest(docs)
    assert texts(data)["find.docx"] == "Found in a Word document."


def test_a_base_that_is_not_there_is_an_error(run, docs, data):
    flags = ("--data", data, "--workspace", "team", *QUICK)
    result = run("ingest", docs, *flags)
    assert result.exit_code == 2
    assert "bases create" in result.stderr
    assert run("bases", "create", "team", "--data", data).exit_code == 0
    assert run("ingest", docs, *flags).exit_code == 0


def test_a_running_server_is_used_and_other_peoples_documents_stay(docs, data):
    with served(data) as (_, url):
        insert = ("insert", "Not from a file.", "--source", "curie.md", "--enable", "writes")
        assert ran(*insert, "--endpoint", url)[0] == 0
        status, out, _ = ran("ingest", docs, "--data", data, "--json")
        told = json.loads(out)
        assert status == 1
        assert told["counts"]["added"] == 1
        assert "did not come from a file" in told["failures"]["curie.md"]
        assert set(listed(url)) == {"curie.md", "guide__setup.md"}


def test_an_endpoint_that_nobody_answers_ends_it_with_status_1(docs, tmp_path):
    env = {"LIGHTRAG_ENDPOINT": "http://127.0.0.1:9", "XDG_STATE_HOME": str(tmp_path)}
    status, _, err = ran("ingest", docs, env=env)
    assert status == 1
    assert b"unreachable" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_broken_off_it_goes_on_when_it_is_run_again(tmp_path, data, number):
    docs = tmp_path / "docs"
    write(docs, **{f"d{one:03}": f"Document number {one} tells of Curie." for one in range(MANY)})
    with spawned("ingest", docs, "--data", data, *QUICK) as process:
        for _ in range(5):
            assert process.stderr.readline().startswith(b"added: ")
        process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    assert b"Traceback" not in err
    status, out, err = ran("ingest", docs, "--data", data, *QUICK, "--json")
    counts = json.loads(out)["counts"]
    assert status == 0, err
    assert counts["unchanged"] >= 5
    assert counts["unchanged"] + counts["added"] + counts["replaced"] == MANY
    assert len(texts(data)) == MANY


def test_files_of_odd_names_go_in_and_are_known_again(ingest, tmp_path):
    """Half a character, a line break, a parser's hint, white space: the list names them cleaned."""
    folder = tmp_path / "odd"
    folder.mkdir()
    names = [
        b"half\xff.md",
        b"two\nlines.md",
        b"notes.[draft].md",
        b" spaced.md",
        b"esc\x1b[31m.md",
    ]
    for number, name in enumerate(names):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:  # noqa: PTH123, PTH118 - no text
            file.write(b"Text number %d." % number)
    assert ingest(folder) == ({"added": len(names)}, {})
    assert ingest(folder) == ({"unchanged": len(names)}, {})


def test_a_path_that_no_file_can_have_is_told_as_missing(ingest, docs):
    counts, failures = ingest(docs, "x" * 300, status=1)
    assert counts == {"added": 2, "failed": 1}
    assert "no file or folder" in failures["x" * 300]


CLOSED = """
import os, sys
from pathlib import Path
from dsh_lightrag.cli.hosting.sources import is_gone, sources_of
if os.geteuid() == 0:
    os.setuid(65534)  # to the superuser no folder is closed
root = Path(sys.argv[1])
found = sources_of([root, root / "closed" / "in.md"])
print([one.name for one in found.files], [one.name for one in found.closed])
gone = [is_gone(root / one, follow=True) for one in ("closed/in.md", "no")]
print([one.name for one in found.missing], *gone)
"""


def test_a_folder_that_cannot_be_read_is_told_and_what_lies_in_it_is_not_gone():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        write(root, open="Anybody may read this.")
        write(root / "closed", **{"in": "Nobody may read this."})
        (root / "closed").chmod(0)
        done = subprocess.run(  # noqa: S603 - our own script
            [sys.executable, "-c", CLOSED, name], capture_output=True, text=True, check=False
        )
        (root / "closed").chmod(0o755)
    assert done.stdout.splitlines() == ["['open.md'] ['closed']", "['in.md'] False True"], (
        done.stderr
    )
