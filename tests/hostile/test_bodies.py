"""Bodies that are not what the route promises: `bad-response`, or a sound result."""

from __future__ import annotations

import json

import anyio
import pytest

from dsh_lightrag import TOOLS, Code, toolbox

from .behaviours import json_body, json_value, status
from .replies import FIRST_ROUTE, REPLIES, places, replaced, without
from .server import HostileServer
from .support import TOOL_NAMES, attempt, healthy, schema_faults, settings_for, try_call

OK = '{"response": "fine", "references": []'


def ignored(value: str) -> bytes:
    """Return an answer that is fine but for a field that no tool reads."""
    return f'{OK}, "ignored": {value}}}'.encode()


NOT_JSON = {
    "html": b"<!doctype html><title>Log in to the hotel network</title>",
    "half": b'{"response": "fi',
    "two values": b"{} {}",
    "a trailing comma": b'{"response": "fine",}',
    "a comment": b'{"response": "fine" /* really */}',
    "single quotes": b"{'response': 'fine'}",
    "a form": b"response=fine",
    "lines": b'{"response": "one"}\n{"response": "two"}',
    "an event stream": b'data: {"response": "fine"}\n\n',
    "white space": b" \r\n\t ",
    "zeros": bytes(1000),
    "utf-16": json.dumps({"response": "fine"}).encode("utf-16"),
    "utf-32": json.dumps({"response": "fine"}).encode("utf-32"),
    "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf" + ignored("1"),
    "a byte order mark alone": b"\xef\xbb\xbf",
    "invalid UTF-8": b'{"response": "\xff\xfe"}',
    "UTF-8 cut in a character": b'{"response": "\xe2\x82"}',
    "overlong UTF-8": b'{"response": "\xc0\xaf"}',
    "surrogates as UTF-8": b'{"response": "\xed\xa0\x80"}',
    "invalid UTF-8 in an ignored field": ignored('"@"').replace(b"@", b"\xff"),
    "a lone high surrogate": b'{"response": "\\ud800"}',
    "a lone low surrogate": b'{"response": "\\udc00 x"}',
    "surrogates in the wrong order": b'{"response": "\\udc00\\ud800"}',
    "a lone surrogate in an ignored field": ignored('"\\ud800"'),
    "a lone surrogate in a key": b'{"response": "fine", "\\ud800": 1}',
    "a raw control character": b'{"response": "a\x01b"}',
    "NaN": ignored("NaN"),
    "minus NaN": ignored("-NaN"),
    "Infinity": ignored("Infinity"),
    "minus Infinity": ignored("-Infinity"),
    "NaN deep inside": ignored('{"a": [[{"b": NaN}]]}'),
    "NaN for an answer": b'{"response": NaN}',
    "10,000 lists": ignored("[" * 10_000 + "]" * 10_000),
    "10,000 objects": ignored('{"a":' * 10_000 + "1" + "}" * 10_000),
    "1,000,000 opened lists": b"[" * 1_000_000,
    "201 lists": ignored("[" * 201 + "]" * 201),
    "null": b"null",
    "true": b"true",
    "a number": b"7",
    "a string": b'"fine"',
    "an empty list": b"[]",
    "a list of answers": f"[{OK}}}]".encode(),
    "an empty object": b"{}",
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
async def test_a_body_that_breaks_the_promise_is_a_bad_response(body):
    with HostileServer(json_body(body)) as server:
        result = await attempt(server.url)
    assert result.code is Code.BAD_RESPONSE
    assert "hotel" not in result.said


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_no_tool_takes_a_body_that_breaks_the_promise(tool):
    """The bodies above, against every tool over one connection."""
    with HostileServer(status(404)) as server:
        async with toolbox(settings_for(server.url)) as dispatcher:
            for name, body in NOT_JSON.items():
                server.answer = json_body(body)
                with anyio.fail_after(5):
                    result = await try_call(dispatcher, tool)
                assert result.code is Code.BAD_RESPONSE, name


@pytest.mark.parametrize("tool", TOOL_NAMES)
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_a_number_that_is_none_in_any_field_is_a_bad_response(tool, number):
    """Each place of the real answer in turn, the fields that nobody reads among them."""
    route = FIRST_ROUTE[tool]
    reply = REPLIES[route][1]
    with HostileServer(status(404)) as server:
        async with toolbox(settings_for(server.url)) as dispatcher:
            for place in places(reply):
                body = json.dumps(replaced(reply, place, "@@")).replace('"@@"', number)
                server.answer = json_body(body.encode())
                result = await try_call(dispatcher, tool)
                assert result.code is Code.BAD_RESPONSE, place


SOUND = {
    "one byte order mark": b"\xef\xbb\xbf" + ignored("1"),
    "white space around": b"\r\n\t " + ignored("1") + b"\n\n",
    "an unknown field": ignored('{"deep": [1, 2, {"er": null}]}'),
    "150 lists in an ignored field": ignored("[" * 150 + "]" * 150),
    "the words NaN and Infinity": ignored('"NaN, Infinity and -Infinity"'),
    "the last of duplicate keys": b'{"response": "first", "response": "fine"}',
    "a duplicate of another type": b'{"response": [1], "response": "fine"}',
    "a surrogate pair": b'{"response": "fine", "ignored": "\\ud83d\\ude00"}',
    "a map quoted as text": ignored(f'"{"[12.49,41.89]," * 80_000}"'),
    "an escaped name": b'{"respons\\u0065": "fine"}',
    "no content type": None,
}


@pytest.mark.parametrize("body", SOUND.values(), ids=SOUND)
async def test_an_odd_but_honest_body_is_read(body):
    behaviour = json_body(body) if body else status(200, ignored("1"), [])
    with HostileServer(behaviour) as server:
        result = await attempt(server.url)
    assert result.structured["answer"] == "fine"


async def test_of_duplicate_keys_the_last_wins_everywhere():
    body = (
        b'{"response": "a", "references": [{"reference_id": "1", "file_path": "forged.txt",'
        b' "file_path": "curie.txt"}], "response": "b", "llm_generated": false,'
        b' "llm_generated": true}'
    )
    with HostileServer(json_body(body)) as server:
        result = await attempt(server.url)
    assert result.structured["answer"] == "b"
    assert result.structured["references"][0]["filePath"] == "curie.txt"
    assert result.structured["llmGenerated"] is True


HUGE_NUMBERS = {
    "5000 digits": "9" * 5000,
    "minus 5000 digits": "-" + "9" * 5000,
    "a million digits": "9" * 1_000_000,
    "beyond the range of floats": "1e999",
    "minus beyond the range": "-1e999",
    "a long fraction": "0." + "3" * 100_000,
    "2**64": str(2**64),
}


@pytest.mark.parametrize("number", HUGE_NUMBERS.values(), ids=HUGE_NUMBERS)
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_huge_number_in_any_field_gives_a_sound_result_or_a_bad_response(tool, number):
    await every_place_holds(tool, [number])


# --- each field, every wrong value ---------------------------------------------------------------

WRONG = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.5",
    "-0.0",
    '""',
    '"text"',
    '"7"',
    '"-7"',
    '"NaN"',
    '"1e999"',
    "[]",
    "[[]]",
    "[null]",
    '["text", 7]',
    "{}",
    '{"a": 1}',
    '{"id": null, "status": null}',
    '[{"loc": [], "msg": ""}]',
]


async def every_place_holds(tool, values):
    """Put each value in each place of each answer of a tool, and look at what comes back."""
    (schema,) = [one.output_schema for one in TOOLS if one.name == tool]
    routes = [route for route, (user, _) in REPLIES.items() if user == tool]
    with HostileServer(healthy()) as server:
        async with toolbox(settings_for(server.url)) as dispatcher:
            for route in routes:
                reply = REPLIES[route][1]
                for place in places(reply):
                    for value in values:
                        body = json.dumps(replaced(reply, place, "@@")).replace('"@@"', value)
                        server.answer = {**healthy(), route: json_body(body.encode())}
                        with anyio.fail_after(5):
                            result = await try_call(dispatcher, tool)
                        case = (route, place, value[:40])
                        if result.error is None:
                            assert not schema_faults(result.structured, schema), case
                        else:
                            assert result.code is Code.BAD_RESPONSE, case


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_a_wrong_value_in_any_field_gives_a_sound_result_or_a_bad_response(tool):
    await every_place_holds(tool, WRONG)


REQUIRED = {
    "POST /query": [("response",)],
    "POST /query/data": [("status",), ("data",), ("data", "chunks", 0, "content")],
    "POST /documents/paginated": [
        ("documents",),
        ("documents", 0, "id"),
        ("documents", 0, "status"),
    ],
    "GET /health": [("status",)],
    "POST /documents/text": [("status",)],
    "POST /documents/scan": [("status",)],
    "DELETE /documents/delete_document": [("status",)],
}


@pytest.mark.parametrize(
    ("route", "place"), [(route, place) for route in REQUIRED for place in REQUIRED[route]]
)
async def test_a_required_field_that_is_missing_null_or_of_another_type_is_a_bad_response(
    route, place
):
    tool, reply = REPLIES[route]
    bodies = [without(reply, place), *(replaced(reply, place, bad) for bad in (None, 7, True))]
    for body in bodies:
        with HostileServer({**healthy(), route: json_value(body)}) as server:
            result = await attempt(server.url, tool)
        assert result.code is Code.BAD_RESPONSE


@pytest.mark.parametrize("body", [{}, {"status_counts": None}, {"status_counts": []}, [], "html"])
async def test_counts_of_the_wrong_shape_are_the_counts_error_of_a_good_health(body):
    with HostileServer(healthy(status_counts=json_value(body))) as server:
        result = await attempt(server.url, "dsh_lightrag_status")
    assert result.structured["status"] == "healthy"
    assert result.structured["countsError"]["code"] == Code.BAD_RESPONSE


@pytest.mark.parametrize(("sent", "told"), [(-3, 0), (1.7, 1), (0, 0), (12, 12), (1e300, None)])
async def test_numbers_become_non_negative_integers(sent, told):
    place = ("documents", 0, "chunks_count")
    reply = replaced(REPLIES["POST /documents/paginated"][1], place, sent)
    with HostileServer(json_value(reply)) as server:
        result = await attempt(server.url, "dsh_lightrag_documents")
    count = result.structured["documents"][0]["chunksCount"]
    assert isinstance(count, int)
    assert count == told if told is not None else count > 0


@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_fields_of_a_newer_server_are_ignored(tool):
    routes = {
        route: json_value({**reply, "new": {"in": [1, 2]}, "data_v2": None})
        for route, (_, reply) in REPLIES.items()
    }
    with HostileServer(routes) as server:
        result = await attempt(server.url, tool)
    assert result.code is None
