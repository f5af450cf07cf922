"""One Responses request, from its body to a decided answer: rules, cache, compaction, reply, draft."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from lamella_simulator import sealing
from lamella_simulator.access import Call, content_fault, cut_of, pace_of
from lamella_simulator.answerer.speaking import recap
from lamella_simulator.blocks import Json, Prefix, encode
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.diagnosing import difference, fingerprint
from lamella_simulator.drafting import Limits, compose
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model
from lamella_simulator.openai.exchange import WARMED, account, prewarms
from lamella_simulator.openai.prompt import format_of
from lamella_simulator.replies import Draft, Part
from lamella_simulator.responses import prompt
from lamella_simulator.responses.encoder import CompactionEncoder, Ids, ResponsesEncoder, usage_of
from lamella_simulator.responses.listening import conversation
from lamella_simulator.responses.reasoning import Compacted, Sealed
from lamella_simulator.responses.request import ENCRYPTED, ResponsesRequest, kind_of
from lamella_simulator.responses.validation import validate
from lamella_simulator.scripting import Scripted, scripted
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer
from lamella_simulator.tokens import count_text, scaled

INSTRUCTIONS = "Write down what is needed to carry on from here without the items above."
"""Stands for the vendor's own prompt: it is counted and billed, and read by nobody."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A request on its way through the exchange."""

    request: ResponsesRequest
    model: Model
    prefix: Prefix
    call: Call
    simulator: Simulator
    asked: Scripted

    @property
    def factor(self) -> float:
        return self.simulator.settings.token_factor or self.model.token_factor

    @property
    def ids(self) -> Ids:
        named, serial = self.simulator.identifier, self.call.record.serial
        return Ids(named("resp_", serial), named("rs_", serial), named("", serial))

    def read(self, prefix: Prefix) -> Outcome:
        """Accounts for a prompt and enters it in the ledger."""
        outcome = account(self.request, prefix, self.model, self.call, self.asked, self.simulator)
        first = pace_of(self.asked.reply, self.asked.fault, self.call, self.simulator).first
        if not self.asked.suffers("drop_before"):
            self.simulator.commit(outcome, self.call.now, self.call.now + first)
        self.simulator.spend(self.call.account, self.call.now, outcome.total)
        return outcome


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


def opened(request: ResponsesRequest, model: Model, prefix: Prefix, call: Call, simulator: Simulator) -> Turn:
    asked = scripted(call, simulator, lambda: conversation(request, simulator.settings.seed))
    return Turn(request, model, prefix, call, simulator, asked)


def answer(
    request: ResponsesRequest, model: Model, prefix: Prefix, call: Call, simulator: Simulator
) -> Answer[ResponsesEncoder]:
    turn = opened(request, model, prefix, call, simulator)
    threshold = request.compact_threshold
    if threshold is None or turn.prefix.total < threshold or turn.asked.suffers("compaction_failed"):
        outcome = turn.read(turn.prefix)
        draft = make_draft(turn)
        cost = simulator.cost(model, outcome, draft.output_tokens)
        call.record.bill(outcome, draft.output_tokens)
    else:
        outcome, draft, cost = compacted(turn)
    usage = usage_of(outcome, draft, writes_shown=model.cache_rules == "blocks")
    call.record.model, call.record.usage, call.record.cost = model.id, usage, cost
    call.record.note(prefix, outcome)
    encoder = ResponsesEncoder(
        turn.ids,
        int(call.now),
        request.model,
        draft,
        usage,
        show_summary=request.shows_summary,
        show_encrypted=ENCRYPTED in request.include,
        extras=diagnosed(turn, outcome),
    )
    reply, fault = turn.asked.reply, turn.asked.fault
    chunk = reply.chunk or simulator.settings.chunk
    pace = pace_of(reply, fault, call, simulator)
    return Answer(draft, encoder, pace, chunk, cut_of(fault), fault, streams=request.stream)


def compacted(turn: Turn) -> tuple[Outcome, Draft, float]:
    """A prompt over the threshold is summarised first; the answer is made from the summary."""
    settings = turn.simulator.settings
    part, first, written = compact(turn, drops=True)
    item = {"type": "compaction", "encrypted_content": part.signature}
    shortened = msgspec.structs.replace(turn.request, input=[*turn.request.items, item])
    second = turn.read(prompt.build(shortened, turn.model, turn.call.account, turn.simulator))
    draft = make_draft(turn)
    cost = turn.simulator.cost(turn.model, first, written)
    cost += turn.simulator.cost(turn.model, second, draft.output_tokens)
    turn.call.record.bill(first, written)
    turn.call.record.bill(second, draft.output_tokens)
    outcome, output = second, draft.output_tokens
    if settings.openai_compaction_in_usage:
        outcome, output = both(first, second), written + draft.output_tokens
    return outcome, replace(draft, parts=(part, *draft.parts), output_tokens=output), cost


def both(first: Outcome, second: Outcome) -> Outcome:
    """The counters of two passes in one."""
    return Outcome(
        first.total + second.total,
        first.read + second.read,
        first.written_short + second.written_short,
        first.written_long + second.written_long,
        hit=first.hit,
    )


def compact(turn: Turn, *, drops: bool) -> tuple[Part, Outcome, int]:
    """The prompt is read with instructions behind it, and what is written is sealed into an item."""
    settings = turn.simulator.settings
    outcome = turn.read(turn.prefix)
    behind = scaled(count_text(INSTRUCTIONS), turn.factor) + settings.message_overhead
    text = recap(turn.asked.reply, conversation(turn.request, settings.seed))
    tokens = scaled(count_text(text), turn.factor) or 1
    sealed = sealing.seal(Compacted(turn.call.account, text, tokens, drops), settings.seed)
    return Part("compaction", text, signature=sealed), replace(outcome, total=outcome.total + behind), tokens


def compaction(
    request: ResponsesRequest, model: Model, prefix: Prefix, call: Call, simulator: Simulator
) -> Answer[CompactionEncoder]:
    """POST /v1/responses/compact: all messages of the user, and one item for everything else."""
    turn = opened(request, model, prefix, call, simulator)
    if turn.asked.suffers("compaction_failed"):
        raise ProviderError(500, "The conversation could not be compacted.")
    part, outcome, written = compact(turn, drops=False)
    draft = Draft((part,), "end_turn", written)
    usage = usage_of(outcome, draft, writes_shown=model.cache_rules == "blocks")
    call.record.model, call.record.usage = model.id, usage
    call.record.cost = simulator.cost(model, outcome, written)
    call.record.bill(outcome, written)
    call.record.note(prefix, outcome)
    kept = [item for item in request.items if kind_of(item) == "message" and item.get("role") == "user"]
    shown = [message_of(item, f"msg_{turn.ids.item}u{index}") for index, item in enumerate(kept)]
    encoder = CompactionEncoder(
        turn.ids, int(call.now), request.model, draft, usage, show_summary=False, show_encrypted=True, kept=tuple(shown)
    )
    fault = turn.asked.fault
    return Answer(
        draft, encoder, pace_of(turn.asked.reply, fault, call, simulator), 1, cut_of(fault), fault, streams=False
    )


def message_of(item: Json, id: str) -> Json:
    """A message of the user as an output item."""
    content = item["content"]
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"id": item.get("id") or id, "type": "message", "status": "completed", "role": "user", "content": parts}


def diagnosed(turn: Turn, outcome: Outcome) -> Json:
    """Keeps the fingerprint of a prompt, and tells why the cache was missed where the request asks."""
    request, simulator = turn.request, turn.simulator
    settings = {
        "model": turn.model.id,
        "prompt_cache_key": request.prompt_cache_key or "",
        "text_format": encode(format_of(request.text.format)).decode(),
        "reasoning_effort": request.effort,
        "verbosity": request.text.verbosity or "medium",
        "service_tier": request.service_tier or "auto",
    }
    compacted = any(kind_of(item) == "compaction" for item in request.items)
    made = fingerprint(
        turn.call.account, turn.prefix, settings, rest=str(request.parallel_tool_calls), compacted=compacted
    )
    simulator.prints.keep(turn.ids.response, made)
    options = request.prompt_cache_options
    if options is None or options.comparison_response_id is None:
        return {}
    before = simulator.prints.of(options.comparison_response_id, turn.call.account)
    if before is None:
        return {"prompt_cache_diagnostics": {"type": "comparison_response_not_found"}}
    found = difference(before, made)
    if found is None or found.what == "rest":
        return {"prompt_cache_diagnostics": {"type": "cache_hit" if found is None and outcome.read else "unavailable"}}
    names = {"messages": "input_changed", "system": "input_changed", "compacted": "context_compacted"}
    miss = {"type": "cache_miss", "reason": names.get(found.what, f"{found.what}_changed")}
    reusable = before.sums[-1] if before.sums else 0
    numbers = {"cache_missed_tokens": found.missed, "comparison_reusable_tokens": reusable}
    return {"prompt_cache_diagnostics": {**miss, **numbers}}


def make_draft(turn: Turn) -> Draft:
    request, model, simulator, ids = turn.request, turn.model, turn.simulator, turn.ids
    if prewarms(request.prompt_cache_options):
        return WARMED
    thinks = model.thinking != "none" and request.effort != "none"
    if model.thinking == "off":
        thinks = thinks and request.reasoning is not None and request.reasoning.effort is not None
    limits = Limits(turn.factor, request.max_output_tokens, thinks, "call_", ids.item)

    def sign(text: str, tokens: int) -> str:
        sealed = Sealed(turn.call.account, model.id, ids.reasoning, tokens, sealing.fingerprint(text))
        return sealing.seal(sealed, simulator.settings.seed)

    name, when = content_fault(turn.asked.fault)
    return compose(turn.asked.reply, name, when, limits, sign)
