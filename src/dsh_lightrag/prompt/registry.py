"""Middleware types by name: our own, and those of other packages, found by entry point.

A package adds a type with an entry point in the group `dsh.middlewares`: its name is the type, its
value a factory `(row, allowed_key_variables) -> Middleware` that raises ConfigurationError. It is
imported only when a file lists the package under `plugins` and uses the type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Protocol

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.prompt import middleware
from dsh_lightrag.text import nearest

if TYPE_CHECKING:
    from dsh_lightrag.prompt.document import PromptDocument

GROUP = "dsh.middlewares"


class Middleware(Protocol):
    """What a factory makes: something that adds blocks to a document."""

    @property
    def destinations(self) -> tuple[str, ...]:
        """Every address that it will ask, and whose key it takes there, in words for people."""

    async def aenhance(self, document: PromptDocument) -> PromptDocument:
        """Return the document with blocks added, or as it was."""


Factory = Callable[[object, Collection[str]], Middleware]

OWN: dict[str, Factory] = {"lightrag": middleware.from_row}


def factory_of(kind: str, plugins: Iterable[str]) -> Factory:
    """Return the factory of a middleware type, of ours first, then of the listed packages.

    Raises:
        ConfigurationError: no such type, or its package cannot be imported.
    """
    own = OWN.get(kind)
    if own is not None:
        return own
    listed = {_normal(plugin) for plugin in plugins}
    offered = {entry.name: entry for entry in _installed() if _package_of(entry) in listed}
    if kind not in offered:
        raise _unknown(kind, [*OWN, *offered])
    try:
        factory: Factory = offered[kind].load()
    except Exception as error:  # whatever another's module raises while it is imported
        raise ConfigurationError(
            "type",
            f"is provided by {_package_of(offered[kind])}, which cannot be imported "
            f"({type(error).__name__}).",
            "Install it anew.",
        ) from error
    return factory


def _unknown(kind: str, known: list[str]) -> ConfigurationError:
    package = next((_package_of(entry) for entry in _installed() if entry.name == kind), None)
    if package is not None:
        mend = f"List {package} under plugins."
    elif near := nearest(kind, known):
        mend = f"Did you mean {near}?"
    else:
        mend = f"Known: {', '.join(known)}; other packages add theirs and are listed in plugins."
    return ConfigurationError("type", "is no middleware type.", mend)


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _package_of(entry: EntryPoint) -> str:
    return _normal(entry.dist.name) if entry.dist else ""


def _normal(name: str) -> str:
    """Return a package name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
