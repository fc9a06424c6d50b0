"""`dsh_lightrag_status`: is the server up, is the key right, is anything ingested?"""

from __future__ import annotations

from pydantic import Field

from dsh_lightrag.dispatch import Access, Args, Deps, Result, Tool, with_sibling
from dsh_lightrag.errors import LightRagError
from dsh_lightrag.text import TextForm
from dsh_lightrag.wire import total_of


class StatusArgs(Args):
    """No arguments."""


class CountsError(Result):
    """Why the counts could not be read."""

    code: str = Field(description="The error code, as of a failed call.")
    message: str = Field(description="What happened.")


class StatusResult(Result):
    """The server's health and how many documents stand in which state."""

    status: str = Field(description="What the server says of itself, normally healthy.")
    core_version: str | None = Field(description="The version of LightRAG.")
    api_version: str | None = Field(description="The version of its HTTP API.")
    auth_mode: str | None = Field(description="Whether user accounts are on: enabled, disabled.")
    pipeline_busy: bool = Field(description="Whether documents are being processed or deleted.")
    status_counts: dict[str, int] = Field(
        description="Documents per state, all = their sum; empty when countsError is there."
    )
    counts_error: CountsError | None = Field(
        None, description="Only when the counts could not be read: a wrong key, a server error."
    )


async def run(_args: StatusArgs, deps: Deps) -> StatusResult:
    """Ask for health, which is public, and for the counts, which prove the key."""
    health, counts = await with_sibling(deps.client.health(), deps.client.status_counts())
    result = StatusResult(
        status=health.status,
        core_version=health.core_version,
        api_version=health.api_version,
        auth_mode=health.auth_mode,
        pipeline_busy=health.busy,
        status_counts={} if isinstance(counts, LightRagError) else counts.status_counts,
    )
    if isinstance(counts, LightRagError):
        error = CountsError(code=counts.code.value, message=counts.message)
        return result.model_copy(update={"counts_error": error})
    return result


def show(result: StatusResult) -> TextForm:
    """Say the state in words, then list the counts."""
    facts = [
        f"status: {result.status}",
        f"LightRAG: {result.core_version or 'unknown'} (API {result.api_version or 'unknown'})",
        f"accounts: {result.auth_mode or 'unknown'}",
        f"pipeline busy: {'yes' if result.pipeline_busy else 'no'}",
        *(f"{state}: {count}" for state, count in result.status_counts.items()),
    ]
    if result.counts_error is not None:
        facts.append(f"counts error: {result.counts_error.code}: {result.counts_error.message}")
    summary, advice = _verdict(result)
    return TextForm(summary=summary, data="\n".join(facts), advice=advice)


def _verdict(result: StatusResult) -> tuple[str, str]:
    if result.counts_error is not None:
        return (
            (
                "The server is up, but the document counts could not be read "
                f"({result.counts_error.code})."
            ),
            "Queries will fail alike. Ask the operator to check the API key and the server's log.",
        )
    total = total_of(result.status_counts)
    if total == 0:
        return (
            "The server is up and lets this deployment in, but nothing is ingested.",
            "Queries have nothing to find until documents are inserted or scanned.",
        )
    failed = result.status_counts.get("failed", 0)
    return (
        f"The server is up and lets this deployment in; {total} document(s) in the base.",
        f"{failed} document(s) failed: dsh_lightrag_documents with status failed says why."
        if failed
        else "",
    )


TOOL = Tool(
    name="dsh_lightrag_status",
    title="Check the knowledge base",
    summary=(
        "Check whether the knowledge base can be used: is the server up, is this deployment's "
        "key accepted, is anything ingested, is the server processing now. Use it first when "
        "answers come back empty or calls fail, and to wait until pipelineBusy is false after "
        "an insert, a scan or a delete. Use dsh_lightrag_documents for single documents and "
        "why they failed; questions go to dsh_lightrag_query. Read-only and quick: two "
        "requests side by side, no language-model call. Returns status, coreVersion, "
        "apiVersion, authMode, pipelineBusy and statusCounts (documents per state); "
        "countsError (code, message) stands for the counts when only they could not be read, "
        "as with a wrong key."
    ),
    access=Access.READ,
    args=StatusArgs,
    result=StatusResult,
    run=run,
    show=show,
)
