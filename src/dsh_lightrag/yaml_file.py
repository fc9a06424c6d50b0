"""Reads YAML as plain values that know their lines; runs, expands and guesses nothing.

The values are built from the parser's events: an alias is the very object it points to, so a
file cannot grow in memory; a tag of any other language stays a value that nobody evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 64
# Nodes of one file, entries copied by merge keys included.
MAX_NODES = 20_000
MAX_SHOWN = 120

_YAML = "tag:yaml.org,2002:"
_MERGE = f"{_YAML}merge"
_PLAIN_COLLECTIONS = {None, "!", f"{_YAML}map", f"{_YAML}seq"}


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

    def part(self, key: object) -> tuple[object, int] | None:
        """Return the value of a key and its line, or None for a key that is not here."""
        return (self[key], self.lines[key]) if isinstance(key, str) and key in self else None

    def over(self, low: Block) -> Block:
        """Return a copy of `low` in which this block's keys win."""
        both = Block(low.line)
        for block in (low, self):
            for key, value in block.items():
                both.put(key, value, block.lines[key])
        return both


class Items(list[object]):
    """A list that knows the line of each item, counted from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []

    def part(self, index: object) -> tuple[object, int] | None:
        """Return an item and its line, or None for one that is not here."""
        if not isinstance(index, int) or index >= len(self):
            return None
        return self[index], self.lines[index]


def shown(text: object) -> str:
    """Return foreign text fit for a message: one clean line, not too long."""
    line = clean_line(str(text))
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"


@dataclass(frozen=True, slots=True)
class YamlFault:
    """What keeps a text from being plain YAML: the line, counted from 1, what, and the mend."""

    line: int
    problem: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds.

    Attributes:
        value: as far as it could be read; None when `readable` is false.
        faults: everything wrong with it as YAML, in the order of the text.
        readable: whether the text could be read to its end, faults or not.
    """

    value: object
    faults: tuple[YamlFault, ...]
    readable: bool

    def line(self, *place: str | int) -> int:
        """Return the line of a part, or of the nearest part around it that is there."""
        node, line = self.value, 1
        for step in place:
            found = node.part(step) if isinstance(node, Block | Items) else None
            if found is None:
                break
            node, line = found
        return line


class _UnreadableError(Exception):
    """A fault after which nothing more can be read."""


def read_yaml(data: bytes) -> Document:
    """Read the one document of a YAML 1.2 (or JSON) text; whatever it holds, this returns."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - most who import the package read no file
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

    if len(data) > MAX_FILE_BYTES:
        fault = YamlFault(1, f"is larger than {MAX_FILE_BYTES} bytes.", "Split the file.")
        return Document(None, (fault,), readable=False)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = YamlFault(line, "is not UTF-8.", "Save the file as UTF-8.")
        return Document(None, (fault,), readable=False)
    builder = _Builder()
    try:
        value = builder.document(YAML(typ="safe", pure=True).parse(text))
        return Document(value, tuple(builder.faults), readable=True)
    except _UnreadableError:
        pass  # it is among the faults
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = shown(getattr(error, "problem", None) or "holds characters YAML does not allow")
        line = builder.line if mark is None else mark.line + 1
        builder.fault(line, f"is malformed YAML: {problem}.")
    except (ValueError, ArithmeticError, LookupError, AssertionError, AttributeError, TypeError):
        # What ruamel's parser raises where it trusts its input too far, as in "\UFFFFFFFF".
        builder.fault(builder.line, "is malformed YAML.")
    return Document(None, tuple(builder.faults), readable=False)


class _Builder:
    """Builds values from the events of one text; recursion ends at MAX_DEPTH."""

    def __init__(self) -> None:
        from ruamel.yaml import events, nodes, resolver  # noqa: PLC0415 - as in read_yaml

        self._events = events
        self._scalar_node = nodes.ScalarNode
        # The one of YAML 1.2 alone: a %YAML 1.1 line must not turn `yes` into true.
        self._resolver = resolver.Resolver()
        self._anchors: dict[str, object] = {}
        self._nodes = 0
        self.faults: list[YamlFault] = []
        self.line = 1

    def fault(self, line: int, problem: str) -> None:
        self.faults.append(YamlFault(line, problem))

    def document(self, stream: Iterator[Any]) -> object:
        """Return the value of the only document; None of an empty text."""
        value: object = None
        documents = 0
        for event in stream:
            if isinstance(event, self._events.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self.fault(event.start_mark.line + 1, "holds a second document.")
                    break
                value = self._value(next(stream), stream, 0)
        return value

    def _value(self, event: Any, stream: Iterator[Any], depth: int) -> object:
        self._count(event, depth)
        if isinstance(event, self._events.AliasEvent):
            # An anchor is known once its value is complete, so no value can hold itself.
            if event.anchor not in self._anchors:
                self.fault(self.line, "has an alias to nothing that stands before it.")
            return self._anchors.get(event.anchor)
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
            self.fault(self.line, f"is nested deeper than {MAX_DEPTH} levels.")
            raise _UnreadableError
        if self._nodes > MAX_NODES:
            self.fault(self.line, f"holds more than {MAX_NODES} values.")
            raise _UnreadableError

    def _scalar(self, event: Any) -> object:
        tag = self._tag_of(event)
        if tag not in _SCALARS:
            return _opaque(tag, event.value)
        try:
            return _SCALARS[tag](event.value)
        except ValueError:  # `0x_`, and integers of more digits than Python will read
            self.fault(self.line, "holds a number that cannot be read.")
            return _opaque(tag, event.value)

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

    def _sequence(self, stream: Iterator[Any], depth: int) -> Items:
        items = Items()
        while not isinstance(event := next(stream), self._events.SequenceEndEvent):
            items.lines.append(event.start_mark.line + 1)
            items.append(self._value(event, stream, depth + 1))
        return items

    def _mapping(self, start: Any, stream: Iterator[Any], depth: int) -> Block:
        own, merged = Block(start.start_mark.line + 1), Block(0)
        while not isinstance(event := next(stream), self._events.MappingEndEvent):
            line = event.start_mark.line + 1
            key, merges = self._key(event, stream, depth)
            value = self._value(next(stream), stream, depth + 1)
            if merges:
                self._merge(value, event, merged)
            elif key in own:
                self.fault(line, f"holds the key {shown(key)!r} twice.")
            elif key is not None:
                own.put(key, value, line)
        for key, value in merged.items():
            if key not in own:
                own.put(key, value, merged.lines[key])
        return own

    def _key(self, event: Any, stream: Iterator[Any], depth: int) -> tuple[str | None, bool]:
        """Return a key as text, as JavaScript has them, and whether it is a merge key."""
        self._count(event, depth)
        if not isinstance(event, self._events.ScalarEvent) or self._tag_of(event) not in _SCALARS:
            self.fault(self.line, "has a key that is no plain text.")
            self._value(event, stream, depth + 1)
            return None, False
        if event.anchor is not None:
            self._anchors[event.anchor] = event.value
        return event.value, self._tag_of(event) == _MERGE

    def _merge(self, value: object, event: Any, merged: Block) -> None:
        """Take over the keys of one mapping or of a list of them, the first one winning."""
        for block in value if isinstance(value, list) else [value]:
            if not isinstance(block, Block):
                self.fault(event.start_mark.line + 1, "merges something that is no mapping.")
                continue
            self._count(event, 0, nodes=1 + len(block))
            for key, inner in block.items():
                if key not in merged:
                    merged.put(key, inner, block.lines[key])


def _opaque(tag: str, source: str) -> Opaque:
    return Opaque(shown(tag.replace(_YAML, "!!")), source)
