"""The application: a keeper's workspaces behind LightRAG's routes, with the guard around all."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from fastapi import FastAPI

from dsh_lightrag.guard import Guard
from dsh_lightrag.logs import fault_of, get_logger
from dsh_lightrag.server import (
    routes_documents,
    routes_files,
    routes_graph,
    routes_health,
    routes_query,
    routes_workspaces,
    web_ui,
)
from dsh_lightrag.server.background import Background
from dsh_lightrag.server.credentials import Credentials
from dsh_lightrag.server.failures import LastResort, answer_failures, word_refusal
from dsh_lightrag.server.filing import Filing
from dsh_lightrag.server.inputs import Inputs
from dsh_lightrag.server.pool import Pool
from dsh_lightrag.server.scanning import Scans
from dsh_lightrag.server.services import Services
from dsh_lightrag.server.settings import DEFAULT_WORKSPACE
from dsh_lightrag.server.typed import Typed
from dsh_lightrag.server.workspaces import inputs_folder
from dsh_lightrag.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dsh_lightrag.server.backend import Keeper
    from dsh_lightrag.server.settings import ServerSettings

# How long the end of a server waits for files that are being filed; they are taken up again.
_END_S = 5.0
_SWEEPS_PER_IDLE = 4


def build_app(keeper: Keeper, settings: ServerSettings) -> Guard:
    """Return the ASGI application; its lifespan makes `default`, and closes the keeper.

    Raises:
        ConfigurationError: settings that cannot work.
    """
    services = _services(keeper, settings)
    app = FastAPI(
        title="dsh-lightrag",
        version=__version__,
        docs_url=None,  # the pages would load scripts from another site
        redoc_url=None,
        lifespan=lambda _: _lifespan(services),
    )
    app.state.services = services
    app.add_middleware(LastResort)
    answer_failures(app)
    for routes in (
        routes_health,
        routes_query,
        routes_files,
        routes_documents,
        routes_graph,
        routes_workspaces,
    ):
        app.include_router(routes.router)
    if settings.web_ui:
        app.router.routes.extend(web_ui.routes_of(settings.web_ui))
    return Guard(Typed(app), settings.entry, word_refusal)


def inputs_of(keeper: Keeper, settings: ServerSettings) -> Inputs:
    """Return the input folders of a keeper's workspaces."""
    folder = inputs_folder(settings.data)
    return Inputs(folder, keeper.exists, max_file=settings.max_upload)


async def make_ready(keeper: Keeper, inputs: Inputs) -> None:
    """Finish removals that were cut short, and only then make `default`, which may be one of them.

    Raises:
        BackendError: it cannot be made.
    """
    await inputs.settle_all()
    await keeper.create(DEFAULT_WORKSPACE)


def _services(keeper: Keeper, settings: ServerSettings) -> Services:
    pool = Pool(keeper, most_open=settings.most_open, idle_s=settings.idle_s)
    inputs = inputs_of(keeper, settings)
    filing = Filing(pool, inputs, max_file=settings.max_upload)
    return Services(
        settings=settings,
        keeper=keeper,
        pool=pool,
        credentials=Credentials(settings.api_key),
        inputs=inputs,
        filing=filing,
        scans=Scans(pool, inputs, filing),
        background=Background(),
    )


@contextlib.asynccontextmanager
async def _lifespan(services: Services) -> AsyncIterator[None]:
    """Take up what a last process left, serve, and let go in the order of use."""
    async with contextlib.AsyncExitStack() as ending:
        ending.push_async_callback(services.keeper.close)
        ending.push_async_callback(services.pool.close)
        ending.push_async_callback(services.background.close, wait_s=_END_S)
        await make_ready(services.keeper, services.inputs)
        for workspace in await services.keeper.names():
            await services.inputs.sweep(workspace)
            for waiting in await services.inputs.waiting(workspace):
                services.background.start(services.filing.file_upload(waiting))
        sweeping = asyncio.create_task(_sweep(services))
        ending.push_async_callback(_ended, sweeping)
        yield


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task that runs for ever, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _sweep(services: Services) -> None:
    """Close unused workspaces now and then."""
    while True:
        await asyncio.sleep(services.settings.idle_s / _SWEEPS_PER_IDLE)
        try:
            await services.pool.sweep()
        except Exception as error:  # noqa: BLE001 - the next sweep may find it mended
            get_logger().warning("sweep_failed", **fault_of(error))
