"""Which workspaces there are, what each remembers, and which process holds one.

LightRAG has no list of workspaces: to it, a name that nobody used and an empty base are the same,
and a typing error would be answered from an empty base. So the list is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_lightrag.server.core.models import Vectors


@dataclass(frozen=True, slots=True)
class Entry:
    """What is remembered of a workspace.

    Attributes:
        vectors: which model its vectors are of.
        deleting: ids whose deletion was acknowledged and has not ended.
    """

    vectors: Vectors
    deleting: tuple[str, ...] = ()


class Registry(Protocol):
    """The list of workspaces, in files or in PostgreSQL."""

    async def start(self) -> None:
        """Get ready, and finish what a killed process left half dropped."""
        ...

    async def names(self) -> Sequence[str]:
        """Return every workspace's name, sorted."""
        ...

    async def find(self, name: str) -> Entry | None:
        """Return what is remembered of a workspace, or None when there is none."""
        ...

    async def add(self, name: str, entry: Entry) -> bool:
        """Add a workspace, durable when this returns; False when it was there."""
        ...

    async def note_deletions(self, name: str, ids: Sequence[str]) -> None:
        """Remember which ids are being deleted, in place of those remembered before."""
        ...

    async def hold(self, name: str) -> None:
        """Hold a workspace for this process, or make sure that it still does.

        Raises:
            WorkspaceLockedError: another process holds it.
        """
        ...

    async def release(self, name: str) -> None:
        """Let go of a workspace."""
        ...

    async def remove(self, name: str) -> bool:
        """Remove a workspace that is held, with all it contains; False when there was none.

        From its first moment the workspace is unknown, whatever happens then.
        """
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
