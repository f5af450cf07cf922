"""The canonical form of a conversation: frozen turns of a user message and steps, made of parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text of a user or a model."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's thinking. `signature` is the provider's seal; without it the part cannot be sent back.

    `redacted` is the provider's encrypted form where it gave no text.
    """

    text: str
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of a user's message. `digest` is the fingerprint of `data`; sizes in pixels."""

    file_id: str
    media_type: str
    width: int
    height: int
    digest: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it. `arguments` is the JSON text of an object, in the model's own key order, or of a
    string that holds one: some models encode it twice (`core.json.decode_arguments`)."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back for the call `call_id`, in the simple form that the model reads.

    `queries` are all that a search ran where it ran more than it was asked; `digest` is what may stand in
    its place once it is old: a sentence or two, made once at the end of its turn. `rich` is what people are shown
    beside it, as JSON; no model reads it.
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
"""What messages are stored as; pictures are stored with their files."""

Part = StoredPart | Image


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file included at one point in time, before its user message, under the number that it has in the conversation.

    `use` tells its uses in one conversation apart: the same file may be attached again and be in the project too, and
    stands in the window each time, as one document.

    `text` is None when nothing could be extracted; `reason` then says why. `tokens` is the local count of the text.
    An `image` rides on the user message itself, or stands with its project; its number is never shown to a model. A
    document that a tool brought into the conversation has an id of its own in the place of a file's (`found`), and the
    `url` that it came from, if any.
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


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a user sent. `sent_at` carries the offset of the user's zone, so its rendering needs no zone database.

    `dynamic` is the dynamic context as it was sent with this message, its blocks joined; "" for none.
    `dynamic_whys` says for each block why it is there; no model reads that. `made_from` are the knowledge bases of
    which the dynamic context says what only full readers may know; `withheld` those because of which it is not given
    any more.
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

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The attachments that stand before the message, as documents."""
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

    `parts` keep the order of the stream. `made_after` is the fingerprint of everything that stood before it when it was
    made: thinking is only sent back behind exactly that (law 5). `reminder` is the reminder that stood there, or "".
    `made_from` are the knowledge bases of which something stood there; `withheld` those because of which something of
    this step is not given any more.
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
    """Where a turn is, or how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Turn:
    """From a user message to the final answer."""

    id: str
    user: UserMessage
    steps: tuple[Step, ...] = ()
    status: TurnStatus = TurnStatus.RUNNING
