"""The row of a harness patch that mounts the tools, complete in itself but for the key.

The harness starts `dsh-lightrag mcp` in its own working directory and environment, at another
time than the row is written. So the row names the interpreter absolutely, and always says where
to ask, how long, and which switches are on: no variable of that environment changes those. The
key stands in it by the name of its variable alone.
"""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import PLUGIN_NAME, ConfigurationError
from dsh_lightrag.flags import API_KEY_ENV, ENABLED, FLAGS, SWITCHES
from dsh_lightrag.settings import API_KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsh_lightrag.flags import Flag
    from dsh_lightrag.settings import LightRagSettings

BRIDGE = Path(__file__).with_name("bridge.mjs")
MCP_CLIENT = "@deepseek-ai/dsh-mcp-client"
# The MCP client puts `mcp__lightrag__` before each name.
SERVER_NAME = "lightrag"
# Above the budget of a call, so that the error an agent sees is ours, which tells what was lost.
GRACE_MS = 10_000
PINNED = (("endpoint",), ("timeout_ms",))
# Without -P, Python would import from the working directory, where the files are the agent's.
PYTHON_FLAGS = ("-P",)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Mode(StrEnum):
    """Who speaks to our process inside the harness."""

    MCP = "mcp"
    BARE = "bare"


def patch(settings: LightRagSettings, mode: Mode, key_variable: str | None, bridge: str) -> str:
    """Return a patch file that inserts the row.

    Args:
        settings: what the process is to be started with.
        mode: by the harness's MCP client, or by the bridge, which keeps the names as they are.
        key_variable: the variable that will hold the key; None for the one that is read anyway,
            which may then be unset.
        bridge: where the bridge lies: absolutely, or from the patch file.

    Raises:
        ConfigurationError: no variable can have that name.
    """
    variable = API_KEY_VARIABLE if key_variable is None else key_variable
    if not _VARIABLE.fullmatch(variable):
        raise ConfigurationError(
            API_KEY_ENV, "names no variable.", "Write letters, digits and underscores."
        )
    given = () if key_variable is None else (f"{API_KEY_ENV}={variable}",)
    arguments = [*PYTHON_FLAGS, "-m", "dsh_lightrag", "mcp", *_flags(settings), *given]
    name = MCP_CLIENT if mode is Mode.MCP else bridge
    lines = ["- insert:", f"    - id: {PLUGIN_NAME}", f"      name: {_quoted(name)}"]
    lines.append("      config:")
    if mode is Mode.MCP:
        lines += [f"        serverName: {SERVER_NAME}", "        transport: stdio"]
    lines.append(f"        command: {_quoted(sys.executable)}")
    lines.append("        args:")
    lines += [f"          - {_quoted(argument)}" for argument in arguments]
    lines.append("        env:")
    lines.append(f"          {variable}: !!js process.env.{variable} ?? ''")
    lines.append(f"        toolCallTimeoutMs: {settings.timeout_ms + GRACE_MS}")
    if mode is Mode.MCP:  # the bridge has no other way
        lines.append("        failOnStartupError: true")
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """Return a text as JSON, and so as YAML, that means it and nothing else."""
    return json.dumps(text)


def _flags(settings: LightRagSettings) -> Iterator[str]:
    """Yield the flags that spell the settings which were given, and the pinned ones."""
    for flag in FLAGS:
        if flag.path in PINNED or _was_given(settings, flag.path):
            yield _spelled(flag, _value(settings, flag.path))
    for name in SWITCHES:
        yield f"--{'enable' if _value(settings, (name, ENABLED)) else 'disable'}={name}"


def _was_given(settings: LightRagSettings, path: tuple[str, ...]) -> bool:
    *groups, name = path
    return name in _value(settings, tuple(groups)).model_fields_set


def _value(settings: LightRagSettings, path: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in path:
        value = getattr(value, name)
    return value


def _spelled(flag: Flag, value: object) -> str:
    if isinstance(value, bool):
        return flag.name if value else flag.off
    if isinstance(value, Path):
        value = value.absolute()  # the harness starts us elsewhere
    return f"{flag.name}={value}"  # in one word: a value may begin with a dash
