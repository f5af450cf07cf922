"""One Messages request, from its body to a decided answer: rules, thinking, cache, reply, draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.simulator.access import Call, content_fault, cut_of, pace_of, raise_early
from lamella.simulator.anthropic import markers, signature
from lamella.simulator.anthropic.encoder import MessageEncoder, full_usage
from lamella.simulator.anthropic.prompt import Sealer, build, has_image, salts, thinks
from lamella.simulator.anthropic.request import MessagesRequest, WireBlock, flatten
from lamella.simulator.blocks import Prefix
from lamella.simulator.cache import anthropic as cache
from lamella.simulator.cache.ledger import Outcome
from lamella.simulator.drafting import Limits, compose
from lamella.simulator.errors import invalid
from lamella.simulator.models import Model
from lamella.simulator.replies import Draft, Fault, Reply
from lamella.simulator.state import Simulator
from lamella.simulator.stream import Cut, Pace


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that is left to do is to write it out."""

    draft: Draft
    encoder: MessageEncoder
    pace: Pace
    chunk: int
    cut: Cut | None
    fault: Fault | None


def sealed_prefix(
    request: MessagesRequest, model: Model, account: str, blocks: Sequence[WireBlock], simulator: Simulator
) -> Prefix:
    placed = markers.place(blocks, request.cache_control, simulator.settings.max_markers)
    sealer = Sealer(simulator.counter, simulator.settings, model)
    salted = salts(request, model, account, has_image(blocks), simulator.settings)
    return build(request, blocks, placed, sealer, salted)


def check_window(prefix: Prefix, model: Model) -> None:
    if prefix.total > model.window:
        raise invalid(f"prompt is too long: {prefix.total} tokens > {model.window} maximum")


def answer(request: MessagesRequest, model: Model, call: Call, simulator: Simulator) -> Answer:
    blocks = flatten(request)
    prefix = sealed_prefix(request, model, call.account, blocks, simulator)
    check_window(prefix, model)
    reply = simulator.scripted(call.reply_id) or Reply(text="ok")
    fault = simulator.fault(call.reply_id, reply)
    raise_early(fault)
    outcome = cache.account(prefix, model.minimum, simulator.ledger, call.now, simulator.settings)
    pace = pace_of(reply, fault, call, simulator)
    simulator.ledger.commit(outcome, call.now, call.now + pace.first)
    simulator.spend(call.account, call.now, outcome.total - outcome.read)
    draft = make_draft(request, model, reply, fault, call, simulator)
    record(call, model, outcome, draft)
    encoder = MessageEncoder(
        simulator.identifier("msg_", call.record.serial), call.request_id, request.model, outcome, draft
    )
    chunk = reply.chunk or simulator.settings.chunk
    return Answer(draft, encoder, pace, chunk, cut_of(fault), fault)


def make_draft(
    request: MessagesRequest, model: Model, reply: Reply, fault: Fault | None, call: Call, simulator: Simulator
) -> Draft:
    settings = simulator.settings
    serial = simulator.identifier("", call.record.serial)
    factor = settings.token_factor or model.token_factor
    limits = Limits(factor, request.max_tokens, thinks(request, model), "toolu_", serial)

    def sign(text: str, tokens: int) -> str:
        seal = signature.Seal(call.account, model.id, "", "", serial, tokens, signature.fingerprint(text))
        return signature.sign(seal, settings.seed)

    name, when = content_fault(fault)
    return compose(reply, name, when, limits, sign)


def record(call: Call, model: Model, outcome: Outcome, draft: Draft) -> None:
    """Notes the bill of a request in the log."""
    usage = full_usage(outcome, draft.output_tokens)
    usage["output_tokens_details"] = {"thinking_tokens": draft.thinking_tokens}
    call.record.model = model.id
    call.record.usage = usage
    call.record.cost = model.prices.cost(
        outcome.fresh, outcome.read, outcome.written_short, outcome.written_long, draft.output_tokens
    )
