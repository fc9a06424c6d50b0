"""Write the tables of README.md from the code, between their markers.

python docs/tables.py            # say whether README.md is up to date (status 1 if not)
python docs/tables.py --write    # bring it up to date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.alias_generators import to_camel

from dsh_lightrag import TOOLS, Code, LightRagSettings
from dsh_lightrag.bounds import Bounds
from dsh_lightrag.errors import HINTS
from dsh_lightrag.prompt import KnowledgeConfig
from dsh_lightrag.prompt.durations import DurationRange
from dsh_lightrag.rows import ENV_DELIMITER, ENV_PREFIX, group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic.fields import FieldInfo

README = Path(__file__).parent.parent / "README.md"


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def tools() -> str:
    """One row per tool of the catalog."""
    return _table(
        ("Tool", "Access", "There when", "Arguments"),
        (
            (
                f"`{tool.name}`",
                tool.access.value,
                f"`{tool.switch.value}`",
                ", ".join(
                    f"`{name}`" + (" (required)" if name in tool.input_schema["required"] else "")
                    for name in tool.input_schema["properties"]
                )
                or "none",
            )
            for tool in TOOLS
        ),
    )


def settings() -> str:
    """One row per setting, groups spelled out."""
    return _table(("Key", "Variable", "Default", "What it is"), _settings(LightRagSettings))


def _settings(
    model: type[BaseModel], key: str = "", variable: str = ENV_PREFIX
) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        group = group_of(model, name)
        if group is not None:
            inner = f"{variable}{name.upper()}{ENV_DELIMITER}"
            yield from _settings(group, f"{key}{to_camel(name)}.", inner)
            continue
        bounds = next((item for item in field.metadata if isinstance(item, Bounds)), None)
        limits = f" ({bounds.low} to {bounds.high})" if bounds else ""
        yield (
            f"`{key}{to_camel(name)}`",
            f"`{variable}{name.upper()}`",
            f"`{_shown(field.default)}`",
            f"{field.description}{limits}",
        )


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default is None:
        return "none"
    text = default.get_secret_value() if isinstance(default, SecretStr) else str(default)
    return text or '""'


def errors() -> str:
    """One row per error code."""
    return _table(("Code", "What mends it"), ((f"`{code}`", HINTS[code]) for code in Code))


def middleware() -> str:
    """One row per field of the prompt middleware."""
    return _table(("Field", "Type", "Default", "Rule"), _middleware())


def _middleware() -> Iterator[tuple[str, ...]]:
    for name, field in KnowledgeConfig.model_fields.items():
        if field.is_required():
            default = "required"
        elif name == "on_error":  # the one default that hangs on another field
            default = "`warn`, or `fail` when `required`"
        else:
            default = f"`{_shown(field.default)}`"
        yield f"`{name}`", _kind(field), default, f"{field.description}{_limits(field.metadata)}"


def _kind(field: FieldInfo) -> str:
    if any(isinstance(item, DurationRange) for item in field.metadata):
        return "duration"
    if get_origin(field.annotation) is Literal:
        return "enum"
    names = {bool: "bool", int: "int"}
    return names.get(field.annotation, "string")


def _limits(metadata: list[object]) -> str:
    ends = [
        str(getattr(item, end))
        for end in ("low", "ge", "shortest", "high", "le", "longest")
        for item in metadata
        if hasattr(item, end)
    ]
    return f" ({' to '.join(ends)})" if ends else ""


TABLES: dict[str, Callable[[], str]] = {
    "tools": tools,
    "settings": settings,
    "errors": errors,
    "middleware": middleware,
}


def updated(readme: str) -> str:
    """Return the README with every marked table written anew."""
    for name, table in TABLES.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not marked.search(readme):
            raise SystemExit(f"README.md has no place for the table {name!r}")
        readme = marked.sub(lambda match: f"{match[1]}{table()}\n{match[2]}", readme)  # noqa: B023 - called at once
    return readme


def main() -> int:
    """Compare or write."""
    before = README.read_text(encoding="utf-8")
    after = updated(before)
    if "--write" in sys.argv[1:]:
        README.write_text(after, encoding="utf-8")
        return 0
    if after != before:
        print("README.md differs from the code: python docs/tables.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
