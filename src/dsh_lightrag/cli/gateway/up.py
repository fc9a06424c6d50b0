"""`gateway up`: database, migrations, knowledge server, worker and API on this machine, together.

Each part is a process of its own and ends with this one, however this one ends. A part that ends
by itself is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dsh_lightrag.cli.gateway.flags import (
    AUDIT_DAYS,
    DATABASE_VARIABLE,
    PORT,
    SERVER_KEY_VARIABLE,
    AuditDays,
    Host,
    Port,
    ServerKeyEnv,
    ServerUrl,
    gateway_folder,
    named_database,
)
from dsh_lightrag.cli.gateway.place import Running, announced
from dsh_lightrag.cli.hosting.flags import Hosting  # noqa: TC001 - Typer reads annotations
from dsh_lightrag.cli.hosting.place import served_at
from dsh_lightrag.cli.terminal import complain, show, waiting
from dsh_lightrag.errors import ConfigurationError, needs_extra
from dsh_lightrag.flags import secret_of
from dsh_lightrag.listening import as_written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The first start of a machine loads a model and compiles Python.
START_S = 120.0
# A part that ends is started again after this long.
AGAIN_S = 1.0
# What the parts get to end by themselves; the worker finishes what it has begun.
END_S = 40.0
TETHER = (sys.executable, "-m", "dsh_lightrag.cli.gateway.tether")
# The flags of a knowledge server that are handed on to it, by their names in `Hosting`.
HANDED_ON = (
    "embedder",
    "embedder_model",
    "embedder_key_env",
    "chat_url",
    "chat_model",
    "chat_key_env",
    "backend",
)
HOW_TO_GO_ON = """
In another terminal:
  dsh-lightrag gateway team create my-team
  export GATEWAY_KEY=$(dsh-lightrag gateway key create me --team my-team)
  curl -X POST {url}/knowledge-bases -H "Authorization: Bearer $GATEWAY_KEY" \\
       -H "Content-Type: application/json" -d '{{"name": "my documents"}}'
Workers connect to {url}/mcp with a session token from POST {url}/session-tokens."""


def up(  # noqa: PLR0913 - one per flag
    hosting: Hosting,
    *,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    server_url: ServerUrl = None,
    server_key_env: ServerKeyEnv = None,
    audit_days: AuditDays = AUDIT_DAYS,
    allow_root: Annotated[
        bool, typer.Option("--allow-root", help="Run the embedded database under root's account.")
    ] = False,
) -> int:
    """Run the whole gateway until Ctrl-C: its own PostgreSQL, or the one that a variable names."""
    folder = gateway_folder(hosting.data)
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with waiting("starting the database …"):
            database = named_database(hosting.database_url_env) or _embedded(
                stack, folder, allow_root=allow_root
            )
            _migrate(database)
        gateway = _Gateway(hosting, folder, database, host, port or _free_port(host), audit_days)
        if server_url is not None:
            gateway.server_url = server_url
        if server_key_env is not None:
            gateway.server_key = secret_of("--server-key-env", server_key_env, os.environ)
        stack.enter_context(
            announced(folder, Running(pid=os.getpid(), url=gateway.url, database_url=database))
        )
        return asyncio.run(gateway.run())


def _embedded(stack: contextlib.ExitStack, folder: Path, *, allow_root: bool) -> str:
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway.embedded_postgres import (  # noqa: PLC0415 - the extra
            EmbeddedPostgres,
        )
    postgres = EmbeddedPostgres(folder / "postgres", allow_root=allow_root)
    return stack.enter_context(postgres).url


def _migrate(database: str) -> None:
    with needs_extra("gateway", "the gateway"):
        from dsh_lightrag.gateway.database import migrate, parse_url  # noqa: PLC0415 - the extra
    migrate(parse_url(database))


def _free_port(host: str) -> int:
    """Return a port that was free just now, so that a part that is started again keeps it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listener:
        return int(listener.getsockname()[1])


@dataclass(slots=True)
class _Gateway:
    """The parts that run as processes."""

    hosting: Hosting
    folder: Path
    database: str
    host: str
    port: int
    audit_days: int
    server_url: str = ""
    server_key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def url(self) -> str:
        return f"http://{as_written(self.host)}:{self.port}"

    async def run(self) -> int:
        """Start the parts one after the other, then watch over them until a signal comes."""
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        parts: list[_Part] = []
        try:
            with waiting("starting the gateway …"):
                if not self.server_url:
                    parts.append(await self._started(self._server(), stop))
                    self.server_url = served_at(self.folder / "knowledge") or ""
                parts.append(await self._started(self._worker(), stop))
                parts.append(await self._started(self._api(), stop))
            show(Text(f"The gateway answers at {self.url} until Ctrl-C.", style="bold"))
            show(Text(HOW_TO_GO_ON.format(url=self.url)))
            await stop.wait()
        finally:
            for part in reversed(parts):
                await part.end()
        return 0

    async def _started(self, part: _Part, stop: asyncio.Event) -> _Part:
        await part.start(stop)
        return part

    def _server(self) -> _Part:
        handed = [
            word
            for name in HANDED_ON
            if (value := getattr(self.hosting, name)) is not None
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        environment = {SERVER_KEY_VARIABLE: self.server_key}
        if self.hosting.backend == "lightrag":
            handed += ["--database-url-env", DATABASE_VARIABLE]
            environment[DATABASE_VARIABLE] = self.database
        data = str(self.folder / "knowledge")
        port = str(_free_port("127.0.0.1"))
        key = ("--api-key-env", SERVER_KEY_VARIABLE)
        return _Part("serve", ("--data", data, "--port", port, *key, *handed), environment)

    def _worker(self) -> _Part:
        kept = ("--audit-days", str(self.audit_days))
        arguments = ("worker", "--server-url", self.server_url, *kept)
        return _Part("gateway", arguments, self._secrets())

    def _api(self) -> _Part:
        where = ("--host", self.host, "--port", str(self.port))
        arguments = ("api", *where, "--server-url", self.server_url)
        return _Part("gateway", arguments, self._secrets())

    def _secrets(self) -> Mapping[str, str]:
        return {DATABASE_VARIABLE: self.database, SERVER_KEY_VARIABLE: self.server_key}


class _Part:
    """A command of ours as a process: it has started when it says so, with its first line."""

    def __init__(
        self, command: str, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> None:
        self._command = (command, *arguments)
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending = False

    async def start(self, stop: asyncio.Event) -> None:
        """Start it and watch over it.

        Raises:
            ConfigurationError: it ended, or said nothing for too long; stderr tells why.
        """
        starting = asyncio.create_task(self._launch())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self.end()
            raise KeyboardInterrupt
        if not await starting:
            await self.end()
            raise ConfigurationError(
                f"{self._command[0]} {self._command[1]}", "did not start.", "Its reason is above."
            )
        self._watching = asyncio.create_task(self._watch())

    async def end(self) -> None:
        """Ask it to end, and make it."""
        self._ending = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(END_S):
                await _drained(process)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _launch(self) -> bool:
        """Start the process; tell whether it has said its first line."""
        self._process = await asyncio.create_subprocess_exec(
            *TETHER,
            *self._command,
            stdin=asyncio.subprocess.PIPE,  # its end says that this process is gone
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment},
            start_new_session=True,  # Ctrl-C comes to this process, which ends them in order
        )
        assert self._process.stdout is not None  # noqa: S101 - it was asked for above
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                return bool(await self._process.stdout.readline())
        return False

    async def _watch(self) -> None:
        while True:
            assert self._process is not None  # noqa: S101 - it was started before
            await _drained(self._process)
            status = self._process.returncode
            complain(f"{' '.join(self._command[:2])} ended ({status}) and is started again.")
            await asyncio.sleep(AGAIN_S)
            await self._launch()  # where it fails, its end is waited for, which has come


async def _drained(process: asyncio.subprocess.Process) -> None:
    """Wait for the end, reading what is said until then: a full pipe would stop the process."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while await process.stdout.read(65536):
        pass
    await process.wait()
