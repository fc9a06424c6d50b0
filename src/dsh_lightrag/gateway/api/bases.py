"""Routes of knowledge bases: make, list, look at, rename, delete; what is in them and spent."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from dsh_lightrag.gateway import bases, documents
from dsh_lightrag.gateway.api.access import BaseId, NoFields, Parts, permitted, seen_base
from dsh_lightrag.gateway.api.shapes import (
    Base,
    BaseCounts,
    Bases,
    BaseUsage,
    Documents,
    NewBase,
    Paging,
    Renaming,
)
from dsh_lightrag.gateway.caller import Caller, Scope

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"])
Viewer = Annotated[Caller, permitted(Scope.DOCUMENTS)]
Manager = Annotated[Caller, permitted(Scope.MANAGE)]


@router.post("", operation_id="createKnowledgeBase", status_code=201)
async def create(desk: Parts, caller: Manager, _query: NoFields, body: NewBase) -> Base:
    """Make a knowledge base of the team, or of one of its agents."""
    async with desk.database.sessions.begin() as session:
        base = await bases.create_base(session, caller.team_id, **body.model_dump())
        return Base.of(base)


@router.get("", operation_id="listKnowledgeBases")
async def listing(desk: Parts, caller: Viewer, _query: NoFields) -> Bases:
    """List the knowledge bases that are there for the caller, oldest first."""
    async with desk.database.sessions() as session:
        found = await bases.list_bases(session, caller.team_id)
    return Bases(knowledge_bases=[Base.of(base) for base in found if caller.may_see(base)])


@router.get("/{baseId}", operation_id="getKnowledgeBase")
async def get(
    desk: Parts, request: Request, caller: Viewer, _query: NoFields, base_id: BaseId
) -> Base:
    """Look at one knowledge base."""
    return Base.of(await seen_base(desk, request, caller, base_id))


@router.patch("/{baseId}", operation_id="renameKnowledgeBase")
async def rename(  # noqa: PLR0913 - what a route is given
    desk: Parts,
    request: Request,
    caller: Manager,
    _query: NoFields,
    base_id: BaseId,
    body: Renaming,
) -> Base:
    """Rename a knowledge base."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions.begin() as session:
        return Base.of(await bases.rename_base(session, caller.team_id, base_id, body.name))


@router.delete("/{baseId}", operation_id="deleteKnowledgeBase", status_code=204)
async def delete(
    desk: Parts, request: Request, caller: Manager, _query: NoFields, base_id: BaseId
) -> None:
    """Delete a knowledge base: gone at once for everybody, its content soon after."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions.begin() as session:
        await bases.delete_base(session, caller.team_id, base_id)


@router.get("/{baseId}/counts", operation_id="countDocuments")
async def counts(
    desk: Parts, request: Request, caller: Viewer, _query: NoFields, base_id: BaseId
) -> BaseCounts:
    """Count the documents by their status."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions() as session:
        return BaseCounts.of(await documents.counts(session, base_id))


@router.get("/{baseId}/usage", operation_id="getUsage")
async def usage(
    desk: Parts, request: Request, caller: Viewer, _query: NoFields, base_id: BaseId
) -> BaseUsage:
    """Tell the tokens that indexing has spent, beside the budget."""
    base = await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions() as session:
        return BaseUsage.of(await bases.usage(session, base))


@router.get("/{baseId}/failures", operation_id="listFailures")
async def failures(
    desk: Parts,
    request: Request,
    caller: Viewer,
    query: Annotated[Paging, Query()],
    base_id: BaseId,
) -> Documents:
    """List the documents that could not be indexed, each with its reason."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions() as session:
        found = await documents.list_documents(
            session, base_id, status="failed", after=query.after, limit=query.limit
        )
    return Documents.of(found, query.limit)
