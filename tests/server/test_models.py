"""Models behind OpenAI-compatible endpoints: asked once, retried sensibly, quoted never."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_lightrag.demo.stub_model import Backend, StubModel
from dsh_lightrag.engine import ModelFaultError, ModelUnavailableError
from dsh_lightrag.errors import ConfigurationError
from dsh_lightrag.server import model_wire
from dsh_lightrag.server.backend import ModelFailedError
from dsh_lightrag.server.endpoint import Endpoint
from dsh_lightrag.server.model_wire import MalformedError
from dsh_lightrag.server.models import ChatEndpoint, EmbeddingEndpoint

# The provider that fails to order lives beside the tests that use it most.
sys.path.insert(0, str(Path(__file__).parent / "embedded"))
from embedded_support import Provider, Reply, completion, embeddings, streamed

SECRET = "sk-secret-8812"
SCHEMA = {"type": "object"}
LEAK = b'{"error": {"message": "user wrote PRIVATE to host-7", "type": "t", "code": "quota"}}'


@pytest.fixture
def provider():
    with Provider(embeddings) as running:
        yield running


def embedder(provider, **more):
    return EmbeddingEndpoint(Endpoint(provider.url, "m", **{"attempts": 3, **more}))


def chat(provider, **more):
    return ChatEndpoint(Endpoint(provider.url, "m", **{"attempts": 3, **more}))


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["", "api.example.com/v1", "ftp://x/v1", "http://u:p@x/v1", "http://x/v1?k=v", "http://x/a b"],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError) as refused:
        Endpoint(url, "m")
    assert "u:p" not in str(refused.value)


def test_a_key_whose_variable_is_not_set_is_refused():
    with pytest.raises(ConfigurationError, match="NO_SUCH_KEY"):
        Endpoint("http://x/v1", "m", key_env="NO_SUCH_KEY")


def test_the_key_is_sent_from_its_variable_and_stands_nowhere_else(provider, monkeypatch):
    monkeypatch.setenv("PROVIDER_KEY", f"{SECRET}\n")
    asking = embedder(provider, key_env="PROVIDER_KEY")

    asking.embed(["a"], query=False)

    assert provider.headers[-1]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in repr(asking._door.endpoint)  # noqa: SLF001 - what a log would show


# --- embeddings -------------------------------------------------------------------------------


def test_the_real_stub_embeds_and_its_dimension_is_asked_once():
    with StubModel() as stub:
        asking = EmbeddingEndpoint(Endpoint(stub.url, "stub"))
        rows = asking.embed(["one", "two", "one"], query=True)

        assert asking.identity == "stub@256"
        assert rows.shape == (3, 256)
        assert np.array_equal(rows[0], rows[2])
        assert sum(stub.requests.values()) == 2


def test_many_texts_are_sent_in_batches_and_keep_their_order(provider):
    texts = ["x" * (n + 1) for n in range(150)] + ["y" * 90_000, "z" * 90_000]

    rows = embedder(provider, dimension=3).embed(texts, query=False)

    assert [len(request["input"]) for request in provider.asked] == [64, 64, 23, 1]
    assert rows[:, 1].tolist() == [float(len(text)) for text in texts]


def test_rows_that_come_in_another_order_are_put_right(provider):
    data = [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}]
    provider.replies = [Reply(body=json.dumps({"data": data}).encode())]

    assert embedder(provider, dimension=1).embed(["a", "b"], query=False).tolist() == [[1.0], [2.0]]


def test_a_blank_text_and_a_lone_surrogate_can_be_sent(provider):
    embedder(provider, dimension=3).embed([" ", "\ud800"], query=False)

    assert provider.asked[0]["input"][0] == "."
    assert len(provider.asked[0]["input"]) == 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>login</html>", ModelUnavailableError),
        (b"{}", ModelUnavailableError),
        (b'{"data": []}', ModelUnavailableError),
        (b'{"data": [{"index": 0, "embedding": [1, 2]}]}', ModelUnavailableError),
        (b'{"data": [{"index": 1, "embedding": [1, 2, 3]}]}', ModelUnavailableError),
        (b'{"data": [{"index": 0, "embedding": [null, 2, 3]}]}', ModelFaultError),
        (b'{"data": [{"index": 0, "embedding": []}]}', ModelFaultError),
    ],
)
def test_an_answer_that_is_no_embedding_is_a_fault(provider, body, kind):
    provider.replies = [Reply(body=body)]

    with pytest.raises(ModelFaultError) as fault:
        embedder(provider, dimension=3).embed(["a"], query=False)
    assert type(fault.value) is kind
    assert len(provider.asked) == 1


# --- failures ---------------------------------------------------------------------------------


def test_a_429_is_tried_again_when_the_endpoint_said_so(provider):
    provider.replies = [Reply(429, LEAK, {"retry-after": "1"}), embeddings]
    started = time.monotonic()

    embedder(provider, dimension=3).embed(["a"], query=False)

    assert len(provider.asked) == 2
    assert 1.0 <= time.monotonic() - started < 10


def test_a_wait_that_is_too_long_is_left_to_whoever_asks_again_later(provider):
    provider.replies = [Reply(429, LEAK, {"retry-after": "3600"})]

    with pytest.raises(ModelUnavailableError, match="no capacity"):
        embedder(provider, dimension=3).embed(["a"], query=False)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("status", "asked", "kind"),
    [
        (400, 1, ModelFaultError),
        (413, 1, ModelFaultError),
        (401, 1, ModelUnavailableError),
        (404, 1, ModelUnavailableError),
        (302, 1, ModelUnavailableError),
        (500, 2, ModelUnavailableError),
        (503, 2, ModelUnavailableError),
    ],
)
def test_each_status_is_tried_as_often_as_it_makes_sense_and_quotes_nobody(
    provider, capsys, status, asked, kind
):
    provider.replies = [Reply(status, LEAK, {"location": "http://127.0.0.1:9/elsewhere"})]

    with pytest.raises(ModelFaultError) as fault:
        embedder(provider, dimension=3, attempts=2).embed(["a"], query=False)

    assert type(fault.value) is kind
    assert len(provider.asked) == asked
    assert str(status) in fault.value.problem
    log = capsys.readouterr().err
    assert '"kind": "quota"' in log
    assert "PRIVATE" not in str(fault.value) + log


def test_who_waits_for_a_question_waits_for_two_attempts_at_most(provider):
    provider.replies = [Reply(503)]

    with pytest.raises(ModelUnavailableError):
        embedder(provider, dimension=3, attempts=9).embed(["a"], query=True)
    assert len(provider.asked) == 2


def test_an_endpoint_that_is_not_there_or_silent_is_named_by_kind():
    with StubModel(slow_s=30) as stub:
        stub.embeddings = Backend.SLOW
        silent = EmbeddingEndpoint(Endpoint(stub.url, "m", timeout_s=0.3, attempts=1))
        with pytest.raises(ModelUnavailableError, match=r"is silent \(ReadTimeout\)"):
            silent.embed(["a"], query=False)
        stub.embeddings = Backend.OK
    gone = EmbeddingEndpoint(Endpoint(stub.url, "m", attempts=1))
    with pytest.raises(ModelUnavailableError, match=r"cannot be reached \(ConnectError\)"):
        gone.embed(["a"], query=False)


def test_a_body_that_breaks_off_or_never_ends_is_a_failure(provider, monkeypatch):
    provider.replies = [Reply(body=b'{"data"', lies_about_length=True)]
    with pytest.raises(ModelUnavailableError, match="RemoteProtocolError"):
        embedder(provider, dimension=3, attempts=1).embed(["a"], query=False)

    monkeypatch.setattr("dsh_lightrag.server.models._MOST_BYTES", 1000)
    provider.replies = [Reply(body=b" " * 2000)]
    with pytest.raises(ModelUnavailableError, match="more than a model says"):
        embedder(provider, dimension=3).embed(["a"], query=False)


# --- chat -------------------------------------------------------------------------------------


def test_a_passage_is_read_with_temperature_0_and_a_schema(provider):
    provider.replies = [completion('{"a": 1}', tokens=31)]

    reply = chat(provider).complete("Rules", "Passage", SCHEMA)

    assert (reply.text, reply.tokens) == ('{"a": 1}', 31)
    sent = provider.asked[0]
    assert provider.paths == ["/v1/chat/completions"]
    assert (sent["temperature"], sent["stream"]) == (0, False)
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]


def test_a_server_that_refuses_the_schema_is_asked_for_less_and_that_is_remembered(provider):
    def picky(request):
        if request.get("response_format", {}).get("type") == "json_schema":
            return Reply(400, LEAK)
        return completion("{}")

    provider.replies = [picky]
    asking = chat(provider)
    asking.complete("Rules", "Passage", SCHEMA)
    asking.complete("Rules", "Passage", SCHEMA)

    forms = [request.get("response_format", {}).get("type") for request in provider.asked]
    assert forms == ["json_schema", "json_object", "json_object"]


def test_a_text_that_every_form_refuses_is_the_texts_fault_and_no_form_is_forgotten(provider):
    provider.replies = [Reply(400, LEAK)]
    asking = chat(provider)
    with pytest.raises(ModelFaultError) as fault:
        asking.complete("Rules", "Passage", SCHEMA)
    provider.replies = [completion("{}")]
    asking.complete("Rules", "Passage", SCHEMA)

    assert type(fault.value) is ModelFaultError
    assert provider.asked[-1]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>", ModelUnavailableError),
        (b'{"choices": []}', ModelUnavailableError),
        (b'{"choices": [{"message": {"content": null}}]}', ModelFaultError),
    ],
)
def test_an_answer_without_text_is_a_fault(provider, body, kind):
    provider.replies = [Reply(body=body)]

    with pytest.raises(ModelFaultError) as fault:
        chat(provider).complete("Rules", "Passage", None)
    assert type(fault.value) is kind


async def said(asking, messages=({"role": "user", "content": "Hello"},)):
    try:
        return await asking.say(messages)
    finally:
        await asking.close()


async def test_an_answer_is_streamed_piece_by_piece_and_cleaned(provider):
    provider.replies = [streamed("Mar", "ie\x00", " \u202eCurie")]
    asking = chat(provider)
    pieces = [piece async for piece in await asking.stream([{"role": "user", "content": "Who?"}])]
    await asking.close()

    assert pieces == ["Mar", "ie\ufffd", " \ufffdCurie"]
    assert provider.asked[0]["stream"] is True


async def test_a_server_that_does_not_stream_answers_whole(provider):
    provider.replies = [completion("All at once.")]

    assert await said(chat(provider)) == "All at once."


async def test_a_stream_that_says_it_is_complete_needs_no_last_mark(provider):
    end = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    provider.replies = [streamed("Done.", done=False, more=end)]

    assert await said(chat(provider)) == "Done."


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (b"", "broke off"),
        (b'data: {"error": {"message": "PRIVATE host-7"}}\n\n', "an error amid its answer"),
        (b"data: nonsense\n\n", "a streamed part that is none"),
    ],
)
async def test_an_answer_that_breaks_off_is_a_failure_and_is_not_begun_again(provider, more, says):
    provider.replies = [streamed("Half", done=False, more=more)]
    asking = chat(provider)
    pieces = await asking.stream([{"role": "user", "content": "Hello"}])

    assert await anext(pieces) == "Half"
    with pytest.raises(ModelFailedError, match=says) as failed:
        await anext(pieces)
    await asking.close()
    assert "PRIVATE" not in str(failed.value)
    assert len(provider.asked) == 1


async def test_an_answer_that_does_not_begin_is_tried_again(provider):
    provider.replies = [Reply(503), streamed(done=False), streamed("At last.")]

    assert await said(chat(provider)) == "At last."
    assert len(provider.asked) == 3


@pytest.mark.parametrize("status", [401, 404])
async def test_a_refused_answer_is_a_failure_at_once(provider, status):
    provider.replies = [Reply(status, LEAK)]

    with pytest.raises(ModelFailedError, match=str(status)) as failed:
        await said(chat(provider))
    assert "PRIVATE" not in str(failed.value)
    assert len(provider.asked) == 1


async def test_a_model_that_knows_no_temperature_answers_without(provider):
    def picky(request):
        return Reply(400, LEAK) if "temperature" in request else streamed("Warm.")

    provider.replies = [picky]

    assert await said(chat(provider)) == "Warm."


async def test_a_line_that_never_ends_is_cut_off(provider, monkeypatch):
    monkeypatch.setattr("dsh_lightrag.server.models._LONGEST_LINE", 1000)
    monkeypatch.setattr("dsh_lightrag.server.models._MOST_BYTES", 100_000)
    body = b"data: " + b"x" * 50_000
    provider.replies = [Reply(body=body, headers={"content-type": "text/event-stream"})]

    with pytest.raises(ModelFailedError, match="more than a model says"):
        await said(chat(provider, attempts=1))


# --- values -----------------------------------------------------------------------------------


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_body_breaks_a_reader(body):
    for read in (model_wire.read_completion, lambda data: model_wire.read_embeddings(data, 1)):
        with pytest.raises(MalformedError):
            read(body)
    assert model_wire.kind_of_refusal(body) == "unknown"


@given(st.text(max_size=60))
def test_no_line_and_no_header_breaks_a_reader(text):
    try:
        model_wire.read_line(text)
        model_wire.read_line(f"data: {text}")
    except MalformedError as wrong:
        assert str(wrong)  # noqa: PT017 - any other exception is what must not come
    seconds = model_wire.seconds_of(text)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("7", 7, 7),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 31 Dec 2100 00:00:00 GMT", 1e6, 1e10),
    ],
)
def test_a_wait_is_read_as_seconds_or_as_a_date(value, low, high):
    assert low <= model_wire.seconds_of(value) <= high
