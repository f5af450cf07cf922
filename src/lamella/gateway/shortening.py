"""What is due for a client's history, and the replacement that is made of it.

The window is weighed as the engine weighs its own (`cache/weighing.py`): by its last bill, at the prices of its model.
A summary stands for all turns but the newest, which stay word for word. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lamella.cache.economics import OtherSummariser, expected_summary, turns_kept
from lamella.cache.pruning import UNDONE, PruneSettings, Pruning, ShownWindow
from lamella.cache.weighing import Gain, Trigger, Upkeep, WindowSize, upkeep
from lamella.context.choices import KnownDecisions, pruned_steps
from lamella.context.layouts import DEFAULT, LAYOUTS
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.records import Replacement, ReplacementKind
from lamella.core.sessions import CarriedSummary, Session, SessionCause, SessionSummary
from lamella.gateway.history import History
from lamella.gateway.matching import answer_digest
from lamella.gateway.replacing import Change
from lamella.sessions.carried_summaries import ChainRoom, carried_on, chain_room
from lamella.sessions.compaction import HUGE, room_for_turns
from lamella.sessions.summary_check import forms_used

WHO = "gateway"


@dataclass(frozen=True, slots=True)
class ClientWindow:
    """A client's window between two turns: its messages, what is replaced of them, and its newest turns (`turns`) with
    the answer to the last one.

    `input` is its bill in tokens, `factor` the provider's tokens per local token, `budget` the most that it may have.
    """

    history: History
    change: Change
    turns: tuple[Turn, ...]
    facts: ModelFacts
    input: int
    factor: float
    budget: int

    @property
    def earlier(self) -> int:
        """The tokens of the summaries in it."""
        return int(count_tokens(self.change.text) * self.factor)

    @property
    def size(self) -> WindowSize:
        """It as the engine's own windows are weighed."""
        decisions = self.change.decisions("")
        shown = ShownWindow("", self.turns, KnownDecisions(self.facts.name, decisions), self.factor, extracting=True)
        summary, kind = self.change.summary, DecisionKind.SESSION
        if summary is not None:
            decisions = (*decisions, Decision(kind, summary.id, "", WHO, summary.why, summary.numbers))
        if self.change.is_held:
            decisions = (*decisions, Decision(kind, "", "", WHO, "it was taken back", {UNDONE: 1}))
        return WindowSize(shown, LAYOUTS[DEFAULT], self.facts, decisions, self.input, self.budget, self.earlier)

    @property
    def stubbed(self) -> frozenset[str]:
        """The steps whose results are stubs."""
        known = KnownDecisions(self.facts.name, self.change.decisions(""))
        return pruned_steps(self.turns, known.boundary(self.turns))

    @property
    def most(self) -> int:
        """The local tokens that it may have."""
        return int(self.budget / self.factor)

    def start_of(self, turn: Turn) -> int:
        """The message with which a turn begins."""
        return next(
            start for one, start in zip(self.history.turns, self.history.starts, strict=True) if one.id == turn.id
        )

    def thinks_after(self, start: int) -> bool:
        """Whether signed thinking stays from this message on that is bound to what stands before it."""
        return self.facts.binds_thinking and any(place >= start for place in self.history.thinks)

    def due(self, pruning: PruneSettings, trigger: Trigger, summariser: OtherSummariser | None) -> Upkeep:
        """What is due after its newest turn."""
        return upkeep(self.size, pruning, trigger, summariser, read=self.input, who=WHO)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """A summary of the turns `old`; `kept` stay. The replacement stands for the client's first `count` turns: for the
    messages up to `key`, and for the answer after them if one is named. Sizes are in the provider's tokens.
    """

    window: ClientWindow
    old: tuple[Turn, ...]
    kept: tuple[Turn, ...]
    count: int
    key: str
    answer: str
    gain: Gain

    def chain(self, trigger: Trigger) -> ChainRoom:
        """The room for all summaries after it, in local tokens."""
        window = self.window
        threshold = trigger.threshold.in_tokens(window.budget)
        room = chain_room(threshold, window.input if trigger.when == "pays" else None)
        return room.in_local(window.factor)


def compaction_plan(window: ClientWindow, keep: int, answer: str | None, coming: int = 0) -> CompactionPlan | None:
    """Which turns become a summary; None if all are recent. `answer` ended the newest turn. It is None if a turn of
    `coming` tokens follows, which is not in the window.
    """
    turns, history, size = window.turns, window.history, window.size
    sizes = size.shown.sizes()
    fixed = max(0, window.input - sum(sizes) - window.earlier)
    most = int(room_for_turns(window.most, int(fixed / window.factor), int(coming / window.factor)) * window.factor)
    kept = turns_kept(sizes, min(keep, most), min(int(window.budget * HUGE), most))
    if kept and window.thinks_after(window.start_of(turns[-kept])):
        kept = 0
    if kept == len(turns) or (answer is None and window.thinks_after(history.starts[-1])):
        return None
    cut = len(turns) - kept
    count = len(history.turns) - (answer is None) - kept
    key = history.keys[history.starts[count] - 1] if count < len(history.turns) else history.keys[-1]
    named = answer_digest(answer or "") if count == len(history.turns) else ""
    gain = Gain(fixed, sum(sizes[:cut]), sum(sizes[cut:]), window.earlier, expected_summary(size.decisions))
    return CompactionPlan(window, turns[:cut], turns[cut:], count, key, named, gain)


def summary_of_plan(
    plan: CompactionPlan,
    made: SessionSummary,
    found: Sequence[Replacement],
    trigger: Trigger,
    blank: Replacement,
) -> Replacement:
    """The replacement that a summary becomes: `blank` has its id and its time, `found` are the earlier ones."""
    window, factor = plan.window, plan.window.factor
    carries, texts = _carried(plan, made, found, trigger, blank)
    size = int(made.tokens * factor)
    shown = int(sum(map(count_tokens, texts)) * factor)
    before = window.input
    after = before - plan.gain.old - plan.gain.earlier + shown
    numbers = {"before": before, "after": after, "summary": size, "kept": plan.gain.kept, "turns": plan.count}
    return replace(
        blank,
        key=plan.key,
        answer=plan.answer,
        why=_why(plan.count, size, _saved(window.facts, before - after)),
        numbers=numbers,
        texts=texts,
        summary=made.text,
        tokens=made.tokens,
        check=made.check,
        carries=carries,
    )


def _why(turns: int, size: int, saved: float) -> str:
    of = f"turns 1–{turns}" if turns > 1 else "turn 1"
    return (
        f"compacted here by Lamella: {of} → summary of {size:,} tokens; it saves about ${saved:.4f} with each request"
    )


def prune_of(pruning: Pruning, window: ClientWindow, blank: Replacement) -> Replacement:
    """The replacement that a pruning becomes."""
    saved = _saved(window.facts, pruning.freed)
    why = (
        f"pruned here by Lamella: old results of tools → stubs, {pruning.freed:,} tokens less; it saves about "
        f"${saved:.4f} with each request"
    )
    numbers = {**pruning.decision.numbers, "freed": pruning.freed}
    return replace(blank, key=pruning.decision.outcome, kind=ReplacementKind.PRUNE, why=why, numbers=numbers)


def _saved(facts: ModelFacts, tokens: int) -> float:
    """What not reading so many tokens from the cache saves, in US dollars."""
    return facts.price.read * facts.price.input * tokens / 1_000_000


def _carried(
    plan: CompactionPlan,
    made: SessionSummary,
    found: Sequence[Replacement],
    trigger: Trigger,
    blank: Replacement,
) -> tuple[tuple[CarriedSummary, ...], tuple[str, ...]]:
    """The summaries that stand in the window from now on, and their texts."""
    last = plan.window.change.summary
    earlier = {one.id: one for one in found if one.kind is ReplacementKind.SUMMARY}
    held = tuple(one for one in last.carries if one.session_id in earlier) if last is not None else ()
    known = [_session(one.id, blank.made_at, one.summary, one.tokens, one.check) for one in earlier.values()]
    ended = _session(blank.id, blank.made_at, made.text, made.tokens, made.check, held)
    room = plan.chain(trigger)
    carries = carried_on(ended, [*known, ended], room, forms_used(plan.old))
    summaries = {one.id: one.summary or "" for one in (*known, ended)}
    texts = [_lines(summaries[one.session_id], one.lines) for one in carries if one.lines != ()]
    return carries, tuple(texts)


def _session(
    id: str, at: datetime, text: str, tokens: int, check: object, carries: tuple[CarriedSummary, ...] = ()
) -> Session:
    session = Session(id, "", 1, at, SessionCause.COMPACTION, carries=carries, summary=text, summary_tokens=tokens)
    return replace(session, check=check)  # type: ignore[arg-type]


def _lines(text: str, lines: tuple[int, ...] | None) -> str:
    if lines is None:
        return text
    every = text.split("\n")
    return "\n".join(every[index] for index in lines if index < len(every))
