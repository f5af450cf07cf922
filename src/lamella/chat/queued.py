"""Queued rows decoded: which messages are answered together, and when. Pure.

A message joins the one before it if it came within that one's debounce, and has the same sender, models, place, layout,
marker policy, thinking effort and agent. A message that does not join ends the group before it, which is due at once.
`docs/decisions/` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest

import msgspec

from lamella.chat.message import MAX_FILES, sent_along
from lamella.commands.parse import TypedCommand
from lamella.core.agents import DynamicBlock, DynamicContext, KnowledgePrompt, joined, strictest
from lamella.core.errors import StoreFailed
from lamella.core.json import JsonObject
from lamella.core.records import Place, QueuedMessage

SKEW = 5.0
"""Seconds by which clocks of processes may differ."""


class QueuedContent(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="message"):
    """The content of a queued message, and its settings at the time.

    `due` is the end of its debounce. `agent_chosen`: the message itself named its agent, or none. `parent` is set if
    the message named what it follows. `whys` are the reasons of `blocks`; `prompt`, `hints` and `made_from` those of
    the dynamic context. `stopped`: an `/abort` came before its turn, which is stored and stops at once.
    """

    due: datetime
    models: tuple[str, ...]
    layout: str
    marker_policy: str
    thinking_effort: str
    agent_id: str | None = None
    agent_chosen: bool = False
    file_ids: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    whys: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()
    parent: Place | None = None
    knowledge_base_ids: tuple[str, ...] = ()
    prompt: KnowledgePrompt = KnowledgePrompt.NONE
    hints: tuple[str, ...] = ()
    made_from: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def context(self) -> DynamicContext:
        """The dynamic context that was sent with it."""
        own = (
            DynamicBlock(text, why) for text, why in zip_longest(self.blocks, self.whys, fillvalue="from the server")
        )
        told = joined((*own, *sent_along(self.dynamic)))
        return replace(told, prompt=self.prompt, hints=self.hints, made_from=self.made_from)

    @property
    def settings(self) -> tuple[object, ...]:
        """The settings that must be equal in messages that are answered together."""
        chosen = self.agent_id, self.agent_chosen, self.knowledge_base_ids, self.stopped
        return (self.models, self.parent, self.layout, self.marker_policy, self.thinking_effort, *chosen)


class QueuedCommand(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """A command."""

    name: str
    argument: str = ""

    @property
    def typed(self) -> TypedCommand:
        """The command as typed."""
        return TypedCommand(self.name, self.argument)


QueuedItem = QueuedContent | QueuedCommand


def payload_of(sent: QueuedItem) -> JsonObject:
    """The data stored in addition to a row's text."""
    payload: JsonObject = msgspec.to_builtins(sent)
    return payload


def sent_of(row: QueuedMessage) -> QueuedItem:
    """The content of a row. Raises `StoreFailed` if it can't be decoded."""
    try:
        sent: QueuedItem = msgspec.convert(row.payload, QueuedContent | QueuedCommand)
    except msgspec.ValidationError as error:
        raise StoreFailed(f"The queued message {row.id} can't be read.", hint="Send it again.") from error
    return sent


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that can't be decoded; the error is reported."""

    error: StoreFailed


@dataclass(frozen=True, slots=True)
class QueuedGroup:
    """Rows that are done together: messages that make one turn, a single command, or one row that can't be read.

    Due from `due` on.
    """

    rows: tuple[QueuedMessage, ...]
    sent: QueuedItem | UnreadableRow
    due: datetime

    def waits(self, now: datetime) -> float:
        """The seconds until it is due. If the clock was set back, a message from the future is due now.

        A message from less than `SKEW` ahead may come from another process, whose clock is ahead.
        """
        if (self.rows[-1].sent_at - now).total_seconds() > SKEW:
            return 0.0
        return max((self.due - now).total_seconds(), 0.0)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its rows."""
        return tuple(row.id for row in self.rows)

    @property
    def text(self) -> str:
        """The texts, a blank line between them."""
        return "\n\n".join(row.text for row in self.rows)


def groups(rows: Sequence[QueuedMessage]) -> list[QueuedGroup]:
    """Rows in the order of the queue, as they will be done."""
    found: list[QueuedGroup] = []
    for row in rows:
        sent = _read(row)
        if found and (together := _with(found[-1], row, sent)) is not None:
            found[-1] = together
            continue
        if found:
            found[-1] = _closed(found[-1])
        due = sent.due if isinstance(sent, QueuedContent) else datetime.min.replace(tzinfo=UTC)
        found.append(QueuedGroup((row,), sent, due))
    return found


def _read(row: QueuedMessage) -> QueuedItem | UnreadableRow:
    """A damaged row does not block later ones."""
    try:
        return sent_of(row)
    except StoreFailed as error:
        return UnreadableRow(error)


def _with(group: QueuedGroup, row: QueuedMessage, sent: QueuedItem | UnreadableRow) -> QueuedGroup | None:
    """The group with one more message; None if that does not join.

    The newest dynamic context that is not empty is used, since it describes the current state.
    """
    before, last = group.sent, group.rows[-1]
    if not isinstance(before, QueuedContent) or not isinstance(sent, QueuedContent):
        return None
    files = (*before.file_ids, *(id for id in sent.file_ids if id not in before.file_ids))
    if (
        row.sender != last.sender
        or (row.sent_at >= before.due and not before.stopped)
        or sent.settings != before.settings
        or len(files) > MAX_FILES
    ):
        return None
    newer = sent if _says(sent.blocks) else before
    merged = msgspec.structs.replace(
        sent,
        file_ids=files,
        blocks=newer.blocks,
        whys=newer.whys,
        prompt=strictest((before.prompt, sent.prompt)),
        hints=tuple(dict.fromkeys((*before.hints, *sent.hints))),
        made_from=newer.made_from,
        dynamic=sent.dynamic if _says(sent.dynamic) else before.dynamic,
    )
    return QueuedGroup((*group.rows, row), merged, sent.due)


def _says(texts: Sequence[str]) -> bool:
    return any(text.strip() for text in texts)


def _closed(group: QueuedGroup) -> QueuedGroup:
    return QueuedGroup(group.rows, group.sent, datetime.min.replace(tzinfo=UTC))
