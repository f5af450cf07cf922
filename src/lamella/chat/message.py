"""What a user sends, and what is wrong with it before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lamella.core.agents import DynamicBlock
from lamella.core.errors import InvalidRequest
from lamella.core.records import LEAVE, Choices, Leave

MAX_FILES = 20
"""Files of one message, and of messages that are answered together."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a user sends. `timezone` is an IANA name; `key` an Idempotency-Key; `models` empty for
    the conversation's; several answer side by side.

    `dynamic` are the caller's blocks of the dynamic context, `blocks` the deployment's, which stand before them and may
    differ when a message is sent again; empty ones are left out (SPEC W4, W5). `choices` are for this
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
class Patience:
    """How long a message may wait: for its turn in the `queue`, else it is refused; for more of its kind `debounce`
    seconds, None for what the deployment sets.
    """

    queue: bool = True
    debounce: float | None = None


PATIENT = Patience()
"""As the deployment sets it."""

AT_ONCE = Patience(queue=False, debounce=0)
"""Answered now, or refused with `TurnInProgress`."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """`debounce`: seconds that a message waits for more where nobody is being answered. `joining`: the same where it
    has to wait anyway. `limit`: messages that may wait in a conversation.
    """

    debounce: float = 0.0
    joining: float = 0.0
    limit: int = 50

    def debounce_of(self, patience: Patience) -> float:
        """Seconds; a message that is not to wait for its turn does not wait for others either."""
        if not patience.queue:
            return 0
        return self.debounce if patience.debounce is None else patience.debounce

    def joining_of(self, patience: Patience) -> float:
        """Seconds in which a message that waits is joined by what comes behind it."""
        return max(self.debounce, self.joining) if patience.debounce is None else patience.debounce


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
