"""The real `lightrag-server` as a child process on loopback: start, stop, kill, read its log."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from dsh_lightrag.demo.stub_model import CHAT_MODEL, EMBEDDING_MODEL, StubModel
from dsh_lightrag.demo.stub_replies import DIMENSIONS
from dsh_lightrag.errors import MissingExtraError
from dsh_lightrag.vocabulary import fill_tiktoken_cache

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

HOST = "127.0.0.1"

_POLL_S = 0.05
_STOP_S = 20.0
_PORT_ATTEMPTS = 3
_TAIL_BYTES = 16_384
# asyncio's words on every platform; what the system says after them differs.
_PORT_TAKEN = "error while attempting to bind on address"

# LightRAG reads some 180 variables, so the child's environment is built from what a process
# needs to run at all. Proxies, provider keys and the parent's LightRAG settings stay outside.
_INHERITED = (
    "PATH HOME LANG LC_ALL LC_CTYPE TZ TMPDIR TEMP TMP PYTHONPATH LD_LIBRARY_PATH "
    "DYLD_LIBRARY_PATH SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT USERPROFILE APPDATA "
    "LOCALAPPDATA PROGRAMDATA"
)


class ServerStartError(RuntimeError):
    """The server did not come up; the text ends with the tail of its log."""


class _PortTakenError(ServerStartError):
    """Someone else took the port between our choice and the server's bind."""


class LightRagServer:
    """One `lightrag-server` process; a context manager.

    The data live in `workdir`. Without one, a temporary folder serves from the first start until
    `close`. `stop` and `kill` end the process only: `start` then brings it back on the same data,
    at the same URL unless someone took the port.
    """

    def __init__(  # noqa: PLR0913 - each is one option of the server, given by name
        self,
        model: StubModel | str,
        *,
        api_key: str | None = None,
        accounts: str | None = None,
        workdir: Path | None = None,
        extra_env: Mapping[str, str] = MappingProxyType({}),
        start_timeout_s: float = 90.0,
    ) -> None:
        self._model = model
        self._api_key = api_key
        self._accounts = accounts
        # The child runs inside this folder: a relative path would mean another one there.
        self._workdir = None if workdir is None else workdir.absolute()
        self._workdir_is_ours = workdir is None
        self._extra_env = extra_env
        self._start_timeout_s = start_timeout_s
        # One secret for all starts: a login survives a restart.
        self._token_secret = secrets.token_hex(32)
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's base URL.

        Raises:
            RuntimeError: it was never started.
        """
        if not self._port:
            raise RuntimeError("the server was never started")
        return f"http://{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    @property
    def workdir(self) -> Path:
        """The folder that holds everything the server writes.

        Raises:
            RuntimeError: the folder is a temporary one and does not exist now.
        """
        if self._workdir is None:
            raise RuntimeError("the server has no working folder before its start")
        return self._workdir

    @property
    def input_dir(self) -> Path:
        """The folder that a scan reads."""
        return self.workdir / "inputs"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the process and wait until it accepts connections.

        Raises:
            MissingExtraError: LightRAG or the vocabulary package is not installed.
            VocabularyError: the vocabulary is not the one that tiktoken expects.
            ServerStartError: the process died, or the time ran out.
            RuntimeError: it is running already.
        """
        if self._process is not None:
            raise RuntimeError("the server is running already")
        command = _command()
        atexit.register(self.close)  # for a parent that ends without unwinding its stack
        try:
            self._prepare_workdir()
            self._start_on_a_free_port(command)
        except BaseException:  # an interrupt must not leave a process or a folder either
            self.close()
            raise

    def stop(self) -> None:
        """Ask the process to end, and end it after 20 s; does nothing when none runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process at once, as a crash would; does nothing when none runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop, and remove the working folder if it is our own temporary one."""
        atexit.unregister(self.close)
        try:
            self.stop()
        finally:
            if self._workdir_is_ours and self._workdir is not None:
                shutil.rmtree(self._workdir, ignore_errors=True)
                self._workdir = None

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that the latest process wrote; empty before the first start."""
        if self._workdir is None or not self._log_path.is_file():
            return ""
        with self._log_path.open("rb") as log:
            log.seek(max(0, self._log_path.stat().st_size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    @property
    def _log_path(self) -> Path:
        return self.workdir / "server.log"

    def _prepare_workdir(self) -> None:
        if self._workdir is None:
            self._workdir = Path(tempfile.mkdtemp(prefix="dsh-lightrag-demo-"))
        self.input_dir.mkdir(parents=True, exist_ok=True)
        fill_tiktoken_cache(self.workdir / "tiktoken")

    def _start_on_a_free_port(self, command: str) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        for _ in range(_PORT_ATTEMPTS - 1):
            with suppress(_PortTakenError):
                self._launch(command, deadline)
                return
        self._launch(command, deadline)

    def _launch(self, command: str, deadline: float) -> None:
        port, self._port = self._port, 0
        if not port or _accepts(port):  # another's server would pass for ours
            port = free_port()
        self._process = self._spawn(command, port)
        self._wait_until_ready(self._process, port, deadline)
        self._port = port

    def _spawn(self, command: str, port: int) -> subprocess.Popen[bytes]:
        # The child keeps its own handle of the log. It stays in our process group, so that a
        # terminal's Ctrl-C or hang-up reaches it as well. Without a terminal on stdin, it does
        # not ask about its missing .env file.
        with self._log_path.open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter's script
                [command],
                cwd=self.workdir,
                env=self._environment(port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait_until_ready(
        self, process: subprocess.Popen[bytes], port: int, deadline: float
    ) -> None:
        """Poll until the port accepts: uvicorn binds only after the application's start-up."""
        while (status := process.poll()) is None and time.monotonic() < deadline:
            if _accepts(port):
                return
            time.sleep(_POLL_S)
        self.kill()
        tail = self.log_tail()
        if status is None:
            raise ServerStartError(
                f"lightrag-server was not ready after {self._start_timeout_s:g} s:\n{tail}"
            )
        error = _PortTakenError if _PORT_TAKEN in tail else ServerStartError
        raise error(f"lightrag-server ended with status {status}:\n{tail}")

    def _environment(self, port: int) -> dict[str, str]:
        needed = _INHERITED.split()
        environment = {key: value for key, value in os.environ.items() if key.upper() in needed}
        environment |= {
            "PYTHONUTF8": "1",
            "PYTHONUNBUFFERED": "1",
            # With this set, clients do not look for a proxy in the system's settings.
            "NO_PROXY": f"{HOST},localhost",
            "HOST": HOST,
            "PORT": str(port),
            "WORKING_DIR": str(self.workdir / "rag_storage"),
            "INPUT_DIR": str(self.input_dir),
            "LOG_DIR": str(self.workdir),
            "TIKTOKEN_CACHE_DIR": str(self.workdir / "tiktoken"),
            # A bag of words lies farther from every question than a real embedding does.
            "COSINE_THRESHOLD": "0.1",
            **self._model_environment(),
        }
        if self._api_key is not None:
            environment["LIGHTRAG_API_KEY"] = self._api_key
        if self._accounts is not None:
            environment["AUTH_ACCOUNTS"] = self._accounts
            environment["TOKEN_SECRET"] = self._token_secret
        return {**environment, **self._extra_env}

    def _model_environment(self) -> dict[str, str]:
        url = self._model if isinstance(self._model, str) else self._model.url
        return {
            "LLM_BINDING": "openai",
            "LLM_BINDING_HOST": url,
            "LLM_BINDING_API_KEY": "stub",
            "LLM_MODEL": CHAT_MODEL,
            "EMBEDDING_BINDING": "openai",
            "EMBEDDING_BINDING_HOST": url,
            "EMBEDDING_BINDING_API_KEY": "stub",
            "EMBEDDING_MODEL": EMBEDDING_MODEL,
            "EMBEDDING_DIM": str(DIMENSIONS),
        }


def _command() -> str:
    """Find the script beside our interpreter; one elsewhere on PATH may be another version."""
    script = shutil.which("lightrag-server", path=str(Path(sys.executable).parent))
    if script is None or find_spec("lightrag") is None:
        raise MissingExtraError("lightrag", "the demo")
    return script


def free_port() -> int:
    """Return a port that nobody uses now; somebody may, before it is bound again."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1) as connection:
        # The kernel may give us the very port we call, and connect us to ourselves.
        return bool(connection.getsockname() != connection.getpeername())
    return False
