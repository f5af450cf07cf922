"""The state container accumulates the output of a run; what is saved is read from it.

An answer may be empty or partial: `nothing_of`, `partial_of` and `no_room_for_calls` give the message, and say whether
to ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from lamella.context.segments import sendable_parts
from lamella.core import deltas
from lamella.core.caching import Diagnosis
from lamella.core.deltas import Delta
from lamella.core.errors import OutputLimitReached, ProviderAnsweredNothing, ProviderError, ProviderRefusedAnswer
from lamella.core.json import decode_arguments
from lamella.core.messages import AnswerPart, Reasoning, Step, StopReason, Text, ToolCall, ToolResult
from lamella.core.packets import PartialPacket
from lamella.core.records import RequestEnd
from lamella.core.tokens import TokenCounter, Usage

_CONTENT = (deltas.TextDelta, deltas.ReasoningDelta, deltas.ToolCallOpened, deltas.ToolArgsDelta)


@dataclass(slots=True)
class _Block:
    kind: str
    text: list[str] = field(default_factory=list)
    name: str = ""
    signature: str | None = None
    redacted: str | None = None

    @property
    def joined(self) -> str:
        return "".join(self.text)


@dataclass(frozen=True, slots=True)
class StepBirth:
    """Facts about a step before its first delta.

    `estimate` is the expected billed input, `factor` the provider's tokens per local token, `made_from` the knowledge
    bases with content in the window.
    """

    id: str
    request_id: str
    model: str
    made_after: str
    reminder: str
    estimate: Usage = field(default_factory=Usage)
    factor: float = 1.0
    made_from: tuple[str, ...] = ()


class OpenStep:
    """A step while it streams; `drained` after its stream ended. `taken` are the ids of all existing calls; the step
    adds its own.
    """

    def __init__(self, birth: StepBirth, taken: set[str]) -> None:
        self.birth = birth
        self._taken = taken
        self.usage = Usage()
        self.began = False
        self.drained = False
        self.is_billed = False
        """Whether usage was reported since the last part of the answer."""
        self.provider_request_id: str | None = None
        self.stop_reason: StopReason | None = None
        self.why = ""
        self.stopped_at = ""
        """The stop sequence before which the answer ended."""
        self.results: dict[str, ToolResult] = {}
        self.malformed: dict[str, str] = {}
        self.call_ids: dict[int, str] = {}
        self.error: Mapping[str, str | None] | None = None
        self.dropped_thinking = 0
        self.answer_id: str | None = None
        self.diagnosis: Diagnosis | None = None
        self._blocks: dict[int, _Block] = {}

    def feed(self, delta: Delta) -> None:
        """Add a delta."""
        if isinstance(delta, _CONTENT):
            self.is_billed = False
        match delta:
            case deltas.Opened(provider_request_id, _):
                self.provider_request_id, self.began = provider_request_id, True
            case deltas.AnswerNamed(id):
                self.answer_id = id
            case deltas.Diagnosed(diagnosis):
                self.diagnosis = diagnosis
            case deltas.TextDelta(block, text):
                self._block(block, "text").text.append(text)
            case deltas.ReasoningDelta(block, text):
                self._block(block, "reasoning").text.append(text)
            case deltas.ReasoningSealed(block, signature, redacted):
                sealed = self._block(block, "reasoning")
                sealed.signature, sealed.redacted = signature, redacted
            case deltas.ToolCallOpened(block, id, name):
                self.call_ids[block] = self._unused(id, block)
                self._blocks[block] = _Block("call", name=name)
            case deltas.ToolArgsDelta(block, json):
                self._block(block, "call").text.append(json)
            case deltas.UsageReported(usage):
                believed = usage.can_be(self.birth.estimate.input)
                self.usage = usage if believed else usage.doubted()
                self.is_billed = True
            case deltas.ThinkingDropped(count):
                self.dropped_thinking = count
            case deltas.Closed(stop_reason, why, stopped_at):
                self.stop_reason, self.why, self.stopped_at = stop_reason, why, stopped_at

    def end(self, usage: Usage, cost: float, error: Mapping[str, str | None] | None = None) -> RequestEnd:
        """The end of the request: its bill, and the provider's other reports."""
        return RequestEnd(
            self.birth.request_id,
            usage,
            cost,
            self.provider_request_id,
            error,
            self.dropped_thinking,
            self.answer_id,
            self.diagnosis,
        )

    @property
    def has_blocks(self) -> bool:
        """Whether anything of an answer came."""
        return bool(self._blocks)

    @property
    def cut_calls(self) -> frozenset[str]:
        """The calls that the output limit cut off; known after the parts are made."""
        return frozenset(self.malformed) if self.stop_reason is StopReason.MAX_TOKENS else frozenset()

    def _block(self, index: int, kind: str) -> _Block:
        return self._blocks.setdefault(index, _Block(kind))

    def _unused(self, id: str, block: int) -> str:
        """The provider's call id, extended if another call has it (some servers count from 0 every time)."""
        if not id or id in self._taken:
            id = f"{id or 'call'}_{self.birth.id}_{block}"
        self._taken.add(id)
        return id

    def parts(self) -> tuple[AnswerPart, ...]:
        """The parts in the provider's order. A call whose arguments are not valid JSON counts only if the step ended.

        A call without arguments is complete, unless the output limit cut the answer off right after its name.
        """
        made: list[AnswerPart] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            match block.kind:
                case "text" if block.text:
                    made.append(Text(block.joined))
                case "reasoning":
                    made.append(Reasoning(block.joined, block.signature, block.redacted))
                case "call":
                    call_id = self.call_ids[index]
                    whole = index < max(self._blocks) or self.stop_reason is not StopReason.MAX_TOKENS
                    arguments = self._arguments(call_id, block.joined.strip() or ("{}" if whole else ""))
                    if arguments is not None:
                        made.append(ToolCall(call_id, block.name, arguments))
                case _:
                    pass
        return tuple(made)

    def _arguments(self, call_id: str, text: str) -> str | None:
        try:
            decode_arguments(text)
        except msgspec.DecodeError:
            if self.stop_reason is None:
                return None
            self.malformed[call_id] = text
            return "{}"
        return text


class StateContainer:
    """The output of one run so far. `call_ids` are those of the path and of every run of the turn, which share the set:
    a user's approval concerns exactly one call.
    """

    def __init__(self, counter: TokenCounter, call_ids: set[str] | None = None) -> None:
        self._counter = counter
        self._call_ids = set() if call_ids is None else call_ids
        self._steps: list[Step] = []
        self._ends: list[RequestEnd] = []
        self.stopped_at = ""
        """The stop sequence before which the last step ended."""
        self._open: OpenStep | None = None

    @property
    def opened(self) -> OpenStep | None:
        """The step that streams now."""
        return self._open

    def open(self, birth: StepBirth) -> OpenStep:
        """A step begins."""
        self._open = OpenStep(birth, self._call_ids)
        return self._open

    def close(self, step: Step, end: RequestEnd) -> None:
        """A step and its calls are done."""
        self._steps.append(step)
        self._ends.append(end)
        self.stopped_at = self._open.stopped_at if self._open is not None else ""
        self._open = None

    def refused(self, end: RequestEnd) -> None:
        """The provider took the request of the open step for nothing."""
        self._ends.append(end)
        self._open = None

    def beside(self, end: RequestEnd) -> None:
        """A side request ended."""
        self._ends.append(end)

    def digested(self, digests: Mapping[str, str]) -> None:
        """The digests that replace old results, by call id."""
        self._steps = [with_digests(step, digests) for step in self._steps]

    def cut_off(self, reason: StopReason, cost: Callable[[Usage], float]) -> None:
        """The run ended here. An open step is kept as far as it came.

        Between two steps, or if the open step has nothing that a model can be shown, the answer ends with the step
        before.
        """
        opened, self._open = self._open, None
        step = build_step(opened, opened.parts(), self._counter) if opened is not None else None
        is_shown = step is not None and bool(sendable_parts(step, with_thinking=True))
        if not is_shown and self._steps and self._steps[-1].calls:
            self._steps[-1] = replace(self._steps[-1], stop_reason=reason)
        if opened is not None and step is not None:
            usage = spent(opened, step.tokens)
            self._ends.append(opened.end(usage, cost(usage), opened.error))
            if step.parts:
                self._steps.append(replace(step, stop_reason=reason))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(self._steps)

    @property
    def ends(self) -> tuple[RequestEnd, ...]:
        """The ends of all requests."""
        return tuple(self._ends)


def spent(open_step: OpenStep, tokens: int) -> Usage:
    """The usage of an interrupted step of so many local tokens: what the provider reported, and an estimate of the
    rest.

    Anthropic reports the input and an output of 1 at the beginning, OpenAI both only at the end. An output that was
    reported before the last part of the answer, or is implausible for its length, is replaced by our own count.
    """
    reported, birth = open_step.usage, open_step.birth
    if not open_step.began or open_step.drained:
        return reported
    streamed = int(tokens * birth.factor)
    if reported == Usage():
        return replace(birth.estimate, output=streamed).doubted()
    if open_step.is_billed and reported.can_have_said(streamed):
        return reported
    return replace(reported, output=max(reported.output, streamed), estimated=True)


def with_digests(step: Step, digests: Mapping[str, str]) -> Step:
    """The step with the digests of its results."""
    if digests.keys().isdisjoint(result.call_id for result in step.results):
        return step
    results = tuple(replace(r, digest=digests.get(r.call_id, r.digest)) for r in step.results)
    return replace(step, results=results)


def build_step(step: OpenStep, parts: tuple[AnswerPart, ...], counter: TokenCounter) -> Step:
    """The step in its stored form, with results in call order."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    results = tuple(step.results[call.id] for call in calls if call.id in step.results)
    birth = step.birth
    return Step(
        id=birth.id,
        model=birth.model,
        parts=parts,
        stop_reason=step.stop_reason or StopReason.INTERRUPTED,
        made_after=birth.made_after,
        tokens=sum(count_part(part, counter) for part in parts) + sum(_result_count(r, counter) for r in results),
        reminder=birth.reminder,
        results=results,
        made_from=birth.made_from,
    )


def _result_count(result: ToolResult, counter: TokenCounter) -> int:
    """A result, and the queries that its call shows because of it."""
    return counter.count(result.content) + sum(counter.count(query) + 3 for query in result.queries)


def count_part(part: AnswerPart, counter: TokenCounter) -> int:
    """Local tokens of a part of an answer."""
    match part:
        case Text(text):
            return counter.count(text)
        case Reasoning(text, _, redacted):
            return counter.count(text) + len(redacted or "") // 4
        case ToolCall(_, name, arguments):
            return counter.count(name) + counter.count(arguments)


REFUSED_CALL = "The answer was refused before it was finished; this call did not run."
CUT_CALL = (
    "The answer reached the limit of {most} output tokens in the middle of this call, which did not run. "
    "Do it in smaller pieces: make a call with shorter arguments, and others after it."
)

_OTHER_WORDS = "Say it in other words, or choose another model."


def nothing_of(step: OpenStep, model: str, most: int) -> ProviderError | None:
    """Why an inference ended with neither text nor a call. Returns None if it had one.

    `most` is the output limit in tokens.
    """
    parts = step.parts()
    if step.call_ids or any(isinstance(part, Text) and not part.text.isspace() for part in parts):
        return None
    match step.stop_reason:
        case StopReason.REFUSAL:
            return ProviderRefusedAnswer(f"{model} refused to answer{_because(step.why)}", hint=_OTHER_WORDS)
        case StopReason.MAX_TOKENS:
            thinking = " all of them for thinking," if parts else ""
            return OutputLimitReached(
                f"{model} used up its {most:,} tokens of output,{thinking} and came to no answer.",
                hint="Choose a lower thinking effort, or let answers be longer with LAMELLA_MAX_OUTPUT.",
            )
        case _:
            return ProviderAnsweredNothing(
                f"{model} ended its answer without saying anything.",
                hint="Send the message again, or choose another model.",
            )


def may_ask_again(failure: ProviderError, step: OpenStep) -> bool:
    """Whether to ask the model once more after `nothing_of`. Not after a refusal or long thinking, which would repeat:
    only if the attempt cost nothing and showed nothing. A model that ended without a word is told so and asked to
    answer.
    """
    return isinstance(failure, ProviderAnsweredNothing) or (step.usage == Usage() and not step.has_blocks)


def no_room_for_calls(step: Step, cut: Collection[str], model: str, most: int) -> OutputLimitReached:
    """The error if the calls of two steps in a row were cut off: it would not end."""
    names = ", ".join(sorted({call.name for call in step.calls if call.id in cut}))
    return OutputLimitReached(
        f"{model} reached its limit of {most:,} tokens of output in the middle of a call of {names}, twice.",
        hint="Ask for it in smaller pieces, or let answers be longer with LAMELLA_MAX_OUTPUT.",
    )


def partial_of(step: Step, why: str, most: int) -> PartialPacket | None:
    """The note on an answer whose last step is not complete. Returns None if its model ended it."""
    model = step.model
    if step.stop_reason is StopReason.REFUSAL:
        return PartialPacket(
            reason="refusal", message=f"{model} refused to answer, or to go on{_because(why)}", hint=_OTHER_WORDS
        )
    if step.stop_reason is StopReason.MAX_TOKENS:
        return PartialPacket(
            reason="max_tokens",
            message=f"The answer is not whole: {model} reached its limit of {most:,} tokens of output.",
            hint="Ask it to go on, or let answers be longer with LAMELLA_MAX_OUTPUT.",
        )
    if step.calls:
        return PartialPacket(
            reason="step_limit",
            message=f"{model} called tools to the last step that a turn may have, and gave no answer.",
            hint="Ask it to continue: earlier results are kept. LAMELLA_STEP_LIMIT sets the number of steps per turn.",
        )
    return None


def _because(why: str) -> str:
    """A provider's explanation of a refusal, added to our text."""
    said = " ".join(why.split())
    if not said:
        return "."
    return f": {said}" if said[-1] in ".!?" else f": {said}."
