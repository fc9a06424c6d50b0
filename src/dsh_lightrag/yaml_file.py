"""Reads a YAML file as plain values that know their lines; runs, expands and guesses nothing.

The values are built from the parser's events: an alias is the very object it points to, so a
file cannot grow in memory; a tag of any other language stays a value that nobody evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 64
# Nodes of one file, entries copied by merge keys included.
MAX_NODES = 20_000
MAX_SHOWN = 120

_YAML = "tag:yaml.org,2002:"
_MERGE = f"{_YAML}merge"
_PLAIN_COLLECTIONS = {None, "!", f"{_YAML}map", f"{_YAML}seq"}
_YAML_MEND = "Correct the file; `dsh --dump-config` shows how the harness reads it."


def _integer(text: str) -> int:
    """Read 12, 0x0c, 0o14 and 0b1100; a leading zero alone means nothing in YAML 1.2."""
    digits = text.replace("_", "")
    return int(digits, 0 if digits.lstrip("+-")[1:2].isalpha() else 10)


def _real(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


def _nothing(_text: str) -> None:
    return None


_SCALARS: dict[str, Callable[[str], object]] = {
    f"{_YAML}null": _nothing,
    f"{_YAML}bool": lambda text: text.lower() == "true",
    f"{_YAML}int": _integer,
    f"{_YAML}float": _real,
    f"{_YAML}str": str,
    _MERGE: str,
}


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that only its own language can read: a `!!js` expression, a date, any other tag.

    Attributes:
        tag: short, as in the file (`!!js`).
        source: what stands there; never run, and never shown, since it may hold a secret.
    """

    tag: str
    source: str = field(repr=False)


class Block(dict[str, object]):
    """A mapping that knows the line it starts on and the line of each key, counted from 1."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}

    def put(self, key: str, value: object, line: int) -> None:
        """Set a key that stands on `line`."""
        self[key] = value
        self.lines[key] = line

    def over(self, low: Block) -> Block:
        """Return a copy of `low` in which this block's keys win."""
        both = Block(low.line)
        for block in (low, self):
            for key, value in block.items():
                both.put(key, value, block.lines[key])
        return both


def shown(text: object) -> str:
    """Return foreign text fit for a message: one clean line, not too long."""
    line = clean_line(str(text))
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"


def read_yaml(path: Path) -> object:
    """Read the one document of a YAML 1.2 (or JSON) file.

    Raises:
        ConfigurationError: naming the file, and the line where there is one: unreadable, over
            256 KiB, not UTF-8, malformed, too deep, too many nodes.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - most who import the package read no file
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

    text = _text_of(path)
    builder = _Builder(str(path))
    try:
        return builder.document(YAML(typ="safe", pure=True).parse(text))
    except ConfigurationError:  # our own, which is a ValueError and must pass the last clause
        raise
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = shown(getattr(error, "problem", None) or "holds characters YAML does not allow")
        line = builder.line if mark is None else mark.line + 1
        raise builder.refusal(line, f"is malformed YAML: {problem}.") from None
    except (ValueError, ArithmeticError, LookupError, AssertionError, AttributeError, TypeError):
        # What ruamel's parser raises where it trusts its input too far, as in "\UFFFFFFFF".
        raise builder.refusal(builder.line, "is malformed YAML.") from None


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or "no such path"
        raise ConfigurationError(
            clean_line(str(path)), f"cannot be read: {reason}.", "Name a readable YAML file."
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(
            clean_line(str(path)), f"is larger than {MAX_FILE_BYTES} bytes.", "Split the file."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{clean_line(str(path))}:{line}", "is not UTF-8.", "Save the file as UTF-8."
        ) from None


class _Builder:
    """Builds values from the events of one file; recursion ends at MAX_DEPTH."""

    def __init__(self, file: str) -> None:
        from ruamel.yaml import events, nodes, resolver  # noqa: PLC0415 - as in read_yaml

        self._events = events
        self._scalar_node = nodes.ScalarNode
        # The one of YAML 1.2 alone: a %YAML 1.1 line must not turn `yes` into true.
        self._resolver = resolver.Resolver()
        self._file = clean_line(file)
        self._anchors: dict[str, object] = {}
        self._nodes = 0
        self.line = 1

    def refusal(self, line: int, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._file}:{line}", problem, _YAML_MEND)

    def document(self, stream: Iterator[Any]) -> object:
        """Return the value of the only document; None of an empty file."""
        value: object = None
        documents = 0
        for event in stream:
            if isinstance(event, self._events.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.refusal(event.start_mark.line + 1, "holds a second document.")
                value = self._value(next(stream), stream, 0)
        return value

    def _value(self, event: Any, stream: Iterator[Any], depth: int) -> object:
        self._count(event, depth)
        if isinstance(event, self._events.AliasEvent):
            # An anchor is known once its value is complete, so no value can hold itself.
            if event.anchor not in self._anchors:
                raise self.refusal(self.line, "has an alias to nothing that stands before it.")
            return self._anchors[event.anchor]
        if isinstance(event, self._events.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, self._events.SequenceStartEvent):
            value = self._sequence(stream, depth)
        else:
            value = self._mapping(event, stream, depth)
        if not isinstance(event, self._events.ScalarEvent) and event.tag not in _PLAIN_COLLECTIONS:
            value = _opaque(event.tag, "")
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _count(self, event: Any, depth: int, nodes: int = 1) -> None:
        self.line = event.start_mark.line + 1
        self._nodes += nodes
        if depth > MAX_DEPTH:
            raise self.refusal(self.line, f"is nested deeper than {MAX_DEPTH} levels.")
        if self._nodes > MAX_NODES:
            raise self.refusal(self.line, f"holds more than {MAX_NODES} values.")

    def _scalar(self, event: Any) -> object:
        tag = self._tag_of(event)
        if tag not in _SCALARS:
            return _opaque(tag, event.value)
        try:
            return _SCALARS[tag](event.value)
        except ValueError:  # `0x_`, and integers of more digits than Python will read
            raise self.refusal(self.line, "holds a number that cannot be read.") from None

    def _tag_of(self, event: Any) -> str:
        """Return a scalar's tag; a written one counts only where the text is of that kind."""
        written: str | None = event.tag
        if written in ("!", f"{_YAML}str"):
            return f"{_YAML}str"
        implicit = (written is not None or event.implicit[0], False)
        resolved = str(self._resolver.resolve(self._scalar_node, event.value, implicit))
        if written in (None, resolved):
            return resolved
        return f"{written}" if written not in _SCALARS else f"{written} (mismatched)"

    def _sequence(self, stream: Iterator[Any], depth: int) -> list[object]:
        values: list[object] = []
        while not isinstance(event := next(stream), self._events.SequenceEndEvent):
            values.append(self._value(event, stream, depth + 1))
        return values

    def _mapping(self, start: Any, stream: Iterator[Any], depth: int) -> Block:
        own, merged = Block(start.start_mark.line + 1), Block(0)
        while not isinstance(event := next(stream), self._events.MappingEndEvent):
            self._count(event, depth)
            line = self.line
            key, merges = self._key(event)
            if key in own:
                raise self.refusal(line, f"holds the key {shown(key)!r} twice.")
            value = self._value(next(stream), stream, depth + 1)
            if merges:
                self._merge(value, event, merged)
            else:
                own.put(key, value, line)
        for key, value in merged.items():
            if key not in own:
                own.put(key, value, merged.lines[key])
        return own

    def _key(self, event: Any) -> tuple[str, bool]:
        """Return a key as text, as JavaScript has them, and whether it is a merge key."""
        if not isinstance(event, self._events.ScalarEvent) or self._tag_of(event) not in _SCALARS:
            raise self.refusal(self.line, "has a key that is no plain text.")
        if event.anchor is not None:
            self._anchors[event.anchor] = event.value
        return event.value, self._tag_of(event) == _MERGE

    def _merge(self, value: object, event: Any, merged: Block) -> None:
        """Take over the keys of one mapping or of a list of them, the first one winning."""
        for block in value if isinstance(value, list) else [value]:
            if not isinstance(block, Block):
                raise self.refusal(self.line, "merges something that is no mapping.")
            self._count(event, 0, nodes=1 + len(block))
            for key, inner in block.items():
                if key not in merged:
                    merged.put(key, inner, block.lines[key])


def _opaque(tag: str, source: str) -> Opaque:
    return Opaque(shown(tag.replace(_YAML, "!!")), source)
