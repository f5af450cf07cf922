"""The simulator as a judge of generated requests: called directly, since a socket would only cost time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lamella.core.json import JsonObject, decode_arguments, encode
from lamella.core.messages import AnswerPart, Reasoning, Text, ToolCall
from lamella.core.tokens import Usage
from lamella.llm.responses_wire import ReasoningSeal
from lamella_simulator.access import Call
from lamella_simulator.anthropic.exchange import MessagesExchange
from lamella_simulator.anthropic.thinking import BETA
from lamella_simulator.openai.exchange import ChatExchange
from lamella_simulator.replies import Part, Reply
from lamella_simulator.replies import ToolCall as ScriptedCall
from lamella_simulator.responses.exchange import ResponsesExchange
from lamella_simulator.settings import Settings
from lamella_simulator.state import Simulator

ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the provider made of a request. `sums[i]` are the tokens up to block i as the provider splits the prompt."""

    usage: Usage
    sums: tuple[int, ...]
    parts: tuple[AnswerPart, ...]


class Judge:
    """One provider with its cache. Raises the simulator's `ProviderError` for what the vendor would refuse."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._simulator = Simulator(settings or Settings())

    def send(self, wire: str, body: JsonObject, now: datetime, said: tuple[AnswerPart, ...]) -> Judged:
        """The request `body` at `now`; `said` is what the model is to say."""
        data = encode(body)
        record = self._simulator.open_record(wire, "", data, now.timestamp(), "r")
        thinking: Any = body.get("thinking", {})
        betas = frozenset({BETA}) if "block_binding" in thinking else frozenset()
        call = Call(data, ACCOUNT, record.at, record, "req", "r", 0.0, betas)
        self._simulator.script({"r": reply_of(said)})
        return {"anthropic": self._messages, "openai": self._chat, "responses": self._responses}[wire](call)

    def _messages(self, call: Call) -> Judged:
        exchange = MessagesExchange(call, self._simulator)
        answer = exchange.answer()
        told = answer.encoder.usage
        written, read = told["cache_creation"], told["cache_read_input_tokens"]
        short, long = written["ephemeral_5m_input_tokens"], written["ephemeral_1h_input_tokens"]
        usage = Usage(
            input=told["input_tokens"] + read + short + long,
            cache_read=read,
            cache_write_5m=short,
            cache_write_1h=long,
        )
        return Judged(usage, exchange.prefix.sums, tuple(part_of(part) for part in answer.draft.parts))

    def _chat(self, call: Call) -> Judged:
        exchange = ChatExchange(call, self._simulator)
        answer = exchange.answer()
        told = answer.encoder.usage
        details = told["prompt_tokens_details"]
        usage = Usage(
            input=told["prompt_tokens"],
            cache_read=details["cached_tokens"],
            cache_write_5m=details.get("cache_write_tokens", 0),
        )
        shown = (part_of(part) for part in answer.draft.parts if part.kind != "thinking")
        return Judged(usage, exchange.prefix.sums, tuple(shown))

    def _responses(self, call: Call) -> Judged:
        exchange = ResponsesExchange(call, self._simulator)
        answer = exchange.answer()
        told = answer.encoder.usage
        details = told["input_tokens_details"]
        usage = Usage(
            input=told["input_tokens"],
            cache_read=details["cached_tokens"],
            cache_write_5m=details["cache_write_tokens"],
        )
        id = exchange.ids.reasoning
        return Judged(usage, exchange.prefix.sums, tuple(item_of(part, id) for part in answer.draft.parts))


def reply_of(said: tuple[AnswerPart, ...]) -> Reply:
    """A script of the simulator: one thought, one text, the calls."""
    thoughts = [part.text for part in said if isinstance(part, Reasoning)]
    return Reply(
        text="".join(part.text for part in said if isinstance(part, Text)),
        reasoning=" ".join(thoughts) if thoughts else None,
        tool_calls=tuple(
            ScriptedCall(part.name, part.id, decode_arguments(part.arguments))
            for part in said
            if isinstance(part, ToolCall)
        ),
    )


def part_of(part: Part) -> AnswerPart:
    """What the engine keeps of a block of the answer."""
    if part.call is not None:
        return ToolCall(part.call.id, part.call.name, part.text)
    return Reasoning(part.text, part.signature) if part.kind == "thinking" else Text(part.text)


def item_of(part: Part, id: str) -> AnswerPart:
    """As `part_of`, with reasoning as the Responses adapter keeps it: as one part of a summary."""
    if part.kind != "thinking":
        return part_of(part)
    return Reasoning(part.text, ReasoningSeal(id, (len(part.text),)).text(), part.signature)
