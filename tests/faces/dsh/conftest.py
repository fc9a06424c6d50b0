"""The harness as a user runs it: a home of its own, our commands' output, a scripted model."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import dsh_lightrag
from faces.server import KEY

from .scripted_model import LAST_WORDS

SOURCE = Path(dsh_lightrag.__file__).parents[1]
DSH = Path(sys.executable).with_name("dsh")
BOUND_S = 90
# Each of our processes leaves its id, and the names of its variables.
LEAVE_ID = """
import os, sys
if "mcp" in sys.orig_argv:
    with open(os.path.join(os.path.dirname(__file__), "lives", str(os.getpid())), "w") as life:
        life.write(" ".join(os.environ))
"""


@dataclass
class Home:
    """A home of the harness, a folder to work in, and what ran there.

    The folder holds modules that no process of ours may import: its files are the agent's.

    Attributes:
        variables: what the harness finds in its environment besides.
    """

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        for folder in ("home", "work", "site/lives"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "site" / "sitecustomize.py").write_text(LEAVE_ID, encoding="utf-8")
        for name in ("dsh_lightrag", "mcp", "httpx", "json"):
            (self.work / f"{name}.py").write_text("raise SystemExit(9)", encoding="utf-8")

    @property
    def work(self):
        """The folder that the agent works in."""
        return self.root / "work"

    @property
    def lives(self):
        """The ids of our processes, dead ones too."""
        return {int(file.name) for file in (self.root / "site" / "lives").iterdir()}

    @property
    def variables_seen(self):
        """The names of the variables that our processes found."""
        lives = (self.root / "site" / "lives").iterdir()
        return {name for file in lives for name in file.read_text(encoding="utf-8").split()}

    @property
    def alive(self):
        """The ids of those that still run."""
        return {pid for pid in self.lives if not has_ended(pid, 0)}

    def environment(self, **more):
        """Return the environment of one command; the code under test is found by its path."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("DSH_")}
        path = os.pathsep.join([str(self.root / "site"), str(SOURCE)])
        return {**outside, "PYTHONPATH": path, **self.variables, **more}

    def ours(self, *arguments, **variables):
        """Run `dsh-lightrag`; return what it prints."""
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "dsh_lightrag", *map(str, arguments)],
            cwd=self.root,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def dsh(self, *arguments, model="http://127.0.0.1:9", **variables):
        """Start the harness; whoever does waits for it."""
        harness = {
            "DSH_HOME": str(self.root / "home"),
            "DEEPSEEK_BASE_URL": model,
            "DEEPSEEK_API_KEY": "stub",
            "DSH_TELEMETRY_MODE": "DISABLED",
        }
        return subprocess.Popen(  # noqa: S603 - the dev extra brings it
            [DSH, *map(str, arguments)],
            cwd=self.work,
            env=self.environment(**harness, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def overlays(self, patches):
        """Write patches where --patch reads them."""
        for index, patch in enumerate(patches):
            file = self.root / f"overlay-{index}.yml"
            file.write_text(patch, encoding="utf-8")
            yield f"--patch={file}"

    @contextmanager
    def started(self, model, *patches, profile="headless", **variables):
        """Let the harness answer one task; end it, should it still run."""
        flags = [f"--profile={profile}", *self.overlays(patches)]
        with self.dsh(*flags, "Use the tools.", model=model.url, **variables) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, model, *patches, **options):
        """Let the harness answer one task to the end; return what it said on stderr."""
        with self.started(model, *patches, **options) as process:
            out, err = process.communicate(timeout=BOUND_S)
        if model.fault is not None:
            raise model.fault
        assert process.returncode == 0, err
        assert out.strip() == LAST_WORDS
        assert all(has_ended(pid, BOUND_S) for pid in self.lives)
        return err


def has_ended(pid, within_s):
    """Say whether a process, which need not be our child, ends in time; a zombie has."""
    return one_has_ended([pid], within_s)


def one_has_ended(pids, within_s):
    """Say whether one of several processes ends in time."""
    with ExitStack() as stack:
        descriptors = []
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return True
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
        return bool(select.select(descriptors, [], [], within_s)[0])


@pytest.fixture
def home(tmp_path):
    """A home of this test alone, with the key in its environment; it leaves no process."""
    made = Home(tmp_path, {"LIGHTRAG_API_KEY": KEY})
    yield made
    left = made.alive
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == set()


@pytest.fixture
def patch(home, server):
    """Print a patch against the server, as a user does."""

    def printed(*flags, endpoint=server.url, **variables):
        return home.ours("dsh-patch", "--endpoint", endpoint, *flags, **variables)

    return printed
