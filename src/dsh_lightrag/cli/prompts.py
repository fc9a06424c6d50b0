"""`pipeline check`, `pipeline show` and `augment`: prompts with context, ready for a driver.

A prompt goes to stdout byte for byte, since a driver reads it there; all else goes to stderr.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsh_lightrag.cli.files import STDIN, read_bytes
from dsh_lightrag.cli.options import Load  # noqa: TC001 - Typer reads annotations when it runs
from dsh_lightrag.cli.terminal import complain, write_exactly, write_json, write_line
from dsh_lightrag.errors import LightRagError
from dsh_lightrag.loop_thread import run
from dsh_lightrag.prompt import trust
from dsh_lightrag.prompt.config import KnowledgeConfig
from dsh_lightrag.prompt.document import PromptDocument
from dsh_lightrag.prompt.middleware import KnowledgeMiddleware
from dsh_lightrag.prompt.pipeline import (
    Fault,
    Pipeline,
    PipelineError,
    Task,
    destinations_of,
    read_pipeline,
)
from dsh_lightrag.text import clean_line
from dsh_lightrag.yaml_file import MAX_FILE_BYTES

if TYPE_CHECKING:
    from dsh_lightrag.settings import LightRagSettings

# The status of a call that was not made.
NOT_MADE = 2

PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file; - for stdin.")]
KeyVariables = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-key-env",
        metavar="NAME",
        help="Let the file take its key from this variable too; LIGHTRAG_* are always allowed.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
# Absent, rather than false: what an option is when nobody gives it, KnowledgeConfig says.
Required = Annotated[bool | None, typer.Option("--required", help="Fail when nothing is found.")]
Fence = Annotated[
    bool | None, typer.Option("--fence", help="Mark the context as data, in a random tag.")
]
Attached = Annotated[
    Path | None,
    typer.Option("--file", metavar="F", help="Text that follows the task, or is it; - for stdin."),
]


def check(
    file: PipelineFile, allow_key_env: KeyVariables = None, *, as_json: AsJson = False
) -> int:
    """Validate a file and name every fault with its line. Makes no request."""
    faults: tuple[Fault, ...] = ()
    try:
        pipeline = _read_pipeline(file, allow_key_env)
    except PipelineError as error:
        faults = error.faults
    if as_json:
        rows = [dataclasses.asdict(fault) for fault in faults]
        write_json({"ok": not faults, "faults": rows})
    elif faults:
        _tell_faults(file, faults)
    else:
        write_line(clean_line(f"{file}: {len(pipeline.tasks)} task(s), no fault."))
    return int(bool(faults))


def show(
    file: PipelineFile,
    task: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this task: its id, or track.task.")
    ] = None,
    allow_key_env: KeyVariables = None,
    *,
    trusted: Annotated[
        bool,
        typer.Option(
            "--trust", help="Ask the listed addresses, now and whenever the file is unchanged."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Print each task's final prompt, ready to be piped into its driver."""
    try:
        pipeline = _read_pipeline(file, allow_key_env)
    except PipelineError as error:
        _tell_faults(file, error.faults)
        return NOT_MADE
    tasks = pipeline.tasks if task is None else (pipeline.select(task),)
    if not _may_ask(pipeline, tasks, trusted=trusted):
        return NOT_MADE
    prompts = run(_final_prompts(tasks))
    if as_json:
        rows = [
            {"task": one.full_id, "driver": one.driver, "prompt": prompt}
            for one, prompt in zip(tasks, prompts, strict=True)
        ]
        write_json(rows)
    elif len(prompts) == 1:
        write_exactly(prompts[0])
    else:
        for one, prompt in zip(tasks, prompts, strict=True):
            command = pipeline.drivers.get(one.driver, one.driver) or "no driver"
            write_exactly(f"=== {clean_line(f'{one.full_id} ({command})')} ===\n{prompt}\n\n")
    return 0


def augment(  # noqa: PLR0913 - each is one option, given by name
    load: Load,
    task: Annotated[str, typer.Argument(help="The task; what is retrieved for.")] = "",
    *,
    file: Attached = None,
    mode: Annotated[str | None, typer.Option(help="local, global, hybrid, naive or mix.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Items to retrieve.")] = None,
    max_context_chars: Annotated[int | None, typer.Option(help="Characters of context.")] = None,
    timeout: Annotated[str | None, typer.Option(help="As 30s, for the whole exchange.")] = None,
    required: Required = None,
    on_error: Annotated[str | None, typer.Option(help="warn, fail or skip.")] = None,
    label: Annotated[str | None, typer.Option(help="Header line.")] = None,
    query: Annotated[str | None, typer.Option(help="What to retrieve with; else the task.")] = None,
    fence: Fence = None,
) -> int:
    """Print a task with retrieved context before it: dsh-lightrag augment "…" | claude -p."""
    attached = "" if file is None else _read(file, "--file").decode("utf-8", "surrogateescape")
    document = PromptDocument("\n\n".join(part for part in (task, attached) if part))
    if not document.task.strip():
        raise typer.BadParameter("Give a task, or a text with --file.")
    row = {
        "mode": mode,
        "top_k": top_k,
        "max_context_chars": max_context_chars,
        "timeout": timeout,
        "required": required,
        "on_error": on_error,
        "label": label,
        # With both, the task is the question and the file is what it is about.
        "query": query or (task if task and attached else None),
        "fence": fence,
    }
    given = {name: value for name, value in row.items() if value is not None}
    write_exactly(run(_augmented(document, given, load())))
    return 0


async def _augmented(
    document: PromptDocument, row: dict[str, Any], settings: LightRagSettings
) -> str:
    """Ask the server that this deployment's settings name, as every other command does."""
    from dsh_lightrag.transport import Transport  # noqa: PLC0415 - loads httpx; --help need not

    config = KnowledgeConfig.from_row({**row, "endpoint": settings.endpoint})
    async with Transport(settings.connection) as transport:
        enhanced = await KnowledgeMiddleware(config, transport=transport).aenhance(document)
    return enhanced.render()


async def _final_prompts(tasks: tuple[Task, ...]) -> list[str]:
    """Return all prompts, or none: a driver must not get the first half of a failed run."""
    prompts: list[str] = []
    for task in tasks:
        try:
            prompts.append(await task.final_prompt())
        except LightRagError:
            _tell(f"The prompt of {task.full_id} could not be made:")
            raise
    return prompts


def _may_ask(pipeline: Pipeline, tasks: tuple[Task, ...], *, trusted: bool) -> bool:
    """List what the file may ask, and say whether the person has said yes to it.

    Trust is in the file, so every address in it is listed, those of tasks not asked for too.
    """
    if not any(task.middlewares for task in tasks):
        return True
    _tell("Prompts of this file are sent to:")
    for destination in destinations_of(pipeline.tasks):
        _tell(f"  {destination}")
    if trusted:
        try:
            trust.remember(pipeline.digest)
        except (OSError, RuntimeError) as error:
            _tell(f"This is not remembered ({type(error).__name__}).")
    elif not trust.is_trusted(pipeline.digest):
        _tell("Nothing was sent. If you trust this file with your prompts and keys, add --trust.")
        return False
    return True


# --- in and out -------------------------------------------------------------------------------


def _read(file: Path, hint: str, most: int = -1) -> bytes:
    return read_bytes(None if str(file) == STDIN else file, most, hint)


def _read_pipeline(file: Path, allow_key_env: list[str] | None) -> Pipeline:
    return read_pipeline(_read(file, "FILE", MAX_FILE_BYTES + 1), allow_key_env or ())


def _tell(line: str) -> None:
    """Say what a file says, which could otherwise steer the terminal."""
    complain(clean_line(line))


def _tell_faults(file: Path, faults: tuple[Fault, ...]) -> None:
    for fault in faults:
        _tell(f"{file}:{fault}")
