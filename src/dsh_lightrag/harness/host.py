"""What a host offers (`register`) and what it is given: tools as values, ready to call.

A host needs nothing else: no event loop of a certain kind at registration, no schema library,
no import of this package. `ReferenceHost` is the smallest one that keeps the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dsh_lightrag.errors import UnknownToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsh_lightrag.dispatch import Access, AnyTool, Outcome
    from dsh_lightrag.schemas import JsonSchema

# Undoes what returned it; calling it again does nothing.
Disposer = Callable[[], None]


class Caller(Protocol):
    """Calls tools by name, as a Dispatcher does."""

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call a tool; raises LightRagError."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool of the catalog bound to one configuration: all that a host has to know.

    It stays safe to call after it was withdrawn: it then answers `disabled`, without a request.
    """

    tool: AnyTool
    caller: Caller

    @property
    def name(self) -> str:
        """The name that agents call."""
        return self.tool.name

    @property
    def title(self) -> str:
        """The name that people read."""
        return self.tool.title

    @property
    def description(self) -> str:
        """The text that models read."""
        return self.tool.description

    @property
    def access(self) -> Access:
        """Whether it reads or writes."""
        return self.tool.access

    @property
    def annotations(self) -> dict[str, bool]:
        """The four hints of the Model Context Protocol."""
        return self.tool.annotations

    @property
    def input_schema(self) -> JsonSchema:
        """The JSON Schema of the arguments, inside the harness's subset."""
        return self.tool.input_schema

    @property
    def output_schema(self) -> JsonSchema:
        """The JSON Schema of the structured result, inside the harness's subset."""
        return self.tool.output_schema

    @property
    def digest(self) -> str:
        """The sha256 of what an agent is told of it."""
        return self.tool.digest

    async def __call__(self, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call it.

        Raises:
            LightRagError: the call failed; `disabled` once the tool was withdrawn.
        """
        return await self.caller.call(self.tool.name, arguments)


class ToolHost(Protocol):
    """What the plugin needs of a host."""

    def register(self, tool: RegisteredTool) -> Disposer:
        """Offer a tool to agents until the returned disposer is called.

        Raises an error of the host's own when the name is taken; nothing is offered then.
        """


class DuplicateToolError(ValueError):
    """A name that is registered already."""


class ReferenceHost:
    """The smallest host that keeps the rules; for tests, scripts and as a model for others.

    Args:
        allow: the names that agents may see and call; None admits every registered tool.
            A tool outside it may be registered and stays invisible.
    """

    def __init__(self, allow: Iterable[str] | None = None) -> None:
        self._allow = None if allow is None else frozenset(allow)
        self._tools: dict[str, RegisteredTool] = {}

    def register(self, tool: RegisteredTool) -> Disposer:
        """Offer a tool until the returned disposer is called.

        Raises:
            DuplicateToolError: the name is taken.
        """
        if tool.name in self._tools:
            raise DuplicateToolError(f"{tool.name} is registered already.")
        self._tools[tool.name] = tool

        def dispose() -> None:
            # By identity: the name may since belong to a later registration.
            if self._tools.get(tool.name) is tool:
                del self._tools[tool.name]

        return dispose

    @property
    def tools(self) -> tuple[RegisteredTool, ...]:
        """What agents see, in the order of registration."""
        return tuple(
            tool for name, tool in self._tools.items() if self._allow is None or name in self._allow
        )

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call a tool that agents see.

        Raises:
            LightRagError: the call failed.
            UnknownToolError: agents see no tool of that name.
        """
        for tool in self.tools:
            if tool.name == name:
                return await tool(arguments)
        known = ", ".join(tool.name for tool in self.tools) or "none"
        raise UnknownToolError(f"{name!r} is not a tool of this host. Known: {known}.")
