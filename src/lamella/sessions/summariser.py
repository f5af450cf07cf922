"""Makes a summary of some turns: asks for it, checks what came, and says what it cost (SPEC L11, X-LEASE).

The main model is asked on the prefix that the conversation itself sends, with the instruction last, so that what is
cached is read from the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.cache.plan import note_billed, note_written
from lamella.context.input import ContextInput
from lamella.core.counting import count_tokens
from lamella.core.effort import OFF
from lamella.core.errors import ContextLengthExceeded
from lamella.core.messages import Turn, UserMessage
from lamella.core.prompt import Sampling
from lamella.core.records import Caller
from lamella.core.sessions import SessionSummary
from lamella.engine.loop import Services
from lamella.engine.opening import Opening
from lamella.engine.request import Identity, new_request, prepare
from lamella.engine.side import SideAnswer, ask
from lamella.sessions.summary import MAX_OUTPUT, Refused, checked, instruction


@dataclass(frozen=True, slots=True)
class NotCompacted:
    """Nothing changed, and why. `again`: it may be tried once more without anything else having changed."""

    why: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """What a summary is of: `turns` of the window that `opening` has, with about `tokens` local tokens in it."""

    opening: Opening
    turns: Sequence[Turn]
    tokens: int
    focus: str = ""


class Summariser:
    """Makes summaries; stores nothing but its requests."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def summary_of(self, caller: Caller, source: Source) -> SessionSummary | NotCompacted:
        """The summary, or why there is none. Raises `NotFound` and `StoreFailed`."""
        try:
            answer = await self._ask(caller, source)
        except ContextLengthExceeded as error:
            return NotCompacted(f"the window can't be built: {error.message}")
        if answer.error is not None:
            return NotCompacted(f"the summary could not be made: {answer.error.message}", again=True)
        found = checked(answer.text, answer.stop_reason, called_tools=answer.called_tools, source_tokens=source.tokens)
        if isinstance(found, Refused):
            await self._services.store.spend(caller, source.opening.found.session.id, "summary", answer.usage)
            return NotCompacted(found.why, again=True)
        return SessionSummary(found, count_tokens(found), answer.usage)

    async def _ask(self, caller: Caller, source: Source) -> SideAnswer:
        opening, now = source.opening, self._services.clock.now()
        run, setting = opening.run, opening.setting
        context = asking(opening, source.turns, instruction(source.turns, source.focus))
        context = replace(context, sampling=_sampling(run.sampling))
        prepared = prepare(
            context,
            setting.layout,
            setting.policy,
            run.model,
            run.account,
            self._services.ledger,
            now,
            opening.line,
            run.ttl,
        )
        turn_id = source.turns[-1].id
        identity = Identity(self._services.ids.new("req"), setting.conversation.id, turn_id, 0, "summary", now)
        await self._services.store.record_request(caller, new_request(prepared, identity, setting.policy, None))
        note_written(prepared.plan, self._services.ledger, prepared.facts)
        answer = await ask(run.model, prepared.request, run.headers("summary", 0))
        note_billed(prepared.plan, answer.usage, self._services.ledger, prepared.facts)
        cost = run.model.facts.cost(answer.usage)
        await self._services.store.end_request(caller, answer.end(identity.id, cost))
        return answer


def asking(opening: Opening, history: Sequence[Turn], text: str) -> ContextInput:
    """The window of `history` with a text as its newest message."""
    last = history[-1].user
    user = UserMessage("instruction", text, last.sent_at, last.timezone, count_tokens(text))
    return replace(opening.context(Turn("instruction", user)), history=tuple(history))


def _sampling(usual: Sampling) -> Sampling:
    """As the conversation is asked, with the room of a summary; where it thinks, with the same room for that: another
    effort would be another cache."""
    most = MAX_OUTPUT if usual.thinking_effort == OFF else usual.max_output
    return replace(usual, max_output=min(usual.max_output, most))
