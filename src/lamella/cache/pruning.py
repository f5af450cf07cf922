"""What the turns of a window weigh, and which old tool results a pruning replaces with stubs.

A pruning moves one boundary over the steps of a window: results before it become stubs, results after it stand as they
are. Only whole steps are pruned, so parallel calls stay together. Where the boundary moves, the prefix changes: all
that follows the first new stub is written to the cache anew. So it moves rarely, in one of four cases:

- the results after the boundary have more tokens than a threshold (8,000 if prices are unknown); the newest 2,000 stay;
- it pays by price: 1.5 times what it costs is saved within the calls that are expected, and it frees at least 4,000
  tokens; the results of the newest two turns stay. Example: 20,000 tokens go and 10,000 after them are written anew,
  which is repaid after 5.8 calls; with the margin it is done if 8.6 calls are expected;
- the user asks for it;
- results are kept by policy, and the window is past its compaction threshold.

Sizes are counted locally and multiplied by the window's calibration, what the provider counts for a local token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lamella.cache.economics import ExpectedCalls, chance_of_reading, prune_calls
from lamella.context.choices import ALL, EXTRACTS, KnownDecisions, pruned_steps
from lamella.context.results import (
    EXTRACT_TOKENS,
    EXTRACT_VERSION,
    NO_EXTRACTS,
    READ_MESSAGE,
    cut_results,
    extracts_of,
    said_tokens,
    stubs_of,
)
from lamella.core.agents import Summary
from lamella.core.counting import MESSAGE_TOKENS, count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, ToolResult, Turn

EXTRACT_AT_MOST = EXTRACT_TOKENS + 4
"""Local tokens that an extract adds to a stub at most."""

QUESTION_TOKENS = MESSAGE_TOKENS + 24
"""Tokens of a question in addition to its text: its frame and its time."""


@dataclass(frozen=True, slots=True)
class ShownWindow:
    """The turns of a window, with its known facts and the tools whose results are kept."""

    conversation_id: str
    turns: Sequence[Turn]
    known: KnownDecisions
    calibration: float
    kept: Collection[str] = ()
    readable: bool = False
    """Whether stubs name the id by which the model can read a result again."""
    extracting: bool = False
    """Whether the stubs of a pruning made now keep extracts."""

    def results(self, step: Step, kept: Collection[str]) -> int:
        """Local tokens of a step's results as shown, whole or cut, without those of the tools `kept`."""
        return _counted(cut_results(step, self.known.cuts, readable=self.readable), kept)

    def stubs(self, turn: Turn, step: Step, kept: Collection[str], *, extracting: bool) -> int:
        """Local tokens of the stubs of a step's results, without those of the tools `kept`."""
        extracts = extracts_of(turn, step) if extracting else NO_EXTRACTS
        return _counted(stubs_of(step, readable=self.readable, extracts=extracts), kept)

    def longest_stubs(self, step: Step, kept: Collection[str], *, extracting: bool) -> int:
        """Local tokens that they have at most: nothing is read for that."""
        most = _counted(stubs_of(step, readable=self.readable), kept)
        if extracting:
            most += sum(EXTRACT_AT_MOST for result in step.results if result.name not in kept)
        return min(most, self.results(step, kept))

    def sizes(self) -> tuple[int, ...]:
        """Tokens of each turn, the oldest first, as the provider counts them."""
        stubbed = self._stubbed()
        local = (_head(turn) + sum(self._shown(turn, step, stubbed) for step in turn.steps) for turn in self.turns)
        return tuple(int(tokens * self.calibration) for tokens in local)

    def behind(self, first: Step) -> int:
        """Tokens from the results of `first` to the end of the window, as they are shown now."""
        stubbed = self._stubbed()
        local, found = 0, False
        for turn in self.turns:
            local += _head(turn) if found else 0
            for step in turn.steps:
                if step.id == first.id:
                    found, local = True, self.results(step, ())
                elif found:
                    local += self._shown(turn, step, stubbed)
        return int(local * self.calibration)

    def hidden(self) -> int:
        """Tokens of the whole results that stubs replace; a summariser reads them with the instruction."""
        stubbed = self._stubbed()
        local = sum(self.results(step, ()) for turn in self.turns for step in turn.steps if step.id in stubbed)
        return int(local * self.calibration)

    def answers(self) -> int:
        """Tokens that the model generated and that are in the window: answers, thinking and calls."""
        return int(sum(said_tokens(step) for turn in self.turns for step in turn.steps) * self.calibration)

    @property
    def since_pruning(self) -> int:
        """Number of steps after the boundary."""
        return sum(len(turn.steps) for turn in self.turns) - len(self._stubbed())

    @property
    def read_again(self) -> float:
        """The chance that a pruned result is read again, learned from this window."""
        stubbed = self._stubbed()
        steps = [step for turn in self.turns for step in turn.steps]
        read = sum(call.name == READ_MESSAGE for step in steps for call in step.calls)
        return chance_of_reading(read, sum(len(step.results) for step in steps if step.id in stubbed))

    def _stubbed(self) -> Mapping[str, bool]:
        """The steps whose results are stubs, and whether those keep extracts."""
        turns = tuple(self.turns)
        extracted = self.known.extracted(turns) if self.extracting else frozenset()
        return {id: id in extracted for id in pruned_steps(turns, self.known.boundary(turns))}

    def _shown(self, turn: Turn, step: Step, stubbed: Mapping[str, bool]) -> int:
        """A step as the window shows it. Results that tools keep are counted as stubs with the others."""
        if step.results and (step.id in stubbed or self.known.cuts):
            results = self.results(step, ())
            if step.id in stubbed:
                results = self.stubs(turn, step, (), extracting=stubbed[step.id])
            return MESSAGE_TOKENS + said_tokens(step) + results
        return MESSAGE_TOKENS + step.tokens


def summaries_tokens(summaries: Iterable[Summary], calibration: float) -> int:
    """Tokens of summaries in a window, as the provider counts them."""
    return int(sum(summary.tokens + 2 * MESSAGE_TOKENS for summary in summaries) * calibration)


def _head(turn: Turn) -> int:
    """Local tokens of a turn before its first answer."""
    user = turn.user
    dynamic = count_tokens(user.dynamic) if user.dynamic else 0
    return user.tokens + QUESTION_TOKENS + dynamic + sum(file.tokens for file in user.files)


def _counted(results: Iterable[ToolResult], kept: Collection[str]) -> int:
    return sum(count_tokens(result.content) for result in results if result.name not in kept)


PrunePolicy = Literal["auto", "keep_all", "keep_none"]


PruneWhen = Literal["full", "pays"]
"""When automatic pruning runs: `full` at the threshold only, `pays` also by price."""

PRUNE_THRESHOLD = 8_000
"""The default threshold, in tokens of results."""

NEWEST_TURNS = 2
"""Turns whose results are never pruned by price: the next question is mostly about them."""

LEAST_AT_ONCE = 4_000
"""The fewest tokens that a pruning by price removes."""

PRUNE_MARGIN = 1.5
"""How many times its cost a pruning by price is expected to save."""


@dataclass(frozen=True, slots=True)
class PruneSettings:
    """The tokens of results after the boundary that start a pruning, the tokens of the newest results that stay, and
    the policy.

    `threshold` None: `THRESHOLD` if pruning waits for one, none if it goes by price. `when`: at the threshold only, or
    also by price, which never takes the results of the newest turns. `auto`: results of tools that ask for it stay
    until a compaction. `keep_all`: all results stay, while they fit. `keep_none`: results go when their turn ends.
    """

    threshold: int | None = None
    keep: int = 2_000
    policy: PrunePolicy = "auto"
    when: PruneWhen = "pays"


@dataclass(frozen=True, slots=True)
class Pruning:
    """A pruning. `before` and `after` are the tokens of the results after the old boundary."""

    decision: Decision
    before: int
    after: int

    @property
    def freed(self) -> int:
        """How much shorter the window is."""
        return self.before - self.after


def prune(
    window: ShownWindow,
    settings: PruneSettings,
    *,
    who: str,
    asked: bool = False,
    full: str = "",
    calls: ExpectedCalls | None = None,
) -> Pruning | None:
    """Move the boundary so that only the newest `keep` tokens of results stay. Returns None if nothing is due.

    Only whole steps are pruned, so parallel calls stay together; a cut result counts as it is shown. `asked`: prune
    below the threshold too. `full` says why nothing can be kept. `calls` has the expected calls: with it, prune as
    soon as it pays; without it, only the threshold counts.
    """
    if settings.policy == "keep_all" and not (asked or full):
        return None
    emptying = bool(full) or settings.policy == "keep_none"
    found = _found(window, keep=0 if emptying else settings.keep, emptying=emptying)
    threshold = 0 if emptying else settings.threshold
    if threshold is None and calls is None:
        threshold = PRUNE_THRESHOLD
    numbers: Mapping[str, float] = {}
    why = full or ("asked for" if asked else "")
    if found is not None and threshold is not None and found.total > threshold:
        why = why or f"the results of tools have {found.total} tokens, more than {threshold}"
    if not why and calls is not None:
        found = _found(window, keep=settings.keep, newest=NEWEST_TURNS)
        why, numbers = _paying(window, found, calls) if found is not None else ("", {})
    if not why or found is None:
        return None
    return _pruning(window, found, who, why, numbers, emptying=emptying)


@dataclass(frozen=True, slots=True)
class _Found:
    """The steps that can be pruned, each with its turn, and the tokens of results after the old boundary, of which the
    `newest` stay. `after` is the most that remains of them, including stubs.
    """

    steps: Sequence[tuple[Turn, Step]]
    total: int
    newest: int
    after: int


def _pruning(
    window: ShownWindow, results: _Found, who: str, why: str, numbers: Mapping[str, float], *, emptying: bool
) -> Pruning | None:
    """The pruning with exact figures. Returns None if the stubs would not be shorter."""
    kept = () if emptying else window.kept
    extracting = window.extracting and not emptying
    stubs = sum(window.stubs(turn, step, kept, extracting=extracting) for turn, step in results.steps)
    after = results.newest + int(stubs * window.calibration)
    if after >= results.total:
        return None
    counted = {"before": results.total, "after": after, "results": len(results.steps), **numbers}
    counted |= {ALL: 1} if emptying else {}
    counted |= {EXTRACTS: EXTRACT_VERSION} if extracting else {}
    (_, first), (_, last) = results.steps[0], results.steps[-1]
    kind, subject = DecisionKind.PRUNE, window.conversation_id
    decision = Decision(kind, subject, last.id, who, why, counted, first_changed=first.id)
    return Pruning(decision, results.total, after)


def _found(window: ShownWindow, *, keep: int, emptying: bool = False, newest: int = 0) -> _Found | None:
    """All but the newest `keep` tokens of results and those of the `newest` turns. Returns None if nothing is left."""
    kept = () if emptying else window.kept
    steps = _open_steps(window, emptying=emptying)
    sizes = [int(window.results(step, kept) * window.calibration) for _, step in steps]
    safe = {turn.id for turn in window.turns[max(0, len(window.turns) - newest) :]}
    old = sum(turn.id not in safe for turn, _ in steps)
    stays = sum(sizes[old:])
    while old and stays + sizes[old - 1] <= keep:
        old -= 1
        stays += sizes[old]
    if not old:
        return None
    extracting = window.extracting and not emptying
    most = sum(window.longest_stubs(step, kept, extracting=extracting) for _, step in steps[:old])
    return _Found(steps[:old], sum(sizes), stays, stays + int(most * window.calibration))


def _paying(window: ShownWindow, results: _Found, prospect: ExpectedCalls) -> tuple[str, dict[str, float]]:
    """Why the pruning pays, or "" if it does not, with the figures."""
    removed = results.total - results.after
    surviving = max(0, window.behind(results.steps[0][1]) - removed)
    calls = 0.0 if prospect.cold else PRUNE_MARGIN * prune_calls(removed, surviving, prospect.rates, prospect.again)
    numbers = {"removed": removed, "surviving": surviving, "pays_after": calls, "expected": prospect.calls}
    numbers["again"] = prospect.again
    if removed < LEAST_AT_ONCE or calls > prospect.calls:
        return "", numbers
    if prospect.cold:
        return (
            f"the cache has ended, so removing {removed} tokens of results causes no additional writes to the cache",
            numbers,
        )
    return (
        f"{removed} tokens of results go and {surviving} after them are written to the cache again: at reads of "
        f"{prospect.rates.read:g} of the price of input {PRUNE_MARGIN:g} times of that is saved after {calls:.1f} "
        f"calls, and {prospect.calls:.1f} are expected until the next time"
    ), numbers


def _open_steps(window: ShownWindow, *, emptying: bool) -> list[tuple[Turn, Step]]:
    """The steps with results that a pruning may take, each with its turn."""
    turns = tuple(window.turns)
    behind = pruned_steps(turns, window.known.boundary(turns))
    if emptying:
        emptied = pruned_steps(turns, window.known.emptied(turns))
        behind = frozenset(
            step.id
            for turn in turns
            for step in turn.steps
            if step.id in emptied or (step.id in behind and not any(r.name in window.kept for r in step.results))
        )
    kept: Collection[str] = () if emptying else window.kept
    steps = ((turn, step) for turn in turns for step in turn.steps if step.id not in behind)
    return [(turn, step) for turn, step in steps if any(result.name not in kept for result in step.results)]


UNDONE = "undone"
"""The number of a session's decision that says that a compaction was taken back."""
