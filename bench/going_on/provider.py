"""A provider that counts as it likes, takes what it takes, and refuses what is more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lamella.core import deltas
from lamella.core.counting import count_tokens
from lamella.core.errors import ProviderContextOverflow, ProviderRefusedRequest, ProviderUnreachable
from lamella.core.messages import StopReason, ToolCall
from lamella.core.models import ModelFacts
from lamella.core.ports import OpenModel
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.failures import of_status
from lamella.llm.scripted import FACTS, ReplayEvent, ScriptedModel, ScriptedModels, calling
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope

OUTPUT = 500
PIECES = {
    "english": "The harbour master wrote down every ship that came in, its cargo, its crew and its port of call. ",
    "chinese": "昨天下午，城市图书馆公布了新的开放时间：周末也从上午九点开到晚上八点，读者可以在网上预订座位。",
    "capitals": "WARNING CONTAINER QZXW EXCEEDS LIMIT KJHGF AND WAS MOVED TO STORAGE AREA NORTH. ",
    "hindi": "कल दोपहर शहर के पुस्तकालय ने नए समय की घोषणा की और सप्ताहांत में भी खुला रहेगा। ",
    "log": "2026-11-02T10:11:12.345Z host-17 req=9f31c2ab status=503 ms=2231 /api/v2/items/88213?x=a%20b\n",
    "json": '{"id": "b7e1-44f0", "values": [12.25, 88.1, -3], "ok": true, "path": "/srv/data/x_17.bin"}, ',
    "russian": "Вчера днём городская библиотека объявила о новых часах работы: и в выходные она открыта. ",
}
SUMMARISES = re.compile(rb"Summarise this conversation now|You summarise conversations|summar\w+ of its parts", re.I)


def text_of(kind: str, size: int) -> str:
    """So many characters of one kind."""
    piece = PIECES[kind]
    return (piece * (size // len(piece) + 1))[:size]


class Pile:
    """A tool whose results are as long as one asks for."""

    spec = ToolSpec("pile", "Gives a text.", '{"type":"object","properties":{"kind":{},"size":{}}}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> ToolOutput:
        """See `Tool`."""
        return ToolOutput(text_of(str(call.arguments["kind"]), int(str(call.arguments["size"]))))


@dataclass(frozen=True, slots=True)
class Manners:
    """How a provider is: tokens of its `window`; what it counts for a local token; whether it can be asked for a count;
    whether it refuses the first answer whatever its size, and with which figures; and how its summaries come out."""

    window: int
    error: float = 1.0
    counts: bool = True
    refuses: str = ""
    summaries: str = "good"


class Picky(ScriptedModel):
    """A `ChatModel` with manners."""

    def __init__(self, name: str, manners: Manners) -> None:
        facts = replace(FACTS, name=name, window=manners.window, max_output=OUTPUT)
        super().__init__((), facts, counting=self.tokens if manners.counts else None)
        self.manners = manners
        self.calls = 0
        """How many more calls it makes before it answers."""
        self.arguments = ""
        self.refused = 0
        self.summaries = 0

    def tokens(self, request: WireRequest) -> int:
        """What it counts in a request."""
        return int(sum(count_tokens(block.data.decode("utf-8", "replace")) for block in request.blocks) * self._error)

    @property
    def _error(self) -> float:
        return self.manners.error

    def _next(self, request: WireRequest) -> Iterator[ReplayEvent]:
        return iter(self._answer(request))

    def _answer(self, request: WireRequest) -> Sequence[ReplayEvent]:
        size, room = self.tokens(request), self.manners.window - OUTPUT
        summarises = bool(SUMMARISES.search(b"".join(block.data for block in request.blocks[-1:] + request.blocks[:2])))
        if size > room:
            return [self._too_long(f"prompt is too long: {size} tokens > {room} maximum")]
        if summarises:
            self.summaries += 1
            return self._summary(size)
        if self.manners.refuses and not self.refused:
            return [self._too_long(self.manners.refuses.format(size=size, less=int(size * 0.7)))]
        if self.calls:
            self.calls -= 1
            return calling(ToolCall(f"c{self.calls}", "pile", self.arguments))
        return _said("Hello.", size)

    def _too_long(self, said: str) -> ProviderContextOverflow:
        self.refused += 1
        error = of_status("It", 400, said, "KEY", None)
        assert isinstance(error, ProviderContextOverflow), said
        return error

    def _summary(self, size: int) -> Sequence[ReplayEvent]:
        match self.manners.summaries:
            case "down":
                return [ProviderUnreachable("It can't be reached.")]
            case "refused":
                return [ProviderRefusedRequest("It does not summarise.")]
            case "empty":
                return _said("", size)
            case "endless":
                return _said("words " * 6_000, size)
            case _:
                return _said("# Facts\nThey talked about ships and figures.", size)


def _said(text: str, size: int) -> Sequence[ReplayEvent]:
    usage = deltas.UsageReported(Usage(input=size, output=10))
    return [deltas.TextDelta(0, text), usage, deltas.Closed(StopReason.END_TURN)]


class Providers(ScriptedModels):
    """One generous model, and others as they are made."""

    def __init__(self) -> None:
        self.generous = Picky("generous", Manners(10_000_000))
        super().__init__(self.generous)

    def make(self, name: str, manners: Manners) -> Picky:
        """A model of this name."""
        made = self._models[name] = Picky(name, manners)
        return made

    def facts(self, name: str) -> ModelFacts:
        """See `ScriptedModels`."""
        return self.model(name).facts

    async def open(self, name: str) -> OpenModel:
        """Each model has an account of its own: what one case teaches is nothing to the next."""
        return OpenModel(self.model(name), name)
