"""Durations as people write them: `500ms`, `30s`, `5m`, `2h`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class DurationRange:
    """The shortest and the longest duration; as an annotation of a text field it checks it."""

    shortest: str
    longest: str

    def checked(self, value: object) -> str:
        """Return the text, once it is known to be a duration of the range.

        Raises:
            ValueError: it is none, or lies outside.
        """
        mend = f"Write {self.shortest} to {self.longest}, as in 30s or 5m."
        milliseconds = _parsed(value)
        if milliseconds is None:
            raise ValueError(f"is no duration. {mend}")
        if not in_ms(self.shortest) <= milliseconds <= in_ms(self.longest):
            raise ValueError(f"is outside the range. {mend}")
        return str(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.checked, handler(source))


def in_ms(duration: str) -> int:
    """Return a duration in whole milliseconds.

    Raises:
        ValueError: the text is none.
    """
    milliseconds = _parsed(duration)
    if milliseconds is None:
        raise ValueError("is no duration.")
    return int(milliseconds)


def _parsed(value: object) -> Decimal | None:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return Decimal(match[1]) * _UNITS_MS[match[2]] if match else None
