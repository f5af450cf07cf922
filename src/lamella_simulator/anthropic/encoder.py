"""Writes answers as the Messages API does: one JSON message, or its server-sent events in the vendor's order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from lamella_simulator.anthropic.editing import content_of
from lamella_simulator.blocks import Json, encode
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.errors import ProviderError
from lamella_simulator.replies import Draft, Part

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_body(error: ProviderError, request_id: str) -> Json:
    kind = ERROR_TYPES.get(error.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}, "request_id": request_id}


def input_usage(outcome: Outcome) -> Json:
    """The counters that never overlap: their sum is the whole prompt."""
    return {
        "input_tokens": outcome.fresh,
        "cache_creation_input_tokens": outcome.written,
        "cache_read_input_tokens": outcome.read,
    }


def full_usage(outcome: Outcome, output: int, speed: str = "standard") -> Json:
    return {
        **input_usage(outcome),
        "cache_creation": {
            "ephemeral_5m_input_tokens": outcome.written_short,
            "ephemeral_1h_input_tokens": outcome.written_long,
        },
        "output_tokens": output,
        "service_tier": "standard",
        "inference_geo": "not_available",
        "speed": speed,
        "server_tool_use": None,
    }


@dataclass(frozen=True, slots=True)
class MessageEncoder:
    id: str
    request_id: str
    model: str
    outcome: Outcome
    draft: Draft
    speed: str = "standard"
    hide_thinking: bool = False
    """`thinking.display = omitted`: the text stays empty, the signature comes."""
    extras: Json = field(default_factory=dict)
    """Fields of the message that exist only if the request asked for them."""
    applied_edits: tuple[Json, ...] | None = None
    iterations: tuple[Json, ...] | None = None
    """The passes of a request that may compact, each with its counters."""

    @property
    def usage(self) -> Json:
        return full_usage(self.outcome, self.draft.output_tokens, self.speed) | self._details()

    def whole(self) -> Json:
        """The whole answer, for a request that does not stream."""
        return {
            **self._envelope(),
            "content": [self._content(part) for part in self.draft.parts],
            **self._stop(),
            **self._edits(),
            "usage": self.usage,
        }

    def start(self) -> bytes:
        message = {
            **self._envelope(),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": full_usage(self.outcome, 1, self.speed),
        }
        return event("message_start", {"message": message})

    def open(self, index: int, part: Part) -> bytes:
        block: Json
        if part.kind == "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        elif part.kind == "compaction":
            block = {**content_of(part), "content": None} if part.on_demand else {"type": "compaction", "content": None}
        elif part.kind == "tool" and part.call is not None:
            block = {"type": "tool_use", "id": part.call.id, "name": part.call.name, "input": {}}
        else:
            block = {"type": "text", "text": ""}
        opened = event("content_block_start", {"index": index, "content_block": block})
        if part.kind == "tool":
            opened += self._delta(index, {"type": "input_json_delta", "partial_json": ""})
        return opened + (event("ping", {}) if index == 0 else b"")

    def delta(self, index: int, part: Part, piece: str) -> bytes:
        if part.kind == "thinking":
            return b"" if self.hide_thinking else self._delta(index, {"type": "thinking_delta", "thinking": piece})
        if part.kind == "tool":
            return self._delta(index, {"type": "input_json_delta", "partial_json": piece})
        if part.kind == "compaction":
            sealed = {} if part.on_demand else {"encrypted_content": part.signature or None}
            return self._delta(index, {"type": "compaction_delta", "content": piece or None, **sealed})
        return self._delta(index, {"type": "text_delta", "text": piece})

    def close(self, index: int, part: Part) -> bytes:
        signed = b""
        if part.kind == "thinking":
            signed = self._delta(index, {"type": "signature_delta", "signature": part.signature})
        return signed + event("content_block_stop", {"index": index})

    def end(self) -> bytes:
        usage = input_usage(self.outcome) | {"output_tokens": self.draft.output_tokens} | self._details()
        delta = {"delta": self._stop(), **self._edits(), "usage": usage}
        return event("message_delta", delta) + event("message_stop", {})

    def error(self, error: ProviderError) -> bytes:
        body = error_body(error, self.request_id)
        return b"event: error\ndata: " + encode(body) + b"\n\n"

    def unknown(self) -> bytes:
        return event("simulator_note", {"note": "an event of a type that you do not know"})

    def _envelope(self) -> Json:
        return {"id": self.id, "type": "message", "role": "assistant", "model": self.model, **self.extras}

    def _edits(self) -> Json:
        if self.applied_edits is None:
            return {}
        return {"context_management": {"applied_edits": list(self.applied_edits)}}

    def _stop(self) -> Json:
        if self.draft.stop not in ("refusal", "content_filter"):
            return {"stop_reason": self.draft.stop, "stop_sequence": self.draft.stop_sequence}
        stop: Json = {"stop_reason": "refusal", "stop_sequence": None}
        if self.draft.refusal:
            stop["stop_details"] = {"type": "refusal", "category": None, "explanation": self.draft.refusal}
        return stop

    def _details(self) -> Json:
        details: Json = {"output_tokens_details": {"thinking_tokens": self.draft.thinking_tokens}}
        return details if self.iterations is None else {**details, "iterations": list(self.iterations)}

    def _content(self, part: Part) -> Json:
        if part.kind == "thinking":
            shown = "" if self.hide_thinking else part.text
            return {"type": "thinking", "thinking": shown, "signature": part.signature}
        if part.kind == "compaction":
            return content_of(part)
        if part.kind == "tool" and part.call is not None:
            return {"type": "tool_use", "id": part.call.id, "name": part.call.name, "input": whole(part.text)}
        return {"type": "text", "text": part.text}

    @staticmethod
    def _delta(index: int, delta: Json) -> bytes:
        return event("content_block_delta", {"index": index, "delta": delta})


def event(name: str, fields: Json) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + encode({"type": name, **fields}) + b"\n\n"


def whole(arguments: str) -> Any:
    """Arguments as JSON; cut ones cannot be shown in a whole message and become an empty input."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}
