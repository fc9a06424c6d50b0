"""What the routes work with, and what each request is given of it.

A request names its workspace in a header, `default` without one. Credentials are checked first;
reading never makes a workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Header, Request

from dsh_lightrag.server.backend import Backend, WorkspaceUnknownError
from dsh_lightrag.server.refusal import RefusalError
from dsh_lightrag.server.settings import DEFAULT_WORKSPACE
from dsh_lightrag.server.workspaces import checked_name
from dsh_lightrag.wire import API_KEY_HEADER, WORKSPACE_HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dsh_lightrag.server.backend import Keeper
    from dsh_lightrag.server.background import Background
    from dsh_lightrag.server.credentials import Credentials
    from dsh_lightrag.server.filing import Filing
    from dsh_lightrag.server.inputs import Inputs
    from dsh_lightrag.server.pool import Pool
    from dsh_lightrag.server.scanning import Scans
    from dsh_lightrag.server.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class Services:
    """One server's parts."""

    settings: ServerSettings
    keeper: Keeper
    pool: Pool
    credentials: Credentials
    inputs: Inputs
    filing: Filing
    scans: Scans
    background: Background


def services_of(request: Request) -> Services:
    """Return the parts of the server that got a request."""
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(services_of)]


def check_credentials(
    services: ServicesOf,
    x_api_key: Annotated[str, Header(alias=API_KEY_HEADER)] = "",
    authorization: Annotated[str, Header()] = "",
) -> None:
    """Let in who has the key; raises `RefusalError`."""
    services.credentials.check(key=x_api_key, authorization=authorization)


def has_credentials(
    services: ServicesOf,
    x_api_key: Annotated[str, Header(alias=API_KEY_HEADER)] = "",
    authorization: Annotated[str, Header()] = "",
) -> bool:
    """Tell whether a request may see more than that the server lives."""
    try:
        services.credentials.check(key=x_api_key, authorization=authorization)
    except RefusalError:
        return False
    return True


def named_workspace(
    workspace: Annotated[str, Header(alias=WORKSPACE_HEADER)] = DEFAULT_WORKSPACE,
) -> str:
    """Return the workspace that a request names; raises `WorkspaceNameError`."""
    return checked_name(workspace or DEFAULT_WORKSPACE)


WorkspaceOf = Annotated[str, Depends(named_workspace)]


async def known_workspace(services: ServicesOf, workspace: WorkspaceOf) -> str:
    """Return a workspace that exists, without opening it; raises `WorkspaceUnknownError`."""
    if not await services.keeper.exists(workspace):
        raise WorkspaceUnknownError(
            f"There is no workspace '{workspace}'.", "Create it, or check its name."
        )
    return workspace


KnownWorkspace = Annotated[str, Depends(known_workspace)]


async def leased(services: ServicesOf, workspace: WorkspaceOf) -> AsyncIterator[Backend]:
    """Hold the named workspace open until the reply, a stream too, has gone out."""
    async with services.pool.lease(workspace) as backend:
        yield backend


NEEDS_KEY = Depends(check_credentials)
Leased = Annotated[Backend, Depends(leased)]
