"""Writes the packets of a turn as a response of OpenAI's Responses API: its events, and the response they come to.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lamella.core.json import encode
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    PartialPacket,
    ReasoningPacket,
    RunFinished,
    SourcePacket,
    TextPacket,
    ToolCallPacket,
    TurnFinished,
    TurnStopped,
    UsageBody,
)
from lamella.core.records import TurnRecord
from lamella.server.responses.asked import RESPONSE

Object = dict[str, Any]

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter", "step_limit": "max_tool_calls"}
"""Why a response is incomplete, by the reason of a partial answer."""


class ResponseWriter:
    """One response. Calls of tools are the server's own and are no items: a client would think them its to run."""

    def __init__(self, turn: TurnRecord, metadata: Mapping[str, str]) -> None:
        self._suffix = turn.id.partition("_")[2]
        self._number = 0
        self._items: dict[int, Object] = {}
        """By the block of the turn, in the order that they began in."""
        self._open: int | None = None
        self._sources: dict[int, SourcePacket] = {}
        self.error: Mapping[str, str | None] | None = None
        self.response: Object = {
            "id": f"{RESPONSE}{self._suffix}",
            "object": "response",
            "created_at": int(turn.started_at.timestamp()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": dict(metadata),
            "model": turn.model,
            "conversation": {"id": turn.conversation_id},
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "store": True,
            "temperature": None,
            "top_p": None,
            "usage": None,
        }

    def begin(self) -> bytes:
        """The first events."""
        return self._event("response.created", response=self.response) + self._event(
            "response.in_progress", response=self.response
        )

    def take(self, packet: AnyPacket) -> bytes:
        """The events of a packet; with that of the turn's end the response is whole."""
        match packet:
            case TextPacket() | ReasoningPacket():
                return b"".join(self._said(packet))
            case ToolCallPacket():
                return self._close()
            case SourcePacket():
                self._sources[packet.document] = packet
            case CitationPacket():
                return self._cited(packet)
            case PartialPacket():
                self.response["incomplete_details"] = {"reason": INCOMPLETE[packet.reason]}
            case RunFinished():
                self.error = packet.error
            case TurnStopped():
                self.response["status"] = "cancelled"
            case TurnFinished():
                return self._close() + self._end(packet.usage)
            case _:
                pass
        return b""

    def _said(self, packet: TextPacket | ReasoningPacket) -> Iterator[bytes]:
        block = packet.block_index or 0
        if block != self._open:
            yield self._close()
            yield self._begun(block, packet)
        item, place = self._items[block], self._place(block)
        if isinstance(packet, TextPacket):
            item["content"][0]["text"] += packet.text
            yield self._event("response.output_text.delta", **place, content_index=0, delta=packet.text, logprobs=[])
        else:
            item["summary"][0]["text"] += packet.text
            yield self._event("response.reasoning_summary_text.delta", **place, summary_index=0, delta=packet.text)

    def _begun(self, block: int, packet: TextPacket | ReasoningPacket) -> bytes:
        """A new item, with its one part."""
        self._open = block
        if isinstance(packet, TextPacket):
            item: Object = {"id": f"msg_{self._suffix}_{block}", "type": "message", "role": "assistant"}
            held, part = "content", {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            kind, index = "response.content_part.added", "content_index"
        else:
            item = {"id": f"rs_{self._suffix}_{block}", "type": "reasoning"}
            held, part = "summary", {"type": "summary_text", "text": ""}
            kind, index = "response.reasoning_summary_part.added", "summary_index"
        self._items[block] = item
        added = self._event(
            "response.output_item.added", output_index=len(self._items) - 1, item={**item, held: [], **_running(item)}
        )
        item[held] = [part]
        return added + self._event(kind, **self._place(block), **{index: 0}, part=part)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        block, self._open = self._open, None
        item, place = self._items[block], self._place(block)
        if item["type"] == "message":
            [part] = item["content"]
            item["status"] = "completed"
            place["content_index"] = 0
            done = self._event("response.output_text.done", **place, text=part["text"], logprobs=[])
            done += self._event("response.content_part.done", **place, part=part)
        else:
            [part] = item["summary"]
            place["summary_index"] = 0
            done = self._event("response.reasoning_summary_text.done", **place, text=part["text"])
            done += self._event("response.reasoning_summary_part.done", **place, part=part)
        return done + self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _cited(self, packet: CitationPacket) -> bytes:
        """A citation of a page by its address; of a file or a document by its name."""
        block, source = packet.block_index, self._sources.get(packet.document)
        item = self._items.get(block) if block is not None else None
        if block is None or item is None or source is None or item["type"] != "message":
            return b""
        annotations = item["content"][0]["annotations"]
        annotation = _annotation(packet, source)
        annotations.append(annotation)
        return self._event(
            "response.output_text.annotation.added",
            **self._place(block),
            content_index=0,
            annotation_index=len(annotations) - 1,
            annotation=annotation,
        )

    def _end(self, usage: UsageBody) -> bytes:
        response = self.response
        response["output"] = list(self._items.values())
        response["usage"] = {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        }
        if self.error is not None:
            response["status"] = "failed"
            response["error"] = {"code": self.error.get("code"), "message": self.error.get("message")}
        elif response["status"] != "cancelled":
            response["status"] = "incomplete" if response["incomplete_details"] else "completed"
        # The API has no event of its own for an answer that was stopped.
        kind = "incomplete" if response["status"] == "cancelled" else response["status"]
        return self._event(f"response.{kind}", response=response)

    def _place(self, block: int) -> Object:
        return {"item_id": self._items[block]["id"], "output_index": list(self._items).index(block)}

    def _event(self, kind: str, **fields: Any) -> bytes:
        value = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(value))


def _running(item: Object) -> Object:
    return {"status": "in_progress"} if item["type"] == "message" else {}


def _annotation(packet: CitationPacket, source: SourcePacket) -> Object:
    if source.url is not None:
        place = {"start_index": packet.start, "end_index": packet.end}
        return {"type": "url_citation", "url": source.url, "title": source.title, **place}
    file_id = source.file_id or f"document_{packet.document}"
    return {"type": "file_citation", "file_id": file_id, "filename": source.title, "index": packet.start}
