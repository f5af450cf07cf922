"""The packets that a client receives: numbered parts of a turn's stream, each a struct with a `type`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from lamella.core.tokens import Usage

ErrorFields = Annotated[dict[str, str | None], msgspec.Meta(title="error")]
"""The object of API errors: `message`, `type`, `code`, `param`, `hint`."""

PartialReason = Literal["max_tokens", "refusal", "step_limit"]


class Packet(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """The placement that every packet carries.

    `n` counts the packets of a turn from 1, gaps allowed. `block_index` numbers the blocks of the turn as they are
    shown: reasoning, text, tool call. `model_index` is the run.
    """

    n: int = 0
    turn_id: str = ""
    model_index: int = 0
    block_index: int | None = None


class StartedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a message, under its number in the conversation; `reason` says why it has no text."""

    document: int
    file_id: str
    title: str
    reason: str | None


class TurnStarted(Packet, frozen=True, kw_only=True, tag="turn.started"):
    """The turn has its ids; the user message is stored. `documents` are the files that came with it."""

    conversation_id: str
    user_message_id: str
    sent_at: str
    documents: list[StartedDocument]


class TurnQueued(Packet, frozen=True, kw_only=True, tag="turn.queued"):
    """The message or command is in the queue. It has no turn yet, so `n` is 0; the packets of its turn follow.

    `position` counts from 1. `due_at` is the end of its debounce; None for a command.
    """

    message_id: str
    position: int
    due_at: str | None


class RunStarted(Packet, frozen=True, kw_only=True, tag="run.started"):
    """A model began to answer. `caution` names facts that the model table lacks; null if it has them all."""

    run_id: str
    model: str
    caution: str | None = None


class ModelFallback(Packet, frozen=True, kw_only=True, tag="model.fallback"):
    """The model `requested_model` failed before anything of its answer was shown: `model` answers in its place, this
    once.

    `error` is the object of API errors.
    """

    requested_model: str
    model: str
    error: ErrorFields


class RequestStarted(Packet, frozen=True, kw_only=True, tag="request.started"):
    """A request is about to be sent: its map is there to be looked at."""

    request_id: str
    step: int
    purpose: str
    letters: str
    estimate: int
    budget: int
    predicted_read: int


class ContextDegraded(Packet, frozen=True, kw_only=True, tag="context.degraded"):
    """Something did not fit and was listed instead of included."""

    subject: str
    why: str


class CacheLost(Packet, frozen=True, kw_only=True, tag="cache.lost"):
    """A setting that is part of the cache key changed. Says what the next request can no longer read.

    `subject` is the setting. `level` says where in the window the loss begins (`tools`, `system`, `messages`). `tokens`
    is about how many are lost, `cost` the extra US dollars for writing instead of reading them.
    """

    subject: str
    level: str
    tokens: int
    cost: float
    why: str


class ReasoningPacket(Packet, frozen=True, kw_only=True, tag="reasoning.delta"):
    """A piece of thinking."""

    text: str


class TextPacket(Packet, frozen=True, kw_only=True, tag="text.delta"):
    """A piece of the answer, exactly as the model wrote it."""

    text: str


class ToolCallPacket(Packet, frozen=True, kw_only=True, tag="tool.call"):
    """A tool call began. `renderer` hints how to show it."""

    call_id: str
    name: str
    renderer: str = "generic"


class ToolArgsPacket(Packet, frozen=True, kw_only=True, tag="tool.args.delta"):
    """A piece of the arguments' JSON text."""

    call_id: str
    json: str


class ToolApprovalPacket(Packet, frozen=True, kw_only=True, tag="tool.approval"):
    """A call waits for the user: approve or deny it at `/turns/{turn_id}/calls/{call_id}/approval`."""

    call_id: str
    name: str
    arguments: str


class ToolVerdictPacket(Packet, frozen=True, kw_only=True, tag="tool.verdict"):
    """The user's decision on a waiting call. An approved call runs now."""

    call_id: str
    approved: bool


class ToolHandedOut(Packet, frozen=True, kw_only=True, tag="tool.handed_out"):
    """A call of one of the caller's own tools: the caller runs it. The turn ends, and a next one brings its result."""

    call_id: str
    name: str
    arguments: str


class ToolResultPacket(Packet, frozen=True, kw_only=True, tag="tool.result"):
    """The result of a tool, as the model reads it. `seconds`: how long it ran; null if it did not run.

    `queries`: all queries of a search; `rich`: JSON that people see in addition, such as documents with scores.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    seconds: float | None = None
    queries: tuple[str, ...] = ()
    rich: str = ""


class SourcePacket(Packet, frozen=True, kw_only=True, tag="source"):
    """A document that the answer cites, sent before its first citation in a turn."""

    document: int
    title: str
    file_id: str | None = None
    url: str | None = None


class CitationPacket(Packet, frozen=True, kw_only=True, tag="citation"):
    """`[n]` in text block `block_index`: characters `start` to `end` (code points, not UTF-16) cite `document`.

    In a list such as `[1, 99]`, in which only some numbers are documents, the range has only the digits of one
    document.

    `passage_start` and `passage_end` are code-point offsets in the document's text, if a passage was found; `quote` is
    its beginning, 400 characters at most. Of a knowledge base's document only the quote is there.
    """

    document: int
    start: int
    end: int
    file_id: str | None = None
    passage_start: int | None = None
    passage_end: int | None = None
    page: int | None = None
    quote: str = ""


class UsageBody(msgspec.Struct, frozen=True, kw_only=True):
    """`Usage` as clients see it. `input` is the whole prompt; `cache_write_1h` is the part of `cache_write` that lives
    for an hour.

    `estimated`: the provider did not report everything. `input_estimated`: the input is an estimate too; without this
    mark only the output is.
    """

    input: int
    cache_read: int
    cache_write: int
    fresh: int
    output: int
    reasoning: int
    estimated: bool = False
    cache_write_1h: int = 0
    input_estimated: bool = False

    @classmethod
    def of(cls, usage: Usage) -> UsageBody:
        """The client form of `usage`."""
        return cls(
            input=usage.input,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            fresh=usage.fresh,
            output=usage.output,
            reasoning=usage.reasoning,
            estimated=usage.estimated,
            cache_write_1h=usage.cache_write_1h,
            input_estimated=usage.input_estimated,
        )

    def usage(self) -> Usage:
        """The `Usage` of this body."""
        return Usage(
            input=self.input,
            cache_read=self.cache_read,
            cache_write_5m=self.cache_write - self.cache_write_1h,
            cache_write_1h=self.cache_write_1h,
            output=self.output,
            reasoning=self.reasoning,
            estimated=self.estimated,
            input_estimated=self.input_estimated,
        )


class UsagePacket(Packet, frozen=True, kw_only=True, tag="usage"):
    """The bill of one request, in tokens and US dollars."""

    request_id: str
    usage: UsageBody
    cost: float
    budget: int


class PartialPacket(Packet, frozen=True, kw_only=True, tag="answer.partial"):
    """The run `model_index` ended before its answer was complete; the partial answer is kept. `hint` says what to do.

    `reason`: `max_tokens` for the output limit, `refusal` by the model or its provider, `step_limit` if the model still
    called tools in the last step.
    """

    reason: PartialReason
    message: str
    hint: str


class ErrorPacket(Packet, frozen=True, kw_only=True, tag="error"):
    """The run `model_index` failed, or the turn can't be stored yet and is retried.

    `error` is the object of API errors.
    """

    error: ErrorFields


class RunFinished(Packet, frozen=True, kw_only=True, tag="run.finished"):
    """A run ended. `status` is its stop reason, or `error` with the object of API errors. `usage` and `cost` are sums
    over its requests. `stopped_at` is the stop sequence of the request before which the answer ended, or "".
    """

    run_id: str
    status: str
    error: ErrorFields | None = None
    usage: UsageBody | None = None
    cost: float = 0.0
    stopped_at: str = ""


class TurnStopped(Packet, frozen=True, kw_only=True, tag="turn.stopped"):
    """The turn ended early: `user_cancelled`, or `interrupted` by the end of a process. The partial answer is
    stored.
    """

    reason: Literal["user_cancelled", "interrupted"]


class PacketsExpired(Packet, frozen=True, kw_only=True, tag="packets.expired"):
    """The turn's packets were removed at `expired_at`, after `kept_days` days.

    Those that follow are made from its stored messages: each text, thought, call and result whole, under new numbers,
    without citations, requests and times. A follower that had packets already gets none of them again.
    """

    expired_at: str
    kept_days: int


class TurnFinished(Packet, frozen=True, kw_only=True, tag="turn.finished"):
    """The last packet of every turn."""

    status: str
    usage: UsageBody
    cost: float


class CommandPacket(Packet, frozen=True, kw_only=True, tag="command"):
    """The answer to a command that was sent as a message. It is the only packet, and there is no turn."""

    id: str
    name: str
    argument: str
    answer: str
    data: dict[str, Any]
    at: str


AnyPacket = (
    TurnQueued
    | TurnStarted
    | RunStarted
    | ModelFallback
    | RequestStarted
    | ContextDegraded
    | CacheLost
    | ReasoningPacket
    | TextPacket
    | ToolCallPacket
    | ToolArgsPacket
    | ToolApprovalPacket
    | ToolVerdictPacket
    | ToolHandedOut
    | ToolResultPacket
    | SourcePacket
    | CitationPacket
    | UsagePacket
    | PartialPacket
    | ErrorPacket
    | RunFinished
    | TurnStopped
    | PacketsExpired
    | TurnFinished
    | CommandPacket
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyPacket)

_EARLIER_NAMES = {("model.fallback", "asked"): "requested_model", ("turn.queued", "place"): "position"}
"""Fields by the names that they had in earlier builds, in journals and in the streams of older servers."""


def encode_packet(packet: Packet) -> bytes:
    """One packet as JSON."""
    return _encoder.encode(packet)


def decode_packet(data: bytes) -> AnyPacket:
    """The packet of `data`, also with field names of earlier builds. Raises `msgspec.DecodeError` on anything else."""
    try:
        packet: AnyPacket = _decoder.decode(data)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        kind = str(fields.get("type"))
        renamed = {_EARLIER_NAMES.get((kind, name), name): value for name, value in fields.items()}
        packet = msgspec.convert(renamed, AnyPacket)
    return packet
