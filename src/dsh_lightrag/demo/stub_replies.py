"""What the stub model says: pure functions from a prompt to a deterministic reply.

LightRAG asks five kinds of question. Each is told apart by the fixed opening of LightRAG's own
prompt, never by words that a document or a user could bring. The replies are as good as capital
letters and shared words can make them; whatever a person may read as an answer says that a stub
wrote it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, Field, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "[stub model]"
DIMENSIONS = 256

MAX_ENTITIES = 40
MAX_RELATIONS = 60
MAX_KEYWORDS = 6
MAX_QUOTES = 2
MAX_QUOTE_CHARS = 300

# LightRAG's delimiters and the openings of its prompts (lightrag/prompt.py, 1.5.7).
_DELIMITER = "<|#|>"
_COMPLETE = "<|COMPLETE|>"
_EXTRACTOR = "---Role---\nYou are a Knowledge Graph Specialist responsible for extracting"
_JSON_EXTRACTOR = "**JSON Contract:**"
# The opening of the embedded engine's own prompt.
_READER = "You read one passage and list the entities"
_GLEANING = "---Task---\nBased on the last extraction task"
_SUMMARIST = "---Role---\nYou are a Knowledge Graph Specialist, proficient in data curation"
_KEYWORD_EXTRACTOR = "---Role---\nYou are an expert keyword extractor"

_INPUT_TEXT = re.compile(r"---Input Text---\n```\n(.*)\n```\n\n---Output---", re.DOTALL)
_USER_QUERY = re.compile(r"---Real Data---\nUser Query: (.*)\n\n---Output---", re.DOTALL)
_REFERENCE = re.compile(r"^\[(\d+)\] (.+)$", re.MULTILINE)

_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_PARAGRAPH_END = re.compile(r"\n\s*\n")
_CAPITALISED = "[A-ZÀ-ÖØ-Þ][\\w'\u2019-]*"
_NAME = re.compile(rf"{_CAPITALISED}(?:\s+(?:(?:of|of the|de)\s+)?{_CAPITALISED})*")
_LITTLE_WORDS = (
    "a about ad after all also an and are as at bc be because before both but by did do does "
    "during for from had has have he her his how i if in into is it its many most no of on "
    "one or our she since so some such that the their them then there these they this those "
    "through to today until was we were what when where which while who whom whose why will "
    "with without you"
)
_STOP_WORDS = frozenset(_LITTLE_WORDS.split())


class Ask(StrEnum):
    """What LightRAG wants from the model."""

    EXTRACT = "extract"
    GLEAN = "glean"
    KEYWORDS = "keywords"
    SUMMARY = "summary"
    ANSWER = "answer"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One chat request: the system text and the last user message."""

    system: str
    user: str

    @property
    def ask(self) -> Ask:
        """The kind of question; anything that is none of LightRAG's own prompts is answered."""
        if self.system.startswith(_EXTRACTOR):
            return Ask.GLEAN if self.user.startswith(_GLEANING) else Ask.EXTRACT
        if self.system.startswith(_READER):
            return Ask.EXTRACT
        if self.user.startswith(_KEYWORD_EXTRACTOR):
            return Ask.KEYWORDS
        if self.user.startswith(_SUMMARIST):
            return Ask.SUMMARY
        return Ask.ANSWER


class _Passage(BaseModel):
    """One line of the context: a chunk with its reference, or an entity or relation."""

    reference_id: str = ""
    content: str = ""
    description: str = ""


class _Description(BaseModel):
    """One line of the list that LightRAG wants summarised."""

    text: str = Field(alias="Description")


_Line = TypeVar("_Line", bound=BaseModel)


def reply(prompt: Prompt) -> str:
    """Say what a model would say; the same prompt always gets the same reply."""
    as_json = _JSON_EXTRACTOR in prompt.system
    if prompt.system.startswith(_READER):
        return _reading(prompt.user)
    match prompt.ask:
        case Ask.EXTRACT:
            return _extraction(_field(_INPUT_TEXT, prompt.user), as_json=as_json)
        case Ask.GLEAN:  # the first round already found all that this stub can find
            return _extraction("", as_json=as_json)
        case Ask.KEYWORDS:
            return _keywords(_field(_USER_QUERY, prompt.user))
        case Ask.SUMMARY:
            return _summary(prompt.user)
        case _:
            return _answer(prompt)


def embed(text: str) -> list[float]:
    """Hash the distinct words of a text into a unit vector: shared words make neighbours.

    Distinct, because a word repeated in a document must not drown the one that is asked for.
    """
    vector = [0.0] * DIMENSIONS
    for word in dict.fromkeys(words(text)) or [""]:  # an empty text needs a direction as well
        digest = hashlib.blake2b(word.encode(), digest_size=5).digest()
        sign = 1.0 if digest[4] & 1 else -1.0
        vector[int.from_bytes(digest[:4], "big") % DIMENSIONS] += sign
    # Two words may cancel each other out; a zero vector has no direction to normalise.
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def words(text: str) -> list[str]:
    """Return the words that carry meaning, in lower case and in order."""
    return [word for word in _WORD.findall(text.casefold()) if word not in _STOP_WORDS]


def sentences(text: str) -> list[str]:
    """Split prose into sentences on one line each; headings are none."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in _PARAGRAPH_END.split(text))
    return [
        sentence
        for paragraph in paragraphs
        if paragraph and not paragraph.startswith("#")
        for sentence in _SENTENCE_END.split(paragraph)
    ]


def names(text: str) -> list[str]:
    """Return the capitalised names of a text, each once; `The Nile` counts as `Nile`."""
    found: dict[str, None] = {}
    for match in _NAME.finditer(text):
        parts = match.group().split()
        while parts and parts[0].casefold() in _STOP_WORDS:
            del parts[0]
        name = " ".join(parts).removesuffix("'s").removesuffix("\u2019s")
        if len(name) > 1:
            found[name] = None
    return list(found)


def _field(pattern: re.Pattern[str], prompt: str) -> str:
    match = pattern.search(prompt)
    return match.group(1) if match else prompt


def _graph(text: str) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """Find entities and relations, each described by the first sentence that shows it.

    The first name of a sentence is taken as its subject, related to every other name in it.
    """
    entities: dict[str, str] = {}
    relations: dict[tuple[str, str], str] = {}
    for sentence in sentences(text):
        found = names(sentence)
        for name in found:
            entities.setdefault(name, sentence)
        for other in found[1:]:
            if (other, found[0]) not in relations:  # relations have no direction
                relations.setdefault((found[0], other), sentence)
    kept = dict(islice(entities.items(), MAX_ENTITIES))
    between = {pair: told for pair, told in relations.items() if kept.keys() >= set(pair)}
    return kept, dict(islice(between.items(), MAX_RELATIONS))


def _extraction(text: str, *, as_json: bool) -> str:
    entities, relations = _graph(text)
    if as_json:
        return json.dumps(
            {
                "entities": [
                    {"name": name, "type": "Other", "description": told}
                    for name, told in entities.items()
                ],
                "relationships": [
                    {"source": one, "target": other, "keywords": "mention", "description": told}
                    for (one, other), told in relations.items()
                ],
            },
            ensure_ascii=False,
        )
    rows: list[tuple[str, ...]] = [
        ("entity", name, "Other", told) for name, told in entities.items()
    ]
    rows += [("relation", *pair, "mention", told) for pair, told in relations.items()]
    lines = [_DELIMITER.join(part.replace(_DELIMITER, " ") for part in row) for row in rows]
    return "\n".join([*lines, _COMPLETE])


def _reading(text: str) -> str:
    """Answer the embedded engine, which asks for other keys than LightRAG."""
    found = json.loads(_extraction(text, as_json=True))
    return json.dumps(
        {"entities": found["entities"], "relations": found["relationships"]}, ensure_ascii=False
    )


def _keywords(question: str) -> str:
    themes = list(dict.fromkeys(words(question)))[:MAX_KEYWORDS]
    return json.dumps(
        {
            "high_level_keywords": themes,
            "low_level_keywords": names(question)[:MAX_KEYWORDS] or themes,
        },
        ensure_ascii=False,
    )


def _summary(prompt: str) -> str:
    descriptions = _json_lines(_Description, prompt.partition("Description List:")[2])
    distinct = dict.fromkeys(_cut(description.text) for description in descriptions)
    return " ".join([MARK, *islice(distinct, MAX_QUOTES)])


def _answer(prompt: Prompt) -> str:
    """Quote the sentences of the context that share most words with the question."""
    context = prompt.system.partition("---Context---")[2]
    passages = list(_json_lines(_Passage, context))
    quotes = _best_quotes(passages, question=prompt.user)
    if not quotes:
        return f"{MARK} No language model runs here, and there is no context to quote."
    lines = [f"{MARK} No language model runs here; the retrieved text says:", ""]
    lines += [
        f"- {_cut(text)} [{reference}]" if reference else f"- {_cut(text)}"
        for text, reference in quotes
    ]
    titles = dict(_REFERENCE.findall(context))
    cited = sorted({reference for _, reference in quotes if reference in titles})
    if cited:
        lines += ["", "### References", ""]
        lines += [f"- [{reference}] {titles[reference]}" for reference in cited]
    return "\n".join(lines)


def _best_quotes(passages: list[_Passage], *, question: str) -> list[tuple[str, str]]:
    """Choose sentences with their reference ids; text of documents goes before the graph's."""
    from_documents = [
        (sentence, passage.reference_id)
        for passage in passages
        for sentence in sentences(passage.content)
    ]
    from_graph = [
        (sentence, "") for passage in passages for sentence in sentences(passage.description)
    ]
    wanted = set(words(question))
    distinct = dict.fromkeys(from_documents or from_graph)
    # The sort is stable: among equals, the sentence that LightRAG ranked first wins.
    return sorted(distinct, key=lambda quote: -len(wanted.intersection(words(quote[0]))))[
        :MAX_QUOTES
    ]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_QUOTE_CHARS else text[: MAX_QUOTE_CHARS - 1] + "…"


def _json_lines(shape: type[_Line], text: str) -> Iterator[_Line]:
    """Read the lines that are JSON objects of a shape; the rest is prose around them."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield shape.model_validate_json(line)
            except ValidationError:
                continue
