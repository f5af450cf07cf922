"""The exchanges of the Responses API: reasoning, compaction and diagnostics, and its free call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from lamella_simulator import sealing
from lamella_simulator.access import Call
from lamella_simulator.answerer.conversation import Called, Conversation, PastMessage, Piece
from lamella_simulator.blocks import Json, Prefix, encode
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.diagnosing import difference, fingerprint
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.exchange import Decided, Pass
from lamella_simulator.openai.exchange import OpenAIExchange, arguments_of
from lamella_simulator.openai.prompt import format_of
from lamella_simulator.openai.request import callable_names, parse
from lamella_simulator.replies import Draft, Limits, Part
from lamella_simulator.responses.encoder import CompactionEncoder, Ids, ResponsesEncoder, usage_of
from lamella_simulator.responses.prompt import build, role_of
from lamella_simulator.responses.request import (
    ENCRYPTED,
    Compacted,
    ResponsesRequest,
    Sealed,
    kind_of,
    opened,
    parts_of,
)
from lamella_simulator.responses.validation import validate
from lamella_simulator.state import Simulator

INSTRUCTIONS = "Write down what is needed to carry on from here without the items above."
"""Stands for the vendor's own prompt: it is counted and billed, and read by nobody."""


class ResponsesExchange(OpenAIExchange[ResponsesRequest]):
    """POST /v1/responses"""

    def parse(self, body: bytes) -> ResponsesRequest:
        return parse(body, ResponsesRequest)

    def check(self) -> None:
        validate(self.request, self.model, self.simulator.pictures, self.settings.most_images)

    def prompt(self) -> Prefix:
        return build(self.request, self.model, self.call.account, self.simulator)

    def too_long(self) -> ProviderError:
        return invalid(
            "Your input exceeds the context window of this model. Its maximum context length is "
            f"{self.model.window} tokens, and your input has {self.prefix.total}. Please adjust your input and try "
            "again.",
            code="context_length_exceeded",
        )

    def conversation(self) -> Conversation:
        request = self.request
        names = callable_names(request.tool_choice, request.offered)
        said = [PastMessage("system", request.instructions)] if request.instructions else []
        return Conversation((*said, *(p for item in request.items for p in pieces(item, self.settings.seed))), names)

    @property
    def ids(self) -> Ids:
        return Ids(self.named("resp_"), self.named("rs_"), self.named(""))

    @property
    def thinks(self) -> bool:
        """Models that reason by default do so unless told not to; the demonstration model only when asked."""
        request = self.request
        thinks = self.model.thinking != "none" and request.effort != "none"
        if self.model.thinking == "off":
            return thinks and request.reasoning is not None and request.reasoning.effort is not None
        return thinks

    def decide(self) -> Decided:
        """A prompt over the threshold is summarised first; the answer is made from the summary."""
        threshold = self.request.compact_threshold
        if threshold is None or self.prefix.total < threshold or self.suffers("compaction_failed"):
            return super().decide()
        part, first = self.compact(drops=True)
        item = {"type": "compaction", "encrypted_content": part.signature}
        shortened = msgspec.structs.replace(self.request, input=[*self.request.items, item])
        outcome = self.read(build(shortened, self.model, self.call.account, self.simulator))
        draft = self.draft()
        second = Pass(outcome, draft.output_tokens)
        counted, output = outcome, draft.output_tokens
        if self.settings.openai_compaction_in_usage:
            counted, output = both(first.outcome, outcome), first.output + draft.output_tokens
        draft = replace(draft, parts=(part, *draft.parts), output_tokens=output)
        return Decided(draft, (first, second), counted)

    def compact(self, *, drops: bool) -> tuple[Part, Pass]:
        """The item of a summary, and the pass that wrote it; `drops`: it stands for all items before it."""
        text, written = self.sum_up(INSTRUCTIONS)
        note = Compacted(self.call.account, text, written.output, drops)
        return Part("compaction", text, signature=sealing.seal(note, self.settings.seed)), written

    def limits(self) -> Limits:
        return Limits(self.factor, self.request.max_output_tokens, self.thinks, "call_", self.ids.item)

    def sign(self, text: str, tokens: int) -> str:
        note = Sealed(self.call.account, self.model.id, self.ids.reasoning, tokens, sealing.fingerprint(text))
        return sealing.seal(note, self.settings.seed)

    def usage(self, decided: Decided) -> Json:
        return usage_of(decided.outcome, decided.draft, writes_shown=self.shows_writes)

    def encoder(self, decided: Decided) -> ResponsesEncoder:
        return ResponsesEncoder(
            self.ids,
            int(self.call.now),
            self.request.model,
            decided.draft,
            self.usage(decided),
            show_summary=self.request.shows_summary,
            show_encrypted=ENCRYPTED in self.request.include,
            extras=self.diagnosed(decided.outcome),
            offered={str(tool["name"]): tool for tool in self.request.offered},
        )

    def diagnosed(self, outcome: Outcome) -> Json:
        """Keeps the fingerprint of the prompt, and tells why the cache was missed where the request asks."""
        request, simulator, account = self.request, self.simulator, self.call.account
        settings = {
            "model": self.model.id,
            "prompt_cache_key": request.prompt_cache_key or "",
            "text_format": encode(format_of(request.text.format)).decode(),
            "reasoning_effort": request.effort,
            "verbosity": request.text.verbosity or "medium",
            "service_tier": request.service_tier or "auto",
        }
        compacted = any(kind_of(item) == "compaction" for item in request.items)
        rest = str(request.parallel_tool_calls)
        made = fingerprint(account, self.prefix, settings, rest=rest, compacted=compacted)
        simulator.prints.keep(self.ids.response, made)
        options = request.prompt_cache_options
        if options is None or options.comparison_response_id is None:
            return {}
        before = simulator.prints.of(options.comparison_response_id, account)
        if before is None:
            return {"prompt_cache_diagnostics": {"type": "comparison_response_not_found"}}
        found = difference(before, made)
        if found is None or found.what == "rest":
            hit = found is None and outcome.read
            return {"prompt_cache_diagnostics": {"type": "cache_hit" if hit else "unavailable"}}
        names = {"messages": "input_changed", "system": "input_changed", "compacted": "context_compacted"}
        miss = {"type": "cache_miss", "reason": names.get(found.what, f"{found.what}_changed")}
        reusable = before.sums[-1] if before.sums else 0
        numbers = {"cache_missed_tokens": found.missed, "comparison_reusable_tokens": reusable}
        return {"prompt_cache_diagnostics": {**miss, **numbers}}


class CompactExchange(ResponsesExchange):
    """POST /v1/responses/compact: all messages of the user, and one item for everything else."""

    def decide(self) -> Decided:
        if self.suffers("compaction_failed"):
            raise ProviderError(500, "The conversation could not be compacted.")
        part, written = self.compact(drops=False)
        return Decided(Draft((part,), "end_turn", written.output), (written,))

    def encoder(self, decided: Decided) -> CompactionEncoder:
        kept = [item for item in self.request.items if kind_of(item) == "message" and item.get("role") == "user"]
        shown = [message_of(item, f"msg_{self.ids.item}u{index}") for index, item in enumerate(kept)]
        return CompactionEncoder(
            self.ids,
            int(self.call.now),
            self.request.model,
            decided.draft,
            self.usage(decided),
            show_summary=False,
            show_encrypted=True,
            kept=tuple(shown),
        )


def count_input_tokens(call: Call, simulator: Simulator) -> Json:
    """POST /v1/responses/input_tokens: free, ignores caching."""
    exchange = ResponsesExchange(call, simulator)
    return {"object": "response.input_tokens", "input_tokens": simulator.counted(exchange.prefix)}


def both(first: Outcome, second: Outcome) -> Outcome:
    """The counters of two passes in one."""
    return Outcome(
        first.total + second.total,
        first.read + second.read,
        first.written_short + second.written_short,
        first.written_long + second.written_long,
        hit=first.hit,
    )


def message_of(item: Json, id: str) -> Json:
    """A message of the user as an output item."""
    content = item["content"]
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"id": item.get("id") or id, "type": "message", "status": "completed", "role": "user", "content": parts}


def pieces(item: Json, seed: int) -> Iterator[Piece]:
    """The texts and calls of an item, for the answerer."""
    if kind_of(item) == "compaction":
        yield PastMessage("system", opened(item, Compacted, seed).summary)
        return
    if kind_of(item) == "function_call":
        yield Called(str(item.get("name", "")), arguments_of(item.get("arguments")))
        return
    if kind_of(item) == "custom_tool_call":
        yield Called(str(item.get("name", "")), {"input": item.get("input")})
        return
    for _, part in parts_of(item):
        if part.get("type") not in ("input_text", "output_text"):
            continue
        text = str(part.get("text", ""))
        match role_of(item):
            case "user":
                yield PastMessage("user", text)
            case "assistant":
                yield PastMessage("assistant", text)
            case "result":
                yield PastMessage("tool", text)
            case _:
                yield PastMessage("system", text)
