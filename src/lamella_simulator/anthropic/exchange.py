"""One Messages request, from its body to a decided answer: rules, thinking, edits, cache, reply, draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lamella_simulator import sealing
from lamella_simulator.access import Call, content_fault, cut_of, pace_of
from lamella_simulator.answerer.speaking import recap
from lamella_simulator.anthropic import compaction, editing, markers, signature, thinking
from lamella_simulator.anthropic.encoder import MessageEncoder, full_usage
from lamella_simulator.anthropic.history import check_history
from lamella_simulator.anthropic.images import check_images
from lamella_simulator.anthropic.listening import conversation
from lamella_simulator.anthropic.prompt import Sealer, build, forces, salts, thinks
from lamella_simulator.anthropic.request import MessagesRequest, WireBlock, flatten, wire_block
from lamella_simulator.anthropic.validation import check_parameters
from lamella_simulator.blocks import Json, Prefix
from lamella_simulator.cache import anthropic as cache
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.diagnosing import difference, fingerprint
from lamella_simulator.drafting import Limits, compose
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.replies import Draft, Fault, Part, Reply
from lamella_simulator.scripting import Scripted, scripted
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer
from lamella_simulator.tokens import count_text, scaled


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that the API takes: what the model is shown, hashed and counted."""

    request: MessagesRequest
    model: Model
    admitted: thinking.Admitted
    edited: editing.Edited
    shown: tuple[WireBlock, ...]
    prefix: Prefix


@dataclass(frozen=True, slots=True)
class Pass:
    """The model has read a prompt once and written so many tokens; a request that compacts has two."""

    kind: Literal["message", "compaction"]
    outcome: Outcome
    output: int

    def shown(self) -> Json:
        usage = full_usage(self.outcome, self.output)
        return {"type": self.kind} | {
            name: usage[name] for name in usage if "tokens" in name or name.startswith("cache")
        }


@dataclass(frozen=True, slots=True)
class Decided:
    """The whole answer with its bill. `outcome` is what the top-level counters tell."""

    draft: Draft
    outcome: Outcome
    passes: tuple[Pass, ...]
    itemised: bool
    """The usage tells the passes one by one."""


def accept(request: MessagesRequest, model: Model, call: Call, simulator: Simulator) -> Accepted:
    """Checks a request and seals its prompt. Raises 400 where the API would."""
    settings = simulator.settings
    strict = settings.require_beta_headers
    check_parameters(request, model, call.betas, require_betas=strict)
    received = flatten(request)
    check_history(request, received, model, assistant_may_begin=settings.assistant_may_begin)
    for block in received:
        if block.kind == "compaction":
            compaction.check_block(block.path, block.raw, call.betas, require_betas=strict, seed=settings.seed)
    check_images(received, model, simulator.pictures, settings)
    blocks = compaction.forget(received)
    reader = thinking.Reader(
        call.account, model, thinks(request, model), thinking.on_mismatch(request.thinking), settings
    )
    if reader.thinks and settings.missing_thinking_refused:
        thinking.check_complete(blocks, simulator.thought_calls, settings)
    sealer = Sealer(simulator.counter, simulator.pictures, settings, model, forced=forces(request))

    def size(block: WireBlock) -> int:
        return sealer.seal(block, None).tokens

    if settings.server_edits_break_prefix:
        edited = editing.apply(request, blocks, size)
        admitted = thinking.admit(edited.blocks, reader)
        shown = admitted.blocks
    else:
        admitted = thinking.admit(blocks, reader)
        edited = editing.apply(request, admitted.blocks, size)
        shown = edited.blocks
    prefix = sealed_prefix(request, model, call.account, shown, simulator)
    if prefix.total > model.window:
        raise invalid(f"prompt is too long: {prefix.total} tokens > {model.window} maximum")
    return Accepted(request, model, admitted, edited, shown, prefix)


def sealed_prefix(
    request: MessagesRequest, model: Model, account: str, blocks: Sequence[WireBlock], simulator: Simulator
) -> Prefix:
    placed = markers.place(blocks, request.cache_control, simulator.settings.max_markers)
    sealer = Sealer(simulator.counter, simulator.pictures, simulator.settings, model, forced=forces(request))
    salted = salts(request, model, account, blocks, simulator.settings)
    return build(blocks, placed, sealer, salted)


def answer(accepted: Accepted, call: Call, simulator: Simulator) -> Answer[MessageEncoder]:
    """Decides the whole answer and enters it in ledger and log."""
    request, model = accepted.request, accepted.model
    asked = scripted(call, simulator, lambda: conversation(request, accepted.shown))
    decided = decide(accepted, asked, call, simulator)
    encoder = MessageEncoder(
        id=simulator.identifier("msg_", call.record.serial),
        request_id=call.request_id,
        model=request.model,
        outcome=decided.outcome,
        draft=decided.draft,
        speed=request.speed or "standard",
        hide_thinking=(request.thinking or {}).get("display") == "omitted",
        extras=extras(accepted, call, simulator),
        applied_edits=accepted.edited.applied if request.context_management is not None else None,
        iterations=tuple(read.shown() for read in decided.passes) if decided.itemised else None,
    )
    record(call, model, decided, encoder, simulator)
    call.record.note(accepted.prefix, decided.passes[0].outcome)
    chunk = asked.reply.chunk or simulator.settings.chunk
    pace = pace_of(asked.reply, asked.fault, call, simulator)
    return Answer(decided.draft, encoder, pace, chunk, cut_of(asked.fault), asked.fault, streams=request.stream)


def decide(accepted: Accepted, asked: Scripted, call: Call, simulator: Simulator) -> Decided:
    """One pass over the prompt; with a compaction, that one instead or before."""
    edit = editing.threshold_of(accepted.request)
    if accepted.request.compaction is not None:
        part, first = compact(accepted, accepted.request.compaction, asked, call, simulator, on_demand=True)
        if simulator.settings.on_demand_in_totals:
            return Decided(Draft((part,), "compaction", first.output), first.outcome, (first,), itemised=False)
        return Decided(Draft((part,), "compaction", 0), Outcome(0), (first,), itemised=True)
    if edit is None or accepted.prefix.total < compaction.trigger_of(edit):
        outcome = read(accepted.prefix, accepted.model, asked, call, simulator)
        draft = make_draft(accepted, asked.reply, asked.fault, call, simulator)
        only = Pass("message", outcome, draft.output_tokens)
        return Decided(draft, outcome, (only,), itemised=edit is not None)
    part, first = compact(accepted, edit, asked, call, simulator, on_demand=False)
    if edit.get("pause_after_compaction"):
        return Decided(Draft((part,), "compaction", 0), Outcome(0), (first,), itemised=True)
    outcome = read(after(part, accepted, call, simulator), accepted.model, asked, call, simulator)
    draft = make_draft(accepted, asked.reply, asked.fault, call, simulator)
    draft = replace(draft, parts=(part, *draft.parts))
    passes = (first, Pass("message", outcome, draft.output_tokens))
    return Decided(draft, outcome, passes, itemised=True)


def compact(
    accepted: Accepted, asks: Json, asked: Scripted, call: Call, simulator: Simulator, *, on_demand: bool
) -> tuple[Part, Pass]:
    """The prompt is read with instructions behind it, and what is written is the block of a summary."""
    settings, model, admitted = simulator.settings, accepted.model, accepted.admitted
    factor = settings.token_factor or model.token_factor
    behind = scaled(count_text(compaction.instructions_of(asks)), factor) + settings.message_overhead
    outcome = read(accepted.prefix, model, asked, call, simulator)
    outcome = replace(outcome, total=outcome.total + behind)
    script = asked.reply
    if on_demand and call.record.reply is not None and script.summary is None and script.text:
        text = script.text
    else:
        text = recap(script, conversation(accepted.request, accepted.shown))
    if asked.suffers("compaction_failed"):
        text = ""
    summary = compaction.Summary(
        call.account,
        model.id,
        text="",
        start=thinking.opening(admitted.blocks).hex(),
        end=admitted.prefix.hex(),
        previous=admitted.previous,
    )
    part = compaction.part_of(summary, text, settings.seed, on_demand=on_demand)
    return part, Pass("compaction", outcome, scaled(count_text(text), factor) or 1)


def after(part: Part, accepted: Accepted, call: Call, simulator: Simulator) -> Prefix:
    """The prompt that a compacted request goes on with; a failed compaction changes nothing."""
    if not part.text:
        return accepted.prefix
    kept = [block for block in accepted.shown if block.level != "messages"]
    block = wire_block("messages", "assistant", compaction.content_of(part), "messages.0.content.0", first=True)
    return sealed_prefix(accepted.request, accepted.model, call.account, [*kept, block], simulator)


def read(prefix: Prefix, model: Model, asked: Scripted, call: Call, simulator: Simulator) -> Outcome:
    """Accounts for a prompt and enters it in the ledger."""
    outcome = account(prefix, model, call, asked, simulator)
    first = pace_of(asked.reply, asked.fault, call, simulator).first
    if not asked.suffers("drop_before"):
        simulator.commit(outcome, call.now, call.now + first)
    simulator.spend(call.account, call.now, outcome.total - outcome.read)
    return outcome


def extras(accepted: Accepted, call: Call, simulator: Simulator) -> Json:
    """What happened to thinking, and why the cache was missed, for a request that asks."""
    request = accepted.request
    shown: Json = {}
    if thinking.BETA in call.betas:
        shown["input_transformations"] = list(accepted.admitted.transformations)
    salted = salts(request, accepted.model, call.account, (), simulator.settings)
    named = {"model": f"{accepted.model.id} {request.speed or 'standard'}"}
    made = fingerprint(call.account, accepted.prefix, named, rest=salted.system + salted.messages)
    simulator.prints.keep(simulator.identifier("msg_", call.record.serial), made)
    if request.diagnostics is None:
        return shown
    earlier = request.diagnostics.get("previous_message_id")
    if earlier is None:
        return {**shown, "diagnostics": None}
    before = simulator.prints.of(str(earlier), call.account)
    if simulator.settings.diagnostics_pending:
        reason: Json | None = None
    elif before is None:
        reason = {"type": "previous_message_not_found"}
    elif (found := difference(before, made)) is None:
        return {**shown, "diagnostics": None}
    elif found.what == "rest":
        reason = {"type": "unavailable"}
    else:
        reason = {"type": f"{found.what}_changed", "cache_missed_input_tokens": found.missed}
    return {**shown, "diagnostics": {"cache_miss_reason": reason}}


def account(prefix: Prefix, model: Model, call: Call, asked: Scripted, simulator: Simulator) -> Outcome:
    """What a prompt reads and writes, by the vendor's rules or by an engine's."""
    if simulator.settings.engine != "off":
        return simulator.engine.account(prefix, simulator.settings, cold=asked.suffers("cold_cache"))
    return cache.account(prefix, model.minimum, simulator.readable(asked.fault), call.now, simulator.settings)


def make_draft(accepted: Accepted, reply: Reply, fault: Fault | None, call: Call, simulator: Simulator) -> Draft:
    """The answer, its thinking bound to the request; remembers which calls came after thinking."""
    settings, model, admitted = simulator.settings, accepted.model, accepted.admitted
    serial = simulator.identifier("", call.record.serial)
    factor = settings.token_factor or model.token_factor
    thinking_on = thinks(accepted.request, model)
    room = model.window - accepted.prefix.total
    stops = tuple(accepted.request.stop_sequences)
    limits = Limits(factor, accepted.request.max_tokens, thinking_on, "toolu_", serial, room, stops)

    def sign(text: str, tokens: int) -> str:
        seal = signature.Seal(
            account=call.account,
            model=model.id,
            prefix=admitted.prefix.hex(),
            previous=admitted.previous,
            id=serial,
            tokens=tokens,
            text=sealing.fingerprint(text),
        )
        return sealing.seal(seal, settings.seed)

    name, when = content_fault(fault)
    draft = compose(reply, name, when, limits, sign)
    if any(part.kind == "thinking" for part in draft.parts):
        calls = (part.call.id for part in draft.parts if part.call is not None)
        simulator.remember_thought(thinking.call_key(admitted.prefix, identifier) for identifier in calls)
    return draft


def record(call: Call, model: Model, decided: Decided, encoder: MessageEncoder, simulator: Simulator) -> None:
    """Notes the bill of a request in the log: the sum of its passes."""
    call.record.model = model.id
    call.record.usage = encoder.whole()["usage"]
    for each in decided.passes:
        call.record.bill(each.outcome, each.output)
    call.record.cost = sum(simulator.cost(model, each.outcome, each.output) for each in decided.passes)
