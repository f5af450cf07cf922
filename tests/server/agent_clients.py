"""A client of each API that names an agent as its model and sends its whole history each time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai

Object = dict[str, Any]
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
COUNTS = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}


@dataclass
class AgentClient:
    """`history` are pairs of a role and a text. `raw` are the bytes of the newest answer."""

    http: httpx2.AsyncClient
    api: str
    streams: bool = False
    model: str = "agent:Pilot"
    system: str = ""
    fields: Object = field(default_factory=dict)
    history: list[tuple[str, str]] = field(default_factory=list)
    more: list[Object] = field(default_factory=list)
    """Messages or items after these, as the API has them."""
    raw: bytes = b""
    headers: Object = field(default_factory=dict)

    def body(self, **fields: Any) -> Object:
        body: Object = {"model": self.model, "stream": self.streams, **self.fields, **fields}
        messages: list[Object] = [{"role": role, "content": text} for role, text in self.history]
        messages += self.more
        if self.api == "messages":
            return body | {"max_tokens": 1000, "messages": messages} | ({"system": self.system} if self.system else {})
        if self.api == "chat":
            first = [{"role": "system", "content": self.system}] if self.system else []
            return body | {"messages": [*first, *messages]}
        return body | {"input": messages, "store": False} | ({"instructions": self.system} if self.system else {})

    async def post(self, **fields: Any) -> httpx2.Response:
        answer = await self.http.post(PATHS[self.api], json=self.body(**fields), headers=self.headers)
        self.raw = answer.content
        return answer

    async def ask(self, text: str) -> str:
        """Send a message with all before it; the answer becomes part of the history."""
        self.history.append(("user", text))
        answer = await self.post()
        assert answer.status_code == 200, answer.text
        said = text_of(self.api, answer, streams=self.streams)
        self.history.append(("assistant", said))
        return said


def events_of(answer: httpx2.Response) -> list[Object]:
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(api: str, answer: httpx2.Response, *, streams: bool) -> str:
    if streams:
        events = events_of(answer)
        if api == "messages":
            return "".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta")
        if api == "chat":
            return "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])
        return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    body = answer.json()
    if api == "messages":
        return "".join(part["text"] for part in body["content"] if part["type"] == "text")
    if api == "chat":
        return str(body["choices"][0]["message"]["content"])
    return "".join(p["text"] for i in body["output"] if i["type"] == "message" for p in i["content"])


def usage_of(api: str, answer: httpx2.Response) -> tuple[int, int]:
    """Tokens of input and output, by a whole answer."""
    usage = answer.json()["usage"]
    if api == "chat":
        return usage["prompt_tokens"], usage["completion_tokens"]
    read = usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
    return usage["input_tokens"] + read, usage["output_tokens"]


TOOL_SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


def tool_of(api: str, name: str) -> Object:
    """A tool of the client."""
    if api == "messages":
        return {"name": name, "description": "Looks.", "input_schema": TOOL_SCHEMA}
    function = {"name": name, "description": "Looks.", "parameters": TOOL_SCHEMA}
    return {"type": "function", "function": function} if api == "chat" else {"type": "function", **function}


def whole(api: str, answer: httpx2.Response, *, streams: bool) -> Object:
    """The answer as one object, whichever way it came."""
    if not streams:
        body: Object = answer.json()
        return body
    events = events_of(answer)
    if api == "responses":
        return next(event["response"] for event in events if event["type"] == "response.completed")
    if api == "chat":
        return _completion([choice for event in events for choice in event["choices"]])
    blocks: list[Object] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            blocks[-1]["json"] += event["delta"].get("partial_json", "")
            if "text" in event["delta"]:
                blocks[-1]["text"] += event["delta"]["text"]
    for block in blocks:
        given = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(given)
    [stop] = [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]
    return {"role": "assistant", "content": blocks, "stop_reason": stop}


def _completion(choices: list[Object]) -> Object:
    message: Object = {"role": "assistant", "content": "", "tool_calls": []}
    for delta in (choice["delta"] for choice in choices):
        message["content"] += delta.get("content") or ""
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                message["tool_calls"].append({k: v for k, v in call.items() if k != "index"})
            else:
                message["tool_calls"][-1]["function"]["arguments"] += call["function"]["arguments"]
    return {"choices": [{"message": message, "finish_reason": choices[-1]["finish_reason"]}]}


def calls_of(api: str, body: Object) -> list[tuple[str, str, Object]]:
    """Id, name and arguments of the calls in an answer."""
    if api == "messages":
        return [(b["id"], b["name"], b["input"]) for b in body["content"] if b["type"] == "tool_use"]
    if api == "chat":
        calls = body["choices"][0]["message"].get("tool_calls") or []
        return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]
    items = [item for item in body["output"] if item["type"] == "function_call"]
    return [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in items]


def sent_back(api: str, body: Object, results: dict[str, str]) -> list[Object]:
    """The answer and the results of its calls, as a client sends them back."""
    if api == "messages":
        given = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results.items()]
        return [{"role": "assistant", "content": body["content"]}, {"role": "user", "content": given}]
    if api == "chat":
        given = [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results.items()]
        return [body["choices"][0]["message"], *given]
    given = [{"type": "function_call_output", "call_id": id, "output": text} for id, text in results.items()]
    return [*body["output"], *given]


class Library:
    """The vendors' own libraries, which send back whatever they got."""

    def __init__(self, address: str, api: str, model: str = "agent:Pilot") -> None:
        self.api, self.model = api, model
        self.history: list[Any] = []
        self.thoughts: list[str] = []
        """The thinking of the newest answer, block by block, as far as the API has blocks."""
        self.stopped: tuple[Any, ...] = ()
        """Why the newest answer ended, in the words of the API."""
        self.citations: list[Object] = []
        """The citations of the newest answer, as the API has them."""
        plain: Any = {"api_key": "unused", "max_retries": 0}
        self._openai = openai.AsyncOpenAI(
            base_url=f"{address}/v1", http_client=openai.DefaultAsyncHttpxClient(trust_env=False), **plain
        )
        http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
        self._anthropic = anthropic.AsyncAnthropic(base_url=address, http_client=http, **plain)

    async def ask(self, text: str, *, streams: bool = False, **more: Any) -> str:
        self.history.append({"role": "user", "content": text})
        said: str = await getattr(self, f"_{self.api}")(streams, more)
        return said

    async def _messages(self, streams: bool, more: dict[str, Any]) -> str:
        asked: Any = {"model": self.model, "max_tokens": 900, "messages": self.history, **more}
        if streams:
            async with self._anthropic.messages.stream(**asked) as stream:
                answer: Any = await stream.get_final_message()
        else:
            answer = await self._anthropic.messages.create(**asked)
        self.history.append({"role": "assistant", "content": [one.to_dict() for one in answer.content]})
        self.stopped = answer.stop_reason, answer.stop_sequence
        thoughts = [block for block in answer.content if block.type == "thinking"]
        assert all(block.signature for block in thoughts)
        self.thoughts = [block.thinking for block in thoughts]
        self.citations = [one.to_dict() for b in answer.content if b.type == "text" for one in b.citations or ()]
        return "".join(block.text for block in answer.content if block.type == "text")

    async def _responses(self, streams: bool, more: dict[str, Any]) -> str:
        asked: Any = {"model": self.model, "input": self.history, "store": False, **more}
        asked["include"] = ["reasoning.encrypted_content"]
        if streams:
            async with self._openai.responses.stream(**asked) as stream:
                events: list[Any] = [event async for event in stream]
                answer: Any = await stream.get_final_response()
        else:
            answer, events = await self._openai.responses.create(**asked), []
        items = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
        self.history += items
        thoughts = [item.summary for item in answer.output if item.type == "reasoning"]
        self.thoughts = [summary[0].text for summary in thoughts if summary]
        self.citations = [
            one.model_dump() for i in answer.output if i.type == "message" for one in i.content[0].annotations
        ]
        if streams:
            added = [
                one.annotation.model_dump() for one in events if one.type == "response.output_text.annotation.added"
            ]
            assert added == self.citations
            assert [e.text for e in events if e.type == "response.reasoning_summary_text.done"] == self.thoughts
        return str(answer.output_text)

    async def _chat(self, streams: bool, more: dict[str, Any]) -> str:
        asked: Any = {"model": self.model, "messages": self.history, **more}
        if streams:
            message: Any = {"role": "assistant", "content": "", "reasoning_content": "", "annotations": []}
            async for chunk in await self._openai.chat.completions.create(**asked, stream=True):
                delta = chunk.choices[0].delta.model_dump()
                for name in ("content", "reasoning_content"):
                    message[name] += delta.get(name) or ""
                message["annotations"] += delta.get("annotations") or []
                self.stopped = chunk.choices[0].finish_reason, None
        else:
            answer = await self._openai.chat.completions.create(**asked)
            message = answer.choices[0].message.model_dump(exclude_none=True)
            self.stopped = answer.choices[0].finish_reason, None
        self.history.append(message)
        self.thoughts = [message["reasoning_content"]] if message.get("reasoning_content") else []
        self.citations = message.get("annotations") or []
        return str(message["content"])
