"""The exchange of Chat Completions, and what it shares with Responses: OpenAI's families of cache rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from lamella_simulator.access import Call
from lamella_simulator.answerer.conversation import Called, Conversation, PastMessage, Piece
from lamella_simulator.blocks import Json, Prefix
from lamella_simulator.cache import openai as cache
from lamella_simulator.cache.ledger import Ledger, Outcome
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.exchange import Decided, Exchange
from lamella_simulator.models import MODELS, Model
from lamella_simulator.openai.encoder import ChatEncoder, usage_of
from lamella_simulator.openai.prompt import LIVES, build
from lamella_simulator.openai.request import (
    ChatMessage,
    ChatRequest,
    OpenAIRequest,
    callable_names,
    check_images,
    parse,
    parts_of,
)
from lamella_simulator.openai.validation import known_model, validate
from lamella_simulator.replies import Draft, Limits
from lamella_simulator.state import Simulator

DAY = 86_400
RELEASED = 1_767_225_600
WARMED = Draft((), "end_turn", 0)
"""What is said to a request that only fills the cache."""
RequestT = TypeVar("RequestT", bound=OpenAIRequest)


class OpenAIExchange(Exchange[RequestT]):
    """What both of the vendor's APIs do alike."""

    def find_model(self) -> Model:
        return known_model(self.request.model)

    @property
    @abstractmethod
    def thinks(self) -> bool: ...

    @property
    def shows_writes(self) -> bool:
        """Models whose writes are free tell of reads alone."""
        return self.model.cache_rules == "blocks"

    def account(self, prefix: Prefix, ledger: Ledger) -> Outcome:
        """Which family of cache rules applies, with the lives the request asks for."""
        request, model, call, settings = self.request, self.model, self.call, self.settings
        if model.cache_rules == "tokens":
            idle = DAY if request.prompt_cache_retention == "24h" else settings.legacy_idle_seconds
            if self.simulator.busy(f"{call.account}|{model.id}|{request.prompt_cache_key or ''}", call.now):
                ledger = Ledger()
            rules = cache.StepRules(model.minimum, model.token_step, model.idle_seconds or idle)
            return cache.account_steps(prefix, rules, ledger, call.now)
        options = request.prompt_cache_options
        return cache.account(
            prefix,
            implicit=options is None or options.mode == "implicit",
            seconds=LIVES[request.cache_ttl],
            ledger=ledger,
            now=call.now,
            settings=settings,
        )

    def draft(self) -> Draft:
        return WARMED if self.request.prewarms else super().draft()


class ChatExchange(OpenAIExchange[ChatRequest]):
    """POST /v1/chat/completions"""

    def parse(self, body: bytes) -> ChatRequest:
        return parse(body, ChatRequest)

    def check(self) -> None:
        validate(self.request, self.model)
        check_images(self.request, self.model, self.simulator.pictures, self.settings.most_images)

    def prompt(self) -> Prefix:
        return build(self.request, self.model, self.call.account, self.simulator)

    def too_long(self) -> ProviderError:
        return invalid(
            f"This model's maximum context length is {self.model.window} tokens. However, your messages resulted in "
            f"{self.prefix.total} tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        )

    def conversation(self) -> Conversation:
        names = callable_names(self.request.tool_choice, self.request.tools)
        return Conversation(tuple(p for message in self.request.messages for p in pieces(message)), names)

    @property
    def thinks(self) -> bool:
        """Models that reason by default do so unless told not to; the demonstration model only when asked."""
        if self.model.thinking == "off":
            return self.request.reasoning_effort not in (None, "none")
        return self.request.reasoning_effort != "none"

    def limits(self) -> Limits:
        request = self.request
        limit = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
        stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
        return Limits(self.factor, limit, self.thinks, "call_", self.named(""), stops=stops)

    def encoder(self, decided: Decided) -> ChatEncoder:
        options = self.request.stream_options
        return ChatEncoder(
            id=self.named("chatcmpl-"),
            created=int(self.call.now),
            model=self.request.model,
            draft=decided.draft,
            usage=usage_of(decided.outcome, decided.draft, writes_shown=self.shows_writes),
            include_usage=options is not None and options.include_usage,
            show_reasoning=self.settings.openai_reasoning_content,
        )


def list_models(_call: Call, _simulator: Simulator) -> Json:
    """GET /v1/models, as OpenAI answers it."""
    rows = [
        {"id": model.id, "object": "model", "created": RELEASED, "owned_by": "lamella-simulator"}
        for model in MODELS
        if {"openai", "embeddings"} & set(model.wires)
    ]
    return {"object": "list", "data": rows}


def pieces(message: ChatMessage) -> Iterator[Piece]:
    """The texts and calls of a message, for the answerer."""
    for _, part in parts_of(message):
        if part.get("type") == "function":
            function = part.get("function", {})
            yield Called(str(function.get("name", "")), arguments_of(function.get("arguments")))
        elif part.get("type") == "text":
            text = str(part.get("text", ""))
            match message.role:
                case "user":
                    yield PastMessage("user", text)
                case "assistant":
                    yield PastMessage("assistant", text)
                case "tool":
                    yield PastMessage("tool", text)
                case _:
                    yield PastMessage("system", text)


def arguments_of(text: Any) -> dict[str, Any]:
    """The arguments of an earlier call; a broken one has none."""
    try:
        return msgspec.json.decode(str(text), type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
