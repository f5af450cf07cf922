"""The laws of the context core, each a plain function over a grown conversation.

A law that is broken raises AssertionError. Law 7 has a file of its own; law 8 belongs to compaction.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

from lamella.cache.ledger import Ledger
from lamella.cache.planner import MAX_MARKERS, MarkerPolicy, note_billed, note_written
from lamella.context.assemble import Assembled
from lamella.context.choices import EXTRACTS
from lamella.context.input import ContextInput
from lamella.context.results import EXTRACT_VERSION, extracts_of, notices_of, stubs_of
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Image, Part, Reasoning, Step, ToolCall, ToolResult, Turn
from lamella.core.prompt import Kind, Lifetime, Segment, WireBlock, Zone
from lamella.core.tokens import Usage

from .growing import Grown, Sent
from .vendor_rules import CHECKS, THINKING
from .wires import WIRES, adapter, blocks_of, body_of, keyed

RANK = {Lifetime.SESSION: 0, Lifetime.TURN: 1, Lifetime.STEP: 2}
ZONES = {Zone.FIXED: 0, Zone.HISTORY: 1, Zone.TRAVELLING: 2, Zone.TURN: 3, Zone.TRAILING: 4}

Bytes = tuple[str, str, bytes]


def law_1(conversation: Grown) -> None:
    """Neighbours of a line are equal up to the first segment that ended or that a decision names as first changed.

    Equal are segments, wire blocks and salts. A first picture is a salt that the user's message or the project brings;
    only those of a project go again, with a segment that does not last.
    """
    for before, after in conversation.consecutive():
        length = lasting(before, after)
        old, new = before.assembled.prompt, after.assembled.prompt
        assert [content(s) for s in new.segments[:length]] == [content(s) for s in old.segments[:length]]
        kept = {segment.id for segment in old.segments[:length]}
        for wire in WIRES:
            blocks = [as_sent(block) for block in conversation.wired(before, wire) if block.segment in kept]
            assert [as_sent(block) for block in conversation.wired(after, wire)[: len(blocks)]] == blocks
            model = adapter(wire, after.context.model)
            if old.sampling.images == new.sampling.images and before.context.last_step == after.context.last_step:
                assert model.salts(old.sampling) == model.salts(new.sampling)
        compacted = {s.id for s in after.context.summaries} - {s.id for s in before.context.summaries}
        left = after.path[0].id != before.path[0].id
        with_pictures = [s for s in old.segments if any(isinstance(p, Image) for m in s.messages for p in m.parts)]
        gone = all(s.kind is Kind.PROJECT and s not in old.segments[:length] for s in with_pictures)
        assert old.sampling.images <= new.sampling.images or compacted or left or gone


def lasting(before: Sent, after: Sent) -> int:
    """How many segments `before` has in front of the first one that `after` need not have any more."""
    if after.layout.drops_tools_at_end and before.context.last_step != after.context.last_step:
        return 0
    same_turn = before.context.turn.id == after.context.turn.id
    named = named_since(before, after)

    def lasts(segment: Segment) -> bool:
        ended = segment.lifetime is Lifetime.STEP or (segment.lifetime is Lifetime.TURN and not same_turn)
        return not ended and segment.id not in named

    old = sum(1 for _ in takewhile(lasts, before.assembled.prompt.segments))
    new = sum(1 for _ in takewhile(lambda segment: segment.id not in named, after.assembled.prompt.segments))
    return min(old, new)


def named_since(before: Sent, after: Sent) -> set[str]:
    """The segments that decisions between two requests name as first changed."""
    known = set(map(id, before.decisions))
    since = (decision for decision in after.decisions if id(decision) not in known)
    return {decision.first_changed for decision in since if decision.first_changed is not None}


def content(segment: Segment) -> tuple[object, ...]:
    """What of a segment lasts: zone and lifetime change with its age, and a result gets a digest that is not sent."""
    return segment.id, segment.kind, segment.digest, segment.tools


def as_sent(block: WireBlock) -> Bytes:
    """What of a block leaves."""
    return block.level, block.role, block.data


def law_2(conversation: Grown) -> None:
    """In `lamella` nothing that lives longer stands behind something that lives shorter; ids are unique everywhere."""
    for sent in conversation.sent:
        segments = sent.assembled.prompt.segments
        assert len({segment.id for segment in segments}) == len(segments)
        if sent.layout.name != "lamella":
            continue
        for first, second in pairwise(segments):
            assert RANK[first.lifetime] <= RANK[second.lifetime]
            assert ZONES[first.zone] <= ZONES[second.zone]
        lifetime = {segment.id: segment.lifetime for segment in segments}
        for wire in WIRES:
            for one, next in pairwise(conversation.wired(sent, wire)):
                assert RANK[lifetime[one.segment]] <= RANK[lifetime[next.segment]]


def law_3(conversation: Grown) -> None:
    """Same data, same bytes: in a fresh process, with rows read anew, in any order, with the decisions fed back."""
    make = conversation.code.assemble
    for sent in conversation.sent:
        fresh = make(sent.context, sent.layout, None)
        assert fresh.decisions == sent.assembled.decisions
        expect_alike(conversation, fresh, sent)
        for wire in WIRES:
            assert blocks_of(sent.assembled, wire, sent.before) == blocks_of(sent.assembled, wire)
        other_order = make(in_another_order(sent.context), sent.layout, sent.before)
        assert set(map(fact, other_order.decisions)) == set(map(fact, sent.assembled.decisions))
        expect_alike(conversation, other_order, sent)
        known = replace(sent.context, decisions=sent.decisions)
        again = make(known, sent.layout, sent.before)
        assert again.decisions == ()
        expect_alike(conversation, again, sent)
        for calibration in (0.5, 4.0):
            learnt = make(replace(known, calibration=calibration, budget=10_000_000), sent.layout, None)
            assert learnt.prompt == sent.assembled.prompt
    for sent in conversation.sent[-1:]:
        expect_alike(conversation, make(copy.deepcopy(sent.context), sent.layout, sent.before), sent)


def expect_alike(conversation: Grown, made: Assembled, sent: Sent) -> None:
    """Equal in everything but what only saves work, also on the wires."""
    assert made.prompt == sent.assembled.prompt
    assert made.report == sent.assembled.report
    for wire in WIRES:
        assert conversation.code.wire(made, wire) == conversation.wired(sent, wire)


def fact(decision: Decision) -> tuple[str, str, str]:
    """What a decision says."""
    return decision.kind, decision.subject, decision.outcome


def in_another_order(context: ContextInput) -> ContextInput:
    """The same data as another store might give it: tools, results and decisions inserted the other way round.

    Decisions about one thing keep their order, since the newest holds; so do all that move the boundary.
    """
    groups: dict[tuple[str, str], list[Decision]] = {}
    for decision in context.decisions:
        key = "" if decision.kind is DecisionKind.PRUNE else decision.subject
        groups.setdefault((decision.kind, key), []).append(decision)
    return replace(
        context,
        tools=context.tools[::-1],
        history=tuple(turned(turn) for turn in context.history),
        turn=turned(context.turn),
        decisions=tuple(decision for group in reversed(groups.values()) for decision in group),
    )


def turned(turn: Turn) -> Turn:
    """A turn whose results came in the other order."""
    return replace(turn, steps=tuple(replace(step, results=step.results[::-1]) for step in turn.steps))


def law_4(conversation: Grown) -> None:
    """A higher boundary changes only results up to it, and takes away all thinking behind the first that changed."""
    for sent in conversation.sent:
        steps = [step for turn in sent.context.history for step in turn.steps]
        if not steps or DecisionKind.PRUNE in {decision.kind for decision in sent.assembled.decisions}:
            continue
        ids = [step.id for step in steps]
        boundaries = [d.outcome for d in sent.context.decisions if d.kind is DecisionKind.PRUNE]
        if boundaries and boundaries[-1] in {step.id for step in sent.context.turn.steps}:
            continue  # it is higher already
        start = ids.index(boundaries[-1]) if boundaries and boundaries[-1] in ids else 0
        for end in {start + (len(ids) - start) // 2, len(ids) - 1}:
            higher = pruned(conversation, sent, ids[min(end, len(ids) - 1)])
            expect_only_stubs(sent, higher, steps[: end + 1])


def pruned(conversation: Grown, sent: Sent, boundary: str) -> Assembled:
    """The same request with everything decided, and a boundary after the step of this id."""
    numbers = {EXTRACTS: EXTRACT_VERSION} if len(boundary) % 2 else {}
    decision = Decision(DecisionKind.PRUNE, "conv", boundary, "engine", "it pays", numbers)
    known = replace(sent.context, decisions=(*sent.decisions, decision), budget=10_000_000)
    return conversation.code.assemble(known, sent.layout, None)


def expect_only_stubs(sent: Sent, higher: Assembled, behind: Sequence[Step]) -> None:
    """What changed are results of the steps `behind` the boundary, into stubs, and thinking from there on."""
    stubs = {result for step in behind for result in (*stubs_of(step), *notices_of(step))}
    stubs |= {result for step in behind for result in stubs_of(step, readable=True)}
    for turn in sent.context.history:
        for step in turn.steps:
            for readable in (False, True):
                stubs |= set(stubs_of(step, readable=readable, extracts=extracts_of(turn, step)))
    ids = {step.id for step in behind}
    old, new = parts_of(sent.assembled), parts_of(higher)
    for before, after in zip(said(old), said(new), strict=True):
        if before != after:
            assert before[:2] == after[:2]
            assert before[0] in ids
            assert isinstance(before[2], ToolResult)
            assert after[2] in stubs
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    assert same == len(old) or not [part for part in new[same:] if isinstance(part[2], Reasoning)]


def parts_of(assembled: Assembled) -> list[tuple[str, str, Part]]:
    """Every part of a window, with its segment and its role."""
    return [
        (segment.id, message.role, part)
        for segment in assembled.prompt.segments
        for message in segment.messages
        for part in message.parts
    ]


def said(parts: Iterable[tuple[str, str, Part]]) -> list[tuple[str, str, Part]]:
    """The parts that are not thinking."""
    return [part for part in parts if not isinstance(part[2], Reasoning)]


def law_5(conversation: Grown) -> None:
    """Calls have exactly their results, roles are valid, ids are mapped stably, thinking goes only where it may."""
    places: dict[tuple[str, str, int], bytes] = {}
    for sent in conversation.sent:
        expect_pairs(sent)
        for wire in WIRES:
            blocks = conversation.wired(sent, wire)
            sent_body: Any = body_of(sent.assembled, wire, blocks)
            CHECKS[wire](sent_body)
            expect_stable(wire, blocks, places)
        expect_own_thinking(conversation, sent)


def expect_pairs(sent: Sent) -> None:
    """Behind the calls of each step stands one result for each, in order."""
    for segment in sent.assembled.prompt.segments:
        for before, after in pairwise((*segment.messages, None)):
            assert before is not None
            calls = [part.id for part in before.parts if isinstance(part, ToolCall)]
            results = [part.call_id for part in after.parts if isinstance(part, ToolResult)] if after else []
            assert calls == results or before.role == "tool"


def expect_stable(wire: str, blocks: Sequence[WireBlock], places: dict[tuple[str, str, int], bytes]) -> None:
    """The blocks of an answer are the same in every request, but for thinking and for what calls came to search."""
    counts: dict[str, int] = {}
    for block in blocks:
        if block.role == "assistant" and block.value.get("type") not in THINKING:
            place = (wire, block.segment, counts.setdefault(block.segment, 0))
            counts[block.segment] += 1
            assert places.setdefault(place, block.data) == block.data


def expect_own_thinking(conversation: Grown, sent: Sent) -> None:
    """Thinking stands in the window of the model that made it, and in `lamella` behind just what it was made after."""
    steps = {step.id: step for turn in sent.path for step in turn.steps}
    blocks = conversation.wired(sent, "anthropic")
    for index, block in enumerate(blocks):
        if block.value.get("type") in THINKING:
            assert steps[block.segment].model == sent.context.model.name
            if sent.layout.name == "lamella":
                own = [b for b in blocks[:index] if b.segment == block.segment]
                asked = [*request_of(conversation, block.segment), *own]
                assert without_thinking(blocks[:index]) == without_thinking(asked)


def request_of(conversation: Grown, step: str) -> list[WireBlock]:
    """The request that a step answers, less a reminder and dynamic context that travel on."""
    sent = conversation.made_by[step]
    segments = sent.assembled.prompt.segments
    gone = {"reminder"} | {s.id for s in segments if (s.kind, s.zone) == (Kind.DYNAMIC, Zone.TRAILING)}
    return [b for b in conversation.wired(sent, "anthropic") if b.segment not in gone]


def without_thinking(blocks: Sequence[WireBlock]) -> list[bytes]:
    """The bytes of all other blocks."""
    return [block.data for block in blocks if block.value.get("type") not in THINKING]


MARKER = {"anthropic": "cache_control", "openai": "prompt_cache_breakpoint", "responses": "prompt_cache_breakpoint"}


def law_6(conversation: Grown) -> None:
    """At most 4 markers under every policy, only on blocks that take one; the planner's at the end of what stays."""
    for wire in WIRES:
        wired = [conversation.wired(sent, wire) for sent in conversation.sent]
        for policy in MarkerPolicy:
            ledger = Ledger()
            for sent, blocks in zip(conversation.sent, wired, strict=True):
                chain, facts = keyed(sent.assembled, wire, blocks, sent.context.calibration)
                plan = conversation.code.markers(chain, ledger, facts, policy)
                indexes = [marker.index for marker in plan.markers]
                assert len(indexes) <= MAX_MARKERS
                assert indexes == sorted(set(indexes))
                assert all(blocks[index].markable for index in indexes)
                assert keys_of(body_of(sent.assembled, wire, blocks, plan.markers)).count(MARKER[wire]) == len(indexes)
                assert not indexes or (facts.model.markers != "none" and policy is not MarkerPolicy.OFF)
                if policy is MarkerPolicy.PLANNER and facts.model.markers != "none":
                    expect_steady(blocks, indexes, facts.segments)
                note_written(plan, ledger, facts)
                note_billed(plan, Usage(input=5_000, cache_write_5m=4_000), ledger, facts)


def expect_steady(blocks: Sequence[WireBlock], marked: Sequence[int], segments: Any) -> None:
    """None on a segment of lifetime step; one on the last markable block before the first that may move."""
    lifetimes = [segments[block.segment].lifetime for block in blocks]
    assert all(lifetimes[index] is not Lifetime.STEP for index in marked)
    steady = list(takewhile(lambda index: lifetimes[index] is Lifetime.SESSION, range(len(blocks))))
    expected = max((index for index in steady if blocks[index].markable), default=None)
    assert expected is None or expected in marked


def keys_of(value: object) -> list[str]:
    """The keys of all objects in a JSON value."""
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in keys_of(inner))]
    return [key for inner in value for key in keys_of(inner)] if isinstance(value, list) else []
