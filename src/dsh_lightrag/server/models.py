"""Chat and embedding models behind OpenAI-compatible endpoints: the server room's only HTTP.

Requests go to the one address of the settings; redirects, proxies and cookies take no part. What
a provider says of its failures may hold what users wrote, so only its code is logged, and clients
are told in our own words. Background work and people who wait have connections of their own.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
import time
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx
import numpy as np

from dsh_lightrag.engine import ChatReply, ModelFaultError, ModelUnavailableError
from dsh_lightrag.logs import get_logger
from dsh_lightrag.server import model_wire
from dsh_lightrag.server.backend import ModelFailedError
from dsh_lightrag.server.model_wire import FailedError, MalformedError
from dsh_lightrag.text import clean

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dsh_lightrag.server.endpoint import Endpoint

T = TypeVar("T")

_MOST_BYTES = 64 * 2**20
_LONGEST_LINE = 2**20
_URGENT_ATTEMPTS = 2
_PROBE = "dimension"
_CHAT = "/chat/completions"
_MEND = "Check the endpoint, its model and its key in the server's settings."


def _unreached(error: httpx.HTTPError) -> FailedError:
    """Name the kind: the text of a timeout is empty, that of others may name addresses."""
    kind = "is silent" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
    return FailedError(f"{kind} ({type(error).__name__})", again=True)


class _Door:
    """What all requests to one endpoint share: headers, limits, the reading of failures."""

    def __init__(self, endpoint: Endpoint, what: str) -> None:
        self.endpoint = endpoint
        self.half = max(1, endpoint.concurrency // 2)
        self._what = what
        self._background = threading.BoundedSemaphore(self.half)
        self._urgent = threading.BoundedSemaphore(self.half)
        self._client = httpx.Client(**self.options())

    def options(self) -> dict[str, Any]:
        """Return the options of a client for this endpoint."""
        headers = {"content-type": "application/json"}
        if self.endpoint.key_env:
            headers["authorization"] = f"Bearer {os.environ[self.endpoint.key_env].strip()}"
        secure = self.endpoint.url.lower().startswith("https")
        return {
            "headers": headers,
            "timeout": self.endpoint.timeout_s,
            "trust_env": False,
            "follow_redirects": False,
            # Reading the public authorities takes 20 ms; plain HTTP does without.
            "verify": httpx.create_ssl_context()
            if secure
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        }

    def url(self, path: str) -> str:
        """Return the address of a route."""
        return f"{self.endpoint.url.rstrip('/')}{path}"

    def close(self) -> None:
        """Close the connections of threads."""
        self._client.close()

    def post(
        self, path: str, body: bytes, read: Callable[[bytes], T], *, urgent: bool = False
    ) -> T:
        """Ask from a thread until there is an answer, or no hope of one."""
        attempts = _URGENT_ATTEMPTS if urgent else self.endpoint.attempts
        for attempt in count(1):
            try:
                with self._urgent if urgent else self._background:
                    return self._once(path, body, read)
            except FailedError as failure:
                rest = failure.rest(attempt, attempts)
                if rest is None:
                    raise self.fault(failure) from failure
            time.sleep(rest)
        raise AssertionError("unreachable: the loop above ends by itself")

    def _once(self, path: str, body: bytes, read: Callable[[bytes], T]) -> T:
        try:
            with self._client.stream("POST", self.url(path), content=body) as response:
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    refuse_too_much(len(content))
        except httpx.HTTPError as error:
            raise _unreached(error) from error
        except RuntimeError as error:
            if not self._client.is_closed:
                raise
            # A worker that was left behind asks on after its keeper was closed.
            raise FailedError("is not asked any more", again=False) from error
        self.refuse_status(response, bytes(content))
        try:
            return read(bytes(content))
        except MalformedError as wrong:
            raise self.malformed(wrong) from wrong

    def refuse_status(self, response: httpx.Response, content: bytes) -> None:
        """Raise unless the answer is a 200."""
        if response.status_code == httpx.codes.OK:
            return
        verdict = model_wire.judge(response.status_code)
        get_logger().warning(
            "model_refused",
            what=self._what,
            status=response.status_code,
            kind=model_wire.kind_of_refusal(content),
        )
        wait = model_wire.seconds_of(response.headers.get("retry-after", ""))
        raise FailedError(
            verdict.says, again=verdict.again, text_at_fault=verdict.text_at_fault, wait_s=wait
        )

    def malformed(self, wrong: MalformedError) -> FailedError:
        """Return an answer that is none as the failure it is."""
        return FailedError(f"answered with {wrong}", again=False, text_at_fault=wrong.text_at_fault)

    def fault(self, failure: FailedError) -> ModelFaultError:
        """Return a failure as the engine's: does a text bear the blame, or the endpoint?"""
        kind = ModelFaultError if failure.text_at_fault else ModelUnavailableError
        return kind(self.problem(failure), _MEND)

    def problem(self, failure: FailedError) -> str:
        """Return a failure as a sentence for anyone."""
        return f"The {self._what} endpoint {failure.says}."


class EmbeddingEndpoint:
    """The engine's embedder over an endpoint; every method may be called from any thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._door = _Door(endpoint, "embedding")
        self._dimension = endpoint.dimension
        self._probing = threading.Lock()

    @property
    def identity(self) -> str:
        """Return what a base remembers of the model."""
        return f"{self._door.endpoint.model}@{self.dimension}"

    @property
    def dimension(self) -> int:
        """Return the length of a row; asks the endpoint when it is not known."""
        with self._probing:
            if not self._dimension:
                self._dimension = self._rows([_PROBE], urgent=True).shape[1]
        return self._dimension

    def presume(self, remembered: str) -> None:
        """Take the length of a row from what a base remembers, if it was made with this model."""
        known = re.fullmatch(
            rf"{re.escape(self._door.endpoint.model)}@([0-9]{{1,5}}) \(\1\)", remembered
        )
        with self._probing:
            if known and not self._dimension:
                self._dimension = int(known[1])

    def embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        """Return one row per text; raises `ModelFaultError` or `ModelUnavailableError`."""
        dimension = self.dimension
        rows = [np.empty((0, dimension), dtype=np.float32)]
        rows += [self._rows(batch, urgent=query) for batch in model_wire.batches(texts)]
        if any(part.shape[1] != dimension for part in rows):
            raise ModelUnavailableError(
                f"The embedding endpoint gives vectors of another length than {dimension}.", _MEND
            )
        return np.concatenate(rows)

    def _rows(self, texts: Sequence[str], *, urgent: bool) -> NDArray[np.float32]:
        # A blank text is refused by some servers, and means nothing to the others.
        body = model_wire.embedding_request(
            self._door.endpoint.model, [text if text.strip() else "." for text in texts]
        )
        return self._door.post(
            "/embeddings",
            body,
            lambda content: model_wire.read_embeddings(content, len(texts)),
            urgent=urgent,
        )

    def close(self) -> None:
        """Close the connections."""
        self._door.close()


class ChatEndpoint:
    """A chat model: the engine's reader of passages, and the writer of answers."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._door = _Door(endpoint, "chat")
        self._form = 0  # of the forms with a schema, the first that the server accepted
        self._client: httpx.AsyncClient | None = None
        # A semaphore: a stream is begun in one task and read on in another.
        self._answers = anyio.Semaphore(self._door.half)

    def complete(self, instructions: str, text: str, schema: Mapping[str, Any] | None) -> ChatReply:
        """Answer from a thread, as the engine asks; raises as an embedder does."""
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": text}]
        return self._completed(messages, schema)

    def converse(self, messages: Sequence[Mapping[str, str]], *, urgent: bool) -> ChatReply:
        """Answer a conversation from a thread; raises as an embedder does."""
        return self._completed(messages, None, urgent=urgent)

    def _completed(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any] | None,
        *,
        urgent: bool = False,
    ) -> ChatReply:
        forms = model_wire.chat_forms(schema)
        start = self._form if schema else 0
        refused: ModelFaultError | None = None
        for number, form in enumerate(forms[start:], start):
            body = model_wire.chat_request(self._door.endpoint.model, messages, form)
            try:
                told = self._door.post(_CHAT, body, model_wire.read_completion, urgent=urgent)
            except ModelUnavailableError:
                raise
            except ModelFaultError as refusal:
                # Perhaps not the text but the form was refused: the next one asks for less.
                refused = refusal
            else:
                if schema:
                    self._form = number
                return ChatReply(told.text, told.tokens)
        raise refused or ModelFaultError("The chat endpoint was asked for nothing.", _MEND)

    async def say(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return a whole answer; raises `ModelFailedError`."""
        return "".join([piece async for piece in await self.stream(messages)])

    async def stream(self, messages: Sequence[Mapping[str, str]]) -> AsyncGenerator[str]:
        """Return an answer as it is written, once its first part has come.

        Raises `ModelFailedError`, also while it is read: an answer that breaks off is a failure.
        """
        spoken = self._spoken(messages)
        try:
            first = await anext(spoken)
        except StopAsyncIteration:
            raise ModelFailedError("The chat endpoint answered with no text.", _MEND) from None
        return _resumed(first, spoken)

    async def _spoken(self, messages: Sequence[Mapping[str, str]]) -> AsyncGenerator[str]:
        forms = list(model_wire.chat_forms(None))
        attempt = 1
        begun = False
        while True:
            body = model_wire.chat_request(
                self._door.endpoint.model, messages, forms[0], stream=True
            )
            try:
                async with aclosing(self._streamed(body)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return  # noqa: TRY300 - the loop above is the rest of the try
            except FailedError as failure:
                rest = None if begun else failure.rest(attempt, self._door.endpoint.attempts)
                if failure.text_at_fault and not begun and len(forms) > 1:
                    del forms[0]
                    continue
                if rest is None:
                    raise ModelFailedError(self._door.problem(failure), _MEND) from failure
            attempt += 1
            await anyio.sleep(rest)

    async def _streamed(self, body: bytes) -> AsyncGenerator[str]:
        """Ask once; yield what comes, and raise unless the model said that it is complete."""
        if self._client is None:
            self._client = httpx.AsyncClient(**self._door.options())
        request = self._client.stream("POST", self._door.url(_CHAT), content=body)
        try:
            async with self._answers, request as response:
                whole = response.headers.get("content-type", "").startswith("application/json")
                if whole or response.status_code != httpx.codes.OK:
                    yield await self._whole(response)
                    return
                async for line in _lines(response):
                    spoken = model_wire.read_line(line)
                    if spoken is not None and spoken.text:
                        yield clean(spoken.text)
                    if spoken is not None and spoken.last:
                        return
        except httpx.HTTPError as error:
            raise _unreached(error) from error
        except MalformedError as wrong:
            raise self._door.malformed(wrong) from wrong
        raise FailedError("broke off amid its answer", again=True)

    async def _whole(self, response: httpx.Response) -> str:
        """Return the answer of a server that does not stream, or raise what it refuses."""
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            refuse_too_much(len(content))
        self._door.refuse_status(response, bytes(content))
        return clean(model_wire.read_completion(bytes(content)).text)

    async def close(self) -> None:
        """Close the connections."""
        self._door.close()
        if self._client is not None:
            await self._client.aclose()


def refuse_too_much(size: int) -> None:
    """Raise for an answer that no model would give."""
    if size > _MOST_BYTES:
        raise FailedError("answered with more than a model says", again=False)


async def _resumed(first: str, rest: AsyncGenerator[str]) -> AsyncGenerator[str]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


async def _lines(response: httpx.Response) -> AsyncGenerator[str]:
    """Yield the lines of a stream, none longer than a bound."""
    pending = bytearray()
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        refuse_too_much(size)
        *lines, rest = (bytes(pending) + part).split(b"\n")
        pending = bytearray(rest)
        refuse_too_much(len(pending) * (_MOST_BYTES // _LONGEST_LINE))
        for line in lines:
            yield line.decode("utf-8", "replace")
    if pending:
        yield pending.decode("utf-8", "replace")
