"""Whom a summary is asked of: the conversation's own model on its live prefix, or a second one that reads data."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from lamella.cache.plan import note_billed, note_written
from lamella.context.assemble import assemble
from lamella.context.choices import Known, usable
from lamella.context.input import MARGIN, ContextInput
from lamella.context.results import kept_names
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.effort import OFF
from lamella.core.errors import ContextLengthExceeded, ProviderTimeout
from lamella.core.messages import Turn, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import Sampling, WireRequest
from lamella.core.records import Caller
from lamella.core.tokens import Usage
from lamella.engine.inputs import Services
from lamella.engine.opening import Opening, OpenModel
from lamella.engine.request import Identity, Prepared, drafted, new_request, prepare, side_prompt, side_request
from lamella.engine.side import SideAnswer, ask
from lamella.sessions.material import conversation, fitting, framed, hidden, results
from lamella.sessions.summary import LONGEST, MAX_OUTPUT, SYSTEM, instruction
from lamella.sessions.summary_check import Check

TIMEOUT = 300.0
"""Seconds that a summary may take, however steadily it is streamed."""

EXPECTED = LONGEST // 2
"""Local tokens of a summary, for an estimate of its price."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A summary that is asked for: of these turns, for the `number`-th time; `before` is what the last one lacked.

    `kept` are the turns behind them, which stay.
    """

    turns: Sequence[Turn]
    focus: str = ""
    number: int = 0
    before: Check | None = None
    kept: Sequence[Turn] = ()


class Asker(Protocol):
    """Someone who can be asked for a summary."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    async def ask(self, caller: Caller, asking: Asking) -> SideAnswer:
        """Ask, and record the request like any other."""
        ...


def asking(opening: Opening, history: Sequence[Turn], text: str) -> ContextInput:
    """The window of all of `history` with a text as its newest message."""
    last = history[-1].user
    user = UserMessage("instruction", text, last.sent_at, last.timezone, count_tokens(text))
    return replace(opening.context(Turn("instruction", user)), history=tuple(history), keeps_turns=True)


class MainModel:
    """The conversation's own model: the same prefix, so that what is cached is read from the cache.

    The prefix has the turns that stay too, where there is room: the end of the last request is what is cached longest,
    and often all that is. What stands in that prefix as a stub, or cut, comes in full with the instruction (SPEC L9).
    """

    def __init__(self, services: Services, opening: Opening) -> None:
        self._services = services
        self._opening = opening

    @property
    def name(self) -> str:
        """See `Asker`."""
        return self._opening.run.model.facts.name

    async def cost(self, asked: Asking) -> float:
        """About what a summary costs, in US dollars. Raises `ContextLengthExceeded`."""
        prepared, facts = await self._prepare(asked), self._opening.run.model.facts
        read, written = prepared.plan.read, prepared.plan.written
        output = int(EXPECTED * self._opening.run.calibration)
        return facts.cost(Usage(prepared.assembled.report.estimate, read, written, 0, output))

    async def _prepare(self, asked: Asking) -> Prepared:
        try:
            return await self._prepared(asked)
        except ContextLengthExceeded:
            if not asked.kept:
                raise
            return await self._prepared(replace(asked, kept=()))

    async def _prepared(self, asked: Asking) -> Prepared:
        run, setting = self._opening.run, self._opening.setting
        text = await asyncio.to_thread(self._text, asked)
        context = replace(asking(self._opening, (*asked.turns, *asked.kept), text), sampling=_sampling(run.sampling))
        made = await drafted(context, setting.layout, run.model, run.account, self._opening.line)
        return prepare(made, setting.policy, self._services.ledger, self._services.clock.now(), run.ttl, alone=True)

    def _text(self, asked: Asking) -> str:
        opening = self._opening
        known = Known(self.name, opening.decisions)
        gone = results(
            hidden(asked.turns, opening.setting.layout, known, kept_names(opening.setting.conversation.tools))
        )
        stays = bool(asked.kept)
        bare = instruction(asked.turns, asked.focus, before=asked.before, stays=stays)
        if not gone:
            return bare
        context = asking(opening, (*asked.turns, *asked.kept), bare)
        room = usable(context) - assemble(context, opening.setting.layout).report.local - 100
        material = fitting(gone, room)
        if material is None:
            material = f"The results of {len(gone)} calls are not shown: there is no room for them."
        return instruction(asked.turns, asked.focus, material=material, before=asked.before, stays=stays)

    async def ask(self, caller: Caller, asked: Asking) -> SideAnswer:
        """See `Asker`. Raises `ContextLengthExceeded`."""
        run, services = self._opening.run, self._services
        prepared = await self._prepare(asked)
        identity = _identity(services, self._opening, asked)
        stored = await asyncio.to_thread(new_request, prepared, identity, self._opening.setting.policy, None)
        await services.store.record_request(caller, stored)
        note_written(prepared.plan, services.ledger, prepared.facts)
        headers = run.headers("summary", asked.number)
        answer = await heard(services.clock, run.model, prepared.request, headers)
        note_billed(prepared.plan, answer.usage, services.ledger, prepared.facts)
        await services.store.end_request(caller, answer.end(identity.id, run.model.facts.cost(answer.usage)))
        return answer


def _sampling(usual: Sampling) -> Sampling:
    """As the conversation is asked, with the room of a summary; where it thinks, with the same room for that: another
    effort would be another cache. It is compared with nothing: the provider is asked about the answers of the chat."""
    most = MAX_OUTPUT if usual.thinking_effort == OFF else usual.max_output
    return replace(usual, max_output=min(usual.max_output, most), compared_with=None)


def _identity(services: Services, opening: Opening, asked: Asking) -> Identity:
    """A summary belongs to the last turn that it stands for."""
    id, now = services.ids.new("req"), services.clock.now()
    return Identity(id, opening.setting.conversation.id, asked.turns[-1].id, asked.number, "summary", now)


class SecondModel:
    """Another model, which gets the stored rows as data in one message (SPEC L11).

    No thinking of the main model is sent to it: thinking goes only to the model that made it.
    """

    def __init__(self, services: Services, opening: Opening, opened: OpenModel, text: str) -> None:
        self._services = services
        self._opening = opening
        self._model = opened.model
        self._text = text

    @property
    def name(self) -> str:
        """See `Asker`."""
        return self._model.facts.name

    def cost(self) -> float:
        """About what a summary costs, in US dollars."""
        facts = self._model.facts
        read, written = count_tokens(self._text) * facts.token_factor, EXPECTED * facts.token_factor
        return facts.cost(Usage(input=int(read), output=int(written)))

    async def ask(self, caller: Caller, asked: Asking) -> SideAnswer:
        """See `Asker`."""
        facts, services = self._model.facts, self._services
        said = framed("conversation", self._text)
        text = f"{said}\n\n{instruction(asked.turns, asked.focus, before=asked.before)}"
        prompt = side_prompt(facts.name, SYSTEM, text, Sampling(_output(facts)))
        identity = _identity(services, self._opening, asked)
        layout = self._opening.setting.layout
        request, stored = side_request(
            self._model, prompt, identity, layout, facts.window - _output(facts), facts.token_factor
        )
        await services.store.record_request(caller, stored)
        headers = self._opening.run.headers("summary", asked.number)
        answer = await heard(services.clock, self._model, request, headers)
        await services.store.end_request(caller, answer.end(identity.id, facts.cost(answer.usage)))
        return answer


def second_text(turns: Sequence[Turn], facts: ModelFacts) -> str | None:
    """The turns as data for a model of these facts; None when they do not fit its window, the longest pieces cut."""
    room = int((facts.window - _output(facts)) / facts.token_factor / (1 + MARGIN))
    return fitting(conversation(turns), room - count_tokens(instruction(turns)) - 1_000)


def _output(facts: ModelFacts) -> int:
    return min(MAX_OUTPUT, facts.max_output)


async def heard(
    clock: Clock,
    model: ChatModel,
    request: WireRequest,
    headers: Mapping[str, str],
    seconds: float = TIMEOUT,
    what: str = "summary",
) -> SideAnswer:
    """The answer, or what there is of it when it takes longer than `seconds`."""
    answer = SideAnswer()
    asked = asyncio.create_task(ask(model, request, headers, answer))
    limit = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({asked, limit}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            answer.error = ProviderTimeout(f"{model.facts.name} did not end its {what} in {seconds:.0f} seconds.")
        else:
            asked.result()
    finally:
        for task in (asked, limit):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return answer
