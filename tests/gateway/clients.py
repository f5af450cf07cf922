"""Clients as they talk: the shapes of requests that real programs send, with texts of our own.

Each plays a conversation turn by turn: it sends, gets the answer, and sends everything again with the next message, in
the form that this program uses for what is old.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

Object = dict[str, Any]
PROSE = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. "
SYSTEM = PROSE * 60


def tool(name: str, wire: str) -> Object:
    schema = {"type": "object", "properties": {"place": {"type": "string"}}}
    text = f"{name} tells what there is to know. {PROSE * 6}"
    if wire == "messages":
        return {"name": name, "description": text, "input_schema": schema}
    if wire == "chat":
        return {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
    return {"type": "function", "name": name, "description": text, "parameters": schema}


NAMES = ("Weather", "Ships", "Oil", "Log")
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


@dataclass
class Client:
    """A program of one wire. `marks`: it marks system and newest message, and sends old ones as plain strings."""

    wire: str
    user_agent: str = "a-client/1.0"
    headers: Mapping[str, str] = field(default_factory=dict)
    marks: bool = False
    fields: Object = field(default_factory=dict)
    tools: list[Object] = field(default_factory=list)
    system: str = SYSTEM
    history: list[Object] = field(default_factory=list)
    model: str = ""
    said: list[str] = field(default_factory=list)
    """The answers so far."""

    def __post_init__(self) -> None:
        self.model = self.model or ("claude-opus-5-5" if self.wire == "messages" else "gpt-6.1-terra")
        self.tools = self.tools or [tool(name, self.wire) for name in NAMES]

    def body(self) -> Object:
        """The next request."""
        body: Object = {"model": self.model, "stream": True, **copy.deepcopy(self.fields)}
        history = copy.deepcopy(self.history)
        if self.wire == "messages":
            body |= {"max_tokens": 200, "system": [{"type": "text", "text": self.system}], "messages": history}
            if self.marks:
                mark = {"cache_control": {"type": "ephemeral"}}
                body["system"][-1] |= mark
                last = history[-1]
                if isinstance(last["content"], str):
                    last["content"] = [{"type": "text", "text": last["content"]}]
                last["content"][-1] |= mark
        elif self.wire == "chat":
            body["messages"] = [{"role": "system", "content": self.system}, *history]
        else:
            body |= {"instructions": self.system, "input": history, "store": False}
        if self.tools:
            body["tools"] = copy.deepcopy(self.tools)
        return body

    async def send(self, http: httpx2.AsyncClient, text: str | None = None, **headers: str) -> Object:
        """Send a message, or again what there is; the answer becomes part of the history."""
        if text is not None:
            content: Any = [{"type": "input_text", "text": text}] if self.wire == "responses" else text
            self.history.append({"role": "user", "content": content})
        sent = {"user-agent": self.user_agent, **self.headers, **headers}
        answer = await http.post(PATHS[self.wire], json=self.body(), headers=sent)
        assert answer.status_code == 200, answer.text
        said = _said(self.wire, answer.text)
        self.history.append(_as_history(self.wire, said, len(self.history)))
        self.said.append(said)
        return {"text": said}


def _said(wire: str, stream: str) -> str:
    text = ""
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        data = json.loads(line[6:])
        if wire == "messages":
            text += data.get("delta", {}).get("text", "") if data["type"] == "content_block_delta" else ""
        elif wire == "chat":
            text += (data["choices"][0]["delta"].get("content") or "") if data["choices"] else ""
        elif data["type"] == "response.output_text.delta":
            text += data["delta"]
    return text


def _as_history(wire: str, said: str, number: int) -> Object:
    if wire == "messages":
        return {"role": "assistant", "content": [{"type": "text", "text": said}]}
    if wire == "chat":
        return {"role": "assistant", "content": said, "refusal": None, "annotations": []}
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": [part]}
