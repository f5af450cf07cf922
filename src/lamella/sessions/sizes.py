"""About how large what stands in a window is, in local tokens: what pruning and compaction are weighed by. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lamella.cache.economics import chance_of_reading
from lamella.context.choices import Known
from lamella.context.extracts import MOST
from lamella.context.render import pruned_steps
from lamella.context.results import NO_EXTRACTS, READ_MESSAGE, cut_results, extracts_of, stubs_of
from lamella.context.segments import MESSAGE_TOKENS, said_tokens
from lamella.core.agents import Summary
from lamella.core.counting import count_tokens
from lamella.core.messages import Step, ToolResult, Turn

EXTRACT = MOST + 4
"""Local tokens that an extract adds to a stub at most."""

QUESTION_TOKENS = MESSAGE_TOKENS + 24
"""What a question costs beside its text: its frame and its time."""


@dataclass(frozen=True, slots=True)
class ShownWindow:
    """The turns of a window, what is known of it, and the tools whose results are kept."""

    conversation_id: str
    turns: Sequence[Turn]
    known: Known
    calibration: float
    kept: Collection[str] = ()
    readable: bool = False
    """Whether stubs name the id by which the model can read a result again."""
    extracting: bool = False
    """Whether the stubs of a pruning made now keep extracts."""

    def results(self, step: Step, kept: Collection[str]) -> int:
        """Local tokens of a step's results as they are shown whole or cut, without those of the tools `kept`."""
        return _counted(cut_results(step, self.known.cuts, readable=self.readable), kept)

    def stubs(self, turn: Turn, step: Step, kept: Collection[str], *, extracting: bool) -> int:
        """Local tokens of the stubs of a step's results, without those of the tools `kept`."""
        extracts = extracts_of(turn, step) if extracting else NO_EXTRACTS
        return _counted(stubs_of(step, readable=self.readable, extracts=extracts), kept)

    def longest_stubs(self, step: Step, kept: Collection[str], *, extracting: bool) -> int:
        """Local tokens that they have at most: nothing is read for that."""
        most = _counted(stubs_of(step, readable=self.readable), kept)
        if extracting:
            most += sum(EXTRACT for result in step.results if result.name not in kept)
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
        """Tokens of the results behind stubs, whole: whoever summarises the window reads them with the instruction."""
        stubbed = self._stubbed()
        local = sum(self.results(step, ()) for turn in self.turns for step in turn.steps if step.id in stubbed)
        return int(local * self.calibration)

    def answers(self) -> int:
        """Tokens that the model made: answers, thinking and calls, as far as they stand in the window."""
        return int(sum(said_tokens(step) for turn in self.turns for step in turn.steps) * self.calibration)

    @property
    def since_pruning(self) -> int:
        """Steps behind the boundary."""
        return sum(len(turn.steps) for turn in self.turns) - len(self._stubbed())

    @property
    def read_again(self) -> float:
        """How likely a result that becomes a stub is read again, by what this window shows."""
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
        """A step as it stands in the window; results of tools that keep them are counted as stubs with the others."""
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
    """What stands before a turn's first answer."""
    user = turn.user
    dynamic = count_tokens(user.dynamic) if user.dynamic else 0
    return user.tokens + QUESTION_TOKENS + dynamic + sum(file.tokens for file in user.files)


def _counted(results: Iterable[ToolResult], kept: Collection[str]) -> int:
    return sum(count_tokens(result.content) for result in results if result.name not in kept)
