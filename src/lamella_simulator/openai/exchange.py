"""One Chat Completions request, from its body to a decided answer: rules, cache, reply, draft."""

from __future__ import annotations

from typing import Protocol

from lamella_simulator.access import Call, content_fault, cut_of, pace_of
from lamella_simulator.blocks import Prefix
from lamella_simulator.cache import openai as cache
from lamella_simulator.cache import steps
from lamella_simulator.cache.ledger import Ledger, Outcome
from lamella_simulator.drafting import Limits, compose
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.openai import prompt
from lamella_simulator.openai.encoder import ChatEncoder, usage_of
from lamella_simulator.openai.images import check_images
from lamella_simulator.openai.listening import conversation
from lamella_simulator.openai.request import CacheOptions, ChatRequest
from lamella_simulator.replies import Draft, Fault, Reply
from lamella_simulator.scripting import Scripted, scripted
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer

DAY = 86_400
WARMED = Draft((), "end_turn", 0)
"""What is said to a request that only fills the cache."""


def prewarms(options: CacheOptions | None) -> bool:
    return options is not None and options.prewarm


def answer(request: ChatRequest, model: Model, call: Call, simulator: Simulator) -> Answer[ChatEncoder]:
    settings, pictures = simulator.settings, simulator.pictures
    check_images(request, model, pictures, settings.most_images)
    prefix = prompt.build(request, model, call.account, simulator.counter, pictures, settings)
    if prefix.total > model.window:
        raise invalid(
            f"This model's maximum context length is {model.window} tokens. However, your messages resulted in "
            f"{prefix.total} tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        )
    asked = scripted(call, simulator, lambda: conversation(request))
    reply, fault = asked.reply, asked.fault
    outcome = account(request, prefix, model, call, asked, simulator)
    pace = pace_of(reply, fault, call, simulator)
    if not asked.suffers("drop_before"):
        simulator.commit(outcome, call.now, call.now + pace.first)
    simulator.spend(call.account, call.now, outcome.total)
    draft = make_draft(request, model, reply, fault, call, simulator)
    usage = usage_of(outcome, draft, writes_shown=model.cache_rules == "blocks")
    call.record.model, call.record.usage = model.id, usage
    call.record.cost = simulator.cost(model, outcome, draft.output_tokens)
    call.record.note(prefix, outcome)
    call.record.bill(outcome, draft.output_tokens)
    encoder = ChatEncoder(
        id=simulator.identifier("chatcmpl-", call.record.serial),
        created=int(call.now),
        model=request.model,
        draft=draft,
        usage=usage,
        include_usage=request.stream_options is not None and request.stream_options.include_usage,
        show_reasoning=simulator.settings.openai_reasoning_content,
    )
    chunk = reply.chunk or simulator.settings.chunk
    return Answer(draft, encoder, pace, chunk, cut_of(fault), fault, streams=request.stream)


class Cached(Protocol):
    """What a request of either of the vendor's APIs says of caching."""

    @property
    def prompt_cache_key(self) -> str | None: ...

    @property
    def prompt_cache_options(self) -> CacheOptions | None: ...

    @property
    def prompt_cache_retention(self) -> str | None: ...


def account(
    request: Cached, prefix: Prefix, model: Model, call: Call, asked: Scripted, simulator: Simulator
) -> Outcome:
    """Which family of cache rules applies, with the lives the request asks for."""
    settings, ledger = simulator.settings, simulator.readable(asked.fault)
    if settings.engine != "off":
        return simulator.engine.account(prefix, settings, cold=asked.suffers("cold_cache"))
    if model.cache_rules == "tokens":
        idle = DAY if request.prompt_cache_retention == "24h" else settings.legacy_idle_seconds
        if simulator.busy(f"{call.account}|{model.id}|{request.prompt_cache_key or ''}", call.now):
            ledger = Ledger()
        rules = steps.StepRules(model.minimum, model.token_step, model.idle_seconds or idle)
        return steps.account(prefix, rules, ledger, call.now)
    options = request.prompt_cache_options
    return cache.account(
        prefix,
        implicit=options is None or options.mode == "implicit",
        seconds=prompt.LIVES[options.ttl if options is not None else "30m"],
        ledger=ledger,
        now=call.now,
        settings=settings,
    )


def make_draft(
    request: ChatRequest, model: Model, reply: Reply, fault: Fault | None, call: Call, simulator: Simulator
) -> Draft:
    factor = simulator.settings.token_factor or model.token_factor
    limit = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    serial = simulator.identifier("", call.record.serial)
    stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    limits = Limits(factor, limit, thinks(request, model), "call_", serial, stops=stops)
    if prewarms(request.prompt_cache_options):
        return WARMED
    name, when = content_fault(fault)
    return compose(reply, name, when, limits, lambda text, tokens: "")


def thinks(request: ChatRequest, model: Model) -> bool:
    """Models that reason by default do so unless told not to; the demonstration model only when asked."""
    if model.thinking == "off":
        return request.reasoning_effort not in (None, "none")
    return request.reasoning_effort != "none"
