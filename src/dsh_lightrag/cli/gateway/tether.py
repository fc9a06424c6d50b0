"""A child process that ends when its parent does, however that ends.

    python -m dsh_lightrag.cli.gateway.tether gateway worker

The parent holds the other end of stdin and never writes. The kernel closes it for a parent that
was killed, too.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from dsh_lightrag.cli.app import run

# What the child gets to end by itself.
GRACE_S = 30.0


def _end_with_parent(stdin: int) -> None:
    while os.read(stdin, 4096):
        pass  # nobody writes
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)


def main() -> None:
    """Run the command line that follows, on that condition."""
    stdin = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_end_with_parent, args=(stdin,), daemon=True).start()
    run()


if __name__ == "__main__":
    main()
