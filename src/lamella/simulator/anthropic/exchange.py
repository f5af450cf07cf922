"""One Messages request, from its body to a decided answer: rules, thinking, cache, reply, draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.simulator.access import Call, content_fault, cut_of, pace_of, raise_early
from lamella.simulator.answerer.speaking import speak
from lamella.simulator.anthropic import markers, signature, thinking
from lamella.simulator.anthropic.encoder import MessageEncoder, full_usage
from lamella.simulator.anthropic.history import check_history
from lamella.simulator.anthropic.images import check_images
from lamella.simulator.anthropic.listening import conversation
from lamella.simulator.anthropic.prompt import Sealer, build, has_image, salts, thinks
from lamella.simulator.anthropic.request import MessagesRequest, WireBlock, flatten
from lamella.simulator.anthropic.validation import check_parameters
from lamella.simulator.blocks import Prefix
from lamella.simulator.cache import anthropic as cache
from lamella.simulator.cache.ledger import Outcome
from lamella.simulator.drafting import Limits, compose
from lamella.simulator.errors import invalid
from lamella.simulator.models import Model
from lamella.simulator.replies import Draft, Fault, Reply
from lamella.simulator.serving import Answer
from lamella.simulator.state import Simulator


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that the API takes: what the model is shown, hashed and counted."""

    request: MessagesRequest
    model: Model
    admitted: thinking.Admitted
    prefix: Prefix


def accept(request: MessagesRequest, model: Model, call: Call, simulator: Simulator) -> Accepted:
    """Checks a request and seals its prompt. Raises 400 where the API would."""
    settings = simulator.settings
    check_parameters(request, model, call.betas, require_betas=settings.require_beta_headers)
    blocks = flatten(request)
    check_history(request, blocks, model)
    check_images(blocks, model, simulator.pictures, settings)
    reader = thinking.Reader(
        call.account, model, thinks(request, model), thinking.on_mismatch(request.thinking), settings
    )
    if reader.thinks and settings.missing_thinking_refused:
        thinking.check_complete(blocks, simulator.thought_calls, settings)
    admitted = thinking.admit(blocks, reader)
    prefix = sealed_prefix(request, model, call.account, admitted.blocks, simulator)
    if prefix.total > model.window:
        raise invalid(f"prompt is too long: {prefix.total} tokens > {model.window} maximum")
    return Accepted(request, model, admitted, prefix)


def sealed_prefix(
    request: MessagesRequest, model: Model, account: str, blocks: Sequence[WireBlock], simulator: Simulator
) -> Prefix:
    placed = markers.place(blocks, request.cache_control, simulator.settings.max_markers)
    sealer = Sealer(simulator.counter, simulator.pictures, simulator.settings, model)
    salted = salts(request, model, account, has_image(blocks), simulator.settings)
    return build(blocks, placed, sealer, salted)


def answer(accepted: Accepted, call: Call, simulator: Simulator) -> Answer[MessageEncoder]:
    """Decides the whole answer and enters it in ledger and log."""
    request, model = accepted.request, accepted.model
    script = simulator.scripted(call.reply_id)
    fault = simulator.fault(call.reply_id, script)
    raise_early(fault)
    reply = speak(script, lambda: conversation(request, accepted.admitted.blocks))
    outcome = cache.account(accepted.prefix, model.minimum, simulator.ledger, call.now, simulator.settings)
    pace = pace_of(reply, fault, call, simulator)
    if fault is None or fault.name != "drop_before":
        simulator.ledger.commit(outcome, call.now, call.now + pace.first)
    simulator.spend(call.account, call.now, outcome.total - outcome.read)
    draft = make_draft(accepted, reply, fault, call, simulator)
    record(call, model, outcome, draft)
    reports = thinking.BETA in call.betas
    encoder = MessageEncoder(
        id=simulator.identifier("msg_", call.record.serial),
        request_id=call.request_id,
        model=request.model,
        outcome=outcome,
        draft=draft,
        hide_thinking=(request.thinking or {}).get("display") == "omitted",
        transformations=accepted.admitted.transformations if reports else None,
    )
    chunk = reply.chunk or simulator.settings.chunk
    return Answer(draft, encoder, pace, chunk, cut_of(fault), fault, streams=request.stream)


def make_draft(accepted: Accepted, reply: Reply, fault: Fault | None, call: Call, simulator: Simulator) -> Draft:
    """The answer, its thinking bound to the request; remembers which calls came after thinking."""
    settings, model, admitted = simulator.settings, accepted.model, accepted.admitted
    serial = simulator.identifier("", call.record.serial)
    factor = settings.token_factor or model.token_factor
    thinking_on = thinks(accepted.request, model)
    limits = Limits(factor, accepted.request.max_tokens, thinking_on, "toolu_", serial)

    def sign(text: str, tokens: int) -> str:
        seal = signature.Seal(
            account=call.account,
            model=model.id,
            prefix=admitted.prefix.hex(),
            previous=admitted.previous,
            id=serial,
            tokens=tokens,
            text=signature.fingerprint(text),
        )
        return signature.sign(seal, settings.seed)

    name, when = content_fault(fault)
    draft = compose(reply, name, when, limits, sign)
    if any(part.kind == "thinking" for part in draft.parts):
        calls = (part.call.id for part in draft.parts if part.call is not None)
        simulator.thought_calls.update(thinking.call_key(admitted.prefix, identifier) for identifier in calls)
    return draft


def record(call: Call, model: Model, outcome: Outcome, draft: Draft) -> None:
    """Notes the bill of a request in the log."""
    usage = full_usage(outcome, draft.output_tokens)
    usage["output_tokens_details"] = {"thinking_tokens": draft.thinking_tokens}
    call.record.model = model.id
    call.record.usage = usage
    call.record.cost = model.prices.cost(
        outcome.fresh, outcome.read, outcome.written_short, outcome.written_long, draft.output_tokens
    )
