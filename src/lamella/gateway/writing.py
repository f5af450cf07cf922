"""Writes an answer in the API of its caller, from the deltas of whichever model gave it.

    written = writer(Dialect.MESSAGES, "claude-opus-5-5", "msg_1", created=1_764_000_000)
    for delta in deltas:
        send(written.feed(delta))      # bytes of server-sent events, often b""
    send(written.end())                # or `written.fail(error)`
    written.whole()                    # the answer as one object, for a caller that wants no stream

`AnswerNamed` is passed over: the answer has the id of its writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from lamella.core import deltas
from lamella.core.errors import LamellaError
from lamella.core.json import JsonObject, encode
from lamella.core.messages import StopReason
from lamella.gateway.answer_blocks import NO_FORMS, AnswerBlock, AnswerWriter, BlockDelta, Citation, Object
from lamella.gateway.canonical import CarriedThinking, ToolForm, arguments_of, carrying_id, custom_input, wrapped_seal
from lamella.gateway.dialects import Dialect
from lamella.gateway.errors import error_body, failure_code


def _event(kind: str, value: Mapping[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), encode({"type": kind, **value}))


# Messages


class MessagesWriter(AnswerWriter):
    """A message of Anthropic's API."""

    def _start(self) -> bytes:
        return _event("message_start", {"message": {**self._message([]), "stop_reason": None}})

    def _begin(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        return self._of_block("content_block_start", block, content_block=_content_block(block, started=delta))

    def _go_on(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        match delta:
            case deltas.TextDelta(_, text):
                said = {"type": "text_delta", "text": text}
            case deltas.ReasoningDelta(_, text):
                said = {"type": "thinking_delta", "thinking": text}
            case deltas.ToolArgsDelta(_, text):
                said = {"type": "input_json_delta", "partial_json": text}
            case deltas.ReasoningSealed() if block.pieces or block.redacted is None:
                said = {"type": "signature_delta", "signature": _signature(block)}
            case _:
                return b""
        return self._of_block("content_block_delta", block, delta=said)

    def _close(self, block: AnswerBlock) -> bytes:
        return self._of_block("content_block_stop", block)

    def _cite(self, block: AnswerBlock, citation: Citation) -> bytes:
        said = {"type": "citations_delta", "citation": _search_result(citation)}
        return self._of_block("content_block_delta", block, delta=said)

    def _of_block(self, kind: str, block: AnswerBlock, **fields: object) -> bytes:
        return _event(kind, {"index": block.index, **fields})

    def _finish(self) -> bytes:
        ended = {name: value for name, value in self._message([]).items() if name.startswith("stop_")}
        return _event("message_delta", {"delta": ended, "usage": self._billed()}) + _event("message_stop", {})

    def _failed(self, error: LamellaError) -> bytes:
        return b"event: error\ndata: %b\n\n" % error_body(Dialect.MESSAGES, error)

    def whole(self) -> Object:
        """The message."""
        return self._message([_content_block(block) for block in self._order.blocks])

    def _message(self, content: list[Object]) -> Object:
        stopped_at = (self._closed.stopped_at or None) if self._closed is not None else None
        message: Object = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": "stop_sequence" if stopped_at else _MESSAGES_STOPS.get(self._stop, "end_turn"),
            "stop_sequence": stopped_at,
            "usage": self._billed(),
        }
        if self._closed is not None and self._closed.why:
            message["stop_details"] = {"type": "refusal", "category": None, "explanation": self._closed.why}
        return message

    def _billed(self) -> Object:
        usage = self._usage
        return {
            "input_tokens": max(0, usage.fresh),
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": usage.cache_write_5m,
                "ephemeral_1h_input_tokens": usage.cache_write_1h,
            },
            "output_tokens": usage.output,
            "output_tokens_details": {"thinking_tokens": usage.reasoning},
        }


_MESSAGES_STOPS = {
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSAL: "refusal",
}


def _content_block(block: AnswerBlock, started: BlockDelta | None = None) -> Object:
    """A block of a message; as it begins if it has just `started`."""
    if block.kind == "text":
        text_block: Object = {"type": "text", "text": "" if started else block.text}
        return text_block | ({"citations": [*map(_search_result, block.citations)]} if block.citations else {})
    if block.kind == "call":
        return {
            "type": "tool_use",
            "id": block.id,
            "name": block.name,
            "input": {} if started else arguments_of(block.text),
        }
    if block.redacted is not None and not block.pieces:
        data = block.redacted if block.signature is None else wrapped_seal(block.signature, block.redacted)
        return {"type": "redacted_thinking", "data": data}
    text, signature = ("", "") if started else (block.text, _signature(block))
    return {"type": "thinking", "thinking": text, "signature": signature}


def _search_result(citation: Citation) -> Object:
    """A citation as Anthropic has it: of the document that the text names as [n], result n - 1."""
    return {
        "type": "search_result_location",
        "cited_text": citation.quote,
        "search_result_index": citation.document - 1,
        "source": citation.source,
        "title": citation.title,
        "start_block_index": 0,
        "end_block_index": 1,
    }


def _signature(block: AnswerBlock) -> str:
    """The seal of thinking as Anthropic has it: one text."""
    if block.redacted is not None:
        return wrapped_seal(block.signature, block.redacted)
    return block.signature or ""


# Chat Completions


class ChatWriter(AnswerWriter):
    """A completion of OpenAI's Chat API."""

    def __init__(
        self,
        model: str,
        id: str,
        created: int,
        forms: Mapping[str, ToolForm],
        *,
        asks_for_usage: bool,
        carries_thinking: bool,
    ) -> None:
        super().__init__(model, id, forms)
        self._created = created
        self._asks_for_usage = asks_for_usage
        self._carries = carries_thinking

    def _start(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def _begin(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        if block.kind != "call":
            return b""
        call = self._call(block, started=True)
        return self._chunk({"tool_calls": [{"index": self._number(block), **call}]})

    def _go_on(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        match delta:
            case deltas.TextDelta(_, text):
                return self._chunk({"content": text})
            case deltas.ReasoningDelta(_, text):
                return self._chunk({"reasoning_content": text})
            case deltas.ToolArgsDelta(_, text) if not self._form(block).is_custom:
                return self._chunk({"tool_calls": [{"index": self._number(block), "function": {"arguments": text}}]})
            case _:
                return b""

    def _close(self, block: AnswerBlock) -> bytes:
        if block.kind != "call" or not self._form(block).is_custom:
            return b""
        said = {"input": custom_input(block.text)}
        return self._chunk({"tool_calls": [{"index": self._number(block), "custom": said}]})

    def _cite(self, block: AnswerBlock, citation: Citation) -> bytes:
        return self._chunk({"annotations": [self._annotation(block, citation)]})

    def _annotation(self, block: AnswerBlock, citation: Citation) -> Object:
        """The one kind of annotation that Chat Completions has. Its places are those in the whole content."""
        first = sum(len(one.text) for one in self._order.blocks[: block.index] if one.kind == "text")
        place = {"start_index": first + citation.start, "end_index": first + citation.end}
        return {"type": "url_citation", "url_citation": {"url": citation.source, "title": citation.title, **place}}

    def _number(self, block: AnswerBlock) -> int:
        """Which of the calls it is."""
        return sum(one.kind == "call" for one in self._order.blocks[: block.index])

    def _call(self, block: AnswerBlock, *, started: bool = False) -> Object:
        form, id = self._form(block), carrying_id(block.id, self._thinking_before(block)) if self._carries else block.id
        if form.is_custom:
            said = "" if started else custom_input(block.text)
            return {"id": id, "type": "custom", "custom": {"name": form.name, "input": said}}
        function = {"name": form.name, "arguments": "" if started else block.text}
        return {"id": id, "type": "function", "function": function}

    def _thinking_before(self, call: AnswerBlock) -> list[CarriedThinking]:
        """The sealed thinking between this call and the one before."""
        blocks = self._order.blocks[: call.index]
        start = max((block.index for block in blocks if block.kind == "call"), default=-1) + 1
        return [
            CarriedThinking(one.text, one.signature, one.redacted, any(b.kind == "text" for b in blocks[start:n]))
            for n, one in enumerate(blocks)
            if n >= start and one.kind == "reasoning" and (one.signature or one.redacted)
        ]

    def _chunk(self, delta: Object, finish: str | None = None, **more: object) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        return b"data: %b\n\n" % encode({**self._head("chat.completion.chunk"), "choices": choices, **more})

    def _head(self, kind: str) -> Object:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _finish(self) -> bytes:
        stop = _CHAT_STOPS.get(self._stop, "stop")
        done = b"data: [DONE]\n\n"
        if not self._asks_for_usage:
            return self._chunk({}, stop, usage=self._billed()) + done
        bill = encode({**self._head("chat.completion.chunk"), "choices": [], "usage": self._billed()})
        return self._chunk({}, stop) + b"data: %b\n\n" % bill + done

    def _failed(self, error: LamellaError) -> bytes:
        return b"data: %b\n\n" % error_body(Dialect.CHAT, error)

    def whole(self) -> Object:
        """The completion."""
        said = {
            kind: "".join(block.text for block in self._order.blocks if block.kind == kind)
            for kind in ("text", "reasoning")
        }
        message: Object = {"role": "assistant", "content": said["text"] or None, "refusal": None}
        if said["reasoning"]:
            message["reasoning_content"] = said["reasoning"]
        if cited := [self._annotation(block, one) for block in self._order.blocks for one in block.citations]:
            message["annotations"] = cited
        calls = [self._call(block) for block in self._order.blocks if block.kind == "call"]
        if calls:
            message["tool_calls"] = calls
        stop = _CHAT_STOPS.get(self._stop, "stop")
        choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}]
        return {**self._head("chat.completion"), "choices": choices, "usage": self._billed()}

    def _billed(self) -> Object:
        usage = self._usage
        return {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }


_CHAT_STOPS = {
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.REFUSAL: "content_filter",
}


# Responses


class ResponsesWriter(AnswerWriter):
    """A response of OpenAI's Responses API; a block is an item."""

    def __init__(self, model: str, id: str, created: int, forms: Mapping[str, ToolForm], echo: JsonObject) -> None:
        super().__init__(model, id, forms)
        self._number = 0
        self._response: Object = {
            "id": id,
            "object": "response",
            "created_at": created,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "store": False,
            **echo,
            "usage": None,
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        number, self._number = self._number, self._number + 1
        return _event(kind, {"sequence_number": number, **fields})

    def _start(self) -> bytes:
        created = self._event("response.created", response=self._response)
        return created + self._event("response.in_progress", response=self._response)

    def _begin(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        item = self._item(block, started=True)
        added = self._event("response.output_item.added", output_index=block.index, item=item)
        if block.kind == "text":
            return added + self._event("response.content_part.added", **self._place(block), part=_text_part(""))
        return added

    def _go_on(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        place = self._place(block)
        match delta:
            case deltas.TextDelta(_, text):
                return self._event("response.output_text.delta", **place, delta=text, logprobs=[])
            case deltas.ReasoningDelta(_, text):
                part = {"type": "summary_text", "text": ""}
                first = len(block.pieces) == 1
                added = self._event("response.reasoning_summary_part.added", **place, part=part) if first else b""
                return added + self._event("response.reasoning_summary_text.delta", **place, delta=text)
            case deltas.ToolArgsDelta(_, text) if not self._form(block).is_custom:
                return self._event("response.function_call_arguments.delta", **place, delta=text)
            case _:
                return b""

    def _close(self, block: AnswerBlock) -> bytes:
        place, text, done = self._place(block), block.text, b""
        if block.kind == "text":
            done = self._event("response.output_text.done", **place, text=text, logprobs=[])
            done += self._event("response.content_part.done", **place, part=_text_part(text, block.citations))
        elif block.kind == "reasoning" and block.pieces:
            done = self._event("response.reasoning_summary_text.done", **place, text=text)
            part = {"type": "summary_text", "text": text}
            done += self._event("response.reasoning_summary_part.done", **place, part=part)
        elif block.kind == "call" and self._form(block).is_custom:
            said = custom_input(text)
            done = self._event("response.custom_tool_call_input.delta", **place, delta=said)
            done += self._event("response.custom_tool_call_input.done", **place, input=said)
        elif block.kind == "call":
            name = self._form(block).name
            done = self._event("response.function_call_arguments.done", **place, name=name, arguments=text)
        item = self._item(block)
        return done + self._event("response.output_item.done", output_index=place["output_index"], item=item)

    def _cite(self, block: AnswerBlock, citation: Citation) -> bytes:
        told = {"annotation_index": len(block.citations) - 1, "annotation": citation.annotation()}
        return self._event("response.output_text.annotation.added", **self._place(block), **told)

    def _finish(self) -> bytes:
        response = self._response
        reason = {StopReason.MAX_TOKENS: "max_output_tokens", StopReason.REFUSAL: "content_filter"}.get(self._stop)
        response["status"] = "incomplete" if reason else "completed"
        response["incomplete_details"] = {"reason": reason} if reason else None
        self._fill()
        return self._event(f"response.{response['status']}", response=response)

    def _failed(self, error: LamellaError) -> bytes:
        message = f"{error.message} {error.hint}" if error.hint else error.message
        self._response["status"] = "failed"
        self._response["error"] = {"code": failure_code(error), "message": message}
        self._fill()
        return self._event("response.failed", response=self._response)

    def whole(self) -> Object:
        """The response."""
        return self._response

    def _fill(self) -> None:
        usage = self._usage
        self._response["output"] = [self._item(block) for block in self._order.blocks]
        written: Object = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
        if usage.cache_write_1h:
            written["cache_write_tokens_details"] = {"ttl_12h_tokens": usage.cache_write_1h}
        self._response["usage"] = {
            "input_tokens": usage.input,
            "input_tokens_details": written,
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        }

    def _place(self, block: AnswerBlock) -> Object:
        """Where an event of a block belongs."""
        part = {"text": {"content_index": 0}, "reasoning": {"summary_index": 0}, "call": {}}[block.kind]
        return {"item_id": self._item_id(block), "output_index": block.index, **part}

    def _item_id(self, block: AnswerBlock) -> str:
        custom = block.kind == "call" and self._form(block).is_custom
        prefix = {"text": "msg", "reasoning": "rs", "call": "ctc" if custom else "fc"}[block.kind]
        return f"{prefix}_{self._id.partition('_')[2] or self._id}_{block.index}"

    def _item(self, block: AnswerBlock, *, started: bool = False) -> Object:
        item: Object = {"id": self._item_id(block)}
        if block.kind == "reasoning":
            text = "" if started else block.text
            item |= {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}] if text else []}
            sealed = block.signature is not None or block.redacted is not None
            return item | ({"encrypted_content": wrapped_seal(block.signature, block.redacted)} if sealed else {})
        item["status"] = "in_progress" if started else "completed"
        if block.kind == "text":
            content = [] if started else [_text_part(block.text, block.citations)]
            return item | {"type": "message", "role": "assistant", "content": content}
        form = self._form(block)
        item |= {"call_id": block.id, "name": form.name} | ({"namespace": form.namespace} if form.namespace else {})
        if form.is_custom:
            return item | {"type": "custom_tool_call", "input": "" if started else custom_input(block.text)}
        return item | {"type": "function_call", "arguments": "" if started else block.text}


def _text_part(text: str, citations: Sequence[Citation] = ()) -> Object:
    annotations = [citation.annotation() for citation in citations]
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def writer(
    dialect: Dialect,
    model: str,
    id: str,
    *,
    created: int = 0,
    asks_for_usage: bool = False,
    carries_thinking: bool = False,
    forms: Mapping[str, ToolForm] = NO_FORMS,
    echo: JsonObject | None = None,
) -> AnswerWriter:
    """The writer of an answer of `model`. `created` is in Unix seconds.

    `asks_for_usage`: a Chat stream has the usage in a chunk of its own, else on its last chunk. `carries_thinking`: the
    id of a Chat call carries the sealed thinking before it (`carrying_id`). `forms` are those of the request
    (`ClientRequest.forms`). `echo` has fields of the request that a response of Responses repeats.
    """
    match dialect:
        case Dialect.MESSAGES:
            return MessagesWriter(model, id)
        case Dialect.CHAT:
            return ChatWriter(
                model, id, created, forms, asks_for_usage=asks_for_usage, carries_thinking=carries_thinking
            )
        case Dialect.RESPONSES:
            return ResponsesWriter(model, id, created, forms, echo or {})
        case Dialect.EMBEDDINGS:
            raise ValueError("embeddings are not written as an answer")
        case _:
            assert_never(dialect)
