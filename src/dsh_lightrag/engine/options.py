"""How an engine cuts, weighs and walks; the defaults are those that `benchmarks/` measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsh_lightrag.engine.chunking import DEFAULT_SIZES, ChunkSizes
from dsh_lightrag.engine.model import Mode, Signal

TEXT_SIGNALS = (Signal.VECTORS, Signal.KEYWORDS)
GRAPH_SIGNALS = (Signal.ENTITIES, Signal.RELATIONS, Signal.CONTEXT)  # those that mix asks

# Which graph signals a mode asks first; naive and bypass ask none, mix asks its own all at once.
GRAPH_FIRST: dict[Mode, tuple[Signal, ...]] = {
    Mode.LOCAL: (Signal.ENTITIES,),
    Mode.GLOBAL: (Signal.LINKS, Signal.RELATIONS, Signal.CONTEXT),
    Mode.HYBRID: (*GRAPH_SIGNALS, Signal.LINKS),
}


@dataclass(frozen=True, slots=True)
class Gate:
    """How much of a question's weight its known names must carry for the graph to be heard.

    Below `floor` the graph is silent; from there its weight grows over `width` to its full.
    """

    floor: float = 0.15
    width: float = 0.6

    def open(self, coverage: float) -> float:
        """Return 0..1 for a coverage of 0..1."""
        return min(1.0, max(0.0, (coverage - self.floor) / self.width))


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Everything about an engine that may be set.

    Attributes:
        chunks: how documents are cut.
        weights: what each signal counts in the fusion, before the gate.
        gate: when the graph is heard in mode mix.
        fading: the share of their weight that vectors lose when the graph is fully heard: what is
            only similar to a question pushes aside what its names lead to.
        smoothing: the constant of reciprocal rank fusion.
        depth: how many chunks each signal contributes.
        reach: how many of the walk's chunks the context is looked for in.
        damping: how likely the walker goes on instead of starting over.
        attempts: how often a chat model is asked about a chunk before it is given up.
    """

    chunks: ChunkSizes = DEFAULT_SIZES
    weights: dict[Signal, float] = field(
        default_factory=lambda: {
            Signal.VECTORS: 1.0,
            Signal.KEYWORDS: 1.0,
            Signal.ENTITIES: 2.0,
            Signal.RELATIONS: 2.0,
            Signal.CONTEXT: 1.0,
            Signal.LINKS: 4.0,
        }
    )
    gate: Gate = Gate()
    fading: float = 1.0
    smoothing: float = 5.0
    depth: int = 100
    reach: int = 50
    damping: float = 0.85
    attempts: int = 3

    def heard(self, gate: float) -> dict[Signal, float]:
        """Return what each signal weighs when the graph's gate is so far open.

        Where no graph signal has a weight, vectors lose none of theirs.
        """
        if not any(self.weights.get(signal, 0) > 0 for signal in GRAPH_SIGNALS):
            return dict(self.weights)
        heard = self.weights | {
            signal: gate * self.weights[signal]
            for signal in GRAPH_SIGNALS
            if signal in self.weights
        }
        if Signal.VECTORS in heard:
            heard[Signal.VECTORS] *= 1 - self.fading * gate
        return heard
