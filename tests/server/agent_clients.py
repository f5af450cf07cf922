"""A client of each API that names an agent as its model and sends its whole history each time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

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
    raw: bytes = b""
    headers: Object = field(default_factory=dict)

    def body(self, **fields: Any) -> Object:
        body: Object = {"model": self.model, "stream": self.streams, **self.fields, **fields}
        messages: list[Object] = [{"role": role, "content": text} for role, text in self.history]
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
