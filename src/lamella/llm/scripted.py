"""A model that follows a script: the fake for tests and demonstrations that need every delta in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lamella.core import deltas
from lamella.core.caching import Ttl
from lamella.core.clock import Clock, SystemClock
from lamella.core.deltas import Delta
from lamella.core.errors import InvalidRequest, LamellaError, ProviderRefusedRequest, ProviderStreamBroken
from lamella.core.json import Json, decode_object, encode
from lamella.core.messages import StopReason, ToolCall
from lamella.core.models import Markers, ModelFacts, Price
from lamella.core.ports import OpenModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.anthropic_wire import blocks_of, body_of
from lamella.llm.fields import ANTHROPIC_FIELD
from lamella.llm.wire_blocks import randomness, wire_segments

FACTS = ModelFacts(
    name="scripted",
    provider="anthropic",
    window=200_000,
    max_output=16_000,
    min_cacheable=1024,
    price=Price(input=1, output=5, read=0.1, write_5m=1.25, write_1h=2),
    markers=Markers.ANTHROPIC,
    lives=(Ttl.FIVE_MINUTES, Ttl.ONE_HOUR),
)


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause of so many seconds."""

    seconds: float


class Gate:
    """A pause until a test opens the gate; `reached` is set when the model arrives."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def passed(self) -> None:
        """Wait until it is open."""
        self.reached.set()
        await self.opened.wait()


ReplayEvent = Delta | Wait | Gate | LamellaError
"""What a step of a script is made of; an error is raised in its place."""


def saying(*pieces: str, usage: Usage | None = None) -> list[ReplayEvent]:
    """An answer in these pieces, billed and closed."""
    texts = [deltas.TextDelta(0, piece) for piece in pieces]
    return [*texts, deltas.UsageReported(usage or Usage(input=100, output=10)), deltas.Closed(StopReason.END_TURN)]


def calling(*calls: ToolCall, text: str = "", usage: Usage | None = None) -> list[ReplayEvent]:
    """Some words, then calls of tools."""
    made: list[ReplayEvent] = [deltas.TextDelta(0, text)] if text else []
    for block, call in enumerate(calls, start=1):
        made += [deltas.ToolCallOpened(block, call.id, call.name), deltas.ToolArgsDelta(block, call.arguments)]
    return [*made, deltas.UsageReported(usage or Usage(input=100, output=10)), deltas.Closed(StopReason.TOOL_CALLS)]


class ScriptedModel:
    """A `ChatModel` that plays one step of its script for each request, on Anthropic's wire, without a network.

    `requests` are those that it received; `left` counts streams closed early. `counting` is its counting endpoint,
    `counted` the requests that it counted; without one every count is refused.
    """

    def __init__(
        self,
        steps: Iterable[Sequence[ReplayEvent]] = (),
        facts: ModelFacts = FACTS,
        clock: Clock | None = None,
        counting: Callable[[WireRequest], int] | None = None,
    ) -> None:
        self.facts = facts
        self.requests: list[WireRequest] = []
        self.counted: list[WireRequest] = []
        self.left = 0
        self._counting = counting
        self._steps: list[Sequence[ReplayEvent] | Callable[[WireRequest], Sequence[ReplayEvent]]] = list(steps)
        self._clock = clock or SystemClock()

    def then(self, *steps: Sequence[ReplayEvent]) -> None:
        """Add to the script."""
        self._steps += steps

    def then_from(self, answer: Callable[[WireRequest], Sequence[ReplayEvent]]) -> None:
        """Add a step that is made of the request that it answers."""
        self._steps.append(answer)

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel.wire`."""
        return wire_segments(prompt.segments, blocks_of, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel.request`."""
        head: dict[str, Json] = {"model": prompt.model, "max_tokens": prompt.sampling.max_output, "stream": True}
        if self.facts.diagnoses and prompt.sampling.compared_with is not None:
            head[ANTHROPIC_FIELD] = {"previous_message_id": prompt.sampling.compared_with}
        head |= randomness(prompt.sampling)
        if prompt.sampling.schema:
            head["output_config"] = {"format": decode_object(prompt.sampling.schema)}
        if prompt.sampling.tool_choice != "auto":
            head["tool_choice"] = {"type": prompt.sampling.tool_choice}
        return WireRequest(head, blocks, tuple(markers), prompt.made_from)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`."""
        return {"messages": sampling.tool_choice} if sampling.tool_choice == "none" else {}

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return body_of(request)

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`. The provider began to answer when the first delta comes.

        As with a socket, other tasks run between two deltas.
        """
        self.requests.append(request)
        steps = self._next(request)
        began = ended = False
        try:
            for happening in steps:
                if isinstance(happening, Wait):
                    await self._clock.sleep(happening.seconds)
                elif isinstance(happening, Gate):
                    await happening.passed()
                elif isinstance(happening, LamellaError):
                    ended = True
                    raise happening
                else:
                    if not began:
                        began = True
                        yield deltas.Opened(f"scripted_{len(self.requests)}", encode(self.body(request)))
                    ended = ended or isinstance(happening, deltas.Closed)
                    await asyncio.sleep(0)
                    yield happening
            if not ended:
                ended = True
                raise ProviderStreamBroken("The script ended before the message did.")
        finally:
            self.left += not ended

    def _next(self, request: WireRequest) -> Iterator[ReplayEvent]:
        if not self._steps:
            raise ProviderRefusedRequest("The script has no step for this request.")
        step = self._steps.pop(0)
        return iter(step(request) if callable(step) else step)

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel.count`."""
        self.counted.append(request)
        if self._counting is None:
            raise ProviderRefusedRequest("The script has no count for this request.")
        return self._counting(request)

    async def close(self) -> None:
        """Nothing to let go."""


class ScriptedModels:
    """Scripted models by name; the first is the default."""

    is_demonstration = False

    def __init__(self, *models: ScriptedModel) -> None:
        self._models = {model.facts.name: model for model in models}
        self.default = models[0].facts.name

    def model(self, name: str) -> ScriptedModel:
        """The model of this name. Raises `InvalidRequest` if there is none."""
        if name not in self._models:
            raise InvalidRequest(f"No configured provider serves the model “{name}”.", param="model")
        return self._models[name]

    def facts(self, name: str) -> ModelFacts:
        """The facts of a model."""
        return self.model(name).facts

    def names(self) -> tuple[str, ...]:
        """The models to choose from."""
        return tuple(self._models)

    async def open(self, name: str) -> OpenModel:
        """See `ModelSource.open`."""
        return OpenModel(self.model(name), "scripted")

    async def open_silent(self, name: str) -> OpenModel:
        """The same: a script logs nothing."""
        return await self.open(name)

    async def warm(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to end."""
