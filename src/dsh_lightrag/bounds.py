"""Whole numbers that are clamped to a range instead of refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_INTEGRAL = re.compile(r"\s*([+-]?)0*([0-9]+)\s*")
# Python refuses to read integers of thousands of digits; anything longer is out of every range.
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Bounds:
    """A default and a range; as an annotation of a pydantic field it clamps the field.

    Fractions are floored and integral text counts as a number; NaN, infinities, booleans and
    whatever else is no number take the default.
    """

    default: int
    low: int
    high: int

    def clamp(self, value: object) -> int:
        """Return the whole number in the range that is meant by `value`."""
        if isinstance(value, str):
            value = _integral(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.default
        if isinstance(value, float) and not math.isfinite(value):
            return self.default
        return max(self.low, min(math.floor(value), self.high))

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.clamp, handler(source))


def no_boolean(value: object) -> object:
    """Refuse true and false where a number belongs; as a pydantic validator, before its own.

    Raises:
        ValueError: for a boolean, which Python counts as a number.
    """
    if isinstance(value, bool):
        raise ValueError("must be a whole number")  # noqa: TRY004 - pydantic reads it as a fault
    return value


Whole = Annotated[int, BeforeValidator(no_boolean)]


def _integral(text: str) -> int | None:
    match = _INTEGRAL.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    value = int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS
    return -value if sign == "-" else value
