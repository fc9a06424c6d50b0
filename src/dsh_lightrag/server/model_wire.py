"""What an OpenAI-compatible endpoint is asked and what its answers mean; pure values, no HTTP."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# The request or the text is at fault: the same request fails again. Everything else may pass.
_REFUSED_TEXT = frozenset({400, 413, 422})
_WORTH_A_RETRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NAMES: dict[int, str] = {
    401: "refuses the key",
    403: "refuses the key",
    404: "does not know the model or the path",
    429: "has no capacity at this time",
}
_PLAIN_WORD = re.compile(r"[\w.-]{1,64}")
_MOST_NUMBERS = 65536


class MalformedError(ValueError):
    """An answer that is not what the API promises.

    Attributes:
        text_at_fault: whether the answer to another text may be a good one.
    """

    def __init__(self, what: str, *, text_at_fault: bool = False) -> None:
        super().__init__(what)
        self.text_at_fault = text_at_fault


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a status means.

    Attributes:
        says: what the endpoint does, in our words.
        again: whether the same request is worth another attempt.
        text_at_fault: whether another text may succeed now.
    """

    says: str
    again: bool
    text_at_fault: bool


def judge(status: int) -> Verdict:
    """Return what a status that is not 200 means."""
    says = _NAMES.get(status, "refuses the request" if status in _REFUSED_TEXT else "fails")
    return Verdict(f"{says} ({status})", status in _WORTH_A_RETRY, status in _REFUSED_TEXT)


def kind_of_refusal(body: bytes) -> str:
    """Return the code or type of an error object, for the log: a plain word, never its text."""
    try:
        error = json.loads(body)["error"]
        words = [str(error.get(key)) for key in ("code", "type") if error.get(key)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "unknown"
    return next((word for word in words if _PLAIN_WORD.fullmatch(word)), "unknown")


def seconds_of(retry_after: str) -> float | None:
    """Read Retry-After, a number of seconds or a date; None when it is neither."""
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", retry_after):
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None


# --- embeddings -------------------------------------------------------------------------------


class _Embedding(BaseModel):
    index: int
    embedding: Annotated[list[float], Field(min_length=1, max_length=_MOST_NUMBERS)]


class _Embeddings(BaseModel):
    data: list[_Embedding]


def embedding_request(model: str, texts: Sequence[str]) -> bytes:
    """Return the body that asks for vectors."""
    return _json({"model": model, "input": list(texts), "encoding_format": "float"})


def read_embeddings(body: bytes, count: int) -> NDArray[np.float32]:
    """Return one row per text, in the order of the texts."""
    try:
        found = sorted(_Embeddings.model_validate_json(body).data, key=lambda item: item.index)
    except ValidationError as wrong:
        # A list with a bad row may be one text's; what is no list at all is the endpoint's.
        in_a_row = all(len(error["loc"]) > 1 for error in wrong.errors(include_input=False))
        raise MalformedError("no list of embeddings", text_at_fault=in_a_row) from None
    lengths = {len(item.embedding) for item in found}
    if [item.index for item in found] != list(range(count)) or len(lengths) > 1:
        raise MalformedError("another number of embeddings than of texts, or uneven ones")
    return np.array([item.embedding for item in found], dtype=np.float32)


# --- chat -------------------------------------------------------------------------------------


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    total_tokens: int = 0


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None


class _Delta(BaseModel):
    content: str | None = None


class _Piece(BaseModel):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Event(BaseModel):
    choices: list[_Piece] = []
    error: Any = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer and the tokens that question and answer took."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """A part of a streamed answer; `last` when the model says that it is complete."""

    text: str = ""
    last: bool = False


def chat_forms(schema: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """Return what may be added to a chat request, the best first: servers refuse some of it."""
    still = {"temperature": 0}
    if schema is None:
        return (still, {})
    strict = {"name": "extraction", "strict": True, "schema": dict(schema)}
    return (
        still | {"response_format": {"type": "json_schema", "json_schema": strict}},
        still | {"response_format": {"type": "json_object"}},
        still,
        {},
    )


def chat_request(
    model: str,
    messages: Sequence[Mapping[str, str]],
    form: Mapping[str, Any],
    *,
    stream: bool = False,
) -> bytes:
    """Return the body that asks for an answer."""
    return _json({"model": model, "messages": list(messages), "stream": stream, **form})


def read_completion(body: bytes) -> Completion:
    """Return a whole answer; one without text is malformed."""
    try:
        found = _Completion.model_validate_json(body)
    except ValidationError:
        raise MalformedError("no chat completion") from None
    text = found.choices[0].message.content
    if not text:
        raise MalformedError("an empty answer", text_at_fault=True)
    return Completion(text, max(0, found.usage.total_tokens) if found.usage else 0)


def read_line(line: str) -> Spoken | None:
    """Return what a line of a streamed answer says; None for lines that say nothing."""
    field, _, value = line.partition(":")
    if field != "data":
        return None
    value = value.strip()
    if value == "[DONE]":
        return Spoken(last=True)
    try:
        event = _Event.model_validate_json(value)
    except ValidationError:
        raise MalformedError("a streamed part that is none") from None
    if event.error:
        raise MalformedError("an error amid its answer")
    if not event.choices:
        return None
    piece = event.choices[0]
    return Spoken(piece.delta.content or "", last=piece.finish_reason is not None)


def _json(value: Mapping[str, Any]) -> bytes:
    # Escaped: a lone surrogate that slipped through must not keep a request from being written.
    return json.dumps(value, ensure_ascii=True).encode("ascii")
