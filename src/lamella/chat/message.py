"""What a user sends, and what is wrong with it before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lamella.commands.parse import Typed, parse
from lamella.core.agents import DynamicBlock
from lamella.core.errors import InvalidRequest
from lamella.core.json import JsonObject
from lamella.core.models import effort_named
from lamella.core.records import LEAVE, Choices, Leave


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRequest:
    """A message and how it is to be answered; what is left out is decided by the conversation, then the deployment.

    `conversation_id` None begins a conversation. `models` are one to three names. `parent_message_id` is the message or
    run that it follows: None for the beginning, LEAVE for where the conversation stands; `agent_id` None is no agent
    for this turn. `timezone` is an IANA name.

    `kb_meta_prompt` is the block about knowledge bases as it is to be sent: "" for none, None lets the server's backend
    build it. `dynamic_context` are the caller's own blocks; None is none, as everywhere.

    `metadata` are pairs of the caller's, which no model reads. `extra_fields` are fields that this version does not
    know, and `body_fields` what an OpenAI request says beside the message: both are kept, so that a request comes back
    from its other form as it was.
    """

    text: str
    conversation_id: str | None = None
    file_ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    timezone: str = "UTC"
    parent_message_id: str | Leave | None = LEAVE
    layout: str | None = None
    marker_policy: str | None = None
    agent_id: str | Leave | None = LEAVE
    thinking_effort: str | None = None
    knowledge_base_ids: tuple[str, ...] = ()
    kb_meta_prompt: str | None = None
    dynamic_context: tuple[str, ...] | None = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra_fields: JsonObject = field(default_factory=dict)
    body_fields: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Two requests that say the same are equal."""
        if self.dynamic_context is None:
            object.__setattr__(self, "dynamic_context", ())


MAX_FILES = 20
"""Files of one message, and of messages that are answered together."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a user sends. `timezone` is an IANA name; `key` an Idempotency-Key; `models` empty for
    the conversation's; several answer side by side.

    `dynamic` are the caller's blocks of the dynamic context, `blocks` the deployment's, which stand before them and may
    differ when a message is sent again; empty ones are left out. `choices` are for this
    message's turn only. `parent_message_id` is the message or run that it follows: None for the beginning, LEAVE for
    where the conversation stands. `sent_at` is when it was sent, where that was earlier than now.
    """

    text: str
    file_ids: tuple[str, ...] = ()
    timezone: str = "UTC"
    models: tuple[str, ...] = ()
    key: str | None = None
    dynamic: tuple[str, ...] = ()
    blocks: tuple[DynamicBlock, ...] = ()
    choices: Choices = field(default_factory=Choices)
    parent_message_id: str | Leave | None = LEAVE
    sent_at: datetime | None = None

    @property
    def context(self) -> tuple[DynamicBlock, ...]:
        """All blocks of the dynamic context, in order."""
        return (*self.blocks, *sent_along(self.dynamic))


def sent_along(texts: Iterable[str]) -> tuple[DynamicBlock, ...]:
    """The caller's own blocks of the dynamic context."""
    return tuple(DynamicBlock(text, "sent along with the message") for text in texts)


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How long a message may wait: for its turn in the `queue`, else it is refused; for more of its kind `debounce`
    seconds, None for what the deployment sets.
    """

    queue: bool = True
    debounce: float | None = None


PATIENT = WaitPolicy()
"""As the deployment sets it."""

AT_ONCE = WaitPolicy(queue=False, debounce=0)
"""Answered now, or refused with `TurnInProgress`."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message with how it is to be sent.

    `regenerate` is the turn to ask again: the message then brings no text. `is_literal`: a text that begins with `/` is
    no command. `kb_meta_prompt` replaces the block about knowledge bases: "" leaves it out, with None the server writes
    it.
    """

    message: Message
    patience: WaitPolicy = PATIENT
    regenerate: str | None = None
    is_literal: bool = False
    kb_meta_prompt: str | None = None

    @classmethod
    def of(cls, request: ExecutionRequest, key: str | None = None) -> Outgoing:
        """That of an execution request: answered at once or refused, and no command.

        Raises `InvalidRequest` for a field that this version does not know: it could mean anything.
        """
        unknown = next(iter(request.extra_fields), None)
        if unknown is not None:
            raise InvalidRequest(
                f"This version does not know the field “{unknown}” of an execution request.",
                hint="Leave it out, or update the server.",
                param=unknown,
            )
        choices = Choices(
            request.layout,
            request.marker_policy,
            request.agent_id,
            effort_named(request.thinking_effort) if request.thinking_effort is not None else None,
            request.knowledge_base_ids,
        )
        message = Message(
            text=request.text,
            file_ids=request.file_ids,
            timezone=request.timezone,
            models=request.models,
            key=key,
            dynamic=request.dynamic_context or (),
            choices=choices,
            parent_message_id=request.parent_message_id,
        )
        return cls(message, AT_ONCE, is_literal=True, kb_meta_prompt=request.kb_meta_prompt)


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """`debounce`: seconds that a message waits for more where nobody is being answered. `joining`: the same where it
    has to wait anyway. `limit`: messages that may wait in a conversation.
    """

    debounce: float = 0.0
    joining: float = 0.0
    limit: int = 50

    def debounce_of(self, patience: WaitPolicy) -> float:
        """Seconds; a message that is not to wait for its turn does not wait for others either."""
        if not patience.queue:
            return 0
        return self.debounce if patience.debounce is None else patience.debounce

    def joining_of(self, patience: WaitPolicy) -> float:
        """Seconds in which a message that waits is joined by what comes behind it."""
        return max(self.debounce, self.joining) if patience.debounce is None else patience.debounce


def read_message(message: Message, usages: Mapping[str, str]) -> Message | Typed:
    """A command, or words; of `//x` the words `/x`. `usages` are the commands and how they are typed.

    Raises `InvalidRequest` for a message that can't be sent, for what looks like a command and is none, and for a
    command with files.
    """
    parsed = parse(checked(message), usages)
    if isinstance(parsed, str):
        return replace(message, text=parsed)
    if message.file_ids:
        raise InvalidRequest(f"/{parsed.name} takes no files.", hint="Send them with a message.", param="file_ids")
    return parsed


def checked(message: Message) -> str:
    """The message's text; raises `InvalidRequest` for a message that can't be sent."""
    if not message.text.strip():
        raise InvalidRequest("The message is empty.", hint="Write something; files go with a message.", param="text")
    _must_be_unicode(message.text, "message", "text")
    for block in message.context:
        _must_be_unicode(block.text, "dynamic context", "dynamic_context")
    if len(message.file_ids) > MAX_FILES:
        raise InvalidRequest(
            f"A message can have {MAX_FILES} files at most.", hint="Send the others along next.", param="file_ids"
        )
    if len(set(message.file_ids)) != len(message.file_ids):
        raise InvalidRequest("A file is attached twice.", hint="Name each file once.", param="file_ids")
    return message.text


def _must_be_unicode(text: str, what: str, param: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"The {what} holds half of a surrogate pair, which is no text.", hint="Send valid Unicode.", param=param
        ) from None


def local(now: datetime, timezone: str) -> datetime:
    """The moment with the offset of the user's zone, so that nobody has to know the zone later."""
    try:
        return now.astimezone(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"“{timezone[:60]}” is no time zone.", hint="Use an IANA name such as Europe/Berlin.", param="timezone"
        ) from None
