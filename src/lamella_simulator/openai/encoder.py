"""Writes answers as Chat Completions does: one JSON completion, or its chunks ended by [DONE]."""

from __future__ import annotations

from dataclasses import dataclass

from lamella_simulator.blocks import Json, encode
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.errors import ProviderError
from lamella_simulator.replies import Draft, Part

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
}
FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "stop",
}


def error_body(error: ProviderError, _request_id: str = "") -> Json:
    kind = ERROR_TYPES.get(error.status, "server_error")
    return {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


def usage_of(outcome: Outcome, draft: Draft, *, writes_shown: bool) -> Json:
    """prompt_tokens includes what was cached; models with free writes report reads only."""
    details: Json = {"cached_tokens": outcome.read, "audio_tokens": 0}
    if writes_shown:
        details["cache_write_tokens"] = outcome.written
    return {
        "prompt_tokens": outcome.total,
        "completion_tokens": draft.output_tokens,
        "total_tokens": outcome.total + draft.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": draft.thinking_tokens},
    }


@dataclass(frozen=True, slots=True)
class ChatEncoder:
    id: str
    created: int
    model: str
    draft: Draft
    usage: Json
    include_usage: bool = False
    show_reasoning: bool = False

    def whole(self) -> Json:
        """The whole answer, for a request that does not stream."""
        message: Json = {"role": "assistant", "content": self._text("text") or None, "refusal": None}
        if calls := [tool_call(part) for part in self.draft.parts if part.kind == "tool"]:
            message["tool_calls"] = calls
        if self.show_reasoning and (reasoning := self._text("thinking")):
            message["reasoning_content"] = reasoning
        if self.draft.refusal:
            message["refusal"] = self.draft.refusal
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish()}
        return {**self._envelope("chat.completion"), "choices": [choice], "usage": self.usage}

    def start(self) -> bytes:
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def open(self, index: int, part: Part) -> bytes:
        if part.kind != "tool":
            return b""
        call = tool_call(part)
        function = {"name": call["function"]["name"], "arguments": ""}
        opened = {"index": self._order(index), "id": call["id"], "type": "function", "function": function}
        return self._chunk({"tool_calls": [opened]})

    def delta(self, index: int, part: Part, piece: str) -> bytes:
        if part.kind == "tool":
            call = {"index": self._order(index), "function": {"arguments": piece}}
            return self._chunk({"tool_calls": [call]})
        if part.kind == "thinking":
            return self._chunk({"reasoning_content": piece}) if self.show_reasoning else b""
        return self._chunk({"content": piece})

    def close(self, index: int, part: Part) -> bytes:
        return b""

    def end(self) -> bytes:
        refusal = self._chunk({"refusal": self.draft.refusal}) if self.draft.refusal else b""
        ended = refusal + self._chunk({}, self._finish())
        if self.include_usage:
            ended += data({**self._envelope("chat.completion.chunk"), "choices": [], "usage": self.usage})
        return ended + b"data: [DONE]\n\n"

    def error(self, error: ProviderError) -> bytes:
        return data(error_body(error))

    def unknown(self) -> bytes:
        """Chat's events have no names: a chunk without choices, of another object."""
        return data({**self._envelope("chat.simulator.note"), "choices": []})

    def _finish(self) -> str:
        return FINISH.get(self.draft.stop, self.draft.stop)

    def _text(self, kind: str) -> str:
        return "".join(part.text for part in self.draft.parts if part.kind == kind)

    def _order(self, index: int) -> int:
        return sum(1 for part in self.draft.parts[:index] if part.kind == "tool")

    def _envelope(self, kind: str) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": "default",
        }

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._envelope("chat.completion.chunk"), "choices": [choice]}
        if self.include_usage:
            chunk["usage"] = None
        return data(chunk)


def tool_call(part: Part) -> Json:
    call = part.call
    if call is None:
        raise ValueError("a tool part has its call")
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": part.text}}


def data(value: Json) -> bytes:
    return b"data: " + encode(value) + b"\n\n"
