"""Routes of documents: put as a text, a file or an address; list, look at, delete."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway import documents
from dsh_lightrag.gateway.api.access import Fed, NoFields, Place, Viewed
from dsh_lightrag.gateway.api.shapes import (
    Document,
    Documents,
    Listing,
    PutDocument,
    TextDocument,
    Upload,
    UrlDocument,
)
from dsh_lightrag.gateway.documents import FilePut, TextPut, UrlPut
from dsh_lightrag.gateway.fetch import checked_url
from dsh_lightrag.gateway.names import plain
from dsh_lightrag.gateway.tables import MAX_EXTERNAL_ID, Source

router = APIRouter(prefix="/knowledge-bases/{base_id}/documents", tags=["documents"])
DocumentId = Annotated[str, Path(max_length=MAX_EXTERNAL_ID, description="The caller's own id.")]
ACCEPTED = 202
FILE = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.put("/text", operation_id="putText", responses={ACCEPTED: {"model": PutDocument}})
async def put_text(
    at: Fed, response: Response, _query: NoFields, body: TextDocument
) -> PutDocument:
    """Put a text; it is indexed later, and 202 says that there is something to index."""
    name = body.name or body.external_id
    put = await _put(at, body.external_id, "catalog", name, TextPut(body.text))
    return _told(put, response)


@router.put("/url", operation_id="putUrl", responses={ACCEPTED: {"model": PutDocument}})
async def put_url(at: Fed, response: Response, _query: NoFields, body: UrlDocument) -> PutDocument:
    """Put an address; a worker fetches it from the public internet and indexes what it holds."""
    url = str(checked_url(body.url))
    name = body.name or body.external_id
    put = await _put(at, body.external_id, "url", name, UrlPut(url))
    return _told(put, response)


@router.put(
    "/upload",
    operation_id="uploadFile",
    responses={ACCEPTED: {"model": PutDocument}},
    openapi_extra={"requestBody": FILE},
)
async def upload(
    at: Fed, request: Request, response: Response, query: Annotated[Upload, Query()]
) -> PutDocument:
    """Put a file as the body; a worker makes a text of it, by its name, and indexes that."""
    data = await request.body()
    if not data:
        raise LightRagError(Code.INVALID_ARGUMENT, "The body, which is the file, is empty.")
    put = await _put(at, query.external_id, "upload", query.name, FilePut(data))
    return _told(put, response)


@router.get("", operation_id="listDocuments")
async def listing(at: Viewed, query: Annotated[Listing, Query()]) -> Documents:
    """List documents by their external ids."""
    async with at.desk.database.sessions() as session:
        found = await documents.list_documents(
            session, at.base.id, status=query.status, after=query.after, limit=query.limit
        )
    return Documents.of(found, query.limit)


@router.get("/{external_id:path}", operation_id="getDocument")
async def get(at: Viewed, _query: NoFields, external_id: DocumentId) -> Document:
    """Look at one document and what became of it."""
    async with at.desk.database.sessions() as session:
        return Document.of(await documents.get_document(session, at.base.id, _known(external_id)))


@router.delete("/{external_id:path}", operation_id="deleteDocument", status_code=204)
async def delete(at: Fed, _query: NoFields, external_id: DocumentId) -> None:
    """Delete a document: in no answer from now on, its content removed soon after."""
    async with at.desk.database.sessions.begin() as session:
        await documents.delete_document(session, at.base.id, _known(external_id))


async def _put(
    at: Place, external_id: str, source: Source, name: str, content: TextPut | FilePut | UrlPut
) -> PutDocument:
    async with at.desk.database.sessions.begin() as session:
        put = await documents.put_document(
            session, at.base.id, external_id, source=source, name=name, content=content
        )
        await session.refresh(put.document)
        return PutDocument.of(put)


def _told(put: PutDocument, response: Response) -> PutDocument:
    if put.queued:
        response.status_code = ACCEPTED
    return put


def _known(external_id: str) -> str:
    """Return an id that the database can look up.

    Raises:
        LightRagError: `not-found` for one that no document can have.
    """
    try:
        return plain(external_id)
    except ValueError:
        raise documents.no_such_document() from None
