"""One Responses request, from its body to a decided answer: rules, cache, reply, draft."""

from __future__ import annotations

from lamella.simulator.access import Call, content_fault, cut_of, pace_of, raise_early
from lamella.simulator.answerer.speaking import speak
from lamella.simulator.blocks import Prefix
from lamella.simulator.drafting import Limits, compose
from lamella.simulator.errors import invalid
from lamella.simulator.models import Model
from lamella.simulator.openai.exchange import account
from lamella.simulator.replies import Draft, Fault, Reply
from lamella.simulator.responses import prompt
from lamella.simulator.responses.encoder import Ids, ResponsesEncoder, usage_of
from lamella.simulator.responses.listening import conversation
from lamella.simulator.responses.reasoning import Sealed, fingerprint, seal
from lamella.simulator.responses.request import ENCRYPTED, ResponsesRequest
from lamella.simulator.responses.validation import validate
from lamella.simulator.serving import Answer
from lamella.simulator.state import Simulator


def accept(request: ResponsesRequest, model: Model, call: Call, simulator: Simulator) -> Prefix:
    """The prompt of a request that the API takes. Raises 400 or 404."""
    validate(request, model, simulator.pictures, simulator.settings.most_images)
    prefix = prompt.build(request, model, call.account, simulator)
    if prefix.total > model.window:
        raise invalid(
            "Your input exceeds the context window of this model. Its maximum context length is "
            f"{model.window} tokens, and your input has {prefix.total}. Please adjust your input and try again.",
            code="context_length_exceeded",
        )
    return prefix


def answer(
    request: ResponsesRequest, model: Model, prefix: Prefix, call: Call, simulator: Simulator
) -> Answer[ResponsesEncoder]:
    script = simulator.scripted(call.reply_id)
    fault = simulator.fault(call.reply_id, script)
    raise_early(fault)
    reply = speak(script, lambda: conversation(request))
    outcome = account(request, prefix, model, call, simulator)
    pace = pace_of(reply, fault, call, simulator)
    if fault is None or fault.name != "drop_before":
        simulator.ledger.commit(outcome, call.now, call.now + pace.first)
    simulator.spend(call.account, call.now, outcome.total)
    ids = Ids(
        simulator.identifier("resp_", call.record.serial),
        simulator.identifier("rs_", call.record.serial),
        simulator.identifier("", call.record.serial),
    )
    draft = make_draft(request, model, reply, fault, ids, call, simulator)
    usage = usage_of(outcome, draft, writes_shown=model.cache_rules == "blocks")
    call.record.model, call.record.usage = model.id, usage
    call.record.cost = model.prices.cost(
        outcome.fresh, outcome.read, outcome.written_short, outcome.written_long, draft.output_tokens
    )
    encoder = ResponsesEncoder(
        ids,
        int(call.now),
        request.model,
        draft,
        usage,
        show_summary=request.shows_summary,
        show_encrypted=ENCRYPTED in request.include,
    )
    chunk = reply.chunk or simulator.settings.chunk
    return Answer(draft, encoder, pace, chunk, cut_of(fault), fault, streams=request.stream)


def make_draft(
    request: ResponsesRequest,
    model: Model,
    reply: Reply,
    fault: Fault | None,
    ids: Ids,
    call: Call,
    simulator: Simulator,
) -> Draft:
    factor = simulator.settings.token_factor or model.token_factor
    thinks = model.thinking != "none" and request.effort != "none"
    if model.thinking == "off":
        thinks = thinks and request.reasoning is not None and request.reasoning.effort is not None
    limits = Limits(factor, request.max_output_tokens, thinks, "call_", ids.item)

    def sign(text: str, tokens: int) -> str:
        sealed = Sealed(call.account, model.id, ids.reasoning, tokens, fingerprint(text))
        return seal(sealed, simulator.settings.seed)

    name, when = content_fault(fault)
    return compose(reply, name, when, limits, sign)
