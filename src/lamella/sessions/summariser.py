"""Makes a summary of some turns: who is asked, how often, what came, and what it cost.

main model: the live window, instruction last ─┬─ fits ──────────────▶ answer ──check──▶ summary
                                               └─ does not fit ─┐
second model ───────────────────────────────────────────────────┴▶ stored rows as data, in pieces that fit
                                                                   piece ▶ partial summary ┐
                                                                   piece ▶ partial summary ┴▶ joined ──check──▶ summary

A summary that lacks much is asked for once more; what it still lacks is added word for word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol

import structlog

from lamella.agent.side import SideAnswer
from lamella.cache.economics import OtherSummariser
from lamella.cache.weighing import SILENT
from lamella.core.counting import count_tokens
from lamella.core.errors import (
    CallerError,
    ConfigurationError,
    LamellaError,
    NotFound,
    ProviderContextOverflow,
    ProviderError,
)
from lamella.core.json import Json, JsonObject
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.ports import OpenModel
from lamella.core.records import Caller
from lamella.core.sessions import SessionSummary
from lamella.core.tokens import Usage
from lamella.sessions.summary import (
    LEAST,
    Refused,
    SummaryOptions,
    checked,
    condense_instruction,
    data_instruction,
    joined,
    shortened,
)
from lamella.sessions.summary_check import (
    LITERAL_SHARE,
    LITERAL_TOKENS,
    Check,
    line_ranks,
    with_missing,
)
from lamella.sessions.summary_input import Piece, packed, text_of
from lamella.sessions.summary_models import DataModel, LiveModel, LiveRequest, SummaryRequest

log = structlog.get_logger()

LEAST_ROOM = 500
"""The smallest window, in local tokens of data, in which a model can read a conversation in pieces."""

REFUSALS = 4
"""How often pieces are made smaller that a provider finds too large: a counter may be wrong by a factor of 16."""

SAFE = 0.95
"""The share of a limit that is used, if the limit is known from a refusal only."""


SummariserChoice = Literal["configured", "cheapest"]
"""Which model summarises if a second one is configured: that one, or the cheaper of both each time."""


class SummaryModelSource(Protocol):
    """Another model for summaries, if one is configured (`app`)."""

    choice: SummariserChoice

    async def open(self) -> OpenModel:
        """Open the model. Raises a `LamellaError` if it can't be reached."""
        ...

    def facts(self) -> ModelFacts:
        """The facts of the model. Raises as `open` does."""
        ...


def other_summariser(summary_model: SummaryModelSource | None, own: ModelFacts) -> OtherSummariser | None:
    """The relative cost of a summary by the second model. Returns None if there is none, its price is unknown, or it
    can't be reached.
    """
    if summary_model is None:
        return None
    with suppress(LamellaError):  # whoever asks it for a summary is told
        return OtherSummariser.of(summary_model.facts(), own, always=summary_model.choice == "configured")
    return None


NOTHING_YET = ("empty", "recent", "little", SILENT)
"""Codes of compactions that were skipped because there was nothing to do: no model was asked."""


@dataclass(frozen=True, slots=True)
class NotCompacted:
    """No compaction, and why. `again`: it may be retried although nothing else has changed.

    `code` names the reason, since the figures in `why` vary. `hint` says what to do.
    """

    why: str
    again: bool = False
    code: str = ""
    hint: str = field(default="", compare=False)


WAY_OUT = (
    "The conversation continues: if its window is full, the oldest messages leave it and can be found by search. "
    "/compact tries again now; another model, or LAMELLA_COMPACTION_MODEL, may do better."
)
"""What to do if a summary can't be made."""


class SummarySource(Protocol):
    """What a summary is made of: `turns` with about `tokens` local tokens. `kept` are the turns after them, which stay.
    `focus` is what matters most. `room`: the local tokens that the summary may have besides other summaries; None
    without others.
    """

    @property
    def turns(self) -> Sequence[Turn]: ...

    @property
    def kept(self) -> Sequence[Turn]: ...

    @property
    def tokens(self) -> int: ...

    @property
    def focus(self) -> str: ...

    @property
    def room(self) -> int | None: ...

    @property
    def longest(self) -> int:
        """The local tokens that the summary may have in the window that it is for."""
        ...

    @property
    def made_from(self) -> tuple[str, ...]:
        """The knowledge bases with content in the window."""
        ...

    def live(self) -> LiveModel:
        """The conversation's model at the end of its window."""
        ...

    def own(self) -> DataModel:
        """The conversation's model, which reads the turns as data."""
        ...

    def second(self, model: OpenModel) -> DataModel:
        """Another model that reads them."""
        ...

    def pieces(self) -> tuple[Piece, ...]:
        """The turns as data."""
        ...

    def check(self, text: str) -> Check:
        """Compare a summary with everything that its model may have seen."""
        ...

    async def spent(self, caller: Caller, usage: Usage) -> None:
        """Record the usage of a summary that was not made. Raises `NotFound` and `StoreFailed`."""
        ...


@dataclass(frozen=True, slots=True)
class _Made:
    """A summary that is one, and how it compares with its source."""

    text: str
    check: Check


@dataclass(slots=True)
class _Making:
    """A summary in progress: the choices, and the usage so far."""

    caller: Caller
    source: SummarySource
    wanted: SummaryOptions
    chosen: dict[str, Json] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    asked: int = 0
    less: float = 0.5
    """The share of the last request that was too large that is tried next."""

    @property
    def asking(self) -> SummaryRequest:
        """The instruction after the live window."""
        return SummaryRequest(self.source.turns, self.wanted, self.asked, self.source.kept)

    def answer_within(self, answer: SideAnswer) -> str | NotCompacted | None:
        """The text of an answer, or why it is not usable; None if the request was too large for the provider."""
        self.usage += answer.usage
        self.asked += 1
        if isinstance(answer.error, ProviderContextOverflow):
            self.less = _less(answer.error)
            return None
        if answer.error is not None:
            return _failed(answer.error)
        text = checked(
            answer.text, answer.stop_reason, called_tools=answer.called_tools, source_tokens=self.source.tokens
        )
        return NotCompacted(text.why, True, "no_summary", WAY_OUT) if isinstance(text, Refused) else text


Ask = Callable[[SummaryOptions], Awaitable[SideAnswer | None]]
"""Asks for a summary; None if the request exceeds the window."""

Groups = Sequence[Sequence[Piece]]
"""Data, split into as many requests as necessary."""


class Summariser:
    """Makes summaries. Stores only its requests, and the usage of failed attempts."""

    def __init__(self, summary_model: SummaryModelSource | None = None) -> None:
        self._second = summary_model

    async def summary_of(self, caller: Caller, source: SummarySource) -> SessionSummary | NotCompacted:
        """The summary, or why there is none. Raises `NotFound` and `StoreFailed`."""
        making = _Making(caller, source, SummaryOptions(source.focus, source.longest, room=source.room))
        try:
            made = await self._make(making)
        except NotFound:
            raise
        except (CallerError, ConfigurationError, ProviderError) as error:
            made = _failed(error)
        if isinstance(made, NotCompacted):
            await source.spent(caller, making.usage)
            return made
        size = count_tokens(made.text)
        room = min(
            LITERAL_TOKENS, int(source.tokens * LITERAL_SHARE), making.wanted.longest - size, source.tokens - size - 1
        )
        text, check = with_missing(made.text, made.check, room)
        ranks = await asyncio.to_thread(line_ranks, text, source.turns)
        report: JsonObject = {**check.as_json(), **making.chosen, "asked": making.asked, "ranks": list(ranks)}
        return SessionSummary(text, count_tokens(text), making.usage, report, source.made_from)

    async def _make(self, making: _Making) -> _Made | NotCompacted:
        """The summary: after the live window if it fits, else from stored rows."""
        reading, live = await self._chosen(making)
        if live is None:
            return await reading.summary()
        made = await _repaired(making, partial(self._ask_live, making))
        if made is None:
            reading.has_at_most(int(live.tokens * making.less))
            return await reading.summary()
        return await reading.bounded(made)

    async def _chosen(self, making: _Making) -> tuple[SummaryInPieces, LiveRequest | None]:
        """The chosen model, and why: the second model if there is one and it pays. Also the request after the live
        window; None if stored rows are read instead.
        """
        source, own = making.source, making.source.own()
        making.chosen, reading = {"model": own.name}, SummaryInPieces(making, own)
        if self._second is None:
            return reading, await source.live().prepared(making.asking)
        other = source.second(await self._second.open())
        second = SummaryInPieces(making, other)
        if not second.has_room:
            making.chosen["why"] = f"the window of {other.name} is too small"
            return reading, await source.live().prepared(making.asking)
        if self._second.choice == "configured":
            making.chosen = {"model": other.name}
            return second, None
        live = await source.live().prepared(making.asking)
        tokens = await asyncio.to_thread(lambda: sum(piece.tokens for piece in source.pieces()))
        costs = (live.cost if live is not None else own.cost(tokens)), other.cost(tokens)
        figures: JsonObject = {"why": "the cheaper one", "main_cost": costs[0], "second_cost": costs[1]}
        making.chosen = {"model": other.name if costs[1] < costs[0] else own.name, **figures}
        return (second, None) if costs[1] < costs[0] else (reading, live)

    async def _ask_live(self, making: _Making, options: SummaryOptions) -> SideAnswer | None:
        request = await making.source.live().prepared(replace(making.asking, wanted=options))
        return await request.ask(making.caller) if request is not None else None


async def _repaired(making: _Making, ask: Ask) -> _Made | NotCompacted | None:
    """The summary. If it lacks much, it is made once more; the better one is kept. Returns None if the request is too
    large.
    """
    first = await _attempt(making, ask, None)
    if not isinstance(first, _Made) or not first.check.is_bad:
        return first
    try:
        again = await _attempt(making, ask, first.check)
    except LamellaError as error:
        log.warning("the second try of a summary failed", error=error.message)
        return first
    return min(first, again, key=_lacking) if isinstance(again, _Made) else first


def _lacking(made: _Made) -> tuple[int, int]:
    return made.check.missing_top, len(made.check.missing)


async def _attempt(making: _Making, ask: Ask, before: Check | None) -> _Made | NotCompacted | None:
    answer = await ask(replace(making.wanted, before=before))
    text = making.answer_within(answer) if answer is not None else None
    return await _made(making, text) if isinstance(text, str) else text


async def _made(making: _Making, text: str) -> _Made:
    return _Made(text, await asyncio.to_thread(making.source.check, text))


class SummaryInPieces:
    """A summary of stored rows, sent as data: in one request if they fit, else in pieces.

    The summaries of pieces are joined; summaries of sessions never are. If the provider finds a request too large, it
    is made smaller, repeatedly.
    """

    def __init__(self, making: _Making, reader: DataModel) -> None:
        self._making = making
        self._reader = reader
        orders = data_instruction(making.wanted, 99, 99), condense_instruction(making.wanted)
        self._order = max(count_tokens(order) for order in orders)
        self._room = reader.room - self._order
        self._refusals = 0

    @property
    def has_room(self) -> bool:
        """Whether a conversation can be read in pieces that fit."""
        return self._room >= LEAST_ROOM

    def has_at_most(self, tokens: int) -> None:
        """Limit requests to so many local tokens: the provider found more too large."""
        self._room = min(self._room, tokens - self._order)

    async def summary(self) -> _Made | NotCompacted:
        """The summary of all of it."""
        making = self._making
        if not self.has_room:
            return self._too_small()
        groups: Groups = await asyncio.to_thread(lambda: packed(making.source.pieces(), self._room))
        if len(groups) == 1:
            data = text_of(groups[0])
            made = await _repaired(making, lambda wanted: self._ask(data, data_instruction(wanted)))
            if made is not None:
                return await self.bounded(made)
            smaller = await self._smaller(groups)
            if smaller is None:
                return self._too_small()
            groups = smaller
        parts = await self._parts(groups)
        if isinstance(parts, NotCompacted):
            return parts
        making.chosen["pieces"] = len(parts)
        return await self.shorter(parts)

    async def bounded(self, made: _Made | NotCompacted) -> _Made | NotCompacted:
        """A summary, made shorter if it is longer than it may be in its window."""
        if isinstance(made, NotCompacted) or count_tokens(made.text) <= self._making.wanted.longest:
            return made
        return await self.shorter([made.text])

    async def shorter(self, parts: Sequence[str]) -> _Made:
        """One summary of the parts: concatenated if short enough, else condensed by the model. If still too long it
        loses lines, which the check reports.
        """
        making, text = self._making, joined(parts)
        while count_tokens(text) > making.wanted.longest:
            parts = await self._condensed(parts)
            if not parts or count_tokens(joined(parts)) >= count_tokens(text):
                break
            text = joined(parts)
        ranks = await asyncio.to_thread(line_ranks, text, making.source.turns)
        text, lost = shortened(text, ranks, making.wanted.longest)
        if lost:
            making.chosen["lines_left_out"] = lost
        return await _made(making, text)

    async def _ask(self, data: str, order: str) -> SideAnswer:
        making = self._making
        return await self._reader.ask(making.caller, data, order, making.source.turns[-1], making.asked)

    async def _smaller(self, groups: Groups) -> Groups | None:
        """The same in smaller groups, because the provider found the first too large; None after too many attempts."""
        size = await asyncio.to_thread(lambda: sum(piece.tokens for piece in groups[0]))
        less = min(self._making.less, 0.5) if self._refusals else self._making.less
        self._room = int((min(self._room, size) + self._order) * less) - self._order
        self._refusals += 1
        if self._refusals > REFUSALS or not self.has_room:
            return None
        return await asyncio.to_thread(packed, [piece for group in groups for piece in group], self._room)

    def _too_small(self) -> NotCompacted:
        why = f"{self._reader.name} takes too little at once to make a summary"
        return NotCompacted(why, code="too_small", hint=WAY_OUT)

    async def _parts(self, groups: Groups) -> list[str] | NotCompacted:
        """The summaries of the groups, in order."""
        making, done = self._making, list[str]()
        while groups:
            count = len(done) + len(groups)
            wanted = replace(making.wanted, longest=max(LEAST, making.wanted.longest // count))
            summary = making.answer_within(
                await self._ask(text_of(groups[0]), data_instruction(wanted, len(done) + 1, count))
            )
            if isinstance(summary, NotCompacted):
                return summary
            if summary is not None:
                done.append(summary)
                groups = groups[1:]
                continue
            smaller = await self._smaller(groups)
            if smaller is None:
                return self._too_small()
            groups = smaller
        return done

    async def _condensed(self, parts: Sequence[str]) -> list[str]:
        """Fewer summaries of the same content. If the model fails, the paid ones are kept."""
        making = self._making
        groups = packed([Piece(f"Part {n}:", part) for n, part in enumerate(parts, start=1)], self._room)
        wanted = replace(making.wanted, longest=max(LEAST, making.wanted.longest // len(groups)))
        made = []
        for group in groups:
            try:
                summary = making.answer_within(await self._ask(text_of(group), condense_instruction(wanted)))
            except LamellaError as error:
                log.warning("summaries could not be condensed", error=error.message)
                return []
            if not isinstance(summary, str):
                return []
            made.append(summary)
        return made


def _failed(error: LamellaError) -> NotCompacted:
    return NotCompacted(f"the summary could not be made: {error.message}", again=True, hint=WAY_OUT)


def _less(refusal: ProviderContextOverflow) -> float:
    """The share of a refused request that may fit: by the refusal's figures, else half."""
    counted, limit = refusal.counted, refusal.limit
    return max(limit / counted * SAFE, 0.25) if counted and limit and limit < counted else 0.5
