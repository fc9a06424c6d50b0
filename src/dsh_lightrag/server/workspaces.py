"""Which names a workspace may have."""

from __future__ import annotations

import re

from dsh_lightrag.server.backend import BackendError

# Safe as a folder, as a part of a table's name and in every storage of LightRAG.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_RESERVED = frozenset(("base", "text", "entity", "relation", "full"))


class WorkspaceNameError(BackendError):
    """A text that can be no workspace's name; it is not repeated."""


def checked_name(text: str) -> str:
    """Return the name.

    Raises:
        WorkspaceNameError: it is none.
    """
    if not _NAME.fullmatch(text) or text in _RESERVED:
        raise WorkspaceNameError(
            "This can be no workspace's name.",
            "Use 1 to 41 lowercase letters, digits and underscores, beginning with a letter; not "
            f"{', '.join(sorted(_RESERVED))}.",
        )
    return text
