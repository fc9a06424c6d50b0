"""Whatever bytes and whatever JSON a server sends: a sound result or a LightRagError."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_lightrag import TOOLS, toolbox

from .behaviours import head, json_body, says, status
from .replies import ARGUMENTS, REPLIES, places, replaced
from .server import HostileServer
from .support import (
    TOOL_NAMES,
    healthy,
    schema_faults,
    settings_for,
    try_call,
)

# One server and one pool serve all examples; the shared CI machine sets the pace of each.
quickly = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SCHEMAS = {tool.name: tool.output_schema for tool in TOOLS}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["busy", "not_allowed", "success", "failure", "[no-context]", "processed"])
)
field_names = sorted(
    {str(place[-1]) for _, reply in REPLIES.values() for place in places(reply) if place}
)
keys = st.text(max_size=8) | st.sampled_from(field_names)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20
)


@pytest.fixture
async def server():
    """A server whose answer each example sets."""
    with HostileServer(healthy()) as hostile:
        yield hostile


@pytest.fixture
async def tools(server):
    """The tools under one configuration, their connections shared by all examples."""
    async with toolbox(settings_for(server.url)) as dispatcher:
        yield dispatcher


async def holds(tools, tool, arguments=None):
    """Call a tool: anything but a sound result and a LightRagError fails here."""
    result = await try_call(tools, tool, arguments)
    if result.error is None:
        assert not schema_faults(result.structured, SCHEMAS[tool])
        assert result.text
        result.said.encode()
    else:
        assert result.error.message
        str(result.error).encode()


@pytest.mark.parametrize("tool", TOOL_NAMES)
@quickly
@given(body=st.binary(max_size=300), code=st.sampled_from([200, 200, 400, 422, 429, 500, 503]))
async def test_any_bytes_as_a_body_give_a_result_or_an_error(server, tools, tool, body, code):
    server.answer = status(code, body)
    await holds(tools, tool)


@pytest.mark.parametrize("tool", TOOL_NAMES)
@quickly
@given(value=anything, code=st.sampled_from([200, 200, 200, 422, 503]))
async def test_any_json_as_a_body_gives_a_result_or_an_error(server, tools, tool, value, code):
    server.answer = status(code, json.dumps(value).encode())
    await holds(tools, tool)


@st.composite
def changed_replies(draw):
    """Draw a route and its real answer with any JSON in one place of it."""
    route = draw(st.sampled_from(list(REPLIES)))
    reply = REPLIES[route][1]
    place = draw(st.sampled_from(list(places(reply))))
    return route, json.dumps(replaced(reply, place, draw(anything))).encode()


@st.composite
def damaged_replies(draw):
    """Draw a route and its real answer with some bytes cut out and others put in."""
    route = draw(st.sampled_from(list(REPLIES)))
    body = json.dumps(REPLIES[route][1]).encode()
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 8)))
    return route, body[:start] + draw(st.binary(max_size=4)) + body[end:]


@settings(quickly, max_examples=200)
@given(case=changed_replies() | damaged_replies())
async def test_any_change_to_a_real_answer_gives_a_result_or_an_error(server, tools, case):
    route, body = case
    server.answer = {**healthy(), route: json_body(body)}
    await holds(tools, REPLIES[route][0])


@quickly
@given(
    name=st.sampled_from(
        ["Retry-After", "Location", "Content-Encoding", "Content-Type", "Transfer-Encoding", "Via"]
    ),
    value=st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"])),
    code=st.sampled_from([200, 204, 302, 308, 401, 429, 500, 503]),
)
async def test_any_value_of_a_header_gives_a_result_or_an_error(server, tools, name, value, code):
    server.answer = status(code, b'{"response": "fine"}', [(name, value)])
    await holds(tools, "dsh_lightrag_query")


@quickly
@given(raw=st.binary(max_size=200), beginning=st.sampled_from([b"", b"HTTP/1.1 ", head(200)]))
async def test_any_bytes_on_the_wire_give_a_result_or_an_error(server, tools, raw, beginning):
    server.answer = says(beginning + raw)
    await holds(tools, "dsh_lightrag_query")


@st.composite
def free_calls(draw):
    """Draw a tool and arguments that an agent may make up; lone surrogates too."""
    tool = draw(st.sampled_from(TOOLS))
    text = st.text(st.characters(exclude_categories=[]), max_size=30)
    names = st.sampled_from([*tool.input_schema["properties"], "unknown"]) | text
    arguments = draw(st.dictionaries(names, anything | text))
    good = ARGUMENTS[tool.name] if draw(st.booleans()) else {}
    return tool.name, {**good, **arguments}


@settings(quickly, max_examples=150)
@given(call=free_calls())
async def test_any_arguments_give_a_result_or_an_error(tools, call):
    """Agents are as free with arguments as servers are with answers."""
    await holds(tools, *call)
