"""What a trace consists of below a turn: files, tools, calls, steps, and what is known of requests that were made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from lamella.core.json import Json, encode_text

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Edge = Annotated[int, msgspec.Meta(ge=1, le=8000)]
"""The edge of a picture, in pixels."""

FileSize = Annotated[int, msgspec.Meta(ge=1, le=20_000_000)]
Name = Annotated[str, msgspec.Meta(min_length=1, pattern="^[^/]*$")]
"""What something is called in a trace, to be named again."""

WHOLE_PIECES = 1_000
"""Characters of one streamed piece: how an answer is cut up changes no request, and fewer pieces are quicker."""


class TraceStruct(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a trace; a name that is not in the format is an error."""


class TraceFile(TraceStruct):
    """A file: its `text`; or a picture as `data` in base64; or one to be made of `size` bytes or `width` × `height`.

    One with an `id` is the same file wherever that id comes again, and is stored as it is given: its text counts
    `tokens`, a picture has `width` and `height`, with `data` or without, and `unreadable` says why there is neither.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    text: str | None = None
    media_type: str | None = None
    data: str | None = None
    size: FileSize | None = None
    width: Edge | None = None
    height: Edge | None = None
    id: Name | None = None
    tokens: Count | None = None
    unreadable: str | None = None


class TraceFound(TraceStruct):
    """What a tool brought into the conversation to read: it has a number there, as files have."""

    title: str
    text: str
    url: str | None = None
    media_type: str = "text/plain"


class TraceTool(TraceStruct):
    """A tool that the model of the trace may call. `input_schema` is an object, or its JSON text as it was written."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str = ""
    input_schema: dict[str, Any] | str = msgspec.field(default_factory=dict)
    when_old: Literal["prune", "summarize", "digest"] = "prune"
    kind: Literal["search", "other"] = "other"

    @property
    def schema(self) -> str:
        """The schema as JSON text, with the type that every provider asks for."""
        given = self.input_schema
        return (
            given if isinstance(given, str) else encode_text(given if "type" in given else {"type": "object"} | given)
        )


class TraceUsage(TraceStruct):
    """What a request was billed, in tokens: `input` is the whole prompt. `estimated`: nobody said it."""

    input: Count = 0
    read: Count = 0
    written_5m: Count = 0
    written_1h: Count = 0
    output: Count = 0
    reasoning: Count = 0
    estimated: bool = False


class TraceMarker(TraceStruct):
    """A cache marker on the block of this index."""

    block: Count
    life: Literal["5m", "30m", "1h"]


class TraceError(TraceStruct):
    """An error of a provider, as the API tells it."""

    type: str
    message: str
    code: str | None = None
    hint: str | None = None
    param: str | None = None


class TraceSent(TraceStruct):
    """What is known of a request that was made, by which a replay plays it again and is compared with it.

    `letters`, `bytes` and `digest` are those of its body, `sizes` is a digest of the tokens of each of its segments,
    `markers` are its cache markers. `estimate` is how many tokens it
    was thought to have, `counted` what its provider counted before, `usage` its bill, `answer` the provider's own name
    of what came, `error` what it ended with, if it did. `model` answered in the place of its run's.
    """

    letters: str = ""
    bytes: Count = 0
    digest: str = ""
    sizes: str = ""
    markers: list[TraceMarker] = []
    estimate: Count = 0
    counted: list[Count] = []
    usage: TraceUsage | None = None
    answer: str | None = None
    error: TraceError | None = None
    model: str | None = None


class TraceFault(TraceStruct):
    """A failure of the provider on the first `times` tries, before the answer or after `when` streamed characters."""

    kind: (
        Literal["429", "500", "504", "529", "stream_error", "drop_before", "drop_after", "truncated_tool_json", "slow"]
        | Literal["refusal", "content_filter", "max_tokens", "empty"]
        | Literal[429, 500, 504, 529]
    )
    when: Literal["before"] | Count = "before"
    times: Positive = 1


class TraceAnswer(TraceStruct):
    """One answer to a side request: a `text`, "keep_facts", or a `fault`; `late` turns go on before it comes.

    `stop_reason` is how it ended; `calls`: it called a tool, which is no answer.
    """

    text: str = ""
    late: Count = 0
    fault: TraceFault | None = None
    stop_reason: str | None = None
    calls: bool = False
    sent: TraceSent | None = None

    def reply(self) -> dict[str, Json]:
        """The script for the simulator."""
        if self.fault is not None:
            return {"text": "", "fault": msgspec.to_builtins(self.fault)}
        said: dict[str, Json] = {"rule": "keep_facts"} if self.text == "keep_facts" else {"text": self.text}
        return said | {"chunk": WHOLE_PIECES}


class TraceCall(TraceStruct):
    """A call with what the tool gave back, after `ms` milliseconds. `expanded_queries` are all that a search ran.

    `arguments` is an object, or its JSON text as the model wrote it. `digest` is what was made of the result for when
    it is old; `rich` is what people were shown with it, as JSON. A call that was `interrupted` has no result. One that
    was `handed` to the caller has its result in a later turn.
    """

    id: Annotated[str, msgspec.Meta(min_length=1)]
    name: str
    arguments: dict[str, Any] | str
    result: str = ""
    error: str | None = None
    ms: Count = 0
    expanded_queries: list[str] = []
    digest: str | TraceAnswer = ""
    rich: str = ""
    interrupted: bool = False
    handed: bool = False

    @property
    def written(self) -> str:
        """The arguments as JSON text."""
        return self.arguments if isinstance(self.arguments, str) else encode_text(self.arguments)


class TraceResult(TraceStruct):
    """What a caller gave back for a call that was handed to it."""

    call_id: Annotated[str, msgspec.Meta(min_length=1)]
    content: str = ""
    error: bool = False


class TraceReasoning(TraceStruct):
    """Thinking with its size."""

    text: str
    tokens: Count | None = None


class TracePart(TraceStruct):
    """A part of an answer: a `text`, `reasoning` with its seal, or a `call`."""

    text: str | None = None
    reasoning: str | None = None
    signature: str | None = None
    redacted: str | None = None
    call: TraceCall | None = None


class TraceStep(TraceStruct):
    """One inference: what the model said. It takes `ms` milliseconds, the first token `ttft_ms`.

    A step that is carried away from a conversation has its `parts` in order, and what was `sent`: it is played as it
    was. `failed` are the requests before it that came to nothing. A step of a copied turn has its
    `reminder`, and the fingerprint `made_after` of what stood before it: its thinking is only sent after that.
    """

    text: str = ""
    reasoning: str | TraceReasoning = ""
    tool_calls: list[TraceCall] = []
    output_tokens: Count | None = None
    stop_reason: str | None = None
    ttft_ms: Count | None = None
    ms: Count = 0
    fault: TraceFault | None = None
    parts: list[TracePart] = []
    sent: TraceSent | None = None
    failed: list[TraceSent] = []
    reminder: str = ""
    made_after: str = ""

    @property
    def calls(self) -> list[TraceCall]:
        """The calls, however they are given."""
        return self.tool_calls or [part.call for part in self.parts if part.call is not None]

    @property
    def thinks(self) -> bool:
        """Whether there is any thinking in it."""
        return bool(self.reasoning) or any(part.reasoning or part.redacted for part in self.parts)

    def reply(self, chunk: int = WHOLE_PIECES) -> dict[str, Json]:
        """The script for the simulator."""
        reply: dict[str, Json] = {"text": self.text}
        if self.reasoning:
            reply["reasoning"] = msgspec.to_builtins(self.reasoning)
        if self.tool_calls:
            reply["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in self.tool_calls]
        for name in ("output_tokens", "stop_reason", "ttft_ms", "ms"):
            value = getattr(self, name)
            if value:
                reply[name] = value
        if self.fault is not None:
            reply["fault"] = msgspec.to_builtins(self.fault)
        else:
            reply["chunk"] = chunk
        return reply


class TraceRun(TraceStruct):
    """What one of a turn's models said."""

    steps: list[TraceStep] = []


class TraceStop(TraceStruct):
    """Where an answer was stopped: the `run`, the `step`, and there after so many characters or while its tools run.

    Without either it is stopped when all of the step has come; a step after the last one is stopped before it is sent.
    `cause`: the user, or a server that ended.
    """

    run: Count = 0
    step: Count = 0
    after_chars: Count | None = None
    during: Literal["tools"] | None = msgspec.field(default=None, name="in")
    cause: Literal["user", "restart"] = "user"
