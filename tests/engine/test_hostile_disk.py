"""The file under bad conditions: a full disk, a missing folder, a clock that jumps, 10 MB lines."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from dsh_lightrag.engine import BaseUnusableError, DiskFullError, Document, Engine, Mode
from dsh_lightrag.engine.outside import problems_of
from dsh_lightrag.engine.store import Store

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from dsh_lightrag.engine import BaseUnusableError, Document, Engine
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
engine = Engine.open(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
stored = 0
try:
    while stored < 10_000:
        engine.insert(Document(f"Marker{stored}x " + "filler words " * 400, id=str(stored)))
        stored += 1
except BaseUnusableError:
    found = engine.query("marker0x").hits[0].chunk.document_id
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    engine.insert(Document("There is room again.", id="after"))
    print(stored, found)
"""


def test_a_full_disk_refuses_the_insertion_and_harms_nothing(path):
    finished = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )

    stored, found = finished.stdout.split()
    assert int(stored) > 0
    assert found == "0"
    with Engine.open(path) as engine:
        assert {state.id for state in engine.documents()} == {
            *map(str, range(int(stored))),
            "after",
        }
        assert engine.verify() == []


READ_ONLY = """
import os, sys
from pathlib import Path
from dsh_lightrag.engine import BaseUnusableError, Engine
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)  # to the superuser no folder is read-only
try:
    Engine.open(Path("notes.base"))
except BaseUnusableError as refused:
    print(refused)
"""


@pytest.mark.parametrize("there_already", [True, False])
def test_a_folder_that_must_not_be_written_is_refused_and_left_as_it_is(tmp_path, there_already):
    folder = tmp_path / "read-only"
    folder.mkdir()
    if there_already:
        with Engine.open(folder / "notes.base") as engine:
            engine.insert(Document("It stays."))
        (folder / "notes.base.lock").unlink()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    folder.chmod(0o555)

    finished = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", READ_ONLY, str(folder)], capture_output=True, text=True, check=True
    )

    folder.chmod(0o755)
    assert "Choose a folder that this user may write." in finished.stdout
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_file_that_another_program_has_locked_refuses_the_write_and_takes_it_later(
    path, monkeypatch
):
    monkeypatch.setattr("dsh_lightrag.engine.store.BUSY_SECONDS", 0.1)
    with Engine.open(path) as engine, closing(sqlite3.connect(path)) as other:
        engine.insert(Document("Written before.", id="before"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BaseUnusableError, match="locked"):
            engine.insert(Document("Written while it is locked.", id="while"))
        assert engine.query("before", Mode.NAIVE).hits  # readers do not wait for it
        other.rollback()

        engine.insert(Document("Written after.", id="after"))

        assert [state.id for state in engine.documents()] == ["after", "before"]
        assert engine.verify() == []


@pytest.mark.parametrize("name", ["nowhere/notes.base", "file/notes.base"])
def test_a_folder_that_is_none_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("no folder", encoding="utf-8")

    with pytest.raises(BaseUnusableError):
        Engine.open(tmp_path / name)


def test_a_folder_in_place_of_the_file_is_an_error(path):
    path.mkdir()

    with pytest.raises(BaseUnusableError):
        Engine.open(path)


def test_what_a_killed_creation_left_behind_is_no_obstacle(path):
    path.with_name(f"{path.name}.new").write_bytes(b"half a base")

    with Engine.open(path) as engine:
        engine.insert(Document("It works."))
    assert not path.with_name(f"{path.name}.new").exists()


def test_documents_are_listed_newest_first_though_the_clock_jumps_back(engine, monkeypatch):
    for number, now in enumerate((2e9, 1e9, 3e9, 0.0)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        engine.insert(Document(f"Document {number}", id=str(number)))

    assert [state.id for state in engine.documents()] == ["3", "2", "1", "0"]


def test_ten_megabytes_on_one_line_go_in_are_found_and_go_out(engine):
    id_ = engine.insert(Document("begin " + "abcdefgh" * 1_250_000 + " finish")).document_id

    assert engine.query("finish", Mode.NAIVE).hits[0].chunk.text.endswith("finish")
    engine.delete(id_)
    assert engine.query("finish", Mode.NAIVE).hits == ()
    assert engine.verify() == []


def test_a_copy_is_a_whole_base_of_one_moment(tmp_path, engine):
    engine.insert(Document("The first document.", id="a"))
    engine.copy_to(tmp_path / "copy.base")
    engine.insert(Document("The second document.", id="b"))

    with Engine.open(tmp_path / "copy.base") as copy:
        assert [state.id for state in copy.documents()] == ["a"]
        assert copy.query("first").hits
        assert copy.verify() == []


def test_a_copy_never_replaces_what_is_there(tmp_path, engine):
    (tmp_path / "copy.base").write_text("precious", encoding="utf-8")

    with pytest.raises(BaseUnusableError):
        engine.copy_to(tmp_path / "copy.base")
    assert (tmp_path / "copy.base").read_text(encoding="utf-8") == "precious"


def test_a_base_whose_terms_were_made_by_another_rule_gets_new_ones(path):
    with Engine.open(path) as engine:
        engine.insert(Document("Marie Curie found polonium.", title="Curie"))
    with closing(sqlite3.connect(path)) as file:
        file.execute("INSERT INTO keyword (keyword) VALUES ('delete-all')")
        file.execute("UPDATE meta SET value = 'older' WHERE key = 'terms'")
        file.commit()

    with Engine.open(path) as engine:
        assert engine.query("polonium", Mode.NAIVE).hits
        assert engine.verify() == []
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT value FROM meta WHERE key = 'terms'").fetchone() == ("1",)


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM mention",
        "DELETE FROM document_text",
        "DELETE FROM title_link",
        "UPDATE entity SET mentions = mentions + 1",
        "UPDATE chunk SET embedded = 1",
        "INSERT INTO title VALUES ('nobody', 1)",
        "INSERT INTO keyword (rowid, body) VALUES (99, 'stray')",
        "INSERT INTO told VALUES (1, 99, 'OTHER', '')",
    ],
)
def test_verify_finds_what_does_not_agree(path, harm):
    with Engine.open(path) as engine:
        engine.insert(Document("We saw Marie Curie.", title="Marie Curie"))
        assert engine.verify() == []
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA foreign_keys = OFF")
        file.execute(harm)
        file.commit()

    with Engine.open(path) as engine:
        assert len(engine.verify()) > 0


def test_nothing_is_taken_into_a_file_that_was_removed(tmp_path):
    """The system would keep it as long as it is open, and forget it with all that came in."""
    path = tmp_path / "notes.base"
    with Engine.open(path) as engine:
        engine.insert(Document("It was there."))
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(BaseUnusableError, match="moved, removed or replaced"):
            engine.insert(Document("It is lost."))
        (tmp_path / "elsewhere").rename(path)
        engine.insert(Document("It is there."))
    with Engine.open(path) as engine:
        assert len(engine.documents()) == 2


def test_a_file_that_cannot_grow_says_that_the_disk_is_full(tmp_path):
    with closing(Store(tmp_path / "notes.base", {"embedder": "none"})) as store:
        with store.write() as connection:
            connection.execute("PRAGMA max_page_count = 1")  # never below what there is
        with pytest.raises(DiskFullError), store.write() as connection:
            connection.execute("INSERT INTO meta VALUES ('long', ?)", ("x" * 1_000_000,))
        with store.write() as connection:
            connection.execute("UPDATE meta SET value = 'other'")


FULL_LOCK = """
import resource, sys
from pathlib import Path
from dsh_lightrag.engine import BaseLockedError
from dsh_lightrag.engine.schema import BaseLock
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
path = Path(sys.argv[1])
for _ in range(2):
    lock = BaseLock(path)
    try:
        BaseLock(path)
    except BaseLockedError:
        print("held", end=" ")
    lock.close()
"""


def test_a_base_can_be_locked_and_let_go_on_a_full_disk(path):
    """Otherwise nothing could be removed from it to make room."""
    finished = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", FULL_LOCK, str(path)], capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == ["held", "held"]


def test_a_base_that_another_program_has_locked_is_not_called_damaged(tmp_path):
    path = tmp_path / "locked.base"
    with Engine.open(path) as engine:
        engine.insert(Document("Whole and sound."))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        for look in (Engine.open, problems_of):
            with pytest.raises(BaseUnusableError, match="locked"):
                look(path)
    assert problems_of(path) == []
