"""A folder's changes, once they are quiet; also those of one that was removed and made anew."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from dsh_lightrag.errors import ConfigurationError, needs_extra

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from watchfiles import Change

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
        try:
            # Held open, so that no folder made in its place can be taken for it.
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            await asyncio.sleep(WAKE_MS / 1000)
            continue
        try:
            async with aclosing(_watched(folder, descriptor)) as changes:
                async for _ in changes:
                    yield
        finally:
            os.close(descriptor)


async def _watched(folder: Path, descriptor: int) -> AsyncGenerator[None]:
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
        changed = True  # the first answer says that watching has begun
        while True:
            found = await _next(watch)
            if changed or found:
                yield
            if found is None or not _has_the_name(folder, descriptor):
                return
            changed = False


async def _next(watch: AsyncGenerator[set[tuple[Change, str]]]) -> set[tuple[Change, str]] | None:
    """Return what has changed by now; None when the folder is gone."""
    try:
        return await anext(watch)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as refused:  # the latter is its own, for any other fault
        raise ConfigurationError(
            "DIR", f"cannot be watched: {refused}.", "Leave out links to large folders."
        ) from refused


def _has_the_name(folder: Path, descriptor: int) -> bool:
    """Tell whether the folder that was opened is still the one of that name."""
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except OSError:
        return False
