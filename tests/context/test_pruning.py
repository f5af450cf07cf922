"""Law 4: a higher prune boundary changes only tool results up to it, and takes away the thinking made behind them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lamella.context.assemble import Assembled, assemble
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Part, Reasoning, ToolResult

from .conversations import Grown, Sent, grown, in_lamella, laws


def pruned(sent: Sent, boundary: str) -> Assembled:
    """The same request with everything decided, and a boundary after the step of this id."""
    decision = Decision(DecisionKind.PRUNE, "conv", boundary, "engine", "it pays")
    decisions = (*sent.context.decisions, *sent.assembled.decisions, decision)
    return assemble(replace(sent.context, decisions=decisions, budget=1_000_000), sent.layout)


def parts_of(assembled: Assembled) -> list[tuple[str, str, Part]]:
    return [
        (segment.id, message.role, part)
        for segment in assembled.prompt.segments
        for message in segment.messages
        for part in message.parts
    ]


@laws
@given(grown(layouts=in_lamella), st.data())
def test_only_results_up_to_the_boundary_become_stubs(conversation: Grown, data: st.DataObject) -> None:
    for sent in conversation.sent:
        steps = [step.id for turn in sent.context.history for step in turn.steps]
        if not steps:
            continue
        boundaries = [d.outcome for d in sent.context.decisions if d.kind is DecisionKind.PRUNE]
        start = steps.index(boundaries[-1]) if boundaries else 0
        end = data.draw(st.integers(start, len(steps) - 1))
        behind = set(steps[: end + 1])
        before, after = parts_of(sent.assembled), parts_of(pruned(sent, steps[end]))
        steady = [(p, q) for p, q in zip(said(before), said(after), strict=True) if p != q]
        for (segment, role, old), (same_segment, same_role, new) in steady:
            assert (segment, role) == (same_segment, same_role)
            assert isinstance(old, ToolResult)
            assert segment in behind
            assert new == ToolResult(old.call_id, old.name, old.name)


def said(parts: list[tuple[str, str, Part]]) -> list[tuple[str, str, Part]]:
    return [part for part in parts if not isinstance(part[2], Reasoning)]


@laws
@given(grown(layouts=in_lamella))
def test_thinking_before_the_first_stub_stays_and_behind_it_goes(conversation: Grown) -> None:
    for sent in conversation.sent:
        steps = [step.id for turn in sent.context.history for step in turn.steps]
        if not steps:
            continue
        before, after = parts_of(sent.assembled), parts_of(pruned(sent, steps[-1]))
        unchanged = 0
        while unchanged < len(before) and before[unchanged] == after[unchanged]:
            unchanged += 1
        thoughts = [part for part in after[unchanged:] if isinstance(part[2], Reasoning)]
        assert thoughts == [] or len(before) == unchanged


@laws
@given(grown(layouts=in_lamella))
def test_a_boundary_that_is_not_on_the_path_changes_nothing(conversation: Grown) -> None:
    for sent in conversation.sent:
        if not any(decision.kind is DecisionKind.PRUNE for decision in sent.context.decisions):
            assert pruned(sent, "step_elsewhere").prompt == sent.assembled.prompt
