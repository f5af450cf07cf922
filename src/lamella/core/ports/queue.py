"""Messages that wait for their turn, and notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lamella.core.json import JsonObject
from lamella.core.records import (
    Caller,
    Notice,
    Page,
    PageQuery,
    QueuedMessage,
    QueueStatus,
)


class QueueStore(Protocol):
    """Messages that wait for their turn, and notices."""

    async def queue_message(self, caller: Caller, message: QueuedMessage, limit: int | None = None) -> QueuedMessage:
        """Store a message behind those of its conversation that wait already; gives it with its place.

        Raises `QueueFull` when `limit` of them wait.
        """
        ...

    async def queued_message(self, caller: Caller, message_id: str) -> QueuedMessage:
        """One message of the queue, whether or not it waits."""
        ...

    async def queued(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """The messages of a conversation that wait, in order."""
        ...

    async def change_queued(
        self, caller: Caller, message_id: str, *, text: str | None = None, payload: JsonObject | None = None
    ) -> QueuedMessage:
        """Give a waiting message another text or payload; raises `NotWaiting` when it waits no more."""
        ...

    async def cancel_queued(self, caller: Caller, message_id: str) -> QueuedMessage:
        """Take a waiting message out of the queue; raises `NotWaiting` when it waits no more."""
        ...

    async def all_queued(self) -> tuple[tuple[Caller, QueuedMessage], ...]:
        """The messages of every owner that wait, by conversation and in order: for recovery at start."""
        ...

    async def add_notice(
        self,
        caller: Caller,
        notice: Notice,
        queued_ids: Sequence[str] = (),
        status: QueueStatus = QueueStatus.BEGUN,
    ) -> None:
        """Store what a conversation shows beside its messages.

        The waiting rows `queued_ids` are what it tells of, and have this `status` from now on; raises `NotWaiting` when
        one waits no more, and then stores nothing.
        """
        ...

    async def notice(self, caller: Caller, notice_id: str) -> Notice:
        """One notice."""
        ...

    async def notices(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Notice]:
        """The notices of a conversation."""
        ...
