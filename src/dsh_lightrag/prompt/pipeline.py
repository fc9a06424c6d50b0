"""Pipeline files: tasks on tracks, each with the middlewares that its prompt goes through.

    pipeline:
      plugins: [other-package]             # packages that add middleware types
      drivers: {claude: claude -p}         # commands for people; never run from here
      tracks:
        - id: writer
          driver: claude
          middlewares: [{type: lightrag, endpoint: "http://127.0.0.1:9621"}]
          tasks: [{id: draft, prompt: Draft a guide}]

A task's own `middlewares` and `driver` replace its track's. Keys of pipeline, tracks and tasks that
are not ours belong to whatever runs the drivers. Reading a file makes no request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_snake

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.prompt.config import RowError
from dsh_lightrag.prompt.document import PromptDocument
from dsh_lightrag.prompt.registry import Middleware, factory_of
from dsh_lightrag.text import nearest
from dsh_lightrag.yaml_file import MAX_NODES, Document, Opaque, read_yaml

Place = tuple[str | int, ...]

_PIPELINE_KEYS = ("name", "plugins", "driver", "drivers", "tracks")
_TRACK_KEYS = ("id", "name", "driver", "middlewares", "tasks")
_TASK_KEYS = ("id", "name", "prompt", "driver", "middlewares")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a file: where, what, and what to write instead."""

    line: int
    key: str
    problem: str
    mend: str

    def __str__(self) -> str:
        return f"{self.line}: {self.key}: {self.problem} {self.mend}".rstrip()


class PipelineError(ValueError):
    """A file that cannot be used; `faults` holds everything wrong with it, in line order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.line))
        super().__init__("; ".join(map(str, self.faults)))


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt and the middlewares that it goes through, in the file's order."""

    id: str
    track: str
    driver: str
    prompt: str
    middlewares: tuple[Middleware, ...]

    @property
    def full_id(self) -> str:
        """The id that no other task of the file has."""
        return f"{self.track}.{self.id}"

    async def final_prompt(self) -> str:
        """Return the prompt after all middlewares; each of them sees the original task.

        Raises:
            LightRagError: a middleware failed that is told to fail.
        """
        document = PromptDocument(self.prompt)
        for middleware in self.middlewares:
            document = await middleware.aenhance(document)
        return document.render()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A file that can be used.

    Attributes:
        digest: sha256 of the file's bytes, by which it is trusted.
        drivers: the command that the file gives for a driver, for people.
    """

    digest: str
    drivers: Mapping[str, str]
    tasks: tuple[Task, ...]

    def select(self, task_id: str) -> Task:
        """Return a task by its id, or by `track.task` where the id is not enough.

        Raises:
            ConfigurationError: none has it, or several.
        """
        found = [task for task in self.tasks if task_id in (task.id, task.full_id)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(task.full_id for task in found or self.tasks)
        problem = "is the id of several tasks." if found else "is the id of no task."
        raise ConfigurationError("task", f"{task_id!r} {problem}", f"Choose one of: {known}.")


def destinations_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return every address that the tasks' middlewares will ask, each once."""
    asked = (to for task in tasks for each in task.middlewares for to in each.destinations)
    return tuple(dict.fromkeys(asked))


def read_pipeline(data: bytes, allowed_key_variables: Collection[str] = ()) -> Pipeline:
    """Read and validate a file.

    Raises:
        PipelineError: with every fault and its line.
    """
    document = read_yaml(data)
    reading = _Reading(document, allowed_key_variables)
    tasks = tuple(reading.tasks()) if document.readable else ()
    if reading.faults:
        raise PipelineError(reading.faults)
    return Pipeline(hashlib.sha256(data).hexdigest(), reading.drivers, tasks)


class _Reading:
    """One pass over a file that collects faults instead of stopping at the first."""

    def __init__(self, document: Document, allowed_key_variables: Collection[str]) -> None:
        self._document = document
        self._allowed = allowed_key_variables
        self._plugins: list[str] = []
        self._names_drivers = False
        self.drivers: dict[str, str] = {}
        self._items_seen = 0
        self.faults = [Fault(f.line, "file", f.problem, f.mend) for f in document.faults]

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks of the file, as far as they can be used."""
        root = self._mapping((), self._document.value, ("pipeline",))
        top: Place = ("pipeline",)
        if "pipeline" not in root:
            mend = "Write pipeline: and the tracks below it."
            self._fault((), "pipeline", "is missing.", mend)
            return
        pipeline = self._mapping(top, root["pipeline"], _PIPELINE_KEYS)
        self._plugins = self._texts((*top, "plugins"), pipeline.get("plugins", []))
        self._read_drivers((*top, "drivers"), pipeline.get("drivers"))
        driver = self._driver(top, pipeline, "")
        if "tracks" not in pipeline:
            self._fault(top, "tracks", "is missing.", "List at least one track with its tasks.")
        for place, track in self._named((*top, "tracks"), pipeline.get("tracks", []), _TRACK_KEYS):
            yield from self._tasks_of(place, track, driver)

    def _tasks_of(self, place: Place, track: Mapping[str, Any], driver: str) -> Iterator[Task]:
        driver = self._driver(place, track, driver)
        shared = self._middlewares((*place, "middlewares"), track.get("middlewares", []))
        if "tasks" not in track:
            self._fault(place, "tasks", "is missing.", "List the track's tasks: id and prompt.")
        for spot, task in self._named((*place, "tasks"), track.get("tasks", []), _TASK_KEYS):
            own = self._middlewares((*spot, "middlewares"), task.get("middlewares", []))
            yield Task(
                id=task["id"],
                track=track["id"],
                driver=self._driver(spot, task, driver),
                prompt=self._prompt(spot, task),
                middlewares=own if "middlewares" in task else shared,
            )

    def _prompt(self, place: Place, task: Mapping[str, Any]) -> str:
        prompt = task.get("prompt")
        if prompt is not None and not isinstance(prompt, str):
            self._fault((*place, "prompt"), "prompt", _no_text(prompt), "Put it in quotes.")
            return ""
        if prompt is None or not prompt.strip():
            self._fault((*place, "prompt"), "prompt", "is missing.", "Write the task instruction.")
            return ""
        try:
            prompt.encode()
        except UnicodeEncodeError:
            self._fault((*place, "prompt"), "prompt", "is not valid Unicode.", "Drop \\ud800 etc.")
        return prompt

    def _read_drivers(self, place: Place, value: object) -> None:
        self._names_drivers = value is not None
        for name, command in self._mapping(place, value or {}, ()).items():
            words = [command] if isinstance(command, str) else command
            self.drivers[name] = " ".join(self._texts((*place, name), words))

    def _driver(self, place: Place, owner: Mapping[str, Any], inherited: str) -> str:
        driver = owner.get("driver", inherited)
        at = (*place, "driver")
        if not isinstance(driver, str):
            self._fault(at, "driver", _no_text(driver), "Write the driver's name.")
            return inherited
        if "driver" in owner and self._names_drivers and driver not in self.drivers:
            known = ", ".join(self.drivers) or "none"
            self._fault(at, "driver", "is not among drivers.", f"Known: {known}.")
        return driver

    def _middlewares(self, place: Place, value: object) -> tuple[Middleware, ...]:
        built = (self._middleware((*place, i), row) for i, row in self._items(place, value))
        return tuple(middleware for middleware in built if middleware is not None)

    def _middleware(self, place: Place, value: object) -> Middleware | None:
        row = dict(self._mapping(place, value, ()))
        if not isinstance(value, Mapping):
            return None
        kind = row.pop("type", None)
        if not isinstance(kind, str):
            self._fault((*place, "type"), "type", "is missing.", "Write type: lightrag.")
            return None
        try:
            return factory_of(kind, self._plugins)(row, self._allowed)
        except ConfigurationError as error:
            for fault in error.faults if isinstance(error, RowError) else (error,):
                # A row may spell its keys as the plugin's settings do, in camelCase.
                key = next((key for key in row if to_snake(key) == fault.key), fault.key)
                self._fault((*place, key), fault.key, fault.problem, fault.mend)
            return None

    # --- shapes -------------------------------------------------------------------------------

    def _fault(self, place: Place, key: str, problem: str, mend: str) -> None:
        self.faults.append(Fault(self._document.line(*place), key, problem, mend))

    def _mapping(self, place: Place, value: object, keys: tuple[str, ...]) -> Mapping[str, Any]:
        """Return a mapping from text; a key that is nearly one of ours is a fault."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            key = next((step for step in reversed(place) if isinstance(step, str)), "file")
            self._fault(place, key, "must be a mapping from names to values.", "")
            return {}
        for key in value:
            near = nearest(key, keys)
            if key not in keys and near:
                self._fault((*place, key), key, "is not a key here.", f"Did you mean {near}?")
        return value

    def _items(self, place: Place, value: object) -> Iterator[tuple[int, object]]:
        if isinstance(value, list):
            # What aliases repeat is small in the file, and would be read again each time.
            self._items_seen += len(value)
            if self._items_seen <= MAX_NODES:
                return iter(enumerate(value))
            if self._items_seen - len(value) <= MAX_NODES:  # told once
                told = f"goes past item {MAX_NODES} of the file."
                self._fault(place, str(place[-1]), told, "Split the file.")
            return iter(())
        self._fault(place, str(place[-1]), "must be a list.", "Write one item per line, after -.")
        return iter(())

    def _texts(self, place: Place, value: object) -> list[str]:
        texts: list[str] = []
        for index, text in self._items(place, value):
            if isinstance(text, str):
                texts.append(text)
            else:
                self._fault((*place, index), str(place[-1]), _no_text(text), "Put it in quotes.")
        return texts

    def _named(
        self, place: Place, value: object, keys: tuple[str, ...]
    ) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        """Yield the mappings of a list that have an id of their own."""
        seen: set[str] = set()
        for index, item in self._items(place, value):
            spot = (*place, index)
            mapping = self._mapping(spot, item, keys)
            if not isinstance(item, Mapping):
                continue
            name = mapping.get("id")
            if not isinstance(name, str) or not name.strip():
                self._fault((*spot, "id"), "id", _no_text(name), "Write a short name of its own.")
            elif name in seen:
                self._fault((*spot, "id"), "id", f"{name!r} is taken.", "Give each its own.")
            else:
                seen.add(name)
                yield spot, mapping


def _no_text(value: object) -> str:
    """Say what stands where text should; a date, say, is one only to YAML."""
    return f"is {value.tag}, not text." if isinstance(value, Opaque) else "must be text."
