"""The canonical form of a conversation: frozen turns of a user message and steps, made of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text of a user or a model."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's thinking. `signature` is the provider's seal; without it the part cannot be sent back.

    `redacted` is the provider's encrypted form, if it gave no text.
    """

    text: str
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of a user's message. `digest` is the fingerprint of `data`; sizes in pixels.

    A client's picture at an address, which the provider fetches, has its `url` and no data. A client's PDF is one too.
    """

    file_id: str
    media_type: str
    width: int
    height: int
    digest: str
    data: bytes = field(repr=False)
    url: str = ""

    @property
    def is_pdf(self) -> bool:
        """Whether it is a PDF, which providers show their models page by page."""
        return self.media_type == "application/pdf"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it. `arguments` is the JSON text of an object, in the model's own key order, or of a
    string that holds one: some models encode it twice (`core.json.decode_arguments`)."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the call `call_id`, as the text that the model reads.

    `queries` are all queries of a search that ran more than one. `digest` replaces the result once it is old: one or
    two sentences, made at the end of its turn. `rich` is JSON that people are shown in addition; no model reads it.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    queries: tuple[str, ...] = ()
    digest: str = ""
    rich: str = ""


AnswerPart = Text | Reasoning | ToolCall
StoredPart = AnswerPart | ToolResult
"""The stored parts of a message. Pictures are stored with their files."""

Part = StoredPart | Image


WhenOld = Literal["prune", "summarize", "digest"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `input_schema` is the JSON text of its schema, with keys in a fixed order.

    `when_old` says what replaces its old results; models do not see it.
    """

    name: str
    description: str
    input_schema: str
    when_old: WhenOld = "prune"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or document attached at one point in time, before its user message, with its number in the conversation.

    `use` distinguishes several uses of one file in a conversation: attached twice, or also in the project. Each use is
    a document of its own in the window.

    `text` is None if nothing could be extracted; `reason` then says why. `tokens` is the local count of the text. An
    `image` is part of the user message, or belongs to the project; models never see its number. A document from a tool
    has its own id instead of a file's (`found`), and its `url`, if it has one;
    `made_from` are the knowledge bases that it was made from.
    """

    file_id: str
    document: int
    title: str
    media_type: str
    size: int
    tokens: int
    text: str | None
    reason: str | None = None
    image: Image | None = None
    found: bool = False
    url: str | None = None
    use: int = 0
    made_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A user's message. `sent_at` carries the offset of the user's time zone, so rendering needs no zone database.

    `dynamic` is the dynamic context sent with this message, "" for none. `dynamic_whys` has the reason of each block;
    models do not see it. `made_from` are the knowledge bases whose restricted content the dynamic context contains;
    `withheld` are those because of which it is no longer shown.

    `tools` are the caller's own, which may be called in this turn; None if it named none. `results` are those of the
    calls that the answer before handed to the caller. A message of results alone has no text, and continues that
    answer's turn (`core.handover`).
    """

    id: str
    text: str
    sent_at: datetime
    timezone: str
    tokens: int
    attachments: tuple[Attachment, ...] = ()
    dynamic: str = ""
    dynamic_whys: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] | None = None
    results: tuple[ToolResult, ...] = ()

    @property
    def continues(self) -> bool:
        """Whether it continues the turn before: it has results and says nothing."""
        return bool(self.results) and not self.text

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The attachments that precede the message as documents."""
        return tuple(attachment for attachment in self.attachments if attachment.image is None)

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures that ride on the message."""
        return tuple(attachment.image for attachment in self.attachments if attachment.image is not None)


class StopReason(StrEnum):
    """Why an inference ended."""

    END_TURN = "end_turn"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    USER_CANCELLED = "user_cancelled"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Step:
    """One inference and the results of its calls.

    `parts` keep the order of the stream. `made_after` is the fingerprint of everything before the step when it was
    made: its thinking may only be sent back after exactly that (rule *prefix*). `reminder` is the reminder at that
    point, or "". `made_from` are the knowledge bases whose content was in the window; `withheld` are those because of
    which parts of the step are no longer shown.
    """

    id: str
    model: str
    parts: tuple[AnswerPart, ...]
    stop_reason: StopReason
    made_after: str
    tokens: int
    reminder: str = ""
    results: tuple[ToolResult, ...] = ()
    made_from: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class TurnStatus(StrEnum):
    """Whether a turn runs, or how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Turn:
    """From a user message to the final answer.

    A turn whose calls a caller answers is stored as several: `id` is the first, `last` the newest of those that
    continue it, or "". Its steps are those of all.
    """

    id: str
    user: UserMessage
    steps: tuple[Step, ...] = ()
    status: TurnStatus = TurnStatus.RUNNING
    last: str = ""

    @property
    def ends_with(self) -> str:
        """The stored turn that it ends with."""
        return self.last or self.id
