"""The summary of a client's messages: asked of the model that answers them, with the credentials of its route.

The question stands after the window that was sent last, so most of it is read from the cache. If there is no room for
it, the turns are sent as data, in pieces that fit. Each request is recorded on the line, with its bill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from lamella.agent.container import OpenStep, StepBirth
from lamella.agent.request import RequestIdentity, side_prompt, side_request, zones_of
from lamella.agent.side import SideAnswer
from lamella.cache.difference import CLIENT
from lamella.context.layouts import DEFAULT, LAYOUTS
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.errors import LamellaError, ProviderTimeout
from lamella.core.ids import Ids
from lamella.core.json import decode_object, encode
from lamella.core.messages import Text, ToolCall, Turn
from lamella.core.models import OFF, ModelFacts
from lamella.core.ports import ChatModel, OpenModel
from lamella.core.prompt import Sampling
from lamella.core.records import (
    Caller,
    NewRequest,
    RequestRecord,
    SideResponse,
    StoredBlock,
    StoredMarker,
)
from lamella.core.tokens import Usage
from lamella.gateway.answers import read_answer
from lamella.gateway.dialects import Dialect, effort_of, read
from lamella.gateway.exchange import MAX_COPY_BYTES, BlockWeights, Exchange
from lamella.sessions.summary import MAX_OUTPUT, SYSTEM, instruction, longest_in
from lamella.sessions.summary_check import Check
from lamella.sessions.summary_input import Piece, conversation, framed, results, text_of
from lamella.sessions.summary_models import (
    EXPECTED,
    FRAMES,
    TIMEOUT,
    DataModel,
    LiveModel,
    LiveRequest,
    SummaryRequest,
    answer_within,
    compared_with_turns,
)
from lamella.turns.services import RequestHeaders

PURPOSE = "summary"

_KEPT: Mapping[Dialect, tuple[str, ...]] = {
    Dialect.MESSAGES: ("model", "system", "tools", "thinking", "metadata", "messages"),
    Dialect.CHAT: ("model", "messages", "tools", "reasoning_effort", "prompt_cache_key", "service_tier"),
    Dialect.RESPONSES: (
        "model", "input", "instructions", "tools", "reasoning", "prompt_cache_key", "service_tier", "include",
    ),
}  # fmt: skip
"""Fields of a body that its summary is asked with: what is part of the cached prefix, and no form of the answer."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(slots=True)
class Asker:
    """Sends requests for summaries for one exchange, and keeps their records (`made`) until its line is known."""

    exchange: Exchange
    clock: Clock
    ids: Ids
    weigh: BlockWeights
    headers: RequestHeaders
    factor: float
    """The provider's tokens per local token."""
    made: list[NewRequest] = field(default_factory=list)

    async def ask(self, body: bytes, number: int) -> SideAnswer:
        """The answer to a body in the dialect of the exchange; a failure is in it."""
        route = self.exchange.route
        side = Exchange(
            self.exchange.caller, self.exchange.dialect, self.exchange.client, None, route, body, self.clock.now()
        )
        headers = {**self.exchange.forwarded, **self.headers("", PURPOSE, number)}
        try:
            async with asyncio.timeout(TIMEOUT), route.connection.send(route.path, body, headers) as reply:
                side.status, side.headers = reply.status, reply.headers
                async for data in reply.chunks:
                    side.size += len(data)
                    if side.size <= MAX_COPY_BYTES:
                        side.answer.append(data)
        except TimeoutError:
            side.error = ProviderTimeout(f"{route.model} did not end its summary in {TIMEOUT:.0f} seconds.")
        except LamellaError as error:
            side.error = error
        opened = OpenStep(StepBirth(self.ids.new("msg"), self.ids.new("req"), route.model, "", ""), set())
        failed = await asyncio.to_thread(read_answer, side, opened)
        parts = opened.parts()
        answer = SideAnswer(
            [part.text for part in parts if isinstance(part, Text)],
            opened.stop_reason,
            any(isinstance(part, ToolCall) for part in parts),
            opened.usage,
            side.headers.get("request-id") or side.headers.get("x-request-id"),
            failed,
        )
        self.made.append(await asyncio.to_thread(self._record, side, number, opened.birth.request_id, answer))
        return answer

    def _record(self, side: Exchange, number: int, id: str, answer: SideAnswer) -> NewRequest:
        window = read(side.dialect, decode_object(side.body), self.weigh)
        local = sum(segment.tokens for segment in window.segments)
        facts = side.route.facts
        record = RequestRecord(
            id=id,
            conversation_id="",
            turn_id="",
            step=number,
            purpose=PURPOSE,
            model=side.route.model,
            layout=CLIENT,
            marker_policy=CLIENT if window.markers else "off",
            thinking_effort=effort_of(window),
            at=side.at,
            head=window.head,
            letters=" ".join(segment.letters for segment in window.segments),
            segments=window.stored,
            zones=zones_of(window.segments),
            markers=tuple(StoredMarker(one.index, one.ttl.value, one.why) for one in window.markers),
            notes=(),
            protocol=side.dialect.value,
            local_tokens=local,
            estimate=round(local * self.factor),
            budget=facts.window,
            predicted_read=0,
            predicted_written=0,
            predicted_hit=None,
        )
        blocks = {b.digest: StoredBlock(b.digest, b.level, b.role, b.data) for b in window.blocks}
        return NewRequest(_ended(record, answer, facts), None, 0, tuple(blocks.values()))


def _ended(record: RequestRecord, answer: SideAnswer, facts: ModelFacts) -> RequestRecord:
    stop = answer.stop_reason.value if answer.stop_reason is not None else None
    return replace(
        record,
        provider_request_id=answer.provider_request_id,
        usage=answer.usage,
        cost=facts.cost(answer.usage),
        error=answer.error.as_dict() if answer.error is not None else None,
        said=SideResponse("".join(answer.text_parts), stop, answer.called_tools),
    )


@dataclass(frozen=True, slots=True)
class ClientSource:
    """The `SummarySource` of a client's messages: `turns`, of which those in `stubbed` are shown without results.

    `body` is the last request as it was sent, cut off before what is not to be read, `answer` what came after it, and
    `window` their local tokens. `most` are the local tokens that a window may have.
    """

    asker: Asker
    turns: Sequence[Turn]
    kept: Sequence[Turn]
    tokens: int
    room: int | None
    body: bytes
    answer: str
    window: int
    most: int
    stubbed: frozenset[str] = frozenset()
    focus: str = ""

    @property
    def longest(self) -> int:
        """See `SummarySource`."""
        return longest_in(self.most)

    @property
    def made_from(self) -> tuple[str, ...]:
        """See `SummarySource`."""
        return ()

    def live(self) -> LiveModel:
        """See `SummarySource`."""
        return _ClientWindow(self)

    def own(self) -> DataModel:
        """See `SummarySource`."""
        return _ClientModel(self.asker, self.most)

    def second(self, model: OpenModel) -> DataModel:
        """See `SummarySource`."""
        return _OtherModel(self.asker, model.model)

    def pieces(self) -> tuple[Piece, ...]:
        """See `SummarySource`."""
        return conversation(self.turns, dated=False)

    def check(self, text: str) -> Check:
        """See `SummarySource`."""
        return compared_with_turns(text, self.turns, self.kept, [self.body.decode("utf-8", "replace"), self.answer])

    async def spent(self, caller: Caller, usage: Usage) -> None:
        """See `SummarySource`. The requests are recorded with their bills in any case."""


@dataclass(frozen=True, slots=True)
class _ClientWindow:
    """The model that answers the client, at the end of the window that it got last."""

    source: ClientSource

    async def prepared(self, request: SummaryRequest) -> LiveRequest | None:
        """See `LiveModel`."""
        source, stubbed = self.source, self.source.stubbed
        shown = [(turn, step, one) for turn in request.turns for step in turn.steps for one in step.results]
        gone = text_of(results([one for one in shown if one[1].id in stubbed]))
        text = instruction(request.turns, request.wanted, material=gone, stays=bool(request.kept), room=source.most)
        tokens = source.window + count_tokens(text)
        if tokens > source.most:
            return None
        dialect = source.asker.exchange.dialect
        body = await asyncio.to_thread(summary_body, source.body, dialect, source.answer, text)
        return _ClientRequest(source.asker, body, tokens, request.number)


@dataclass(frozen=True, slots=True)
class _ClientRequest:
    """A `LiveRequest` in a client's dialect."""

    asker: Asker
    body: bytes
    tokens: int
    number: int

    @property
    def cost(self) -> float:
        """See `LiveRequest`. Most of the window is read from the cache."""
        input = int(self.tokens * self.asker.factor)
        bill = Usage(input, input, 0, 0, int(EXPECTED * self.asker.factor))
        return self.asker.exchange.route.facts.cost(bill)

    async def ask(self, caller: Caller) -> SideAnswer:
        """See `LiveRequest`."""
        return await self.asker.ask(self.body, self.number)


@dataclass(frozen=True, slots=True)
class _ClientModel:
    """The model that answers the client, which reads turns as data."""

    asker: Asker
    most: int

    @property
    def name(self) -> str:
        """See `DataModel`."""
        return self.asker.exchange.route.model

    @property
    def room(self) -> int:
        """See `DataModel`."""
        return self.most - count_tokens(SYSTEM) - FRAMES

    def cost(self, tokens: int) -> float:
        """See `DataModel`."""
        factor = self.asker.factor
        return self.asker.exchange.route.facts.cost(Usage(input=int(tokens * factor), output=int(EXPECTED * factor)))

    async def ask(self, caller: Caller, data: str, order: str, last: Turn, number: int) -> SideAnswer:
        """See `DataModel`."""
        route, dialect = self.asker.exchange.route, self.asker.exchange.dialect
        text = f"{framed('conversation', data)}\n\n{order}"
        return await self.asker.ask(data_body(dialect, route.model, text, route.facts), number)


@dataclass(frozen=True, slots=True)
class _OtherModel:
    """Another model that reads turns as data."""

    asker: Asker
    model: ChatModel

    @property
    def name(self) -> str:
        """See `DataModel`."""
        return self.model.facts.name

    @property
    def _budget(self) -> int:
        return self.model.facts.window - min(MAX_OUTPUT, self.model.facts.max_output)

    @property
    def room(self) -> int:
        """See `DataModel`."""
        return int(self._budget / 1.1 / self.model.facts.token_factor) - count_tokens(SYSTEM) - FRAMES

    def cost(self, tokens: int) -> float:
        """See `DataModel`."""
        factor = self.model.facts.token_factor
        return self.model.facts.cost(Usage(input=int(tokens * factor), output=int(EXPECTED * factor)))

    async def ask(self, caller: Caller, data: str, order: str, last: Turn, number: int) -> SideAnswer:
        """See `DataModel`."""
        facts, asker = self.model.facts, self.asker
        text = f"{framed('conversation', data)}\n\n{order}"
        prompt = side_prompt(facts.name, SYSTEM, text, Sampling(min(MAX_OUTPUT, facts.max_output)))
        identity = RequestIdentity(asker.ids.new("req"), "", "", number, PURPOSE, asker.clock.now())
        request, stored = side_request(self.model, prompt, identity, LAYOUTS[DEFAULT], self._budget, facts.token_factor)
        answer = await answer_within(asker.clock, self.model, request, asker.headers("", PURPOSE, number))
        asker.made.append(replace(stored, record=_ended(stored.record, answer, facts)))
        return answer


# Bodies


def summary_body(body: bytes, dialect: Dialect, answer: str, text: str) -> bytes:
    """The request for a summary after a window: what is cached of it keeps its bytes."""
    fields = _fields.decode(body)
    name = "input" if dialect is Dialect.RESPONSES else "messages"
    kept = {one: fields[one] for one in fields if one in _KEPT[dialect]}
    said = [_said(dialect, "assistant", answer)] if answer.strip() else []
    added = [msgspec.Raw(encode(one)) for one in (*said, _said(dialect, "user", text))]
    kept[name] = msgspec.Raw(msgspec.json.encode([*_items.decode(fields[name]), *added]))
    effort = _effort(fields.get("output_config"))
    if effort is not None and dialect is Dialect.MESSAGES:
        kept["output_config"] = effort
    return msgspec.json.encode({**kept, **_limits(dialect, fields)})


def data_body(dialect: Dialect, model: str, text: str, facts: ModelFacts) -> bytes:
    """The request for a summary of data."""
    system = {"system": SYSTEM} if dialect is Dialect.MESSAGES else {"instructions": SYSTEM}
    first = [{"role": "system", "content": SYSTEM}] if dialect is Dialect.CHAT else []
    said: dict[str, Any] = {
        "model": model,
        ("input" if dialect is Dialect.RESPONSES else "messages"): [*first, _said(dialect, "user", text)],
    }
    return encode({**said, **({} if first else system), **_limits(dialect, {})})


def cut_off(body: bytes, dialect: Dialect, messages: int) -> bytes:
    """The body without its last `messages` messages."""
    fields = _fields.decode(body)
    name = "input" if dialect is Dialect.RESPONSES else "messages"
    items = _items.decode(fields[name])
    fields[name] = msgspec.Raw(msgspec.json.encode(items[: len(items) - messages]))
    return msgspec.json.encode(fields)


def _said(dialect: Dialect, role: str, text: str) -> dict[str, Any]:
    if dialect is Dialect.RESPONSES:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"role": role, "content": text}


def _limits(dialect: Dialect, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """The fields that say how long the answer may be and how it comes. One that thinks needs the room of its client."""
    if dialect is Dialect.MESSAGES:
        thinks = "thinking" in fields or "output_config" in fields
        given = _number(fields.get("max_tokens")) if thinks else 0
        return {"max_tokens": max(MAX_OUTPUT, given), "stream": True}
    if dialect is Dialect.CHAT:
        name = "max_tokens" if "max_tokens" in fields else "max_completion_tokens"
        given = _number(fields.get(name)) if "reasoning_effort" in fields else 0
        return {name: max(MAX_OUTPUT, given), "stream": True, "stream_options": {"include_usage": True}}
    given = _number(fields.get("max_output_tokens")) if "reasoning" in fields else 0
    return {"max_output_tokens": max(MAX_OUTPUT, given), "store": False, "stream": True}


def _number(value: msgspec.Raw | None) -> int:
    found = msgspec.json.decode(value) if value is not None else 0
    return found if isinstance(found, int) else 0


def _effort(value: msgspec.Raw | None) -> msgspec.Raw | None:
    """The effort of an `output_config`, without the form of the answer."""
    found = msgspec.json.decode(value) if value is not None else None
    if not isinstance(found, dict) or found.get("effort") in (None, OFF):
        return None
    return msgspec.Raw(msgspec.json.encode({"effort": found["effort"]}))
