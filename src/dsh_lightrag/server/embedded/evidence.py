"""What the engine found, in LightRAG's shapes: entities, relations, passages, references.

Each kind has its budget of tokens, and what no longer fits is dropped from the end. The passages
get what the others left of the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from dsh_lightrag.engine.chunking import count_tokens
from dsh_lightrag.server.backend import (
    ChunkFound,
    EntityFound,
    Evidence,
    ReferenceFound,
    RelationFound,
)
from dsh_lightrag.server.embedded.identity import SEPARATOR, chunk_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dsh_lightrag.engine import Answer, Entity, Hit, Place, Relation
    from dsh_lightrag.server.backend import Ask

T = TypeVar("T")


def chunk_ids(entities: Iterable[Entity], relations: Iterable[Relation]) -> set[str]:
    """Return the chunks that these rest on, by the engine's ids."""
    named = (*(item.chunk_ids for item in entities), *(item.chunk_ids for item in relations))
    return set(chain.from_iterable(named))


@dataclass(frozen=True, slots=True)
class Provenance:
    """The chunks that something rests on: their ids and files, each joined as LightRAG does."""

    source_id: str
    file_path: str


def provenance(ids: Iterable[str], places: Mapping[str, Place]) -> Provenance:
    """Return where something comes from; chunks deleted at this moment are left out."""
    found = [places[id_] for id_ in ids if id_ in places]
    return Provenance(
        SEPARATOR.join(chunk_id(place.document_id, place.ordinal) for place in found),
        SEPARATOR.join(dict.fromkeys(place.source for place in found)),
    )


def build(ask: Ask, answer: Answer, places: Mapping[str, Place]) -> Evidence:
    """Return an answer as evidence, within the question's limits."""
    all_entities = [_entity(entity, places) for entity in answer.entities]
    all_relations = [_relation(relation, places) for relation in answer.relations]
    entities, spent = _fitting(
        all_entities[: ask.top_k], min(ask.max_entity_tokens, ask.max_total_tokens), _entity_text
    )
    left = ask.max_total_tokens - spent
    relations, spent = _fitting(
        all_relations[: ask.top_k], min(ask.max_relation_tokens, left), _relation_text
    )
    hits, _ = _fitting(answer.hits[: ask.chunk_top_k], left - spent, lambda hit: hit.chunk.text)
    numbers = _numbered(hits)
    chunks = tuple(
        ChunkFound(
            reference_id=numbers[hit.chunk.source],
            content=hit.chunk.text,
            file_path=hit.chunk.source,
            chunk_id=chunk_id(hit.chunk.document_id, hit.chunk.ordinal),
        )
        for hit in hits
    )
    return Evidence(
        entities=tuple(entities),
        relations=tuple(relations),
        chunks=chunks,
        references=tuple(
            ReferenceFound(
                number, file, tuple(part.content for part in chunks if part.file_path == file)
            )
            for file, number in numbers.items()
        ),
        high_level=ask.hl_keywords,
        low_level=ask.ll_keywords or _names(answer.hits),
        processing_info={
            "total_entities_found": len(all_entities),
            "total_relations_found": len(all_relations),
            "entities_after_truncation": len(entities),
            "relations_after_truncation": len(relations),
            "merged_chunks_count": len(answer.hits),
            "final_chunks_count": len(chunks),
            "chunks_pending": answer.pending,
            "signals_failed": len(answer.faults),
        },
    )


def _names(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return the names in the question that led to passages."""
    return tuple(dict.fromkeys(chain.from_iterable(hit.seeds for hit in hits)))


def _numbered(hits: Iterable[Hit]) -> dict[str, str]:
    """Number the files from 1 in the order in which their passages come."""
    files = dict.fromkeys(hit.chunk.source for hit in hits)
    return {file: str(number) for number, file in enumerate(files, 1)}


def _fitting(items: Sequence[T], budget: int, text: Callable[[T], str]) -> tuple[list[T], int]:
    """Return the first items that together have at most so many tokens, and how many they have."""
    kept: list[T] = []
    spent = 0
    for item in items:
        tokens = count_tokens(text(item))
        if spent + tokens > budget:
            break
        kept.append(item)
        spent += tokens
    return kept, spent


def _entity_text(entity: EntityFound) -> str:
    return f"{entity.entity_name} {entity.entity_type} {entity.description}"


def _relation_text(relation: RelationFound) -> str:
    return f"{relation.src_id} {relation.tgt_id} {relation.description} {relation.keywords}"


def _entity(entity: Entity, places: Mapping[str, Place]) -> EntityFound:
    source = provenance(entity.chunk_ids, places)
    return EntityFound(
        entity_name=entity.name,
        entity_type=entity.type,
        description=entity.description,
        source_id=source.source_id,
        file_path=source.file_path,
    )


def _relation(relation: Relation, places: Mapping[str, Place]) -> RelationFound:
    source = provenance(relation.chunk_ids, places)
    return RelationFound(
        src_id=relation.source,
        tgt_id=relation.target,
        description=relation.description,
        keywords=relation.keywords,
        weight=relation.weight,
        source_id=source.source_id,
        file_path=source.file_path,
    )
