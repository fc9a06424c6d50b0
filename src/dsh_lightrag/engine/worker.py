"""A thread that lets a base catch up: it sleeps until there is work, and rests after a fault."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from dsh_lightrag.engine.faults import BaseCorruptError, EngineError, ModelFaultError

if TYPE_CHECKING:
    from dsh_lightrag.engine.engine import Engine

_LONGEST_REST = 60.0
_PATIENCE = 2  # faults in a row before the documents that wait are told of an outage


class Worker:
    """Works in the background from `start` to `close`; whoever starts it closes it first.

    Documents that wait for a model which is out of service are listed as failed, with the reason,
    until it serves again.

    Attributes:
        fault: why the last step failed, or None; cleared by the next step that succeeds.
    """

    def __init__(self, engine: Engine, *, rest: float = 1.0) -> None:
        """Prepare to work on an engine; after a fault it rests, twice as long each time."""
        self.fault: EngineError | None = None
        self._engine = engine
        self._rest = rest
        self._stopped = threading.Event()
        self._roused = threading.Event()
        self._thread = threading.Thread(target=self._run, name="catch-up", daemon=True)

    def start(self) -> Self:
        """Begin to work."""
        self._thread.start()
        return self

    def rouse(self) -> None:
        """End a rest after a fault: what failed may work now."""
        self._roused.set()
        self._engine.wake()

    def close(self, patience: float | None = None) -> None:
        """Stop after the step that is under way, or leave it behind after so many seconds.

        A step that is left behind finds the base closed and ends; it is done again later.
        """
        self._stopped.set()
        self.rouse()
        self._thread.join(patience)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        rest, faults = self._rest, _PATIENCE  # an outage may have been noted in another life
        while not self._stopped.is_set():
            try:
                worked = self._step()
                if faults >= _PATIENCE:
                    self._engine.note_outage("")
            except BaseCorruptError as fault:
                self.fault = fault  # nothing that a retry would mend
                return
            except EngineError as fault:
                faults = 1 if self.fault is None else faults + 1
                self.fault = fault
                if faults >= _PATIENCE and isinstance(fault, ModelFaultError):
                    # A disk that is full cannot take the note either; the step is tried again.
                    with suppress(EngineError):
                        self._engine.note_outage(fault.problem)
                self._roused.wait(rest)
                self._roused.clear()
                rest = min(2 * rest, _LONGEST_REST)
            else:
                self.fault, rest, faults = None, self._rest, 0
                if not worked:
                    self._engine.wait_for_work()

    def _step(self) -> int:
        try:
            return self._engine.step()
        except EngineError:
            raise
        except Exception as error:  # a bug must not end the work for good, nor tell a text
            raise EngineError(
                f"A step of the background work broke: {type(error).__name__}.",
                "It is tried again; if it lasts, verify the base.",
            ) from error
