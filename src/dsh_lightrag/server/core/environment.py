"""The process's environment, which is the only way to tell LightRAG some of its settings.

LightRAG reads PostgreSQL's address from `POSTGRES_*` variables when its first storage opens, and
loads `.env` from the working folder into the environment when it is imported. So our settings
stand in the environment while a keeper lives, `.env` is switched off, and a process has one
keeper at a time: LightRAG's globals know a workspace by its name alone, not by its folder.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.server.core.settings import database_variables, refuse_workspace_variables

if TYPE_CHECKING:
    from dsh_lightrag.server.core.settings import CoreSettings

# What was there before; None while no keeper lives.
_before: dict[str, str | None] | None = None


def enter(settings: CoreSettings) -> None:
    """Set the variables.

    Raises:
        ConfigurationError: a `*_WORKSPACE` variable is set, the database URL cannot be used, or
            the process has a keeper already.
    """
    global _before  # noqa: PLW0603 - the environment is the process's, and so is this
    refuse_workspace_variables(os.environ)
    variables = {"PYTHON_DOTENV_DISABLED": "1"}
    if settings.database_url:
        variables |= database_variables(settings.database_url)
        variables["POSTGRES_MAX_CONNECTIONS"] = str(settings.database_connections)
    if _before is not None:
        raise ConfigurationError(
            "backend", "lightrag is served by this process already.", "Close the first keeper."
        )
    _before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)


def leave() -> None:
    """Put the variables back."""
    global _before  # noqa: PLW0603 - as above
    for name, value in (_before or {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before = None
