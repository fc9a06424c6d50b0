"""A model that follows a script: the Anthropic Messages API, streamed, as the harness asks it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LAST_WORDS = "That is all."


@dataclass(frozen=True)
class Call:
    """A tool call that the model makes."""

    tool: str
    arguments: object = None


@dataclass(frozen=True)
class Said:
    """What the model was told of a call."""

    text: str
    is_error: bool


class ScriptedModel:
    """Makes the calls of one step after another, then says its last words.

    A step is a list of calls, made at once, or a function that returns such a list: it runs when
    the model is asked for this step, so with the outcome of those before it known.

    Attributes:
        requests: the bodies of the requests that offer tools; one for a title offers none.
        fault: what a step's function raised.
    """

    def __init__(self, *steps):
        self.requests = []
        self.fault = None
        self._steps = list(steps)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def tools(self):
        """The tools that the model was offered at first: name to definition."""
        return {tool["name"]: tool for tool in self.requests[0]["tools"]}

    @property
    def said(self):
        """What each call came to, in the order of the script."""
        return [
            Said(_text_of(block["content"]), bool(block.get("is_error")))
            for message in self.requests[-1]["messages"]
            if message["role"] == "user" and isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]

    def _calls(self, body):
        if not body.get("tools"):
            return []
        self.requests.append(body)
        step = self._steps.pop(0) if self._steps else []
        try:
            return step() if callable(step) else step
        except BaseException as error:  # noqa: BLE001 - told by the test, not by this thread
            self.fault = error
            return []

    def _handler(outer):  # noqa: N805 - inside, `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                data = "".join(_events(body["model"], outer._calls(body))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        return Handler


def _text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content)


def _events(model, calls):
    """Yield the events of one message: tool calls, or the last words."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield _event("message_start", message=message)
    for index, call in enumerate(calls):
        use = {
            "type": "tool_use",
            "id": f"call-{id(calls)}-{index}",
            "name": call.tool,
            "input": {},
        }
        arguments = json.dumps(call.arguments or {})
        delta = {"type": "input_json_delta", "partial_json": arguments}
        yield from _block(index, use, delta)
    if not calls:
        text = {"type": "text_delta", "text": LAST_WORDS}
        yield from _block(0, {"type": "text", "text": ""}, text)
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": 1})
    yield _event("message_stop")


def _block(index, block, delta):
    yield _event("content_block_start", index=index, content_block=block)
    yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(name, **data):
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"
