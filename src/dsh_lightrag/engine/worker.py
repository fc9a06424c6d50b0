"""A thread that lets a base catch up: it sleeps until there is work, and rests after a fault."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from dsh_lightrag.engine.faults import EngineError, ModelFaultError

if TYPE_CHECKING:
    from dsh_lightrag.engine.engine import Engine

_LONGEST_REST = 60.0


class Worker:
    """Works in the background from `start` to `close`; whoever starts it closes it first.

    Attributes:
        fault: why the last step failed, or None; cleared by the next step that succeeds.
    """

    def __init__(self, engine: Engine, *, rest: float = 1.0) -> None:
        """Prepare to work on an engine; after a fault it rests, twice as long each time."""
        self.fault: EngineError | None = None
        self._engine = engine
        self._rest = rest
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="catch-up", daemon=True)

    def start(self) -> Self:
        """Begin to work."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop after the step that is under way."""
        self._stopped.set()
        self._engine.wake()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        rest = self._rest
        while not self._stopped.is_set():
            try:
                worked = self._engine.step()
            except ModelFaultError as fault:
                self.fault = fault
                self._stopped.wait(rest)
                rest = min(2 * rest, _LONGEST_REST)
            except EngineError as fault:
                # The base itself is damaged, full or closed: nothing that a retry would mend.
                self.fault = fault
                return
            else:
                self.fault, rest = None, self._rest
                if not worked:
                    self._engine.wait_for_work()
