"""What one server offers: a dispatcher, and the names that an attestation admits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsh_lightrag.errors import Code, LightRagError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_lightrag.dispatch import AnyTool, Dispatcher, Outcome


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a dispatcher, or those among them that were attested.

    Attributes:
        dispatcher: calls them.
        admitted: the attested names; None admits every tool that is switched on.
    """

    dispatcher: Dispatcher
    admitted: frozenset[str] | None = None

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """What is listed, in catalog order."""
        return tuple(tool for tool in self.dispatcher.tools if self._admits(tool.name))

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> Outcome:
        """Call a tool.

        Raises:
            LightRagError: the call failed; `disabled` for a tool that is switched off, or that
                the attestation does not admit.
            UnknownToolError: the name is in no catalog.
        """
        if not self._admits(name) and any(tool.name == name for tool in self.dispatcher.tools):
            raise LightRagError(
                Code.DISABLED, f"{name} is not among the tools that were attested for this server."
            )
        return await self.dispatcher.call(name, arguments)

    def _admits(self, name: str) -> bool:
        return self.admitted is None or name in self.admitted
