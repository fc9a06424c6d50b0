"""Which LightRAG versions were tested and which are declared to work: compatibility.json."""

from __future__ import annotations

import operator
import re
from importlib import resources
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = "compatibility.json"
_CLAUSE = re.compile(r"(>=|<=|==|<|>)\s*(\S+)")
_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


class Versions(BaseModel):
    """Versions that are declared to work (`>=1.4.9 <1.6`), and those that were tested."""

    declared: str
    tested: list[str]

    def admits(self, version: str) -> bool:
        """Say whether a version is among the declared ones."""
        return all(
            _OPERATORS[sign](_numbers(version), _numbers(bound))
            for sign, bound in _CLAUSE.findall(self.declared)
        )


class LightRagVersions(BaseModel):
    """LightRAG's core and its HTTP API, which are counted apart."""

    core: Versions
    api: Versions


class Compatibility(BaseModel):
    """What of compatibility.json the command line reads."""

    lightrag: LightRagVersions


def read_compatibility() -> Compatibility:
    """Read the file from the installed package, or from the root of the repository."""
    packaged = resources.files("dsh_lightrag") / FILE
    at_the_root = Path(__file__).parents[3] / FILE  # an editable install, or a checkout
    file = packaged if packaged.is_file() else at_the_root
    return Compatibility.model_validate_json(file.read_bytes())


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release as numbers, so that 1.10 follows 1.9 and 1.6.0 is 1.6."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    return tuple(reversed(list(dropwhile(lambda number: number == 0, reversed(numbers)))))
