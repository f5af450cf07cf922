"""Writes answers as the Responses API does: one JSON response, or its numbered events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lamella_simulator.blocks import Json, encode
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.errors import ProviderError
from lamella_simulator.replies import Draft, Part

BETWEEN = "\n\n"
"""What parts a reasoning summary in the script."""

INCOMPLETE = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete, by the stop of its draft."""


def usage_of(outcome: Outcome, draft: Draft, *, writes_shown: bool) -> Json:
    """input_tokens includes what was cached; models with free writes report none."""
    details: Json = {"cached_tokens": outcome.read, "cache_write_tokens": outcome.written if writes_shown else 0}
    if writes_shown:
        details["cache_write_tokens_details"] = {
            "ttl_30m_tokens": outcome.written_short,
            "ttl_12h_tokens": outcome.written_long,
        }
    return {
        "input_tokens": outcome.total,
        "input_tokens_details": details,
        "output_tokens": draft.output_tokens,
        "output_tokens_details": {"reasoning_tokens": draft.thinking_tokens},
        "total_tokens": outcome.total + draft.output_tokens,
    }


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one response and its items."""

    response: str
    reasoning: str
    item: str

    def of(self, index: int, part: Part) -> str:
        prefix = {"thinking": "rs_", "text": "msg_", "tool": "fc_", "compaction": "cmp_"}[part.kind]
        return self.reasoning if part.kind == "thinking" else f"{prefix}{self.item}{index}"


@dataclass(frozen=True, slots=True)
class ResponsesEncoder:
    ids: Ids
    created: int
    model: str
    draft: Draft
    usage: Json
    show_summary: bool
    show_encrypted: bool
    extras: Json = field(default_factory=dict)
    """Fields of the response that exist only if the request asked for them."""
    offered: Mapping[str, Json] = field(default_factory=dict)
    """The tools of the request by name: a custom tool is called with a text."""
    _numbers: Iterator[int] = field(default_factory=count)
    _said: dict[int, int] = field(default_factory=dict)
    """Characters streamed of each part."""

    def whole(self) -> Json:
        """The whole answer, for a request that does not stream."""
        output = [self._item(index, part, whole=True) for index, part in enumerate(self.draft.parts)]
        return self._response(self._status(), output, self.usage)

    def start(self) -> bytes:
        created = self._response("in_progress", [], None)
        return self._event("response.created", response=created) + self._event("response.in_progress", response=created)

    def _tool(self, part: Part) -> Json:
        """The tool that a part calls, as the request offers it."""
        return self.offered.get(part.call.name, {}) if part.call is not None else {}

    def _is_custom(self, part: Part) -> bool:
        return part.kind == "tool" and self._tool(part).get("type") == "custom"

    def open(self, index: int, part: Part) -> bytes:
        added = self._event("response.output_item.added", output_index=index, item=self._item(index, part, whole=False))
        if part.kind == "text":
            return added + self._text_event(
                "response.content_part.added", index, part, part={**_content(""), "text": ""}
            )
        return added

    def delta(self, index: int, part: Part, piece: str) -> bytes:
        id = self.ids.of(index, part)
        match part.kind:
            case "tool" if self._is_custom(part):
                return b""  # the text comes whole: a piece of its JSON would be no piece of it
            case "tool":
                return self._event(
                    "response.function_call_arguments.delta", item_id=id, output_index=index, delta=piece
                )
            case "text":
                return self._text_event("response.output_text.delta", index, part, delta=piece, logprobs=[])
            case "compaction":
                return self._event("response.compaction.compacting", item_id=id, output_index=index)
            case _:
                return self._summary(index, part, piece) if self.show_summary else b""

    def close(self, index: int, part: Part) -> bytes:
        id = self.ids.of(index, part)
        done = b""
        if self._is_custom(part):
            place: Json = {"item_id": id, "output_index": index}
            done = self._event("response.custom_tool_call_input.delta", **place, delta=_input(part))
            done += self._event("response.custom_tool_call_input.done", **place, input=_input(part))
        elif part.kind == "tool":
            done = self._event(
                "response.function_call_arguments.done", item_id=id, output_index=index, arguments=part.text
            )
        elif part.kind == "text":
            done = self._text_event("response.output_text.done", index, part, text=part.text, logprobs=[])
            done += self._text_event("response.content_part.done", index, part, part=_content(part.text))
        return done + self._event(
            "response.output_item.done", output_index=index, item=self._item(index, part, whole=True)
        )

    def end(self) -> bytes:
        """The refusal, which is an item of its own here, and the last event with the bill."""
        refused = b""
        output = [self._item(index, part, whole=True) for index, part in enumerate(self.draft.parts)]
        if self.draft.refusal:
            index = len(output)
            part: Json = {"type": "refusal", "refusal": self.draft.refusal}
            item: Json = {
                "id": f"msg_{self.ids.item}{index}",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
            place: Json = {"item_id": item["id"], "output_index": index, "content_index": 0}
            refused = self._event(
                "response.output_item.added", output_index=index, item={**item, "content": [], "status": "in_progress"}
            )
            refused += self._event("response.refusal.delta", **place, delta=self.draft.refusal)
            refused += self._event("response.refusal.done", **place, refusal=self.draft.refusal)
            refused += self._event("response.output_item.done", output_index=index, item=item)
            output.append(item)
        status = self._status()
        return refused + self._event(f"response.{status}", response=self._response(status, output, self.usage))

    def error(self, error: ProviderError) -> bytes:
        """An overload is an `error` event, other trouble a response that failed: the API has both."""
        if error.status == 529:
            return self._event("error", code="server_error", message=error.message, param=None)
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        failed = self._response("failed", [], None)
        failed["error"] = {"code": code, "message": error.message}
        return self._event("response.failed", response=failed)

    def unknown(self) -> bytes:
        return self._event("response.simulator.note", note="an event of a type that you do not know")

    def _summary(self, index: int, part: Part, piece: str) -> bytes:
        """A piece of the summary: it may end one of its parts and begin the next."""
        begins = self._said.get(index, 0)
        ends = self._said[index] = begins + len(piece)
        written = b""
        start = 0
        for number, paragraph in enumerate(part.text.split(BETWEEN)):
            stop = start + len(paragraph)
            place: Json = {"item_id": self.ids.of(index, part), "output_index": index, "summary_index": number}
            if begins <= start < ends:
                written += self._event("response.reasoning_summary_part.added", **place, part=_summary_part(""))
            text = part.text[max(start, begins) : min(stop, ends)]
            if text:
                written += self._event("response.reasoning_summary_text.delta", **place, delta=text)
            if begins < stop <= ends:
                written += self._event("response.reasoning_summary_text.done", **place, text=paragraph)
                written += self._event("response.reasoning_summary_part.done", **place, part=_summary_part(paragraph))
            start = stop + len(BETWEEN)
        return written

    def _item(self, index: int, part: Part, *, whole: bool) -> Json:
        id = self.ids.of(index, part)
        last = index == len(self.draft.parts) - 1
        status = "in_progress" if not whole else "incomplete" if last and self._cut() else "completed"
        match part.kind:
            case "thinking":
                shown = whole and self.show_summary and part.text
                summary = [_summary_part(text) for text in part.text.split(BETWEEN)] if shown else []
                item: Json = {"id": id, "type": "reasoning", "summary": summary}
                return {**item, "encrypted_content": part.signature} if self.show_encrypted and whole else item
            case "compaction":
                return {"id": id, "type": "compaction", "encrypted_content": part.signature if whole else ""}
            case "text":
                content = [_content(part.text)] if whole else []
                return {"id": id, "type": "message", "status": status, "role": "assistant", "content": content}
            case _:
                if part.call is None:
                    raise ValueError("a tool part has its call")
                called: Json = {"id": id, "status": status, "call_id": part.call.id, "name": part.call.name}
                if "namespace" in self._tool(part):
                    called["namespace"] = self._tool(part)["namespace"]
                if self._is_custom(part):
                    return {"type": "custom_tool_call", **called, "input": _input(part) if whole else ""}
                return {"type": "function_call", **called, "arguments": part.text if whole else ""}

    def _cut(self) -> bool:
        return self.draft.stop in INCOMPLETE

    def _status(self) -> str:
        return "incomplete" if self._cut() else "completed"

    def _response(self, status: str, output: list[Json], usage: Json | None) -> Json:
        return {
            "id": self.ids.response,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": INCOMPLETE[self.draft.stop]} if status == "incomplete" else None,
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "store": False,
            "usage": usage,
            **self.extras,
        }

    def _text_event(self, kind: str, index: int, item: Part, **fields: Any) -> bytes:
        return self._event(kind, item_id=self.ids.of(index, item), output_index=index, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        value = {"type": kind, "sequence_number": next(self._numbers), **fields}
        return b"event: " + kind.encode() + b"\ndata: " + encode(value) + b"\n\n"


@dataclass(frozen=True, slots=True)
class CompactionEncoder(ResponsesEncoder):
    """Writes what `/responses/compact` gives: the user's messages, and the item that stands for the rest."""

    kept: tuple[Json, ...] = ()

    def whole(self) -> Json:
        items = [self._item(index, part, whole=True) for index, part in enumerate(self.draft.parts)]
        return {
            "id": self.ids.response,
            "object": "response.compaction",
            "created_at": self.created,
            "output": [*self.kept, *items],
            "usage": self.usage,
        }


def _input(part: Part) -> str:
    """The text with which a custom tool is called: the argument `input` of a scripted call."""
    return str(part.call.arguments.get("input", "")) if part.call is not None else ""


def _content(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary_part(text: str) -> Json:
    return {"type": "summary_text", "text": text}
