"""The models that make summaries: the conversation's own after its live window, or a model that reads data."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from lamella.agent.request import Prepared, RequestIdentity, drafted, new_request, prepare, side_prompt, side_request
from lamella.agent.side import SideAnswer, ask
from lamella.cache.planner import note_billed, note_written
from lamella.context.choices import INCLUDED, KnownDecisions, usable
from lamella.context.documents import key_of
from lamella.context.input import MARGIN, ContextInput
from lamella.context.results import kept_names
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.decisions import DecisionKind
from lamella.core.errors import ProviderTimeout
from lamella.core.knowledge import bases_of_window
from lamella.core.messages import Turn, UserMessage
from lamella.core.models import OFF, ModelFacts
from lamella.core.ports import ChatModel, OpenModel
from lamella.core.prompt import Sampling, WireRequest
from lamella.core.records import Caller
from lamella.core.tokens import Usage
from lamella.sessions.summary import LONGEST, MAX_OUTPUT, SYSTEM, SummaryOptions, instruction, longest_in
from lamella.sessions.summary_check import Check, compared, forms_of, ids_of, items_of
from lamella.sessions.summary_input import Piece, conversation, framed, hidden, results, text_of
from lamella.sessions.window import as_it_stands
from lamella.turns.effective_settings import pinned_of
from lamella.turns.loader import TurnContext
from lamella.turns.services import Services

TIMEOUT = 300.0
"""Seconds that a summary may take in total."""

EXPECTED = LONGEST // 2
"""Local tokens of a summary, for an estimate of its price."""

FRAMES = 40
"""Local tokens of the frames around the data, the system prompt and the message."""


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A request for the summary of these turns, attempt `number`. `kept` are the turns after them, which stay."""

    turns: Sequence[Turn]
    wanted: SummaryOptions
    number: int = 0
    kept: Sequence[Turn] = ()


class LiveRequest(Protocol):
    """A request for a summary that is ready to be sent: its local tokens and its approximate cost in US dollars."""

    @property
    def tokens(self) -> int: ...

    @property
    def cost(self) -> float: ...

    async def ask(self, caller: Caller) -> SideAnswer:
        """Ask, and record the request like any other."""
        ...


class LiveModel(Protocol):
    """A model that is asked at the end of a live window, whose prefix it has cached."""

    async def prepared(self, request: SummaryRequest) -> LiveRequest | None:
        """The request; None if it does not fit the window."""
        ...


class DataModel(Protocol):
    """A model that reads turns as data, in messages of at most `room` local tokens."""

    @property
    def name(self) -> str: ...

    @property
    def room(self) -> int: ...

    def cost(self, tokens: int) -> float:
        """The approximate cost of reading so many local tokens and of their summary, in US dollars."""
        ...

    async def ask(self, caller: Caller, data: str, order: str, last: Turn, number: int) -> SideAnswer:
        """Ask about data, and record the request like any other, as that of a turn."""
        ...


def with_instruction(loaded: TurnContext, history: Sequence[Turn], text: str) -> ContextInput:
    """The window of all of `history` with a text as its newest message."""
    last = history[-1].user
    user = UserMessage("instruction", text, last.sent_at, last.timezone, count_tokens(text))
    return replace(loaded.context(Turn("instruction", user)), history=tuple(history), keeps_turns=True)


class LiveWindow:
    """The conversation's own model, asked at the end of its window, so the cached prefix is read.

    The prefix includes the turns that stay, if there is room, because the end of the last request is what is cached
    longest. Results shown there as stubs, or cut, are added in full to the instruction.
    """

    def __init__(self, services: Services, loaded: TurnContext) -> None:
        self._services = services
        self._opening = loaded

    async def prepared(self, request: SummaryRequest) -> LiveRequest | None:
        """The request; None if the turns, with all stubs replaced by their full results, do not fit the window."""
        context = await asyncio.to_thread(self._context, request)
        if context is None and request.kept:
            context = await asyncio.to_thread(self._context, replace(request, kept=()))
        if context is None:
            return None
        run, setting = self._opening.run, self._opening.setting
        made = await drafted(context, setting.layout, run.model, run.account, self._opening.line)
        await self._services.ledger.read(made.chain.keys)
        ready = prepare(made, setting.policy, self._services.ledger, self._services.clock.now(), run.ttl, alone=True)
        return _LiveRequest(self._services, self._opening, request, ready)

    def _context(self, request: SummaryRequest) -> ContextInput | None:
        loaded, run = self._opening, self._opening.run
        layout, tools = loaded.setting.layout, loaded.setting.conversation.tools
        known = KnownDecisions(run.model.facts.name, loaded.decisions)
        # The boundary of pruning may lie among the turns that stay: it is that of the whole window.
        behind = hidden((*request.turns, *request.kept), layout, known, kept_names(tools))
        asks = {turn.id for turn in request.turns}
        gone = results([one for one in behind if one[0].id in asks])
        empty = with_instruction(loaded, request.turns, "")
        text = instruction(
            request.turns, request.wanted, material=text_of(gone), stays=bool(request.kept), room=usable(empty)
        )
        context = with_instruction(loaded, (*request.turns, *request.kept), text)
        context = replace(context, sampling=_sampling(run.sampling))
        whole = as_it_stands(context, layout, loaded.line.assembled if loaded.line else None)
        if whole.report.local > usable(context):
            return None
        return replace(context, decisions=(*context.decisions, *whole.decisions))


@dataclass(frozen=True, slots=True)
class _LiveRequest:
    """A `LiveRequest` of the engine's own."""

    services: Services
    loaded: TurnContext
    request: SummaryRequest
    prepared: Prepared

    @property
    def tokens(self) -> int:
        """See `LiveRequest`."""
        return self.prepared.assembled.report.local

    @property
    def cost(self) -> float:
        """See `LiveRequest`."""
        run, prepared = self.loaded.run, self.prepared
        read, written = prepared.plan.read, prepared.plan.written
        output = int(EXPECTED * run.calibration)
        return run.model.facts.cost(Usage(prepared.assembled.report.estimate, read, written, 0, output))

    async def ask(self, caller: Caller) -> SideAnswer:
        """See `LiveRequest`."""
        run, services, prepared = self.loaded.run, self.services, self.prepared
        identity = _identity(services, self.loaded, self.request.turns[-1], self.request.number)
        stored = await asyncio.to_thread(new_request, prepared, identity, self.loaded.setting.policy, None)
        pinned = pinned_of(self.loaded.found.conversation, self.loaded.setting.around)
        await services.store.requests.record_request(caller, replace(stored, pinned=pinned))
        note_written(prepared.plan, services.ledger, prepared.facts)
        headers = run.headers("summary", self.request.number)
        answer = await answer_within(services.clock, run.model, prepared.request, headers)
        note_billed(prepared.plan, answer.usage, services.ledger, prepared.facts)
        await services.store.requests.end_request(caller, answer.end(identity.id, run.model.facts.cost(answer.usage)))
        return answer


def _sampling(usual: Sampling) -> Sampling:
    """The conversation's parameters with the output limit of a summary. Thinking stays as it is, because another effort
    would be another cache. No cache diagnosis is requested, and no text ends a summary.
    """
    most = MAX_OUTPUT if usual.thinking_effort == OFF else usual.max_output
    return replace(usual, max_output=min(usual.max_output, most), compared_with=None, stop=())


def _identity(services: Services, loaded: TurnContext, last: Turn, number: int) -> RequestIdentity:
    """A summary belongs to the last turn that it covers."""
    id, now = services.ids.new("req"), services.clock.now()
    return RequestIdentity(id, loaded.setting.conversation.id, last.id, number, "summary", now)


class Reader:
    """A model that reads stored rows as data, in one message. It sees no prefix of the conversation.

    No thinking is sent to it: thinking goes only to the model that made it.
    """

    def __init__(
        self, services: Services, loaded: TurnContext, model: ChatModel, budget: int, calibration: float, margin: float
    ) -> None:
        self._services = services
        self._opening = loaded
        self._model = model
        self._budget = budget
        self._calibration = calibration
        self._margin = margin

    @classmethod
    def own(cls, services: Services, loaded: TurnContext) -> Reader:
        """The conversation's own model."""
        run = loaded.run
        return cls(services, loaded, run.model, run.most, run.calibration, run.margin)

    @classmethod
    def second(cls, services: Services, loaded: TurnContext, model: OpenModel) -> Reader:
        """Another model."""
        facts = model.model.facts
        return cls(services, loaded, model.model, facts.window - _output(facts), facts.token_factor, MARGIN)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.facts.name

    @property
    def room(self) -> int:
        """The local tokens that one message may have."""
        return int(self._budget / (1 + self._margin) / self._calibration) - count_tokens(SYSTEM) - FRAMES

    def cost(self, tokens: int) -> float:
        """The approximate cost of reading so many local tokens and of their summary, in US dollars."""
        read, written = tokens * self._calibration, EXPECTED * self._calibration
        return self._model.facts.cost(Usage(input=int(read), output=int(written)))

    async def ask(self, caller: Caller, data: str, order: str, last: Turn, number: int) -> SideAnswer:
        """Ask about data, and record the request like any other, as that of a turn."""
        facts, services = self._model.facts, self._services
        text = f"{framed('conversation', data)}\n\n{order}"
        made_from = bases_of_window((*self._opening.found.path, last), self._opening.found.summaries)
        prompt = side_prompt(facts.name, SYSTEM, text, Sampling(_output(facts)), made_from)
        identity = _identity(services, self._opening, last, number)
        layout = self._opening.setting.layout
        request, stored = side_request(self._model, prompt, identity, layout, self._budget, self._calibration)
        await services.store.requests.record_request(caller, stored)
        headers = self._opening.run.headers("summary", number)
        answer = await answer_within(services.clock, self._model, request, headers)
        await services.store.requests.end_request(caller, answer.end(identity.id, facts.cost(answer.usage)))
        return answer


def _output(facts: ModelFacts) -> int:
    return min(MAX_OUTPUT, facts.max_output)


@dataclass(frozen=True, slots=True)
class SessionSource:
    """The `SummarySource` of a session: `turns` of the window of `loaded`."""

    services: Services
    loaded: TurnContext
    turns: Sequence[Turn]
    tokens: int
    focus: str = ""
    kept: Sequence[Turn] = ()
    room: int | None = None

    @property
    def longest(self) -> int:
        """See `SummarySource`."""
        return longest_in(usable(with_instruction(self.loaded, self.turns, "")))

    @property
    def made_from(self) -> tuple[str, ...]:
        """See `SummarySource`."""
        return tuple(sorted(bases_of_window(self.loaded.found.path, self.loaded.found.summaries)))

    def live(self) -> LiveModel:
        """See `SummarySource`."""
        return LiveWindow(self.services, self.loaded)

    def own(self) -> DataModel:
        """See `SummarySource`."""
        return Reader.own(self.services, self.loaded)

    def second(self, model: OpenModel) -> DataModel:
        """See `SummarySource`."""
        return Reader.second(self.services, self.loaded, model)

    def pieces(self) -> tuple[Piece, ...]:
        """See `SummarySource`. A document is included if its text was in a window."""
        shown = {
            decision.subject.rpartition("@")[0]
            for decision in self.loaded.decisions
            if decision.kind is DecisionKind.ADMISSION and decision.outcome == INCLUDED
        }
        documents = {key_of(attachment) for turn in self.turns for attachment in turn.user.attachments}
        return conversation(self.turns, documents - shown)

    def check(self, text: str) -> Check:
        """See `SummarySource`."""
        loaded = self.loaded
        tools = loaded.setting.conversation.tools
        around = loaded.setting.around
        seen = [loaded.setting.conversation.system_prompt, self.focus, *(s.text for s in loaded.found.summaries)]
        seen += [around.agent.prompt] if around.agent is not None else []
        seen += [file.text or file.title for file in around.project.files] if around.project is not None else []
        kept_tools = {tool.name for tool in tools if tool.when_old == "summarize"}
        return compared_with_turns(text, self.turns, self.kept, seen, kept_tools)

    async def spent(self, caller: Caller, usage: Usage) -> None:
        """See `SummarySource`."""
        await self.services.store.sessions.spend(caller, self.loaded.found.session.id, "summary", usage)


def compared_with_turns(
    text: str, turns: Sequence[Turn], kept: Sequence[Turn], seen: Sequence[str], kept_tools: Collection[str] = ()
) -> Check:
    """Compare a summary of `turns` with them. What is in `kept` or in another text that was `seen` is not invented."""
    known = "\n".join([*seen, *(f"{piece.head}\n{piece.text}" for piece in conversation((*turns, *kept)))])
    own = {id for turn in turns for id in (turn.id, turn.user.id, *(step.id for step in turn.steps))}
    return compared(text, items_of(turns, kept_tools), forms_of(known), ids_of(known) | own)


async def answer_within(
    clock: Clock,
    model: ChatModel,
    request: WireRequest,
    headers: Mapping[str, str],
    seconds: float = TIMEOUT,
    what: str = "summary",
) -> SideAnswer:
    """The answer, or the partial one after `seconds`."""
    answer = SideAnswer()
    asking = asyncio.create_task(ask(model, request, headers, answer))
    timer = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({asking, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            answer.error = ProviderTimeout(f"{model.facts.name} did not end its {what} in {seconds:.0f} seconds.")
        else:
            asking.result()
    finally:
        for task in (asking, timer):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return answer
