"""Bases of older formats: copied, made anew, and never lost on the way."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from dsh_lightrag.engine import (
    DiskFullError,
    Document,
    DocumentStatus,
    Engine,
    migrating,
    schema,
)

OLD = (Path(__file__).parent / "format-1.sql").read_text(encoding="utf-8")
TEXTS = ["Marie Curie found polonium.", "We saw the Nile in Egypt."]


@pytest.fixture
def old_base(path, tmp_path):
    """Take a base of today back to format 1: same rows, without what came since."""
    donor = tmp_path / "donor.base"
    with Engine.open(donor) as engine:
        for text in TEXTS:
            engine.insert(Document(text, source=text[:5]))
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA journal_mode = WAL")
        base.executescript(OLD)
        base.execute("ATTACH ? AS donor", (str(donor),))
        tables = [
            row[0]
            for row in base.execute(
                "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%STRICT%'"
            )
        ]
        for table in tables:
            columns = ", ".join(
                f'"{row[1]}"' for row in base.execute(f"PRAGMA table_info({table})")
            )
            base.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM donor.{table}")  # noqa: S608 - names from the schema
        base.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        base.execute("PRAGMA user_version = 1")
        base.execute("UPDATE meta SET value = '0' WHERE key = 'terms'")  # the words are made anew
        base.commit()
    return path


def test_a_base_of_format_1_is_brought_up_on_a_copy_and_kept_beside_it(old_base):
    before = old_base.read_bytes()

    with Engine.open(old_base) as engine:
        states = engine.documents()
        twin = engine.file([Document(TEXTS[0], source="again", id="again")])
        assert engine.query("polonium").hits
        assert engine.verify() == []

    assert [(state.status, state.chunks) for state in states] == [(DocumentStatus.PROCESSED, 1)] * 2
    assert twin[0].startswith("dup-")
    kept = old_base.with_name(f"{old_base.name}.format-1")
    assert kept.read_bytes() == before
    assert schema.format_of(old_base) == schema.FORMAT
    with closing(sqlite3.connect(kept)) as old:
        texts = old.execute("SELECT text FROM document_text ORDER BY document").fetchall()
    assert [zlib.decompress(row[0]).decode() for row in texts] == TEXTS


def test_a_migrated_base_is_built_like_a_new_one(old_base, tmp_path):
    with Engine.open(old_base), Engine.open(tmp_path / "new.base"):
        pass

    def built(file):
        with closing(sqlite3.connect(file)) as base:
            names = {row[0] for row in base.execute("SELECT name FROM sqlite_schema")}
            columns = {
                (name, *row[1:5])
                for name in names
                for row in base.execute(f"PRAGMA table_info('{name}')")
            }
        return names, columns

    assert built(old_base) == built(tmp_path / "new.base")


@pytest.mark.parametrize("step", ["_copy_whole", "_rewrite"])
def test_a_migration_that_fails_leaves_the_base_as_it_was(old_base, monkeypatch, step):
    before = old_base.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migrating, step, full)
    with pytest.raises(DiskFullError):
        Engine.open(old_base)
    assert old_base.read_bytes() == before
    assert not list(old_base.parent.glob("*.new*"))
    assert not list(old_base.parent.glob("*.format-*"))

    monkeypatch.undo()
    with Engine.open(old_base) as engine:
        assert len(engine.documents()) == 2


def test_what_the_log_of_a_killed_process_holds_is_not_lost(old_base, tmp_path):
    with closing(sqlite3.connect(old_base)) as writer:
        writer.execute("UPDATE document SET source = 'from the log'")
        writer.commit()
        killed = tmp_path / "killed.base"
        for suffix in ("", "-wal"):
            shutil.copy(f"{old_base}{suffix}", f"{killed}{suffix}")
    with Engine.open(killed) as engine:
        assert {state.source for state in engine.documents()} == {"from the log"}
