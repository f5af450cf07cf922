"""What is stored of an exchange: its plan, its bill, its turn, and the rows of its request.

seen = Observation(exchange, window, match(…), before)
seen.begins                      # the user's message with which a turn begins
plan, facts = seen.plan(ledger)  # what was to be read and written, by the caller's own markers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.agent.container import OpenStep
from lamella.agent.request import zones_of
from lamella.cache.difference import CLIENT
from lamella.cache.hashed import hashed
from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, Plan, predicted
from lamella.cache.window import Chain, chain, window_of
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import LamellaError
from lamella.core.json import Json, digest, encode_sorted
from lamella.core.messages import Step, StopReason, Text, ToolResult
from lamella.core.models import OFF, Markers
from lamella.core.prompt import Kind, Marker, Ttl
from lamella.core.records import (
    Line,
    NewRequest,
    ObservedRequest,
    Replacement,
    ReplacementKind,
    RequestRecord,
    StoredBlock,
    StoredMarker,
    StoredSegment,
)
from lamella.core.tokens import Usage
from lamella.gateway.dialects import ObservedWindow, effort_of, salts_of, text_of
from lamella.gateway.exchange import Exchange
from lamella.gateway.matching import CONVERSATION, REFUSED, Match, Relation, answer_digest, label_of
from lamella.gateway.replacing import SUMMARY

PROVIDERS = "placed by the provider"

ENDINGS = 21
"""Endings of messages at which OpenAI looks for what it cached without a marker."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A request with its answer, the client's window, the line that it belongs to, and the newest request of that line.
    `changed` is the window as it was sent, if its beginning was replaced. `is_answered`: what is asked for has
    another answer already. `before` is the request that this one goes on from, if that is not the newest.
    """

    exchange: Exchange
    window: ObservedWindow
    found: Match
    before: RequestRecord | None
    changed: ObservedWindow | None = None
    is_answered: bool = False

    @property
    def sent(self) -> ObservedWindow:
        """The window as it was sent."""
        return self.changed or self.window

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        """What stands in the place of messages."""
        return self.exchange.managed.change.made if self.exchange.managed is not None else ()

    @property
    def begins(self) -> str | None:
        """The user's message with which a turn begins; None for a step of the turn before."""
        if self.found.relation is Relation.AGAIN:
            return None
        window, tail = self.window, list[str]()
        for role, text, step in zip(
            reversed(window.roles), reversed(window.texts), reversed(window.is_follow_up), strict=True
        ):
            if step:
                break
            if role == "user":
                tail.append(text)
        if not tail and self.found.line is not None:
            return None
        return tail[0] if tail else ""

    @property
    def again(self) -> str | None:
        """The turn whose answer is asked for once more, or which went on from here otherwise; None for another message,
        and if there is no answer yet.
        """
        relation, before = self.found.relation, self.before
        goes_on = relation is Relation.AGAIN or (relation is Relation.BRANCH and self.begins is None)
        return before.turn_id if before is not None and goes_on and self.is_answered else None

    @property
    def step_number(self) -> int:
        """The number of the step within its turn."""
        if self.again is not None and self.before is not None:
            return self.before.step + (self.found.relation is Relation.BRANCH)
        return 0 if self.begins is not None or self.before is None else self.before.step + 1

    @property
    def local_tokens(self) -> int:
        """The local count of the window."""
        return sum(segment.tokens for segment in self.sent.segments)

    @property
    def calibration(self) -> float:
        """The provider's tokens per local token, by the bill of the request before."""
        before = self.before
        if before is not None and before.usage is not None and before.local_tokens and before.usage.is_measured:
            return before.usage.input / before.local_tokens
        return self.exchange.route.facts.token_factor

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the prefixes that were sent."""
        return keys_of(self.sent, self.exchange, self.calibration)[0].keys

    def plan(self, ledger: Ledger) -> tuple[Plan, Facts]:
        """What was to be read and written, by the caller's own markers."""
        keys, facts = keys_of(self.sent, self.exchange, self.calibration)
        planned = window_of(keys, facts.segments, facts.model, facts.calibration)
        return predicted(planned, self._markers(keys, ledger, facts), (), ledger, facts), facts

    def _markers(self, keys: Chain, ledger: Ledger, facts: Facts) -> tuple[Marker, ...]:
        """The caller's markers, those that were added here, and where OpenAI caches by itself: it writes at the last
        ending, and reads at the deepest that it knows.
        """
        markers = {one.index: one for one in self.exchange.added or self.sent.markers}
        if facts.model.markers is Markers.OPENAI and self.sent.endings:
            *before, last = self.sent.endings[-ENDINGS:]
            known = [index for index in before if ledger.live(keys.keys[index], facts.now) is not None]
            for index in (*known[-1:], last):
                markers.setdefault(index, Marker(index, Ttl.THIRTY_MINUTES, PROVIDERS))
        return tuple(markers[index] for index in sorted(markers))

    def line(self, id: str, turn_id: str, run_id: str, request_id: str) -> Line:
        """The line as it is after this request, without the bill; `id` is that of a new one."""
        exchange, window, old = self.exchange, self.window, self.found.line
        newest = {
            "model": exchange.route.model,
            "keys": window.keys,
            "tip": window.keys[-1] if window.keys else "",
            "system": window.system,
            "request_id": request_id,
            "turn_id": turn_id,
            "run_id": run_id,
            "at": exchange.at,
            "label": self._label,
        }
        if old is not None:
            more_turns = old.turns + (self.begins is not None)
            return replace(old, **newest, requests=old.requests + 1, turns=more_turns)  # type: ignore[arg-type]
        return Line(
            id=id,
            client=exchange.client,
            session=exchange.session,
            dialect=exchange.dialect,
            opening=len(window.keys),
            answer="",
            begun_at=exchange.at,
            requests=1,
            turns=1,
            **newest,  # type: ignore[arg-type]
        )

    @property
    def _label(self) -> str:
        """What the line is: that is said by its first request that is not refused."""
        old = self.found.line
        if old is not None and old.label != REFUSED:
            return old.label
        label = label_of(self.window)
        return REFUSED if label == CONVERSATION and 400 <= self.exchange.status < 500 else label

    def record(
        self, line: Line, answer: OpenStep, error: LamellaError | None, plan: Plan, facts: Facts
    ) -> RequestRecord:
        """The request as it is stored."""
        exchange, window = self.exchange, self.sent
        usage = usage_of_answer(answer)
        return RequestRecord(
            id=line.request_id,
            conversation_id=line.id,
            turn_id=line.turn_id,
            run_id=line.run_id,
            step=self.step_number,
            purpose="chat",
            model=exchange.route.model,
            layout=CLIENT,
            marker_policy="planner" if exchange.added else CLIENT if plan.markers else "off",
            thinking_effort=effort_of(window),
            at=exchange.at,
            head=window.head,
            letters=" ".join(segment.letters for segment in window.segments),
            segments=window.stored,
            zones=zones_of(window.segments),
            markers=tuple(StoredMarker(m.index, m.ttl.value, m.why) for m in plan.markers),
            notes=(
                *(("", note) for note in exchange.notes),
                *((self._segment(one), one.why) for one in self.replacements),
            ),
            protocol=window.dialect.value,
            local_tokens=self.local_tokens,
            estimate=round(facts.calibration * self.local_tokens),
            budget=facts.model.window,
            predicted_read=plan.read,
            predicted_written=plan.written,
            predicted_hit=plan.hit,
            provider_request_id=exchange.headers.get("request-id") or exchange.headers.get("x-request-id"),
            answer_id=answer.answer_id,
            diagnosis=answer.diagnosis,
            usage=usage,
            cost=facts.model.cost(usage) if usage is not None else None,
            error=error.as_dict() if error is not None else None,
            price=exchange.route.price,
        )

    def with_bill(self, line: Line, record: RequestRecord, answer: OpenStep) -> Line:
        """The line with the request's bill and its answer."""
        return replace(
            line,
            answer=answer_digest(text_of_answer(answer)),
            usage=line.usage + (record.usage or Usage()),
            cost=line.cost + (record.cost or 0.0),
            saved=line.saved + (self._saved(record) if self.exchange.added else 0.0),
            context_saved=line.context_saved + self._context_saved(),
        )

    def _segment(self, one: Replacement) -> str:
        """The segment that a replacement is about."""
        change = self.exchange.managed.change if self.exchange.managed is not None else None
        is_stub = one.kind is ReplacementKind.PRUNE and change is not None
        return f"message {change.cut + 1}" if is_stub and change is not None else SUMMARY

    def _context_saved(self) -> float:
        """What a shorter window saves: reading what is replaced, less writing anew what stands after it the first
        time.
        """
        if not self.replacements:
            return 0.0
        price = self.exchange.route.facts.price
        less = sum(segment.tokens for segment in self.window.segments) - self.local_tokens
        saved = price.read * less * self.calibration
        for one in self._new_replacements:
            again = one.numbers.get("summary", 0) + one.numbers.get("kept", 0) + one.numbers.get("surviving", 0)
            saved -= (self.exchange.route.facts.write - price.read) * again
        return saved * price.input / 1_000_000

    @property
    def _new_replacements(self) -> tuple[Replacement, ...]:
        """Those that no request before had."""
        return tuple(one for one in self.replacements if one.request_id is None)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What was decided about the window since the request before."""
        kind = DecisionKind.REPLACED
        return tuple(
            Decision(kind, one.id, one.kind, "gateway", one.why, one.numbers) for one in self._new_replacements
        )

    def _saved(self, record: RequestRecord) -> float:
        """What the markers that were added here saved, in US dollars: the cost if nothing had been cached, less the
        cost. Below zero if what they wrote was not read yet.
        """
        usage = record.usage
        if usage is None or record.cost is None:
            return 0.0
        return self.exchange.route.facts.cost(Usage(input=usage.input, output=usage.output)) - record.cost

    def branch(self, turn_id: str) -> Decision | None:
        """What is decided about the place of this request's turn: it follows another answer than the newest."""
        if self.found.relation is not Relation.BRANCH or self.before is None or turn_id == self.before.turn_id:
            return None
        why = "the client went on from an earlier answer"
        return Decision(DecisionKind.BRANCH, turn_id, self.before.turn_id, CLIENT, why)

    @property
    def results(self) -> Sequence[ToolResult]:
        """The results of calls that the newest messages bring."""
        found: list[ToolResult] = []
        for group, step in zip(reversed(self.window.groups), reversed(self.window.segments), strict=True):
            if step.kind is not Kind.STEP or group[0].role == "assistant":
                break
            for block in group:
                value = block.value
                call = value.get("tool_use_id") or value.get("tool_call_id") or value.get("call_id")
                said = value.get("content") if "content" in value else value.get("output")
                content = said if isinstance(said, str) else text_of([{"role": "tool", "content": said or []}])
                if isinstance(call, str):
                    found.append(ToolResult(call, "", content, is_error=bool(value.get("is_error"))))
        return found[::-1]

    def new_request(self, record: RequestRecord) -> NewRequest:
        """The row of a request, as its difference to the one before on its line."""
        before, shared = self.before, 0
        if before is not None:
            pairs = zip(record.segments, before.segments, strict=False)
            same = next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
            shared = min(len(record.segments), len(before.segments)) if same is None else same
        fresh = [block for group in self.sent.groups[shared:] for block in group]
        blocks = {b.digest: StoredBlock(b.digest, b.level, b.role, b.data) for b in fresh}
        base = before.id if before is not None and shared else None
        return NewRequest(record, base, shared, tuple(blocks.values()), self.decisions)


def without_text(observed: ObservedRequest) -> ObservedRequest:
    """The same rows with digests, lengths, places and figures alone: no text of the body or of the answer."""
    request = observed.request
    error, effort = request.record.error, request.record.thinking_effort
    record = replace(
        request.record,
        head={name: _digest_of(value) for name, value in request.record.head.items()},
        thinking_effort=effort if effort in _EFFORTS else str(_digest_of(effort)),
        notes=(),
        segments=tuple(_segment_without_text(segment) for segment in request.record.segments),
        error={**error, "message": NOT_STORED, "hint": None, "param": None} if error is not None else None,
    )
    blocks = [replace(one, role=_role(one.role), data=hashed(one.data)) for one in request.blocks]
    step = replace(observed.step, parts=()) if observed.step is not None else None
    begins = "" if observed.begins is not None else None
    new = replace(request, record=record, blocks=blocks)
    return replace(observed, begins=begins, title=NOT_STORED, step=step, results=(), request=new)


NOT_STORED = "No text is stored"
"""Stands for what a key with hashes does not store."""

_EFFORTS = frozenset({OFF, "none", "minimal", "low", "medium", "high", "xhigh", "max"})
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "instructions"})


def _role(role: str) -> str:
    """A role of the vendors' APIs; a word of the client's own is text."""
    return role if role in _ROLES else "other"


def _segment_without_text(segment: StoredSegment) -> StoredSegment:
    before, bracket, role = segment.label.partition(" (")
    return replace(segment, label=f"{before} ({_role(role.rstrip(')'))})") if bracket else segment


def _digest_of(value: Json) -> Json:
    """A setting of a request as it is compared with that of another: a number as it is, all else as its digest."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return {"digest": digest(encode_sorted(value).encode())}


def hashed_session(session: str) -> str:
    """The name of a session of which no text is stored."""
    return f"hashed_{digest(session.encode())[:16]}"


def keys_of(window: ObservedWindow, exchange: Exchange, calibration: float) -> tuple[Chain, Facts]:
    """The keys of the window's prefixes, and what the planner needs."""
    model = exchange.route.facts
    segments = {segment.id: segment for segment in window.segments}
    named = window.head.get("prompt_cache_key") if model.markers is Markers.OPENAI else None
    cache = f"{exchange.route.account}/{model.name}" + (f"/{named}" if named else "")
    keys = chain(window.blocks, cache, salts_of(window))
    return keys, Facts(model, segments, calibration, exchange.at)


def usage_of_answer(answer: OpenStep) -> Usage | None:
    """The bill of an answer; None if none came."""
    return answer.usage if answer.is_billed or answer.usage.input else None


def text_of_answer(answer: OpenStep) -> str:
    """What an answer says."""
    return "".join(part.text for part in answer.parts() if isinstance(part, Text))


def step_of_answer(answer: OpenStep) -> Step | None:
    """The answer as a step; None if nothing of one came."""
    if not answer.has_blocks:
        return None
    birth = answer.birth
    stop = answer.stop_reason or StopReason.END_TURN
    return Step(birth.id, birth.model, answer.parts(), stop, "", answer.usage.output)
