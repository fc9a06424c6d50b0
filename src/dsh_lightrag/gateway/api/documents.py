"""Routes of documents: put as a text, a file or an address; list, look at, delete."""

from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request, Response

from dsh_lightrag.errors import Code, LightRagError
from dsh_lightrag.gateway import documents
from dsh_lightrag.gateway.api.access import BaseId, NoFields, Parts, permitted, seen_base
from dsh_lightrag.gateway.api.shapes import (
    MAX_UPLOAD_BYTES,
    Document,
    Documents,
    Listing,
    PutDocument,
    TextDocument,
    UploadedDocument,
    UrlDocument,
    plain,
)
from dsh_lightrag.gateway.caller import Caller, Scope
from dsh_lightrag.gateway.desk import Desk
from dsh_lightrag.gateway.documents import FilePut, TextPut, UrlPut
from dsh_lightrag.gateway.fetch import checked_url
from dsh_lightrag.gateway.tables import MAX_EXTERNAL_ID, Source

router = APIRouter(prefix="/knowledge-bases/{baseId}/documents", tags=["documents"])
Viewer = Annotated[Caller, permitted(Scope.DOCUMENTS)]
Feeder = Annotated[Caller, permitted(Scope.INGEST)]
DocumentId = Annotated[
    str, Path(alias="externalId", max_length=MAX_EXTERNAL_ID, description="The caller's own id.")
]
ACCEPTED = 202


@router.put("/text", operation_id="putText", responses={ACCEPTED: {"model": PutDocument}})
async def put_text(  # noqa: PLR0913 - what a route is given
    desk: Parts,
    request: Request,
    response: Response,
    caller: Feeder,
    _query: NoFields,
    base_id: BaseId,
    body: TextDocument,
) -> PutDocument:
    """Put a text; it is indexed later, and 202 says that there is something to index."""
    await seen_base(desk, request, caller, base_id)
    name = body.name or body.external_id
    put = await _put(desk, base_id, body.external_id, "catalog", name, TextPut(body.text))
    return _told(put, response)


@router.put("/url", operation_id="putUrl", responses={ACCEPTED: {"model": PutDocument}})
async def put_url(  # noqa: PLR0913 - what a route is given
    desk: Parts,
    request: Request,
    response: Response,
    caller: Feeder,
    _query: NoFields,
    base_id: BaseId,
    body: UrlDocument,
) -> PutDocument:
    """Put an address; a worker fetches it from the public internet and indexes what it holds."""
    await seen_base(desk, request, caller, base_id)
    url = str(checked_url(body.url))
    name = body.name or body.external_id
    put = await _put(desk, base_id, body.external_id, "url", name, UrlPut(url))
    return _told(put, response)


@router.put("/upload", operation_id="uploadFile", responses={ACCEPTED: {"model": PutDocument}})
async def upload(  # noqa: PLR0913 - what a route is given
    desk: Parts,
    request: Request,
    response: Response,
    caller: Feeder,
    _query: NoFields,
    base_id: BaseId,
    form: Annotated[UploadedDocument, Form()],
) -> PutDocument:
    """Put a file as a form; a worker makes a text of it and indexes that."""
    await seen_base(desk, request, caller, base_id)
    name = _file_name(form.file.filename or "")
    data = await form.file.read(MAX_UPLOAD_BYTES + 1)
    if len(data) > MAX_UPLOAD_BYTES:
        raise LightRagError(Code.TOO_LARGE, f"The file has more than {MAX_UPLOAD_BYTES} bytes.")
    if not data:
        raise LightRagError(Code.INVALID_ARGUMENT, "The file is empty.")
    put = await _put(desk, base_id, form.external_id, "upload", name, FilePut(data))
    return _told(put, response)


@router.get("", operation_id="listDocuments")
async def listing(
    desk: Parts,
    request: Request,
    caller: Viewer,
    query: Annotated[Listing, Query()],
    base_id: BaseId,
) -> Documents:
    """List documents by their external ids."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions() as session:
        found = await documents.list_documents(
            session, base_id, status=query.status, after=query.after, limit=query.limit
        )
    return Documents.of(found, query.limit)


@router.get("/{externalId:path}", operation_id="getDocument")
async def get(  # noqa: PLR0913 - what a route is given
    desk: Parts,
    request: Request,
    caller: Viewer,
    _query: NoFields,
    base_id: BaseId,
    external_id: DocumentId,
) -> Document:
    """Look at one document and what became of it."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions() as session:
        return Document.of(await documents.get_document(session, base_id, _known(external_id)))


@router.delete("/{externalId:path}", operation_id="deleteDocument", status_code=204)
async def delete(  # noqa: PLR0913 - what a route is given
    desk: Parts,
    request: Request,
    caller: Feeder,
    _query: NoFields,
    base_id: BaseId,
    external_id: DocumentId,
) -> None:
    """Delete a document: in no answer from now on, its content removed soon after."""
    await seen_base(desk, request, caller, base_id)
    async with desk.database.sessions.begin() as session:
        await documents.delete_document(session, base_id, _known(external_id))


async def _put(  # noqa: PLR0913 - what a document has
    desk: Desk,
    base_id: BaseId,
    external_id: str,
    source: Source,
    name: str,
    content: TextPut | FilePut | UrlPut,
) -> PutDocument:
    async with desk.database.sessions.begin() as session:
        put = await documents.put_document(
            session, base_id, external_id, source=source, name=name, content=content
        )
        await session.refresh(put.document)
        return PutDocument.of(put)


def _told(put: PutDocument, response: Response) -> PutDocument:
    if put.queued:
        response.status_code = ACCEPTED
    return put


def _file_name(given: str) -> str:
    """Return the last segment of an uploaded file's name.

    Raises:
        LightRagError: `invalid-argument`.
    """
    name = given.replace("\\", "/").rpartition("/")[2]
    try:
        usable = bool(plain(name)) and len(name) <= MAX_EXTERNAL_ID
    except ValueError:
        usable = False
    if not usable:
        raise LightRagError(
            Code.INVALID_ARGUMENT, "The file has no usable name.", hint="Name it, with its ending."
        )
    return name


def _known(external_id: str) -> str:
    """Return an id that the database can look up.

    Raises:
        LightRagError: `not-found` for one that no document can have.
    """
    try:
        return plain(external_id)
    except ValueError:
        raise documents.no_such_document() from None
