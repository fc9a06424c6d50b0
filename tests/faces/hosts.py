"""Each framework as a host: what it shows a model, and what a model's call comes back as.

Where a framework runs tools inside a run, the run is real and only the model is scripted.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import Any

import llm
from agents import Agent as OpenAIAgent
from agents import Runner
from agents.items import ModelResponse as OpenAIResponse
from agents.items import ToolCallOutputItem
from agents.models.interface import Model as OpenAIModel
from agents.usage import Usage
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient
from claude_agent_sdk import Transport as ClaudeTransport
from langchain_core.messages import ToolCall
from langchain_core.utils.function_calling import convert_to_openai_tool
from llama_index.core.tools.calling import acall_tool, call_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from dsh_lightrag.faces import claude_agent, langchain, llama_index, openai_agents, pydantic_ai
from dsh_lightrag.faces import llm as llm_face


@dataclass(frozen=True)
class Shown:
    """What the model reads, whether the framework knows that it is an error, and the data."""

    text: str
    failed: bool
    structured: Any = None


class _ListHost:
    """A framework whose tools are a list to be closed."""

    module: Any
    marks_errors = True
    keeps_structure = True

    def __init__(self, source):
        self.tools = self.module.tools(source)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.tools.aclose()

    def tool(self, name):
        return next(tool for tool in self.tools if self.name(tool) == name)

    @staticmethod
    def name(tool):
        return tool.name


class LangChain(_ListHost):
    module = langchain

    async def definitions(self):
        functions = [convert_to_openai_tool(tool)["function"] for tool in self.tools]
        return [(f["name"], f["description"], f["parameters"]) for f in functions]

    async def call(self, name, arguments):
        call = ToolCall(name=name, args=arguments, id="1", type="tool_call")
        return self._shown(await self._invoke(self.tool(name), call))

    async def _invoke(self, tool, call):
        return await tool.ainvoke(call)

    @staticmethod
    def _shown(message):
        return Shown(message.content, message.status == "error", message.artifact)


class LangChainWithoutAwait(LangChain):
    async def _invoke(self, tool, call):
        return tool.invoke(call)  # inside the running loop


class LlamaIndex(_ListHost):
    module = llama_index

    @staticmethod
    def name(tool):
        return tool.metadata.name

    async def definitions(self):
        functions = [tool.metadata.to_openai_tool()["function"] for tool in self.tools]
        return [(f["name"], f["description"], f["parameters"]) for f in functions]

    async def call(self, name, arguments):
        return self._shown(await acall_tool(self.tool(name), arguments))

    @staticmethod
    def _shown(output):
        return Shown(output.content, output.is_error, output.raw_output)


class LlamaIndexWithoutAwait(LlamaIndex):
    async def call(self, name, arguments):
        return self._shown(call_tool(self.tool(name), arguments))


class PydanticAI:
    marks_errors = True
    keeps_structure = True

    def __init__(self, source):
        self.toolset = pydantic_ai.tools(source)
        self._wanted = None
        self._seen = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        """Nothing to close: the run did."""

    def _model(self, messages, info):
        self._seen = info.function_tools
        if self._wanted is not None:
            name, arguments = self._wanted
            self._wanted = None
            return ModelResponse(parts=[ToolCallPart(name, json.dumps(arguments))])
        self.last = messages[-1].parts[-1]
        return ModelResponse(parts=[TextPart("done")])

    async def _run(self, wanted=None):
        self._wanted = wanted
        await PydanticAgent(FunctionModel(self._model), toolsets=[self.toolset]).run("go")

    async def definitions(self):
        await self._run()
        return [(t.name, t.description, t.parameters_json_schema) for t in self._seen]

    async def call(self, name, arguments):
        await self._run((name, arguments))
        part = self.last
        failed = part.outcome in ("failed", "retried")
        return Shown(part.model_response_str(), failed, part.metadata)


class _ScriptedOpenAI(OpenAIModel):
    def __init__(self, wanted=None):
        self._wanted = wanted
        self.seen = []

    async def get_response(self, *, tools, **_):
        self.seen = tools
        output = ResponseOutputMessage(
            id="m",
            role="assistant",
            status="completed",
            type="message",
            content=[ResponseOutputText(text="done", type="output_text", annotations=[])],
        )
        if self._wanted is not None:
            name, arguments = self._wanted
            self._wanted = None
            output = ResponseFunctionToolCall(
                name=name, arguments=json.dumps(arguments), call_id="1", type="function_call"
            )
        return OpenAIResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


class OpenAIAgents(_ListHost):
    module = openai_agents
    marks_errors = False  # the SDK has no such mark
    keeps_structure = False

    async def _run(self, wanted=None):
        model = _ScriptedOpenAI(wanted)
        agent = OpenAIAgent(name="librarian", model=model, tools=self.tools)
        return model, await Runner.run(agent, "go")

    async def definitions(self):
        model, _ = await self._run()
        return [(t.name, t.description, t.params_json_schema) for t in model.seen]

    async def call(self, name, arguments):
        _, result = await self._run((name, arguments))
        items = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        text = items[0].output
        return Shown(text, text.startswith("dsh-lightrag"))


class ClaudeCode(ClaudeTransport):
    """Claude Code's side of the SDK's control channel."""

    def __init__(self):
        self._to_sdk = asyncio.Queue()
        self._waiting = {}
        self._ids = itertools.count()

    async def connect(self):
        """Nothing to start."""

    async def write(self, data):
        message = json.loads(data)
        if message["type"] == "control_request":  # the SDK's own handshake
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self._to_sdk.put({"type": "control_response", "response": response})
        if message["type"] == "control_response":
            response = message["response"]
            self._waiting.pop(response["request_id"]).set_result(response)

    async def read_messages(self):
        while (message := await self._to_sdk.get()) is not None:
            yield message

    async def close(self):
        await self._to_sdk.put(None)

    async def end_input(self):
        """The channel stays open."""

    def is_ready(self):
        return True

    async def send(self, method, params, *, notification=False):
        """Send a message to the in-process server and return its result."""
        number = next(self._ids)
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notification:
            message["id"] = number
        answer = self._waiting[f"cli-{number}"] = asyncio.get_running_loop().create_future()
        request = {"subtype": "mcp_message", "server_name": "kb", "message": message}
        await self._to_sdk.put(
            {"type": "control_request", "request_id": f"cli-{number}", "request": request}
        )
        try:
            response = await asyncio.shield(answer)
        except asyncio.CancelledError:
            await self._to_sdk.put(
                {
                    "type": "control_request",
                    "request_id": "cli-cancel",
                    "request": {
                        "subtype": "mcp_message",
                        "server_name": "kb",
                        "message": {
                            "jsonrpc": "2.0",
                            "method": "notifications/cancelled",
                            "params": {"requestId": number},
                        },
                    },
                }
            )
            self._waiting["cli-cancel"] = asyncio.get_running_loop().create_future()
            raise
        return response["response"]["mcp_response"]["result"]


class ClaudeAgent:
    marks_errors = True
    keeps_structure = False

    def __init__(self, source):
        self._code = ClaudeCode()
        options = ClaudeAgentOptions(mcp_servers={"kb": claude_agent.tools(source)})
        self._client = ClaudeSDKClient(options, transport=self._code)

    async def __aenter__(self):
        await self._client.connect()
        await self._code.send(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "claude-code", "version": "2"},
            },
        )
        await self._code.send("notifications/initialized", {}, notification=True)
        return self

    async def __aexit__(self, *_):
        await self._client.disconnect()

    async def listed(self):
        return (await self._code.send("tools/list", {}))["tools"]

    async def definitions(self):
        return [(t["name"], t["description"], t["inputSchema"]) for t in await self.listed()]

    async def call(self, name, arguments):
        result = await self._code.send("tools/call", {"name": name, "arguments": arguments})
        (block,) = result["content"]
        return Shown(block["text"], result.get("isError", False))


class _ScriptedLlm(llm.Model):
    model_id = "scripted"
    supports_tools = True

    def __init__(self, wanted=None):
        self._wanted = wanted
        self.seen = []

    def execute(self, prompt, stream, response, conversation):  # noqa: ARG002 - llm's signature
        self.seen = prompt.tools
        if self._wanted is not None:
            name, arguments = self._wanted
            self._wanted = None
            response.add_tool_call(llm.ToolCall(name=name, arguments=arguments))
            return
        self.results = prompt.tool_results
        yield "done"


class Llm(_ListHost):
    module = llm_face
    keeps_structure = False

    async def _run(self, wanted=None):
        model = _ScriptedLlm(wanted)
        text = await asyncio.to_thread(model.chain("go", tools=self.tools).text)
        assert text == "done"
        return model

    async def definitions(self):
        model = await self._run()
        return [(tool.name, tool.description, tool.input_schema) for tool in model.seen]

    async def call(self, name, arguments):
        (result,) = (await self._run((name, arguments))).results
        return Shown(result.output, result.exception is not None)


HOSTS = (
    LangChain,
    LangChainWithoutAwait,
    LlamaIndex,
    LlamaIndexWithoutAwait,
    PydanticAI,
    OpenAIAgents,
    ClaudeAgent,
    Llm,
)
# Those that run a call in a task, which can be cancelled.
AWAITING_HOSTS = (LangChain, LlamaIndex, PydanticAI, OpenAIAgents, ClaudeAgent)
