"""Requests to models, their blocks, bills and decisions."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from lamella.core.records import (
    Caller,
    LastBill,
    NewRequest,
    Page,
    PageQuery,
    ProviderLimit,
    RequestEnd,
    RequestRecord,
    StoredBlock,
    StoredDecision,
)


class RequestStore(Protocol):
    """Requests to models, their blocks, bills and decisions."""

    async def record_request(self, caller: Caller, request: NewRequest) -> None:
        """Store a request, its new blocks and its decisions, before it is sent."""
        ...

    async def end_request(self, caller: Caller, end: RequestEnd) -> None:
        """Store what became of a request that was sent beside a turn, whose end does not wait for it."""
        ...

    async def request(self, caller: Caller, request_id: str) -> RequestRecord:
        """One request, with all its segments."""
        ...

    async def requests(self, caller: Caller, turn_id: str) -> tuple[RequestRecord, ...]:
        """The requests of a turn, in order."""
        ...

    async def last_bill(self, caller: Caller, conversation_id: str, model: str) -> LastBill | None:
        """What the newest billed request to a model was billed on the path that the conversation stands at."""
        ...

    async def provider_limit(self, account: str, model: str, now: datetime) -> ProviderLimit | None:
        """The limit that a model's refusals taught, while it is believed; shared by all that use the account."""
        ...

    async def keep_provider_limit(self, limit: ProviderLimit) -> None:
        """Store a limit in place of the one before; one that is believed until the past is as good as none."""
        ...

    async def blocks(self, caller: Caller, request_id: str) -> tuple[StoredBlock, ...]:
        """The wire blocks of a request, in order."""
        ...

    async def decisions(self, caller: Caller, conversation_id: str) -> tuple[StoredDecision, ...]:
        """Everything that was decided for a conversation, oldest first."""
        ...

    async def decision_page(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[StoredDecision]:
        """The same by pages."""
        ...
