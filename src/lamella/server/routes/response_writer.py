"""Writes the packets of a turn as the events of a response of OpenAI's API, and as the response they come to.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from lamella.core.json import JsonObject, encode
from lamella.core.messages import TurnStatus
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    PartialPacket,
    ReasoningPacket,
    RunFinished,
    SourcePacket,
    TextPacket,
    ToolCallPacket,
    ToolHandedOut,
    TurnFinished,
)
from lamella.core.records import TurnRecord
from lamella.gateway.answer_blocks import Citation
from lamella.server.routes.openai_items import RESPONSE

Item = dict[str, Any]

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter", "step_limit": "max_tool_calls"}
"""Why a response is incomplete, by the reason of a partial answer."""


ERRORS = {
    "rate_limit_exceeded": "rate_limit_exceeded",
    "context_length_exceeded": "invalid_prompt",
    "invalid_request": "invalid_prompt",
}
"""Codes of a failed response, by ours; `server_error` for all others."""


class ResponseWriter:
    """One response. Only calls of the caller's tools are items: of the server's a client would think them its to run.

    A call is written once it is handed out, after its step: one that was cut off or refused is not the caller's.
    `fields` are those of the request that it repeats. Events up to number `after` are not written.
    """

    def __init__(self, turn: TurnRecord, fields: JsonObject, after: float = -1) -> None:
        self._after = after
        self._run = turn.run.index
        self._suffix = turn.id.partition("_")[2]
        self._number = 0
        self._items: dict[int, Item] = {}
        """By the block of the turn, in the order that they began in."""
        self._open: int | None = None
        self._sources: dict[int, SourcePacket] = {}
        self.error: Mapping[str, str | None] | None = None
        self.response: Item = {
            "id": f"{RESPONSE}{self._suffix}",
            "object": "response",
            "created_at": int(turn.started_at.timestamp()),
            "status": "queued" if fields.get("background") else "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": turn.run.model,
            "conversation": {"id": turn.conversation_id},
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "tool_choice": "auto",
            "tools": [],
            "store": True,
            "temperature": None,
            "top_p": None,
            "usage": None,
            **fields,
        }

    def begin(self) -> bytes:
        """The first events."""
        written = self._event("response.created", response=self.response)
        if self.response["status"] == "queued":
            written += self._event("response.queued", response=self.response)
            self.response["status"] = "in_progress"
        return written + self._event("response.in_progress", response=self.response)

    def take(self, packet: AnyPacket) -> bytes:
        """The events of a packet; with that of the turn's end the response is whole.

        Of a turn that several models answered, only the answer that is continued is a response.
        """
        if packet.model_index != self._run and not isinstance(packet, TurnFinished):
            return b""
        match packet:
            case TextPacket() | ReasoningPacket():
                return b"".join(self._said(packet))
            case ToolCallPacket():
                return self._close()
            case ToolHandedOut():
                return self._close() + b"".join(self._handed_out(packet))
            case SourcePacket():
                self._sources[packet.document] = packet
            case CitationPacket():
                return self._cited(packet)
            case PartialPacket():
                self.response["incomplete_details"] = {"reason": INCOMPLETE[packet.reason]}
            case RunFinished():
                self.error = packet.error
            case TurnFinished():
                return self._close() + self._end(packet)
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

    def _handed_out(self, packet: ToolHandedOut) -> Iterator[bytes]:
        """A call of the caller's tool, whole."""
        block, call_id, name = packet.block_index or 0, packet.call_id, packet.name
        item: Item = {"id": f"fc_{self._suffix}_{block}", "type": "function_call", "call_id": call_id, "name": name}
        self._items[block] = item
        begun = {**item, "arguments": "", "status": "in_progress"}
        place, arguments = self._place(block), packet.arguments
        yield self._event("response.output_item.added", output_index=place["output_index"], item=begun)
        yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
        yield self._event("response.function_call_arguments.done", **place, name=name, arguments=arguments)
        item |= {"arguments": arguments, "status": "completed"}
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _begun(self, block: int, packet: TextPacket | ReasoningPacket) -> bytes:
        """A new item, with its one part."""
        self._open = block
        if isinstance(packet, TextPacket):
            item: Item = {"id": f"msg_{self._suffix}_{block}", "type": "message", "role": "assistant"}
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
        told = (packet.document, source.title, source.url, source.file_id)
        annotation = Citation(block, packet.start, packet.end, *told).annotation()
        annotations.append(annotation)
        return self._event(
            "response.output_text.annotation.added",
            **self._place(block),
            content_index=0,
            annotation_index=len(annotations) - 1,
            annotation=annotation,
        )

    def _end(self, packet: TurnFinished) -> bytes:
        response, usage = self.response, packet.usage
        response["output"] = list(self._items.values())
        response["usage"] = {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        }
        if packet.status == TurnStatus.INTERRUPTED:
            response["error"] = {"code": "server_error", "message": "The server stopped before the answer was whole."}
            # What a process wrote last before it was killed is not stored: the end has a number that is new to all.
            self._number = max(self._number, int(self._after) + 1) if self._after < inf else self._number
        elif self.error is not None:
            code = str(self.error.get("code"))
            response["error"] = {"code": ERRORS.get(code, "server_error"), "message": self.error.get("message")}
        if packet.status == TurnStatus.STOPPED:
            response["status"] = "cancelled"
        elif response["error"] is not None or packet.status == TurnStatus.FAILED:
            response["status"] = "failed"
        else:
            response["status"] = "incomplete" if response["incomplete_details"] else "completed"
        # The API has no event of its own for an answer that was stopped.
        kind = "incomplete" if response["status"] == "cancelled" else response["status"]
        return self._event(f"response.{kind}", response=response)

    def _place(self, block: int) -> Item:
        return {"item_id": self._items[block]["id"], "output_index": list(self._items).index(block)}

    def _event(self, kind: str, **fields: Any) -> bytes:
        value = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        if value["sequence_number"] <= self._after:
            return b""
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(value))


def _running(item: Item) -> Item:
    return {"status": "in_progress"} if item["type"] == "message" else {}
