"""From a turn and its steps to a request ready to be stored and sent: assemble, wire, plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from lamella.cache.forecast import ALONE, forecast_of
from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, Plan, plan
from lamella.cache.window import Chain, chain
from lamella.context.assemble import Assembled, assemble, letters
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.segments import content_digest, system_segment
from lamella.core.counting import MESSAGE_TOKENS, aside, count_tokens
from lamella.core.messages import Text
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import (
    Kind,
    Lifetime,
    Prompt,
    PromptMessage,
    Sampling,
    Segment,
    Ttl,
    WireBlock,
    Wired,
    WireRequest,
    Zone,
)
from lamella.core.records import NewRequest, RequestRecord, StoredBlock, StoredMarker, StoredSegment


@dataclass(frozen=True, slots=True)
class PrefixLine:
    """The state that a conversation's last request left, so that the next one only makes what is new."""

    assembled: Assembled
    wired: Wired
    chain: Chain
    record: RequestRecord
    depth: int
    """How many requests back the last one lies that was stored whole."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with everything known before it is sent."""

    assembled: Assembled
    wired: Wired
    plan: Plan
    facts: Facts
    request: WireRequest


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The ids of a request. `run_id` is None for a side request."""

    id: str
    conversation_id: str
    turn_id: str
    step: int
    purpose: str
    at: datetime
    run_id: str | None = None


WHOLE_EVERY = 32
"""Every so many requests one is stored whole, so that reading a request never follows a long chain of differences."""

WHOLE_AFTER = timedelta(hours=12)
"""After so long a pause a request is stored whole. Bodies are kept for a day at least, so that no request is stored as
its difference to one whose body expires meanwhile.
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """A window as the model's provider gets it, without its markers, and the keys of its prefixes."""

    context: ContextInput
    assembled: Assembled
    wired: Wired
    chain: Chain
    model: ChatModel


def draft(
    context: ContextInput, layout: Layout, model: ChatModel, account: str, line: PrefixLine | Draft | None
) -> Draft:
    """Assemble the window and convert it to wire blocks. Parts that `line`, an earlier window, has are reused.

    Raises `ContextLengthExceeded` if it does not fit.
    """
    assembled = assemble(context, layout, line.assembled if line else None)
    wired = model.wire(assembled.prompt, line.wired if line else None)
    root, salts = cache_root(account, model.facts), model.salts(assembled.prompt.sampling)
    keys = chain(wired.blocks, root, salts, line.chain if line else None)
    return Draft(context, assembled, wired, keys, model)


async def drafted(
    context: ContextInput, layout: Layout, model: ChatModel, account: str, line: PrefixLine | Draft | None
) -> Draft:
    """As `draft`, in a thread for a long window, so that the event loop is not blocked."""
    return await aside(len(context.history), draft, context, layout, model, account, line)


def prepare(
    made: Draft, policy: MarkerPolicy, ledger: Ledger, now: datetime, ttl: Ttl | None = None, *, alone: bool = False
) -> Prepared:
    """Place the markers and predict the bill. `ttl` is the lifetime of marked prefixes. `alone`: no request continues
    from this one, so it reads the cache and writes nothing.
    """
    context, assembled, segments = made.context, made.assembled, made.assembled.prompt.segments
    facts = Facts(
        made.model.facts,
        {s.id: s for s in segments},
        context.calibration,
        now,
        assembled.layout.seed_markers,
        ttl,
        ALONE
        if alone
        else forecast_of(
            context.history,
            context.turn,
            may_call=bool(context.tools) and not context.last_step,
            before=context.sent_before,
        ),
    )
    planned = plan(made.chain, ledger, facts, policy)
    request = made.model.request(assembled.prompt, made.wired.blocks, planned.markers)
    return Prepared(assembled, made.wired, planned, facts, request)


def cache_root(account: str, facts: ModelFacts) -> str:
    """The part of the cache key that every prefix depends on: the account and the model."""
    return f"{account}/{facts.name}"


def tool_choice_is_free(model: ChatModel, sampling: Sampling) -> bool:
    """Whether a request may forbid calls without losing the cache."""
    return model.salts(sampling) == model.salts(replace(sampling, tool_choice="none"))


def new_request(
    prepared: Prepared, identity: RequestIdentity, policy: MarkerPolicy, line: PrefixLine | None
) -> NewRequest:
    """The row of a prepared request, stored as its difference to the one before on its line."""
    stored = _stored_segments(prepared.wired, line)
    base = line.record if line is not None and line.depth < WHOLE_EVERY else None
    if base is not None and identity.at - base.at > WHOLE_AFTER:
        base = None
    shared = _shared(stored, base.segments) if base else 0
    record = RequestRecord(
        id=identity.id,
        conversation_id=identity.conversation_id,
        turn_id=identity.turn_id,
        run_id=identity.run_id,
        step=identity.step,
        purpose=identity.purpose,
        model=prepared.facts.model.name,
        layout=prepared.assembled.layout.name,
        marker_policy=policy.value,
        thinking_effort=prepared.assembled.prompt.sampling.thinking_effort,
        at=identity.at,
        head=prepared.request.head,
        letters=letters(prepared.wired.segments),
        segments=stored,
        zones=zones_of(prepared.wired.segments),
        markers=tuple(StoredMarker(m.index, m.ttl.value, m.why) for m in prepared.plan.markers),
        notes=tuple((n.segment, n.text) for n in (*prepared.assembled.report.notes, *prepared.plan.notes)),
        absent=tuple((absence.kind.value, absence.why) for absence in prepared.assembled.report.absent),
        protocol=str(prepared.facts.model.protocol),
        local_tokens=prepared.assembled.report.local,
        estimate=prepared.assembled.report.estimate,
        budget=prepared.assembled.report.budget,
        predicted_read=prepared.plan.read,
        predicted_written=prepared.plan.written,
        predicted_hit=prepared.plan.hit,
        made_from=_bases_of(prepared.assembled.prompt),
    )
    fresh = [block for group in prepared.wired.groups[shared:] for block in group]
    return NewRequest(
        record=record,
        base=base.id if base else None,
        shared=shared,
        blocks=_blocks(fresh),
        decisions=prepared.assembled.decisions,
    )


def _bases_of(prompt: Prompt) -> tuple[str, ...]:
    """The knowledge bases of which something stands in a window."""
    return tuple(sorted(frozenset[str]().union(*prompt.made_from.values())))


def next_line(prepared: Prepared, stored: NewRequest, line: PrefixLine | None) -> PrefixLine:
    """The state from which the next request starts."""
    depth = line.depth + 1 if line is not None and stored.base else 0
    return PrefixLine(prepared.assembled, prepared.wired, prepared.plan.chain, stored.record, depth)


def _stored_segments(wired: Wired, line: PrefixLine | None) -> tuple[StoredSegment, ...]:
    """The rows of all segments; those that the request before began with are at hand."""
    same = 0
    if line is not None:
        for old, new in zip(line.wired.segments, wired.segments, strict=False):
            if old is not new and old != new:
                break
            same += 1
    made = [StoredSegment.of(s, g) for s, g in zip(wired.segments[same:], wired.groups[same:], strict=True)]
    return (*line.record.segments[:same], *made) if line is not None else tuple(made)


def _shared(mine: tuple[StoredSegment, ...], theirs: tuple[StoredSegment, ...]) -> int:
    count = 0
    for a, b in zip(mine, theirs, strict=False):
        if a is not b and a != b:
            break
        count += 1
    return count


def _blocks(blocks: Iterable[WireBlock]) -> tuple[StoredBlock, ...]:
    return tuple(StoredBlock(block.digest, block.level, block.role, block.data) for block in blocks)


def side_prompt(
    model: str, system: str, text: str, sampling: Sampling, made_from: frozenset[str] = frozenset()
) -> Prompt:
    """The window of a side request: a system prompt and one message, which may hold text of the knowledge bases
    `made_from`.
    """
    messages = (PromptMessage("user", (Text(text),)),)
    question = Segment(
        id="material",
        kind=Kind.USER,
        zone=Zone.TURN,
        lifetime=Lifetime.STEP,
        source="material",
        owner="engine",
        label="What it is about",
        letters="U",
        tokens=count_tokens(text) + MESSAGE_TOKENS,
        digest=content_digest(messages),
        messages=messages,
        made_from=made_from,
    )
    return Prompt(model, (system_segment(system), question), sampling)


def side_request(
    model: ChatModel, prompt: Prompt, identity: RequestIdentity, layout: Layout, budget: int, calibration: float
) -> tuple[WireRequest, NewRequest]:
    """A side request and its record: stored whole, without markers."""
    wired = model.wire(prompt)
    request = model.request(prompt, wired.blocks, ())
    local = sum(segment.tokens for segment in prompt.segments)
    record = RequestRecord(
        id=identity.id,
        conversation_id=identity.conversation_id,
        turn_id=identity.turn_id,
        run_id=identity.run_id,
        step=identity.step,
        purpose=identity.purpose,
        model=prompt.model,
        layout=layout.name,
        marker_policy=MarkerPolicy.OFF.value,
        thinking_effort=prompt.sampling.thinking_effort,
        at=identity.at,
        head=request.head,
        letters=letters(prompt.segments),
        segments=_stored_segments(wired, None),
        zones=zones_of(prompt.segments),
        markers=(),
        notes=(),
        protocol=str(model.facts.protocol),
        local_tokens=local,
        estimate=int(local * calibration),
        budget=budget,
        predicted_read=0,
        predicted_written=0,
        predicted_hit=None,
        made_from=_bases_of(prompt),
    )
    return request, NewRequest(record=record, base=None, shared=0, blocks=_blocks(wired.blocks))


def zones_of(segments: tuple[Segment, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((zone.value, sum(1 for _ in run)) for zone, run in groupby(segment.zone for segment in segments))
