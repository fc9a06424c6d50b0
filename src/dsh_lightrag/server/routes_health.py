"""GET /health, and what LightRAG's clients ask about signing in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form
from fastapi.responses import RedirectResponse

from dsh_lightrag.server import health, web_ui
from dsh_lightrag.server.backend import PipelineState
from dsh_lightrag.server.services import (
    NEEDS_KEY,
    ServicesOf,
    WorkspaceOf,
    has_credentials,
    known_workspace,
)

router = APIRouter(tags=["default"])


@router.get("/")
async def root(services: ServicesOf) -> RedirectResponse:
    """Lead to the page for people where there is one."""
    return RedirectResponse(web_ui.PATH if services.settings.web_ui else "/health")


@router.get("/health")
async def get_health(
    services: ServicesOf,
    workspace: WorkspaceOf,
    trusted: Annotated[bool, Depends(has_credentials)],
) -> dict[str, Any]:
    """Say that the server lives; more to who has credentials."""
    if trusted:
        await known_workspace(services, workspace)
    scanning = services.scans.running(workspace)
    async with services.pool.lease_if_open(workspace) as backend:
        state = PipelineState() if backend is None else await backend.pipeline()
    state = services.filing.with_pending(workspace, state)
    page = bool(services.settings.web_ui)
    if trusted:
        return health.long(services.keeper, workspace, state, scanning=scanning, web_ui=page)
    return health.short(state, scanning=scanning, web_ui=page)


def _guest(services: ServicesOf) -> dict[str, Any]:
    """Return a guest's token: there are no accounts."""
    return {
        "access_token": services.credentials.guest_token(),
        "token_type": "bearer",
        "auth_mode": "disabled",
        "message": "Authentication is disabled. Using guest access.",
        "core_version": health.CORE_VERSION,
        "api_version": health.API_VERSION,
        **health.PAGES,
    }


@router.get("/auth-status")
async def auth_status(services: ServicesOf) -> dict[str, Any]:
    """Say that nobody has to sign in; the key of X-API-Key is another matter."""
    return {"auth_configured": False, **_guest(services)}


@router.post("/login")
async def login(
    services: ServicesOf,
    username: Annotated[str, Form()],
    password: Annotated[str, Form()],
) -> dict[str, Any]:
    """Let anybody in as a guest, whatever the name and password."""
    del username, password  # asked for as LightRAG does, and needed for nothing
    return _guest(services)


@router.get("/auth/verify", dependencies=[NEEDS_KEY])
async def verify() -> dict[str, str]:
    """Say that the credentials are right."""
    return {"status": "ok"}
