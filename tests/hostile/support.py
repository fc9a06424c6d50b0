"""One call of one tool, with the rules that hold for all of them: in time, and no key told."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from dsh_lightrag import Code, Dispatcher, LightRagError, LightRagSettings, toolbox

from .behaviours import json_value
from .replies import ARGUMENTS, REPLIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .server import Behaviour

KEY = "key-CANARY-7f3a"
BUDGET_MS = 1000
GRACE_S = 1.0

TOOL_NAMES = list(ARGUMENTS)


def settings_for(url: str, **row: Any) -> LightRagSettings:
    """Return settings with a key, every switch on and the shortest budget there is."""
    complete = {
        "endpoint": url,
        "apiKey": KEY,
        "timeoutMs": BUDGET_MS,
        "writes": {"enabled": True},
        "evidence": {"enabled": True},
    }
    return LightRagSettings(**{**complete, **row})


@dataclass(frozen=True)
class Attempt:
    """What came of one call, and everything it said to anyone."""

    error: LightRagError | None
    structured: Any
    text: str
    seconds: float

    @property
    def code(self) -> Code | None:
        return self.error.code if self.error else None

    @property
    def said(self) -> str:
        """Every word that leaves the process: text form, structured form, error."""
        structured = json.dumps(self.structured, ensure_ascii=False, allow_nan=False)
        if self.error is None:
            return f"{self.text}\n{structured}"
        return f"{self.error}\n{self.error!r}\n{json.dumps(self.error.fields())}"


async def try_call(
    dispatcher: Dispatcher, tool: str, arguments: Mapping[str, Any] | None = None
) -> Attempt:
    """Call a tool; anything but a result or a LightRagError is the test's failure."""
    started = time.monotonic()
    try:
        outcome = await dispatcher.call(tool, ARGUMENTS[tool] if arguments is None else arguments)
    except LightRagError as error:
        attempt = Attempt(error, None, "", time.monotonic() - started)
    else:
        seconds = time.monotonic() - started
        attempt = Attempt(None, outcome.structured, outcome.text, seconds)
    assert KEY not in attempt.said
    return attempt


async def attempt(
    url: str, tool: str = "dsh_lightrag_query", arguments: Any = None, **row: Any
) -> Attempt:
    """Call one tool of a fresh dispatcher and hold it to its budget."""
    settings = settings_for(url, **row)
    budget_s = settings.timeout_ms / 1000
    with anyio.fail_after(budget_s + GRACE_S + 5):
        async with toolbox(settings) as dispatcher:
            result = await try_call(dispatcher, tool, arguments)
    assert result.seconds <= budget_s + GRACE_S
    return result


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110 - threads of the server tell no event loop
            await anyio.sleep(0.005)


def healthy(**changes: Behaviour) -> dict[str, Behaviour]:
    """Return a server that answers as the real one does, but for one route per keyword.

    The keywords are the routes' last path segments: `query`, `status_counts`, `text` ...
    """
    routes = {route: json_value(reply) for route, (_, reply) in REPLIES.items()}
    for segment, behaviour in changes.items():
        (route,) = [route for route in routes if route.rpartition("/")[2] == segment]
        routes[route] = behaviour
    return routes


KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def is_kind(value: Any, kind: str) -> bool:
    """Say whether a value is of a JSON type; booleans are no numbers, integers not negative."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, KINDS[kind]) and not (kind == "integer" and value < 0)


def schema_faults(value: Any, schema: Mapping[str, Any], place: str = "$") -> list[str]:
    """Check a result against the part of JSON Schema that output schemas use."""
    if "anyOf" in schema:
        branches = [schema_faults(value, branch, place) for branch in schema["anyOf"]]
        return min(branches, key=len)
    kinds = schema.get("type", list(KINDS))
    faults = []
    if not any(is_kind(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        faults.append(f"{place}: {value!r} is no {kinds}")
    if "enum" in schema and value not in schema["enum"]:
        faults.append(f"{place}: {value!r} is none of {schema['enum']}")
    if isinstance(value, dict):
        faults += object_faults(value, schema, place)
    if isinstance(value, list):
        for index, member in enumerate(value):
            faults += schema_faults(member, schema.get("items", {}), f"{place}[{index}]")
    return faults


def object_faults(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> list[str]:
    """Check the members of an object."""
    faults = [f"{place}: no {name}" for name in schema.get("required", ()) if name not in value]
    for name, member in value.items():
        below = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
        if below is False:
            faults.append(f"{place}: {name} is not in the schema")
        elif isinstance(below, dict):
            faults += schema_faults(member, below, f"{place}.{name}")
    return faults
