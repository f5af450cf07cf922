"""A message as the user sends it, and its validation before anything is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lamella.commands.parse import TypedCommand, parse
from lamella.core.agents import DynamicBlock
from lamella.core.errors import InvalidRequest
from lamella.core.json import JsonObject, encode_text
from lamella.core.messages import ToolResult, ToolSpec
from lamella.core.models import effort_named
from lamella.core.records import UNCHANGED, AnswerChoices, Choices, Unchanged
from lamella.core.settings import EngineSettings
from lamella.tooling.arguments import wrong_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRequest:
    """A message and how to answer it. Fields that are left out are decided by the conversation, then the deployment.

    `conversation_id` None begins a conversation. `models` are one to three names. `parent_message_id` is the message or
    run that it follows: None for the beginning, UNCHANGED for the current position. `agent_id` None: no agent in this
    turn. `timezone` is an IANA name.

    `kb_meta_prompt` is the block about knowledge bases: "" for none, None lets the server write it. `dynamic_context`
    are the caller's own blocks, None for none.

    `tools` are the caller's own: a call of one ends the turn, and the caller's next request brings its result in
    `results`, with or without a text. None: those of the turn that it continues. `answer` says how to answer.

    `metadata` are the caller's pairs, which models do not see. `extra_fields` are unknown fields, and `body_fields` the
    other fields of an OpenAI request: both are kept, so that a request converts to its other form and back without
    loss.
    """

    text: str
    conversation_id: str | None = None
    file_ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    timezone: str = "UTC"
    parent_message_id: str | Unchanged | None = UNCHANGED
    layout: str | None = None
    marker_policy: str | None = None
    agent_id: str | Unchanged | None = UNCHANGED
    thinking_effort: str | None = None
    knowledge_base_ids: tuple[str, ...] = ()
    kb_meta_prompt: str | None = None
    dynamic_context: tuple[str, ...] | None = ()
    tools: tuple[ToolSpec, ...] | None = None
    results: tuple[ToolResult, ...] = ()
    answer: AnswerChoices = field(default_factory=AnswerChoices)
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
    """A user's message. `timezone` is an IANA name; `key` an Idempotency-Key. `models` empty uses the conversation's;
    several answer side by side.

    `dynamic` are the caller's blocks of dynamic context. `blocks` are the deployment's; they come first and may differ
    when a message is sent again. Empty ones are left out. `choices` hold for this message's turn only.
    `parent_message_id` is the message or run that it follows: None for the beginning, UNCHANGED for the current
    position. `sent_at` is set if it was sent earlier than now. `tools` and `results`: see `core.messages.UserMessage`.
    """

    text: str
    file_ids: tuple[str, ...] = ()
    timezone: str = "UTC"
    models: tuple[str, ...] = ()
    key: str | None = None
    dynamic: tuple[str, ...] = ()
    blocks: tuple[DynamicBlock, ...] = ()
    choices: Choices = field(default_factory=Choices)
    parent_message_id: str | Unchanged | None = UNCHANGED
    sent_at: datetime | None = None
    tools: tuple[ToolSpec, ...] | None = None
    results: tuple[ToolResult, ...] = ()

    @property
    def continues(self) -> bool:
        """Whether it continues the turn before: it has results and says nothing."""
        return bool(self.results) and not self.text

    @property
    def context(self) -> tuple[DynamicBlock, ...]:
        """All blocks of the dynamic context, in order. A turn that is continued has the server's already, so only what
        no answer may repeat holds of them.
        """
        blocks = (replace(block, text="") for block in self.blocks) if self.continues else self.blocks
        return (*blocks, *sent_along(self.dynamic))


_OWN_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def own_tool(name: str, description: str, schema: JsonObject | None, param: str) -> ToolSpec:
    """A tool of the caller's; `schema` None takes no arguments.

    Raises `InvalidRequest` for a name or a schema that providers would refuse.
    """
    try:
        text = encode_text({"type": "object", "properties": {}} if schema is None else schema)
    except UnicodeEncodeError:
        said = "A schema holds half of a surrogate pair, which is no text."
        raise InvalidRequest(said, hint="Send valid Unicode.", param=param) from None
    if not _OWN_NAME.fullmatch(name):
        hint = "Use up to 64 letters, digits, _ and -."
        raise InvalidRequest(f"“{name[:80]}” is no name of a tool.", hint=hint, param=f"{param}.name")
    if wrong := wrong_schema(text):
        raise InvalidRequest(f"The tool “{name}”: {wrong}.", hint="Correct its schema.", param=param)
    return ToolSpec(name, description, text)


def sent_along(texts: Iterable[str]) -> tuple[DynamicBlock, ...]:
    """The caller's own blocks of the dynamic context."""
    return tuple(DynamicBlock(text, "sent along with the message") for text in texts)


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How long a message may wait: in the `queue` for its turn, else it is refused; and `debounce` seconds for more
    messages, None for the deployment's setting.
    """

    queue: bool = True
    debounce: float | None = None


PATIENT = WaitPolicy()
"""As the deployment sets it."""

AT_ONCE = WaitPolicy(queue=False, debounce=0)
"""Answered now, or refused with `TurnInProgress`."""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message with how to send it.

    `regenerate` is the turn to answer again; the message then has no text. `is_literal`: a text that begins with `/` is
    not a command. `kb_meta_prompt` replaces the block about knowledge bases: "" leaves it out, None lets the server
    write it.
    """

    message: Message
    patience: WaitPolicy = PATIENT
    regenerate: str | None = None
    is_literal: bool = False
    kb_meta_prompt: str | None = None

    @classmethod
    def of(cls, request: ExecutionRequest, key: str | None = None) -> OutgoingMessage:
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
            request.answer,
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
            tools=request.tools,
            results=request.results,
        )
        return cls(message, AT_ONCE, is_literal=True, kb_meta_prompt=request.kb_meta_prompt)


JOINING = 3_000
"""Milliseconds in which messages during an answer are joined, if no debounce is set."""


def debounce_of(settings: EngineSettings, wait: WaitPolicy) -> float:
    """The seconds that a message waits for more while no turn runs. One that is not to wait for its turn does not wait
    for others either.
    """
    if not wait.queue:
        return 0
    return (settings.debounce_ms or 0) / 1000 if wait.debounce is None else wait.debounce


def joining_of(settings: EngineSettings, wait: WaitPolicy) -> float:
    """The seconds in which a queued message, which has to wait anyway, is joined by later ones."""
    own = JOINING if settings.debounce_ms is None else settings.debounce_ms
    return own / 1000 if wait.debounce is None else wait.debounce


def read_message(message: Message, usages: Mapping[str, str]) -> Message | TypedCommand:
    """A command, or a text; `//x` is the text `/x`. `usages` has the syntax of each command.

    Raises `InvalidRequest` for a message that can't be sent, for an unknown command, and for a command with files.
    """
    parsed = parse(checked(message), usages)
    if isinstance(parsed, str):
        return replace(message, text=parsed)
    if message.file_ids:
        raise InvalidRequest(f"/{parsed.name} takes no files.", hint="Send them with a message.", param="file_ids")
    return parsed


def checked(message: Message) -> str:
    """The message's text; raises `InvalidRequest` for a message that can't be sent."""
    if not message.text.strip() and not message.continues:
        raise InvalidRequest("The message is empty.", hint="Write something; files go with a message.", param="text")
    _must_be_text(message.text, "message", "text")
    for block in message.context:
        _must_be_text(block.text, "dynamic context", "dynamic_context")
    for result in message.results:
        _must_be_text(result.content, "result", "results")
    if message.continues and message.file_ids:
        raise InvalidRequest("Results come without files.", hint="Send the files with a text.", param="file_ids")
    if len(message.models) > 1 and (message.tools or message.results):
        raise InvalidRequest(
            "Tools of your own are called by one model.", hint="Name one model, or send no tools.", param="models"
        )
    if len(message.file_ids) > MAX_FILES:
        raise InvalidRequest(
            f"A message can have {MAX_FILES} files at most.", hint="Send the others along next.", param="file_ids"
        )
    if len(set(message.file_ids)) != len(message.file_ids):
        raise InvalidRequest("A file is attached twice.", hint="Name each file once.", param="file_ids")
    return message.text


def _must_be_text(text: str, what: str, param: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"The {what} holds half of a surrogate pair, which is no text.", hint="Send valid Unicode.", param=param
        ) from None
    if "\0" in text:
        raise InvalidRequest(
            f"The {what} holds NUL (U+0000), which is no character to store.", hint="Leave it out.", param=param
        )


def local(now: datetime, timezone: str) -> datetime:
    """The moment with the offset of the user's time zone, so that the zone is not needed later."""
    try:
        return now.astimezone(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"“{timezone[:60]}” is no time zone.", hint="Use an IANA name such as Europe/Berlin.", param="timezone"
        ) from None
