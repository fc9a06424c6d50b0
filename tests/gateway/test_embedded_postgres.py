"""The gateway's own PostgreSQL: who gets in, what survives, who is refused."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.gateway import embedded_postgres
from dsh_lightrag.gateway.embedded_postgres import EmbeddedPostgres, binaries


@pytest.fixture
def folder():
    """A folder that the database's user can reach; pytest's own lie below one that it cannot."""
    folder = Path(tempfile.mkdtemp(prefix="dsh-pg-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def connect_as(user, url):
    """Try to connect as a system user; return what was said."""
    asked = subprocess.run(  # noqa: S603 - a program of the wheel
        [binaries() / "psql", url, "--no-password", "--command", "SELECT 'let ' || 'in'"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        user=pwd.getpwnam(user).pw_uid if user else None,
    )
    return asked.stdout + asked.stderr


def test_it_asks_for_its_password_and_other_users_do_not_even_reach_it(folder):
    with EmbeddedPostgres(folder, allow_root=True) as postgres:
        url = postgres.url
        password = (folder / "password").read_text(encoding="ascii")
        assert "let in" in connect_as(None, url)
        for wrong in (url.replace(password, "wrong"), url.replace(f":{password}", "")):
            assert "password" in connect_as(None, wrong)
        if os.geteuid() == 0:
            assert "Permission denied" in connect_as("nobody", url)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        rules = (folder / "data" / "pg_hba.conf").read_text(encoding="utf-8").splitlines()
        methods = {line.split()[-1] for line in rules if line.strip() and line[0] != "#"}
        assert methods == {"scram-sha-256"}
        with psycopg.connect(url) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SELECT inet_server_addr()").fetchone() == (None,)


def test_what_was_committed_survives_a_kill_of_the_server_and_of_the_gateway(folder):
    first = EmbeddedPostgres(folder, allow_root=True)
    first.start()
    with psycopg.connect(first.url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    postmaster = int((folder / "data" / "postmaster.pid").read_text("utf-8").split()[0])
    first._release()  # noqa: SLF001 - what the kernel does when a gateway is killed

    with EmbeddedPostgres(folder, allow_root=True) as second:  # the server is taken over
        assert int((folder / "data" / "postmaster.pid").read_text("utf-8").split()[0]) == postmaster
        os.kill(postmaster, signal.SIGKILL)
        first._child.wait(30)  # noqa: SLF001 - ours to reap, since we are its parent
        second._release()  # noqa: SLF001 - as above

        with EmbeddedPostgres(folder, allow_root=True) as third:  # the server is started anew
            with psycopg.connect(third.url) as connection:
                assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
            second.stop = lambda: None


def test_a_second_gateway_on_the_same_folder_is_refused(folder):
    with EmbeddedPostgres(folder, allow_root=True):
        with pytest.raises(ConfigurationError) as raised:
            EmbeddedPostgres(folder, allow_root=True).start()
        assert "another gateway" in raised.value.problem


def test_a_long_path_gets_a_short_socket(folder):
    deep = folder / ("d" * 120)
    folder.chmod(0o755)
    with EmbeddedPostgres(deep, allow_root=True) as postgres:
        psycopg.connect(postgres.url).close()


def test_root_is_refused_without_leave(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigurationError) as raised:
        EmbeddedPostgres(folder)
    assert raised.value.key == "--allow-root"
    assert list(folder.iterdir()) == []


def close_to_the_database(folder):
    """Make a folder that the database's user may not enter."""
    folder.mkdir()
    folder.parent.chmod(0o755)
    folder.chmod(0o700 if os.geteuid() == 0 else 0o600)
    return folder


def test_a_place_below_a_closed_folder_is_refused_and_the_folder_stays_closed(folder):
    closed = close_to_the_database(folder / "home")
    before = closed.stat().st_mode
    with pytest.raises(ConfigurationError) as raised:
        EmbeddedPostgres(closed / "data", allow_root=True).start()
    assert str(closed) in raised.value.problem
    assert closed.stat().st_mode == before


def test_a_database_without_its_password_is_not_opened_and_not_replaced(folder):
    with EmbeddedPostgres(folder, allow_root=True):
        pass
    (folder / "password").unlink()
    with pytest.raises(ConfigurationError) as raised:
        EmbeddedPostgres(folder, allow_root=True).start()
    assert "password" in raised.value.problem
    assert (folder / "data" / "PG_VERSION").is_file()


def test_programs_that_its_user_cannot_reach_are_copied(folder, monkeypatch):
    site = (folder / "home") / "site"
    installed = binaries()
    package = installed.parents[1]
    for part in (installed.parent, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, site / part.relative_to(package.parent), symlinks=True)
    (folder / "home").chmod(0o700)
    folder.chmod(0o755)
    hidden = site / installed.relative_to(package.parent)
    monkeypatch.setattr(embedded_postgres, "binaries", lambda: hidden)
    with EmbeddedPostgres(folder / "data", allow_root=True) as postgres:
        psycopg.connect(postgres.url).close()
    copied = [path.name for path in (folder / "data").glob("programs*")]
    assert len(copied) == (1 if os.geteuid() == 0 else 0)
