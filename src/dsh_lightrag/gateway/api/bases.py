"""Routes of knowledge bases: make, list, look at, rename, delete; what is in them and spent."""

from typing import Annotated

from fastapi import APIRouter, Query

from dsh_lightrag.gateway import bases, documents
from dsh_lightrag.gateway.api.access import Managed, NoFields, Parts, Viewed, permitted
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
one = APIRouter(prefix="/knowledge-bases/{base_id}", tags=["knowledge bases"])
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


@one.get("", operation_id="getKnowledgeBase")
async def get(at: Viewed, _query: NoFields) -> Base:
    """Look at one knowledge base."""
    return Base.of(at.base)


@one.patch("", operation_id="renameKnowledgeBase")
async def rename(at: Managed, _query: NoFields, body: Renaming) -> Base:
    """Rename a knowledge base."""
    async with at.desk.database.sessions.begin() as session:
        return Base.of(await bases.rename_base(session, at.caller.team_id, at.base.id, body.name))


@one.delete("", operation_id="deleteKnowledgeBase", status_code=204)
async def delete(at: Managed, _query: NoFields) -> None:
    """Delete a knowledge base: gone at once for everybody, its content soon after."""
    async with at.desk.database.sessions.begin() as session:
        await bases.delete_base(session, at.caller.team_id, at.base.id)


@one.get("/counts", operation_id="countDocuments")
async def counts(at: Viewed, _query: NoFields) -> BaseCounts:
    """Count the documents by their status."""
    async with at.desk.database.sessions() as session:
        return BaseCounts.of(await documents.counts(session, at.base.id))


@one.get("/usage", operation_id="getUsage")
async def usage(at: Viewed, _query: NoFields) -> BaseUsage:
    """Tell the tokens that indexing has spent, beside the budget."""
    async with at.desk.database.sessions() as session:
        return BaseUsage.of(await bases.usage(session, at.base))


@one.get("/failures", operation_id="listFailures")
async def failures(at: Viewed, query: Annotated[Paging, Query()]) -> Documents:
    """List the documents that could not be indexed, each with its reason."""
    async with at.desk.database.sessions() as session:
        found = await documents.list_documents(
            session, at.base.id, status="failed", after=query.after, limit=query.limit
        )
    return Documents.of(found, query.limit)
