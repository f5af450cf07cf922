"""The exchange of the Messages API: history, thinking, clearing, compaction and diagnostics, and its free calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lamella_simulator import sealing
from lamella_simulator.access import Call
from lamella_simulator.answerer.conversation import Called, Conversation, PastMessage, Piece
from lamella_simulator.anthropic import editing, thinking
from lamella_simulator.anthropic.encoder import MessageEncoder, full_usage
from lamella_simulator.anthropic.history import check_history
from lamella_simulator.anthropic.prompt import (
    MessageSealer,
    build,
    check_images,
    forces,
    place_markers,
    salts,
    text_of,
    thinks,
)
from lamella_simulator.anthropic.request import MessagesRequest, WireBlock, flatten, is_web_search, parse, wire_block
from lamella_simulator.anthropic.validation import check_max_tokens, check_parameters, check_size, known_model
from lamella_simulator.blocks import Json, Prefix
from lamella_simulator.cache import anthropic as cache
from lamella_simulator.cache.ledger import Ledger, Outcome
from lamella_simulator.diagnosing import difference, fingerprint
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.exchange import Decided, Exchange, Pass
from lamella_simulator.models import MODELS, Model
from lamella_simulator.replies import Draft, Limits, Part
from lamella_simulator.state import Simulator

RELEASED = "2026-01-01T00:00:00Z"


class MessagesExchange(Exchange[MessagesRequest]):
    """POST /v1/messages"""

    received: list[WireBlock]
    admitted: thinking.Admitted
    edited: editing.Edited
    shown: tuple[WireBlock, ...]
    """What the model is shown of the request."""

    def parse(self, body: bytes) -> MessagesRequest:
        check_size(body)
        return parse(body)

    def find_model(self) -> Model:
        return known_model(self.request.model)

    def check(self) -> None:
        check_max_tokens(self.request, self.model)
        self.check_content()

    def check_content(self) -> None:
        """What is refused of a request that is only counted, too."""
        settings, betas = self.settings, self.call.betas
        strict = settings.require_beta_headers
        check_parameters(self.request, self.model, betas, require_betas=strict)
        self.received = flatten(self.request)
        check_history(self.request, self.received, self.model, assistant_may_begin=settings.assistant_may_begin)
        for block in self.received:
            if block.kind == "compaction":
                editing.check_block(block.path, block.raw, betas, require_betas=strict, seed=settings.seed)
        check_images(self.received, self.model, self.simulator.pictures, settings)

    def prompt(self) -> Prefix:
        """Thinking is admitted and old content cleared before the rest is sealed."""
        request, model, settings = self.request, self.model, self.settings
        blocks = editing.forget(self.received)
        mismatch = thinking.on_mismatch(request.thinking)
        reader = thinking.Reader(self.call.account, model, thinks(request, model), mismatch, settings)
        if reader.thinks and settings.missing_thinking_refused:
            thinking.check_complete(blocks, self.simulator.thought_calls, settings)
        sealer = self.sealer()

        def size(block: WireBlock) -> int:
            return sealer.seal(block, None).tokens

        if settings.server_edits_break_prefix:
            self.edited = editing.apply(request, blocks, size)
            self.admitted = thinking.admit(self.edited.blocks, reader)
            self.shown = self.admitted.blocks
        else:
            self.admitted = thinking.admit(blocks, reader)
            self.edited = editing.apply(request, self.admitted.blocks, size)
            self.shown = self.edited.blocks
        return self.sealed(self.shown)

    def sealer(self) -> MessageSealer:
        simulator = self.simulator
        forced = forces(self.request)
        return MessageSealer(simulator.counter, simulator.pictures, self.settings, self.model, forced=forced)

    def sealed(self, blocks: Sequence[WireBlock]) -> Prefix:
        markers = place_markers(blocks, self.request.cache_control, self.settings.max_markers)
        salted = salts(self.request, self.model, self.call.account, blocks, self.settings)
        return build(blocks, markers, self.sealer(), salted)

    def too_long(self) -> ProviderError:
        return invalid(f"prompt is too long: {self.prefix.total} tokens > {self.model.window} maximum")

    def conversation(self) -> Conversation:
        request = self.request
        choice = (request.tool_choice or {}).get("type")
        names = () if choice == "none" else (str(tool["name"]) for tool in request.tools if not is_web_search(tool))
        return Conversation(tuple(pieces(self.shown)), frozenset(names))

    def account(self, prefix: Prefix, ledger: Ledger) -> Outcome:
        return cache.account(prefix, self.model.minimum, ledger, self.call.now, self.settings)

    def limited(self, outcome: Outcome) -> int:
        return outcome.total - outcome.read

    def decide(self) -> Decided:
        """One pass over the prompt; with a compaction, that one instead or before."""
        edit = editing.threshold_of(self.request)
        if self.request.compaction is not None:
            part, first = self.compact(self.request.compaction, on_demand=True)
            if self.settings.on_demand_in_totals:
                return Decided(Draft((part,), "compaction", first.output), (first,))
            return Decided(Draft((part,), "compaction", 0), (first,), Outcome(0), itemised=True)
        if edit is None or self.prefix.total < editing.trigger_of(edit):
            return replace(super().decide(), itemised=edit is not None)
        part, first = self.compact(edit, on_demand=False)
        if edit.get("pause_after_compaction"):
            return Decided(Draft((part,), "compaction", 0), (first,), Outcome(0), itemised=True)
        outcome = self.read(self.after(part))
        draft = self.draft()
        second = Pass(outcome, draft.output_tokens)
        return Decided(replace(draft, parts=(part, *draft.parts)), (first, second), itemised=True)

    def compact(self, asks: Json, *, on_demand: bool) -> tuple[Part, Pass]:
        """The block of a summary, and the pass that wrote it."""
        text, written = self.sum_up(editing.instructions_of(asks))
        summary = editing.Summary(
            self.call.account,
            self.model.id,
            text="",
            start=thinking.opening(self.admitted.blocks).hex(),
            end=self.admitted.prefix.hex(),
            previous=self.admitted.previous,
        )
        return editing.part_of(summary, text, self.settings.seed, on_demand=on_demand), written

    def summary(self) -> str:
        """On demand, the text of a reply is the summary, unless the reply names one. A fault has no summary."""
        if self.suffers("compaction_failed"):
            return ""
        scripted = self.call.record.reply is not None and self.reply.summary is None
        if self.request.compaction is not None and scripted and self.reply.text:
            return self.reply.text
        return super().summary()

    def after(self, part: Part) -> Prefix:
        """The prompt of a request after its compaction. A failed compaction changes nothing."""
        if not part.text:
            return self.prefix
        kept = [block for block in self.shown if block.level != "messages"]
        block = wire_block("messages", "assistant", editing.content_of(part), "messages.0.content.0", first=True)
        return self.sealed([*kept, block])

    def draft(self) -> Draft:
        """Remembers which calls came after thinking."""
        draft = super().draft()
        if any(part.kind == "thinking" for part in draft.parts):
            calls = (part.call.id for part in draft.parts if part.call is not None)
            self.simulator.remember_thought(thinking.call_key(self.admitted.prefix, each) for each in calls)
        return draft

    def limits(self) -> Limits:
        request, model = self.request, self.model
        room, stops = model.window - self.prefix.total, tuple(request.stop_sequences)
        thinks_now = thinks(request, model)
        return Limits(self.factor, request.max_tokens, thinks_now, "toolu_", self.named(""), room, stops)

    def sign(self, text: str, tokens: int) -> str:
        """A thought is bound to all that came before it."""
        seal = thinking.Seal(
            account=self.call.account,
            model=self.model.id,
            prefix=self.admitted.prefix.hex(),
            previous=self.admitted.previous,
            id=self.named(""),
            tokens=tokens,
            text=sealing.fingerprint(text),
        )
        return sealing.seal(seal, self.settings.seed)

    def encoder(self, decided: Decided) -> MessageEncoder:
        request = self.request
        return MessageEncoder(
            id=self.named("msg_"),
            request_id=self.call.request_id,
            model=request.model,
            outcome=decided.outcome,
            draft=decided.draft,
            speed=request.speed or "standard",
            hide_thinking=(request.thinking or {}).get("display") == "omitted",
            extras=self.extras(),
            applied_edits=self.edited.applied if request.context_management is not None else None,
            iterations=tuple(iteration(each) for each in decided.passes) if decided.itemised else None,
        )

    def extras(self) -> Json:
        """What happened to thinking, and why the cache was missed, for a request that asks."""
        shown: Json = {}
        if thinking.BETA in self.call.betas:
            shown["input_transformations"] = list(self.admitted.transformations)
        return shown | self.diagnosed()

    def diagnosed(self) -> Json:
        """Keeps the fingerprint of the prompt, and compares it with the one of an earlier answer."""
        request, simulator, account = self.request, self.simulator, self.call.account
        salted = salts(request, self.model, account, (), self.settings)
        named = {"model": f"{self.model.id} {request.speed or 'standard'}"}
        made = fingerprint(account, self.prefix, named, rest=salted.system + salted.messages)
        simulator.prints.keep(self.named("msg_"), made)
        if request.diagnostics is None:
            return {}
        earlier = request.diagnostics.get("previous_message_id")
        if earlier is None:
            return {"diagnostics": None}
        before = simulator.prints.of(str(earlier), account)
        if self.settings.diagnostics_pending:
            reason: Json | None = None
        elif before is None:
            reason = {"type": "previous_message_not_found"}
        elif (found := difference(before, made)) is None:
            return {"diagnostics": None}
        elif found.what == "rest":
            reason = {"type": "unavailable"}
        else:
            reason = {"type": f"{found.what}_changed", "cache_missed_input_tokens": found.missed}
        return {"diagnostics": {"cache_miss_reason": reason}}


class CountedMessages(MessagesExchange):
    """POST /v1/messages/count_tokens: a limit of the answer is not asked for."""

    def check(self) -> None:
        self.check_content()


def count_tokens(call: Call, simulator: Simulator) -> Json:
    """POST /v1/messages/count_tokens: free, ignores caching."""
    exchange = CountedMessages(call, simulator)
    counted = {"input_tokens": simulator.counted(exchange.prefix)}
    call.record.model = exchange.model.id
    if exchange.request.context_management is None:
        return counted
    original = exchange.edited.original or exchange.prefix.total
    return {**counted, "context_management": {"original_input_tokens": original}}


def list_models(_call: Call, _simulator: Simulator) -> Json:
    """GET /v1/models, as Anthropic answers it."""
    rows = [
        {
            "type": "model",
            "id": model.id,
            "display_name": model.id.replace("-", " ").title(),
            "created_at": RELEASED,
            "lifecycle": "active",
            "max_input_tokens": model.window,
            "max_tokens": model.max_output,
        }
        for model in MODELS
        if "anthropic" in model.wires
    ]
    return {"data": rows, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}


def iteration(each: Pass) -> Json:
    """A pass in the usage of a request that may compact."""
    usage = full_usage(each.outcome, each.output)
    counters = {name: usage[name] for name in usage if "tokens" in name or name.startswith("cache")}
    return {"type": "compaction" if each.compacts else "message", **counters}


def pieces(blocks: Sequence[WireBlock]) -> Iterator[Piece]:
    """The texts and calls of a request, for the answerer."""
    for block in blocks:
        if block.level == "tools" or block.thinking:
            continue
        if block.kind == "tool_use":
            arguments = block.raw.get("input")
            yield Called(str(block.raw.get("name", "")), arguments if isinstance(arguments, dict) else {})
        elif block.kind == "tool_result":
            yield PastMessage("tool", text_of(block.bare))
        elif block.kind == "compaction":
            yield PastMessage("system", text_of(block.bare))
        elif block.kind == "text":
            text = str(block.raw.get("text", ""))
            match block.role:
                case "user":
                    yield PastMessage("user", text)
                case "assistant":
                    yield PastMessage("assistant", text)
                case _:
                    yield PastMessage("system", text)
