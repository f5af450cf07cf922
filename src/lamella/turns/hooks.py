"""The hooks of a turn's runs: they store requests, decisions and documents, ask the user, and receive stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from lamella.agent.hooks import Fallback, RunHooks
from lamella.agent.inputs import CompactedHistory, TurnInput
from lamella.core.decisions import Decision
from lamella.core.messages import Attachment
from lamella.core.packets import Packet
from lamella.core.records import ConversationChange, FoundDocument, NewRequest, ProviderLimit
from lamella.tooling.tool import Invocation, Verdict
from lamella.turns.journal import Journal
from lamella.turns.services import Services


class Stops:
    """Requests to stop turns of this process, or their runs. Those from other processes come as signals."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str | None, asyncio.Event]] = {}

    def open(self, turn_id: str) -> None:
        """A turn begins here."""
        self._asked[turn_id] = {}

    def close(self, turn_id: str) -> None:
        """It ended."""
        self._asked.pop(turn_id, None)

    def stop(self, turn_id: str, run_id: str | None = None) -> bool:
        """Ask a turn or one of its runs to stop; whether the turn runs here."""
        if turn_id not in self._asked:
            return False
        self._event(turn_id, run_id).set()
        return True

    def is_stopping(self, turn_id: str) -> bool:
        """Whether a turn that runs here was asked to stop."""
        return turn_id in self._asked and self._event(turn_id, None).is_set()

    async def requested(self, turn_id: str, run_id: str | None = None) -> None:
        """Returns when the turn or run is asked to stop."""
        await self._event(turn_id, run_id).wait()

    def _event(self, turn_id: str, run_id: str | None) -> asyncio.Event:
        return self._asked[turn_id].setdefault(run_id, asyncio.Event())


FindFallback = Callable[[], Awaitable[Fallback | None]]
"""Finds the fallback model; None if there is none. Raises a `LamellaError`."""

CompactHistory = Callable[[str], Awaitable[CompactedHistory | None]]
"""Compacts the history before a turn for the model of this name; None if that was not possible."""


class TurnHooks(RunHooks):
    """`acting_run` may change something outside: the first run, unless the user prefers another meanwhile.

    `preferred` is the run that the user chose to go on from.
    """

    def __init__(
        self,
        turn: TurnInput,
        services: Services,
        journal: Journal,
        stops: Stops,
        fallbacks: Mapping[str, FindFallback],
        compact: CompactHistory,
    ) -> None:
        self.acting_run = next(iter(fallbacks))
        self.preferred: str | None = None
        self._turn = turn
        self._services = services
        self._journal = journal
        self._stops = stops
        self._fallbacks = fallbacks
        self._compact = compact

    def prefer(self, run_id: str) -> None:
        """The user continues from this run."""
        self.acting_run = self.preferred = run_id

    def emit(self, packet: Packet) -> None:
        """See `RunHooks.emit`."""
        self._journal.append(self._turn.id, packet)

    async def request(self, new: NewRequest) -> None:
        """See `RunHooks.request`."""
        await self._services.store.requests.record_request(self._turn.caller, new)

    async def decided(self, decisions: Sequence[Decision]) -> None:
        """See `RunHooks.decided`."""
        turn, change = self._turn, ConversationChange(decisions=tuple(decisions))
        now = self._services.clock.now()
        await self._services.store.conversations.change_conversation(turn.caller, turn.conversation_id, change, now)

    async def limit_learned(self, limit: ProviderLimit) -> None:
        """See `RunHooks.limit_learned`."""
        await self._services.store.requests.keep_provider_limit(limit)

    async def compact(self, model: str) -> CompactedHistory | None:
        """See `RunHooks.compact`."""
        return await self._compact(model)

    async def fallback(self, run_id: str) -> Fallback | None:
        """See `RunHooks.fallback`."""
        return await self._fallbacks[run_id]()

    async def approve(self, call: Invocation, name: str) -> Verdict:
        """See `RunHooks.approve`."""
        return await self._services.approvals.wait(self._turn.id, call.id)

    async def keep_document(self, document: FoundDocument, tokens: int) -> Attachment:
        """See `RunHooks.keep_document`."""
        turn, now = self._turn, self._services.clock.now()
        return await self._services.store.documents.keep_document(
            turn.caller, turn.conversation_id, document, tokens, now
        )

    async def document_text(self, document_id: str) -> str:
        """See `RunHooks.document_text`."""
        return (await self._services.store.documents.document(self._turn.caller, document_id)).text or ""

    async def stopped(self, run_id: str) -> None:
        """See `RunHooks.stopped`."""
        await self._stops.requested(self._turn.id, run_id)

    def may_act(self, run_id: str) -> bool:
        """See `RunHooks.may_act`."""
        return self.acting_run == run_id
