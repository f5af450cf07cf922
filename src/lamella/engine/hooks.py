"""The hooks of a turn's runs: what they decide is stored, its documents are kept, and its user is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from lamella.agent.hooks import Fallback, RunHooks
from lamella.agent.inputs import CompactedHistory, TurnInput
from lamella.core.decisions import Decision
from lamella.core.messages import Attachment
from lamella.core.packets import Packet
from lamella.core.records import ConversationChange, FoundDocument, NewRequest, ProviderLimit
from lamella.engine.journal import Journal
from lamella.engine.services import Services
from lamella.engine.stops import Stops
from lamella.tooling.tool import Invocation, Verdict

FindFallback = Callable[[], Awaitable[Fallback | None]]
"""Finds the model that answers in the place of another; None where there is none. Raises a `LamellaError`."""

CompactHistory = Callable[[str], Awaitable[CompactedHistory | None]]
"""Compacts what stands before a turn for the model of this name; None if that was not possible."""


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
        """The user goes on from this run."""
        self.acting_run = self.preferred = run_id

    def emit(self, packet: Packet) -> None:
        """See `RunHooks.emit`."""
        self._journal.append(self._turn.turn.id, packet)

    async def request(self, new: NewRequest) -> None:
        """See `RunHooks.request`."""
        await self._services.store.record_request(self._turn.caller, new)

    async def decided(self, decisions: Sequence[Decision]) -> None:
        """See `RunHooks.decided`."""
        turn, change = self._turn, ConversationChange(decisions=tuple(decisions))
        now = self._services.clock.now()
        await self._services.store.change_conversation(turn.caller, turn.conversation_id, change, now)

    async def limit_learned(self, limit: ProviderLimit) -> None:
        """See `RunHooks.limit_learned`."""
        await self._services.store.keep_provider_limit(limit)

    async def compact(self, model: str) -> CompactedHistory | None:
        """See `RunHooks.compact`."""
        return await self._compact(model)

    async def fallback(self, run_id: str) -> Fallback | None:
        """See `RunHooks.fallback`."""
        return await self._fallbacks[run_id]()

    async def approve(self, call: Invocation, name: str) -> Verdict:
        """See `RunHooks.approve`."""
        return await self._services.approvals.wait(self._turn.turn.id, call.id)

    async def keep_document(self, found: FoundDocument, tokens: int) -> Attachment:
        """See `RunHooks.keep_document`."""
        turn, now = self._turn, self._services.clock.now()
        return await self._services.store.keep_document(turn.caller, turn.conversation_id, found, tokens, now)

    async def document_text(self, document_id: str) -> str:
        """See `RunHooks.document_text`."""
        return (await self._services.store.document(self._turn.caller, document_id)).text or ""

    async def stopped(self, run_id: str) -> None:
        """See `RunHooks.stopped`."""
        await self._stops.requested(self._turn.turn.id, run_id)

    def may_act(self, run_id: str) -> bool:
        """See `RunHooks.may_act`."""
        return self.acting_run == run_id
