"""Servers of ours as processes, and files for them."""

import json
import threading
from contextlib import contextmanager

from .conftest import WAIT_S, ran, spawned

# No model to load: these tests are about processes and files.
QUICK = ("--embedder", "none")


@contextmanager
def served(data, *flags, command=("serve",), env=None, prefix=()):
    """Run `serve` (or another command that serves) and yield it with its URL; it must end well."""
    port = ("--port", "0")
    with spawned(
        *command, "--data", data, *port, *QUICK, *flags, env=env or {}, prefix=prefix
    ) as process:
        watchdog = threading.Timer(WAIT_S, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline().decode()
            assert line.startswith("Serving"), process.communicate()[1].decode()
            watchdog.cancel()
            yield process, line.partition(" at ")[2].split()[0]
        finally:
            watchdog.cancel()
            process.terminate()
            try:
                process.communicate(timeout=WAIT_S)
            finally:
                process.kill()


def write(folder, **files):
    """Write text files; two underscores in a name stand for a folder."""
    for name, text in files.items():
        path = folder.joinpath(*f"{name}.md".split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def listed(url, *flags, env=None):
    """The documents of a server: state by name."""
    status, out, err = ran("documents", "--endpoint", url, "--json", *flags, env=env or {})
    assert status == 0, err
    return {row["filePath"]: row["status"] for row in json.loads(out)["result"]["documents"]}
