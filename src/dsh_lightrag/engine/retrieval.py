"""One question, asked of every signal and answered once.

Every signal has the same shape: a question and a limit in, chunk numbers and scores out. What a
mode is, is which signals it asks and what they weigh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dsh_lightrag.engine import links, neighbourhood, reading, seeds
from dsh_lightrag.engine.embedders import unit_rows
from dsh_lightrag.engine.faults import ModelFaultError
from dsh_lightrag.engine.fusion import Fused, followed, fuse
from dsh_lightrag.engine.model import Answer, Chunk, Entity, Hit, Mode, Ranking, Relation, Signal
from dsh_lightrag.engine.options import GRAPH_FIRST, GRAPH_SIGNALS, TEXT_SIGNALS
from dsh_lightrag.text import clean

if TYPE_CHECKING:
    import sqlite3

    import numpy as np
    from numpy.typing import NDArray

    from dsh_lightrag.engine.embedders import Embedder
    from dsh_lightrag.engine.graph import View, Walk
    from dsh_lightrag.engine.indexes import Indexes
    from dsh_lightrag.engine.keywords import Keywords
    from dsh_lightrag.engine.links import Pair
    from dsh_lightrag.engine.options import EngineOptions
    from dsh_lightrag.engine.seeds import Seeds
    from dsh_lightrag.engine.store import Store

_VIA = 5  # names that a hit shows as the way it was reached
_SPARE = 2  # hits fetched beyond the limit, for those that are deleted at this moment
_VIA_RELATED = 2  # of these, names that an answer lists as entities
_MOST_ENTITIES = 30
_READ_FOR_LINKS = 20  # chunks with the question's words whose relations are looked at
_SHOWN_LINKS = 15  # relations of a question that an answer shows with their entities


@dataclass
class Question:
    """A question, and what several signals need to know about it, worked out once."""

    text: str
    connection: sqlite3.Connection
    view: View
    keywords: Keywords
    vector: NDArray[np.float32] | None
    options: EngineOptions
    numbers: dict[str, int] = field(default_factory=dict)  # of the names that hits show

    @cached_property
    def seeds(self) -> Seeds:
        """The entities that the question names."""
        return seeds.find(self.connection, self.text, self.view)

    @cached_property
    def walk(self) -> Walk:
        """The walk that starts at them."""
        return self.view.walk(self.seeds.weights, self.options.damping)

    @cached_property
    def reached(self) -> Ranking:
        """The chunks that it reaches."""
        return self.view.ranked(self.walk, max(self.options.depth, self.options.reach))

    @cached_property
    def links(self) -> list[Pair]:
        """The relations told by a chat model that it asks for, best first."""
        found = self.keywords.search(self.connection, self.text, _READ_FOR_LINKS).chunks
        return links.asked_for(self.connection, self.text, self.seeds.shown, found)


Retriever = Callable[[Question, int], Ranking]


def retrievers(indexes: Indexes) -> dict[Signal, Retriever]:
    """Return every signal that can be asked."""
    vectors, keywords = indexes.vectors, indexes.keywords

    def by_vector(question: Question, limit: int) -> Ranking:
        if vectors is None or question.vector is None:
            return Ranking()
        return vectors.search(question.vector, limit)

    def by_keyword(question: Question, limit: int) -> Ranking:
        return keywords.search(question.connection, question.text, limit)

    def by_entity(question: Question, limit: int) -> Ranking:
        return question.view.one_hop(question.seeds.weights, limit)

    def by_relation(question: Question, limit: int) -> Ranking:
        return Ranking(question.reached.chunks[:limit], question.reached.scores[:limit])

    def by_context(question: Question, limit: int) -> Ranking:
        reached = question.reached.chunks[: min(limit, question.options.reach)]
        known = question.seeds.shown.values()
        return keywords.search_among(question.connection, question.text, known, reached)

    def by_link(question: Question, limit: int) -> Ranking:
        return links.ranked(question.links, limit)

    return {
        Signal.VECTORS: by_vector,
        Signal.KEYWORDS: by_keyword,
        Signal.ENTITIES: by_entity,
        Signal.RELATIONS: by_relation,
        Signal.CONTEXT: by_context,
        Signal.LINKS: by_link,
    }


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a question is asked of: the tables, and the indexes that live in memory."""

    store: Store
    indexes: Indexes
    embedder: Embedder | None
    options: EngineOptions

    def answer(self, text: str, mode: Mode, limit: int) -> Answer:
        """Return the best passages for a question, each with its reason."""
        text = clean(text)
        if mode is Mode.BYPASS or limit <= 0 or not text.strip():
            return Answer()
        vector, faults = self._vector(text)
        with self.store.read() as connection:
            question = Question(
                text,
                connection,
                self.indexes.graph.view(),
                self.indexes.keywords,
                vector,
                self.options,
            )
            fused, gate = _fused(question, retrievers(self.indexes), mode, limit + _SPARE)
            best = fused[: limit + _SPARE]
            chunks = reading.chunks(connection, (item.chunk for item in best))
            hits = _hits(question, best, chunks)[:limit]
            asked = question.links if gate and Signal.LINKS in GRAPH_FIRST.get(mode, ()) else []
            # In mix the names that a question speaks of are told, even too few to rank by.
            told = gate or (mode is Mode.MIX and question.seeds.weights)
            entities, relations = _surroundings(question, hits, asked) if told else ((), ())
            pending = _pending(connection) if self.indexes.vectors is not None else 0
        return Answer(hits, entities, relations, gate, pending, faults)

    def _vector(self, text: str) -> tuple[NDArray[np.float32] | None, dict[Signal, str]]:
        """Return the question's vector; a model that fails costs its signal, not the answer."""
        if self.embedder is None or not self.indexes.vectors:
            return None, {}
        try:
            rows = self.embedder.embed([text], query=True)
            return unit_rows(rows, 1, self.embedder.dimension)[0], {}
        except ModelFaultError as fault:
            return None, {Signal.VECTORS: fault.problem}


def _fused(
    question: Question, ask: dict[Signal, Retriever], mode: Mode, limit: int
) -> tuple[list[Fused], float]:
    """Ask what the mode asks; return the best chunks, and how much the graph was heard."""
    options = question.options
    weights = options.weights

    def rankings(signals: tuple[Signal, ...]) -> dict[Signal, Ranking]:
        asked = (signal for signal in signals if weights.get(signal, 0) > 0)
        return {signal: ask[signal](question, options.depth) for signal in asked}

    texts = rankings(TEXT_SIGNALS)
    graph = fuse(rankings(GRAPH_FIRST.get(mode, ())), weights, options.smoothing, limit)
    if graph:
        others = fuse(texts, weights, options.smoothing, limit + len(graph))
        return followed(graph, others), 1.0
    gate = options.gate.open(question.seeds.coverage) if mode is Mode.MIX else 0.0
    if gate:
        both = texts | rankings(GRAPH_SIGNALS)
        return fuse(both, options.heard(gate), options.smoothing, limit), gate
    return fuse(texts, weights, options.smoothing, limit), 0.0


def _hits(question: Question, best: list[Fused], chunks: dict[int, Chunk]) -> tuple[Hit, ...]:
    """Return the hits that still exist, those from the graph with the names that led there."""
    graphic = [item.chunk for item in best if item.placings.keys() - set(TEXT_SIGNALS)]
    ways = _ways(question, graphic)
    known = question.seeds.shown if ways else {}
    shown = reading.entity_names(
        question.connection, {entity for way in ways.values() for entity in way}
    )
    question.numbers.update((name, number) for number, name in shown.items())
    hits = []
    for item in best:
        if item.chunk not in chunks:
            continue
        way = ways.get(item.chunk, [])
        hits.append(
            Hit(
                chunk=chunks[item.chunk],
                score=item.score,
                placings=item.placings,
                seeds=tuple(name for entity, name in known.items() if entity in way),
                via=tuple(
                    shown[entity] for entity in way if entity in shown and entity not in known
                )[:_VIA],
            )
        )
    return tuple(hits)


def _ways(question: Question, chunks: list[int]) -> dict[int, list[int]]:
    """Return for each chunk its entities, those that the walker visited most first."""
    if not chunks:
        return {}
    visited = question.walk.entities
    return {
        chunk: sorted(
            (entity for entity in named if visited[entity] > 0),
            key=lambda entity: (-visited[entity] * named[entity], entity),
        )
        for chunk, named in question.view.entities_of(chunks).items()
    }


def _surroundings(
    question: Question, hits: tuple[Hit, ...], asked: list[Pair]
) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """Return the entities of question and hits, and how the question's are related to them.

    The relations that were asked for come first, in their order, and so do their entities.
    """
    connection, view = question.connection, question.view
    named = list(question.seeds.weights)
    ends = [end for pair in asked[:_SHOWN_LINKS] for end in (pair.source, pair.target)]
    leading = [question.numbers[name] for hit in hits for name in hit.via[:_VIA_RELATED]]
    among = list(dict.fromkeys([*named, *ends, *leading]))[:_MOST_ENTITIES]
    pairs: dict[tuple[int, int], float] = {}
    for seed in named:
        for other, weight in neighbourhood.related(view, seed):
            if other in among and (other, seed) not in pairs:
                pairs[seed, other] = weight
    relations = neighbourhood.told_and_together(connection, view, among, pairs)
    shown = reading.entity_names(connection, ends)
    places = {
        frozenset((shown.get(pair.source), shown.get(pair.target))): place
        for place, pair in reversed(list(enumerate(asked[:_SHOWN_LINKS])))
    }
    ordered = sorted(
        relations,
        key=lambda link: places.get(frozenset((link.source, link.target)), _SHOWN_LINKS),
    )
    return neighbourhood.described(connection, view, among), tuple(ordered)


def _pending(connection: sqlite3.Connection) -> int:
    """Return how many chunks vectors cannot find yet."""
    row = connection.execute("SELECT count(*) FROM chunk WHERE embedded = 0").fetchone()
    count: int = row[0]
    return count
