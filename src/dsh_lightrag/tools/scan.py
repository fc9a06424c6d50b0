"""`dsh_lightrag_scan`: take in new files of the server's input folder, and retry failed ones."""

from __future__ import annotations

from pydantic import Field

from dsh_lightrag.dispatch import Access, Args, Deps, Result, Switch, Tool
from dsh_lightrag.text import TextForm


class ScanArgs(Args):
    """No arguments: the folder is the server's own."""


class ScanResult(Result):
    """What was started."""

    track_id: str | None = Field(description="Names this scan in dsh_lightrag_documents.")
    status: str = Field(description="What the server answered, normally scanning_started.")
    message: str = Field(description="What the server said.")


async def run(_args: ScanArgs, deps: Deps) -> ScanResult:
    """Start a scan; a busy pipeline refuses it as `busy`."""
    reply = await deps.client.scan()
    return ScanResult(track_id=reply.track_id, status=reply.status, message=reply.message)


def show(result: ScanResult) -> TextForm:
    """Say that it was started, not that it is done."""
    return TextForm(
        summary="A scan of the server's input folder was started; it runs in the background.",
        data=(f"track id: {result.track_id or 'none'}\nserver: {result.status}: {result.message}"),
        advice="Call dsh_lightrag_status until pipelineBusy is false, then dsh_lightrag_documents.",
    )


TOOL = Tool(
    name="dsh_lightrag_scan",
    title="Scan the input folder",
    summary=(
        "Make the server read its own input folder: take in new files, retry documents that "
        "failed and resume interrupted ones. Use it after others have placed files there, or "
        "once the cause of failures is mended; use dsh_lightrag_insert for a text that you "
        "hold, since this uploads nothing and takes no path. It writes, asynchronously: every "
        "document that is taken in or retried costs language-model calls, minutes or longer "
        "for many files. Refused (busy) while the server is processing. Returns at once "
        "status, message and trackId: started, not done. Wait with dsh_lightrag_status until "
        "pipelineBusy is false, then see dsh_lightrag_documents for what came of it."
    ),
    access=Access.WRITE,
    args=ScanArgs,
    result=ScanResult,
    run=run,
    show=show,
    switch=Switch.WRITES,
)
