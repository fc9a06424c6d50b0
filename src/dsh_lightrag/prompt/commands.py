"""The commands `pipeline check`, `pipeline show` and `augment`; the command line mounts them.

    mount(app, ended)

They return an exit status or raise, and `ended` tells what they raise. A prompt goes to stdout
byte for byte, since a driver reads it there; everything else goes to stderr.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dsh_lightrag.errors import ConfigurationError, LightRagError
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
from dsh_lightrag.settings import LightRagSettings
from dsh_lightrag.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable

STDIN = Path("-")
# As everywhere on this command line: 1 is a call that failed, 2 one that was not made.
OK, FAILED, NOT_MADE = 0, 1, 2

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


def mount(root: typer.Typer, ended: Callable[[Callable[..., int]], Callable[..., None]]) -> None:
    """Add the commands to a command line; `ended` makes an exit status of how one ends."""
    pipeline = typer.Typer(
        no_args_is_help=True, help="Pipeline files: prompts with retrieved context before them."
    )
    pipeline.command()(ended(check))
    pipeline.command()(ended(show))
    root.add_typer(pipeline, name="pipeline")
    root.command()(ended(augment))


def check(
    file: PipelineFile, allow_key_env: KeyVariables = None, *, as_json: AsJson = False
) -> int:
    """Validate a file and name every fault with its line. Makes no request."""
    faults: tuple[Fault, ...] = ()
    try:
        pipeline = read_pipeline(_read(file), allow_key_env or ())
    except PipelineError as error:
        faults = error.faults
    if as_json:
        rows = [dataclasses.asdict(fault) for fault in faults]
        typer.echo(json.dumps({"ok": not faults, "faults": rows}))
    elif faults:
        _tell_faults(file, faults)
    else:
        typer.echo(clean_line(f"{file}: {len(pipeline.tasks)} task(s), no fault."))
    return FAILED if faults else OK


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
        pipeline = read_pipeline(_read(file), allow_key_env or ())
    except PipelineError as error:
        _tell_faults(file, error.faults)
        return NOT_MADE
    tasks = pipeline.tasks if task is None else (pipeline.select(task),)
    if not _may_ask(pipeline, tasks, trusted=trusted):
        return NOT_MADE
    prompts = asyncio.run(_final_prompts(tasks))
    if as_json:
        rows = [
            {"task": one.full_id, "driver": one.driver, "prompt": prompt}
            for one, prompt in zip(tasks, prompts, strict=True)
        ]
        typer.echo(json.dumps(rows))
    elif len(prompts) == 1:
        _write(prompts[0])
    else:
        for one, prompt in zip(tasks, prompts, strict=True):
            command = pipeline.drivers.get(one.driver, one.driver) or "no driver"
            _write(f"=== {clean_line(f'{one.full_id} ({command})')} ===\n{prompt}\n\n")
    return OK


def augment(  # noqa: PLR0913 - each is one option, given by name
    task: Annotated[str, typer.Argument(help="The task; what is retrieved for.")] = "",
    *,
    file: Annotated[
        Path | None,
        typer.Option(metavar="F", help="Text that follows the task, or is it; - for stdin."),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Bare http(s) origin; else LIGHTRAG_ENDPOINT.")
    ] = None,
    mode: Annotated[str, typer.Option(help="local, global, hybrid, naive or mix.")] = "mix",
    top_k: Annotated[int, typer.Option(help="Items to retrieve, 1 to 200.")] = 10,
    max_context_chars: Annotated[
        int, typer.Option(help="Characters of context, 1000 to 200000.")
    ] = 40_000,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variable with the key; any that you name.")
    ] = None,
    timeout: Annotated[str, typer.Option(help="500ms to 2h, for the whole exchange.")] = "2h",
    required: Annotated[
        bool, typer.Option("--required", help="Fail when nothing is found.")
    ] = False,
    on_error: Annotated[
        str | None, typer.Option(help="warn, fail or skip; fail when --required.")
    ] = None,
    label: Annotated[str, typer.Option(help="Header line.")] = "Knowledge Graph Context",
    query: Annotated[str | None, typer.Option(help="What to retrieve with; else the task.")] = None,
    fence: Annotated[
        bool, typer.Option("--fence", help="Mark the context as data, in a random tag.")
    ] = False,
) -> int:
    """Print a task with retrieved context before it: dsh-lightrag augment "…" | claude -p."""
    attached = "" if file is None else _read(file).decode("utf-8", "surrogateescape")
    document = PromptDocument("\n\n".join(part for part in (task, attached) if part))
    if not document.task.strip():
        raise typer.BadParameter("Give a task, or a text with --file.")
    row: dict[str, object] = {
        "mode": mode,
        "top_k": top_k,
        "max_context_chars": max_context_chars,
        "api_key_env": api_key_env,
        "timeout": timeout,
        "required": required,
        "label": label,
        # With both, the task is the question and the file is what it is about.
        "query": query or (task if task and attached else None),
        "fence": fence,
    }
    if on_error is not None:
        row["on_error"] = on_error
    _write(asyncio.run(_augmented(document, row, endpoint)))
    return OK


async def _augmented(document: PromptDocument, row: dict[str, object], endpoint: str | None) -> str:
    """Ask the server of this deployment: the variables that every other command reads."""
    from dsh_lightrag.transport import Transport  # noqa: PLC0415 - loads httpx; --help need not

    settings = LightRagSettings.from_env(**({} if endpoint is None else {"endpoint": endpoint}))
    variable = row["api_key_env"]
    allowed = [variable] if isinstance(variable, str) else []
    config = KnowledgeConfig.from_row({**row, "endpoint": settings.endpoint}, allowed)
    connection = settings.connection
    if variable is not None:
        connection = dataclasses.replace(connection, api_key=config.connection.api_key)
    async with Transport(connection) as transport:
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
    """List what will be asked, and say whether the person has said yes to this file."""
    if not any(task.middlewares for task in tasks):
        return True
    _tell("Prompts of this file are sent to:")
    for destination in destinations_of(tasks):
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


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError("FILE", f"cannot be read ({reason}).", "") from None


def _write(text: str) -> None:
    """Write exactly the text; a terminal alone gets a line break after it."""
    if sys.stdout.isatty() and not text.endswith("\n"):
        text += "\n"
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def _tell(line: str) -> None:
    """Write one line to stderr; what a file says could otherwise steer the terminal."""
    typer.echo(clean_line(line), err=True)


def _tell_faults(file: Path, faults: tuple[Fault, ...]) -> None:
    for fault in faults:
        _tell(f"{file}:{fault}")
