"""Who acts in a replay: models that say what the trace says, by the simulator or as it was, and tools that gave it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from lamella.core import deltas, errors
from lamella.core.caching import Ttl
from lamella.core.counting import count_tokens
from lamella.core.deltas import Delta
from lamella.core.errors import (
    ProviderContextOverflow,
    ProviderError,
    ProviderRefusedRequest,
    ProviderStreamBroken,
    ToolFailed,
)
from lamella.core.json import encode
from lamella.core.messages import AnswerPart, Reasoning, Step, StopReason, Text, ToolCall, ToolResult
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, ToolSpec, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.failures import figures_of
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope
from lamella_lab.replay.playback import Playback, PlayedRequest, PlayedRun, Script, SentBody
from lamella_lab.trace.parts import (
    TraceAnswer,
    TraceCall,
    TraceError,
    TracePart,
    TraceSent,
    TraceStep,
    TraceStop,
    TraceTool,
)

ROUNDS = 20
"""Rounds of the event loop in which what has come is stored away before an answer is stopped."""

PATIENCE = 1.0
"""Real seconds that an interrupted call waits for the results of the others."""


class ReplayedModel:
    """The real adapter; notes what was sent, and lets virtual time pass as the trace says."""

    def __init__(self, inner: ChatModel, playback: Playback) -> None:
        self.facts = inner.facts
        self._inner = inner
        self._stage = playback

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel`."""
        return self._inner.wire(prompt, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel`."""
        return self._inner.request(prompt, blocks, markers)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel`."""
        return self._inner.salts(sampling)

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel`."""
        return self._inner.body(request)

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel`."""
        script = self._stage.script(headers, self.facts.name)
        answers = self._played(request, script) if self._stage.plays else self._simulated(request, headers, script)
        async for delta in answers:
            yield delta
        if script.purpose == "summary":
            await self._stage.hold(script.number)

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel`. Of a request that was made before, what its provider counted; else what was thought then."""
        if not self._stage.plays:
            return await self._inner.count(request)
        known = self._stage.counted(self.facts.name)
        if known is None:
            raise ProviderRefusedRequest("The trace has no count of this request.")
        return known

    async def close(self) -> None:
        """See `ChatModel`."""
        await self._inner.close()

    # With the simulator

    async def _simulated(self, request: WireRequest, headers: dict[str, str], script: Script) -> AsyncIterator[Delta]:
        playback = self._stage
        is_chat = script.purpose == "chat"
        step, stop = TraceStep(), None
        if is_chat:
            acting = playback.acting(script.run)
            acting.step, stop = script.number, acting.stop
            step = playback.step(script.run, script.number)
            _expect_calls(acting, step, playback)
            if stop is not None and script.number >= len(acting.run.steps):
                await playback.stopped(stop)
        sent = playback.bodies[script.id]
        sent.append(SentBody(encode(self.body(request))))
        number = len(sent) - 1
        answer = self._inner.stream(request, headers | {"x-sim-reply": script.id})
        if stop is not None and stop.step == script.number and stop.during is None:
            answer = self._until(answer, stop)
        async for delta in answer:
            if isinstance(delta, deltas.Opened):
                sent[number] = SentBody(delta.body)
            yield delta
        if is_chat:
            playback.spend(script.run, step.ms)

    async def _until(self, answer: AsyncIterator[Delta], stop: TraceStop) -> AsyncIterator[Delta]:
        """The answer up to the stop: so many characters of its text, or all of it without its end."""
        left = stop.after_chars
        async with aclosing(answer) as source:  # type: ignore[type-var]  # every adapter's stream is a generator
            async for delta in source:
                if isinstance(delta, deltas.Closed) or (left is not None and left <= 0):
                    break
                if left is not None and isinstance(delta, deltas.TextDelta):
                    delta, left = deltas.TextDelta(delta.block, delta.text[:left]), left - len(delta.text)
                yield delta
        await self._stage.stopped(stop)

    # As it was

    async def _played(self, request: WireRequest, script: Script) -> AsyncIterator[Delta]:
        if script.purpose != "chat":
            answer = self._stage.answer(script)
            self._note(request, script, answer.sent)
            for delta in _said(answer):
                yield delta
            return
        acting = self._stage.acting(script.run)
        ask = acting.asks[acting.place] if acting.place < len(acting.asks) else None
        if ask is None and acting.stop is not None:
            await self._stage.stopped(acting.stop)
        acting.place += 1
        body = self._note(request, script, ask.sent if ask is not None else None)
        if ask is None:
            raise ProviderStreamBroken("The trace has no further answer: more was asked than then.")
        async for delta in self._recorded(ask, acting, body):
            yield delta
        if ask.step is not None:
            self._stage.spend(script.run, ask.step.ms)

    def _note(self, request: WireRequest, script: Script, sent: TraceSent | None) -> bytes:
        """Note the body of a request, with the markers that it had then."""
        if sent is not None:
            markers = tuple(Marker(marker.block, Ttl(marker.life), "as it was") for marker in sent.markers)
            request = replace(request, markers=markers)
        body = encode(self.body(request))
        self._stage.bodies[script.id].append(SentBody(body, sent))
        return body

    async def _recorded(self, ask: PlayedRequest, acting: PlayedRun, body: bytes) -> AsyncIterator[Delta]:
        """The deltas of a request that was made; raises what it ended with."""
        sent, step = ask.sent, ask.step or TraceStep()
        acting.step = ask.index
        _expect_calls(acting, step, self._stage)
        if sent.usage is not None:
            yield deltas.Opened(None, body)
            if sent.answer is not None:
                yield deltas.AnswerNamed(sent.answer)
            if not sent.usage.estimated:
                yield deltas.UsageReported(_usage(sent))
        for block, part in enumerate(step.parts):
            for delta in _part(block, part, cut=step.stop_reason == "max_tokens" and part is step.parts[-1]):
                yield delta
        stop = acting.stop
        if ask.step is not None and stop is not None and stop.step == ask.index and stop.during is None:
            await self._stage.stopped(stop)
        if sent.error is not None and (ended := _ENDED.get(sent.error.type)) is not None:
            yield deltas.Closed(ended)
        elif sent.error is not None:
            raise error_of(sent.error)
        else:
            yield deltas.Closed(StopReason(step.stop_reason or "end_turn"))


_ENDED = {
    "ProviderAnsweredNothing": StopReason.END_TURN,
    "ProviderRefusedAnswer": StopReason.REFUSAL,
    "OutputLimitReached": StopReason.MAX_TOKENS,
}
"""Failures that are seen only when an answer has ended, by how it ended."""


def error_of(error: TraceError) -> ProviderError:
    """The error that a provider gave."""
    kind = getattr(errors, error.type, None)
    if not (isinstance(kind, type) and issubclass(kind, ProviderError)):
        kind = ProviderStreamBroken
    made: ProviderError = kind(error.message, hint=error.hint, param=error.param)
    if isinstance(made, ProviderContextOverflow):
        made.counted, made.limit = figures_of(error.message)
    return made


def _usage(sent: TraceSent) -> Usage:
    """What a request was billed."""
    said = sent.usage
    if said is None:
        return Usage()
    return Usage(said.input, said.read, said.written_5m, said.written_1h, said.output, said.reasoning)


def _part(block: int, part: TracePart, *, cut: bool) -> Iterator[Delta]:
    """The deltas of a part; of a call that the limit of the output broke off (`cut`) the arguments never ended."""
    if part.text is not None:
        yield deltas.TextDelta(block, part.text)
    elif part.call is not None:
        yield deltas.ToolCallOpened(block, part.call.id, part.call.name)
        yield deltas.ToolArgsDelta(block, "{" if cut and part.call.written == "{}" else part.call.written)
    else:
        yield deltas.ReasoningDelta(block, part.reasoning or "")
        if part.signature is not None or part.redacted is not None:
            yield deltas.ReasoningSealed(block, part.signature, part.redacted)


def _said(answer: TraceAnswer) -> Iterator[Delta]:
    """The deltas of the answer to a side request. Raises the error that it ended with."""
    sent = answer.sent or TraceSent()
    if sent.usage is not None:
        yield deltas.Opened(None, b"")
        yield deltas.UsageReported(_usage(sent))
    if answer.text:
        yield deltas.TextDelta(0, answer.text)
    if answer.calls:
        yield deltas.ToolCallOpened(1, "call", "tool")
    if sent.error is not None:
        raise error_of(sent.error)
    yield deltas.Closed(StopReason(answer.stop_reason or "end_turn"))


def _expect_calls(acting: PlayedRun, step: TraceStep, playback: Playback) -> None:
    """How many calls of the step are answered before those that were interrupted are given up."""
    acting.open_calls = sum(not call.interrupted and call.name in playback.tools for call in step.calls)
    acting.answered.clear()
    if not acting.open_calls:
        acting.answered.set()


class ReplayedTool:
    """A tool of the trace: gives the recorded result."""

    timeout = 3600.0

    def __init__(self, tool: TraceTool, playback: Playback) -> None:
        self.spec = spec_of(tool)
        self.kind = ToolKind.SEARCH if tool.kind == "search" else ToolKind.OTHER
        self._stage = playback

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """See `Tool`."""
        acting, recorded = self._stage.call(call.id)
        if recorded.interrupted:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await acting.answered.wait()
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
            if acting.stop is None:
                raise ToolFailed("It was interrupted.")
            await self._stage.stopped(acting.stop)
        self._stage.clock.advance(recorded.ms / 1000)
        acting.open_calls -= 1
        if not acting.open_calls:
            acting.answered.set()
        if recorded.error is not None:
            raise ToolFailed(recorded.error)
        if recorded.expanded_queries or recorded.rich:
            return ToolOutput(recorded.result, tuple(recorded.expanded_queries), recorded.rich)
        return recorded.result


def told_step(step: TraceStep, model: str, id: str) -> Step:
    """A step that came with its turn: what was said, and the results of its calls."""
    parts = [_answer_part(part) for part in step.parts or short_form(step)]
    results = [_result(call) for call in step.calls if not call.interrupted and not call.handed]
    texts = [part.arguments if isinstance(part, ToolCall) else part.text for part in parts]
    return Step(
        id=id,
        model=model,
        parts=tuple(parts),
        stop_reason=StopReason(step.stop_reason or ("tool_calls" if step.calls else "end_turn")),
        made_after=step.made_after,
        tokens=sum(map(count_tokens, [*texts, *(result.content for result in results)])),
        reminder=step.reminder,
        results=tuple(results),
    )


def short_form(step: TraceStep) -> Iterator[TracePart]:
    """The parts of a step that has its text, thinking and calls in fields of their own."""
    if step.reasoning:
        yield TracePart(reasoning=step.reasoning if isinstance(step.reasoning, str) else step.reasoning.text)
    if step.text:
        yield TracePart(text=step.text)
    yield from (TracePart(call=call) for call in step.tool_calls)


def _answer_part(part: TracePart) -> AnswerPart:
    if part.text is not None:
        return Text(part.text)
    if part.call is not None:
        return ToolCall(part.call.id, part.call.name, part.call.written)
    return Reasoning(part.reasoning or "", part.signature, part.redacted)


def _result(call: TraceCall) -> ToolResult:
    failed = call.error is not None
    content = call.error if call.error is not None else call.result
    return ToolResult(call.id, call.name, content, failed, tuple(call.expanded_queries), call.rich)


def spec_of(tool: TraceTool) -> ToolSpec:
    """What a model is told of a tool."""
    return ToolSpec(tool.name, tool.description, tool.schema, tool.when_old)
