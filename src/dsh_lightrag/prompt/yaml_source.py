"""A YAML 1.2 file as plain values, with the line of each; tags are never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruamel.yaml import YAML

Place = tuple[str | int, ...]

MAX_BYTES = 1024 * 1024


class YamlError(ValueError):
    """A text that is no YAML of plain values.

    Attributes:
        line: where, counted from 1.
        problem: what is wrong there.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


class YamlSource:
    """One YAML document: its value, and where each part of it stands.

    Raises:
        YamlError: syntax, duplicate keys, tags that are not plain values, several documents.
    """

    def __init__(self, data: bytes) -> None:
        # Here and below: ruamel.yaml is loaded only by who reads a file.
        from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415 - as above

        if len(data) > MAX_BYTES:
            raise YamlError(1, f"The file is larger than {MAX_BYTES} bytes.")
        try:
            text = data.decode("utf-8-sig")
            self.value: Any = _reader().load(text)
            self._root: Any = _reader().compose(text)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise YamlError(line, "The file is not UTF-8.") from None
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark is not None else 1
            problem = " ".join((error.problem or "This is not YAML").split())
            raise YamlError(line, f"{problem}.") from None
        except (YAMLError, ValueError, RecursionError) as error:  # an impossible date, a deep nest
            raise YamlError(1, f"The file cannot be read ({type(error).__name__}).") from None

    def line(self, place: Place) -> int:
        """Return the line of a part, or of the nearest part around it that is there."""
        node, line = self._root, 1
        for step in place:
            found = _step(node, step)
            if found is None:
                break
            node, line = found
        return line


def _reader() -> YAML:
    from ruamel.yaml import YAML  # noqa: PLC0415 - as above

    return YAML(typ="safe", pure=True)


def _step(node: Any, step: str | int) -> tuple[Any, int] | None:
    """Return the node below, and the line of its key or item."""
    if node is None or not isinstance(node.value, list):
        return None
    if isinstance(step, int):
        if step < len(node.value) and not isinstance(node.value[step], tuple):
            return node.value[step], node.value[step].start_mark.line + 1
        return None
    for pair in node.value:
        if isinstance(pair, tuple) and pair[0].value == step:
            return pair[1], pair[0].start_mark.line + 1
    return None
