"""Makes a summary of some turns: who is asked, how often, what came, and what it cost (SPEC L11, X-LEASE).

source ──main model: the live prefix, instruction last; second model: stored rows as data──▶ answer ──check──▶ summary

A summary that lacks much is asked for once more; what it still lacks is added word for word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from lamella.cache.economics import Elsewhere
from lamella.core.counting import count_tokens
from lamella.core.errors import CallerError, ConfigurationError, ContextLengthExceeded, LamellaError, ProviderError
from lamella.core.json import JsonObject
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.records import Caller
from lamella.core.sessions import SessionSummary
from lamella.core.tokens import Usage
from lamella.core.withheld import bases_of_window
from lamella.engine.inputs import Services
from lamella.engine.opening import Opening, OpenModel
from lamella.engine.side import SideAnswer
from lamella.sessions.askers import Asker, Asking, MainModel, SecondModel, second_text
from lamella.sessions.material import conversation
from lamella.sessions.settings import SummariserChoice
from lamella.sessions.summary import LONGEST, Refused, checked
from lamella.sessions.summary_check import (
    LITERAL_SHARE,
    LITERAL_TOKENS,
    Check,
    compared,
    forms_of,
    ids_of,
    items_of,
    line_ranks,
    with_missing,
)


class SecondSource(Protocol):
    """Another model for summaries, where one is configured (`app`)."""

    choice: SummariserChoice

    async def open(self) -> OpenModel:
        """The model; raises a `LamellaError` when it can't be reached by what is configured."""
        ...

    def facts(self) -> ModelFacts:
        """What is known of the model; raises as `open` does."""
        ...


def elsewhere(second: SecondSource | None, own: ModelFacts) -> Elsewhere | None:
    """What a summary by the second model costs beside one by the conversation's own; None where there is none, nobody
    knows its price, or it can't be reached by what is configured."""
    if second is None:
        return None
    with suppress(LamellaError):  # whoever asks it for a summary is told
        return Elsewhere.of(second.facts(), own, always=second.choice == "configured")
    return None


SILENT = "silent"
"""The code of what nobody is told who did not ask."""


@dataclass(frozen=True, slots=True)
class NotCompacted:
    """Nothing changed, and why. `again`: it may be tried once more without anything else having changed.

    `code` names the reason where the figures in `why` change from one time to the next.
    """

    why: str
    again: bool = False
    code: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What a summary is of: `turns` of the window that `opening` has, with about `tokens` local tokens in it; `kept`
    stand behind them, and stay."""

    opening: Opening
    turns: Sequence[Turn]
    tokens: int
    focus: str = ""
    kept: Sequence[Turn] = ()


@dataclass(frozen=True, slots=True)
class _Made:
    """A summary that is one, and how it compares with its source."""

    text: str
    check: Check


@dataclass(slots=True)
class _Making:
    """A summary while it is made: by whom, and what was spent on it so far."""

    source: Source
    asker: Asker
    chosen: JsonObject
    usage: Usage = field(default_factory=Usage)
    asked: int = 0


class Summariser:
    """Makes summaries; stores nothing but its requests, and what it spent where nothing came of it."""

    def __init__(self, services: Services, second: SecondSource | None = None) -> None:
        self._services = services
        self._second = second

    async def summary_of(self, caller: Caller, source: Source) -> SessionSummary | NotCompacted:
        """The summary, or why there is none. Raises `NotFound` and `StoreFailed`."""
        try:
            asker, chosen = await self._asker(source)
        except ContextLengthExceeded as error:
            return NotCompacted(f"the window can't be built: {error.message}")
        except (CallerError, ConfigurationError, ProviderError) as error:
            return NotCompacted(f"the summary could not be made: {error.message}", again=True)
        making = _Making(source, asker, chosen)
        made = await self._make(caller, making)
        if isinstance(made, NotCompacted):
            await self._services.store.spend(caller, source.opening.found.session.id, "summary", making.usage)
            return made
        size = count_tokens(made.text)
        room = min(LITERAL_TOKENS, int(source.tokens * LITERAL_SHARE), LONGEST - size, source.tokens - size - 1)
        text, check = with_missing(made.text, made.check, room)
        ranks = await asyncio.to_thread(line_ranks, text, source.turns)
        report: JsonObject = {**check.as_json(), **making.chosen, "asked": making.asked, "ranks": list(ranks)}
        found = source.opening.found
        made_from = tuple(sorted(bases_of_window(found.path, found.summaries)))
        return SessionSummary(text, count_tokens(text), making.usage, report, made_from)

    async def _asker(self, source: Source) -> tuple[Asker, JsonObject]:
        """Who is asked, and why (SPEC L11): the second model where there is one that holds it all, and if it pays."""
        main = MainModel(self._services, source.opening)
        if self._second is None:
            return main, {"model": main.name}
        opened = await self._second.open()
        text = await asyncio.to_thread(second_text, source.turns, opened.model.facts)
        if text is None:
            return main, {"model": main.name, "why": f"the conversation does not fit {opened.model.facts.name}"}
        second = SecondModel(self._services, source.opening, opened, text)
        if self._second.choice == "configured":
            return second, {"model": second.name}
        costs = (await main.cost(Asking(source.turns, source.focus, kept=source.kept)), second.cost())
        figures: JsonObject = {"main_cost": costs[0], "second_cost": costs[1]}
        cheaper: Asker = second if costs[1] < costs[0] else main
        return cheaper, {"model": cheaper.name, "why": "the cheaper one", **figures}

    async def _make(self, caller: Caller, making: _Making) -> _Made | NotCompacted:
        first = await self._attempt(caller, making, None)
        if isinstance(first, NotCompacted) or not first.check.is_bad:
            return first
        again = await self._attempt(caller, making, first.check)
        if isinstance(again, NotCompacted):
            return first
        return min(first, again, key=lambda made: (made.check.missing_top, len(made.check.missing)))

    async def _attempt(self, caller: Caller, making: _Making, before: Check | None) -> _Made | NotCompacted:
        source = making.source
        answer = await making.asker.ask(caller, Asking(source.turns, source.focus, making.asked, before, source.kept))
        making.usage += answer.usage
        making.asked += 1
        if answer.error is not None:
            return NotCompacted(f"the summary could not be made: {answer.error.message}", again=True)
        text = _text(answer, source)
        if isinstance(text, Refused):
            return NotCompacted(text.why, again=True, code="no_summary")
        return _Made(text, await asyncio.to_thread(_check, text, source))


def _text(answer: SideAnswer, source: Source) -> str | Refused:
    return checked(answer.text, answer.stop_reason, called_tools=answer.called_tools, source_tokens=source.tokens)


def _check(text: str, source: Source) -> Check:
    """Compare a summary with everything that whoever wrote it may have seen."""
    opening = source.opening
    tools = opening.setting.conversation.tools
    items = items_of(source.turns, {tool.name for tool in tools if tool.when_old == "summarize"})
    around = opening.setting.around
    seen = [opening.setting.conversation.system_prompt, source.focus, *(s.text for s in opening.found.summaries)]
    seen += [around.agent.prompt] if around.agent is not None else []
    seen += [file.text or file.title for file in around.project.files] if around.project is not None else []
    seen += [f"{piece.head}\n{piece.text}" for piece in conversation((*source.turns, *source.kept))]
    known = "\n".join(seen)
    own = {id for turn in source.turns for id in (turn.id, turn.user.id, *(step.id for step in turn.steps))}
    return compared(text, items, forms_of(known), ids_of(known) | own)
