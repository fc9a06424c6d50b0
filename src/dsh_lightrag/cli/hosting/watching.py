"""A folder's changes, once they are quiet; also those of one that was removed and made anew."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from dsh_lightrag.errors import ConfigurationError, needs_extra

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

# Editors write a file in several steps: what has changed is told when nothing more has for so long,
QUIET_MS = 400
# or, for a file that is written without end, after this long.
LONGEST_MS = 10_000
WAKE_MS = 500


async def changes_in(folder: Path) -> AsyncGenerator[None]:
    """Yield when watching has begun, and whenever something has changed; never ends.

    Raises:
        ConfigurationError: the folder cannot be watched.
    """
    while True:
        there = _identity(folder)
        if there is not None:
            async with aclosing(_watched(folder, there)) as changes:
                async for _ in changes:
                    yield
        await asyncio.sleep(WAKE_MS / 1000)


async def _watched(folder: Path, there: tuple[int, int]) -> AsyncGenerator[None]:
    """Yield as `changes_in` does, until another folder, or none, has the name."""
    with needs_extra("server", "`up`"):
        from watchfiles import awatch  # noqa: PLC0415 - loaded by those who watch

    watch = awatch(
        folder,
        debounce=LONGEST_MS,
        step=QUIET_MS,
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    async with aclosing(watch):
        try:
            await anext(watch)
        except FileNotFoundError:  # gone since it was looked at
            return
        except (OSError, RuntimeError) as refused:  # the latter is its own, for any other fault
            raise ConfigurationError(
                "DIR", f"cannot be watched: {refused}.", "Leave out links to large folders."
            ) from refused
        yield
        async for changed in watch:
            if changed:
                yield
            if _identity(folder) != there:
                return


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return which folder has the name now."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
