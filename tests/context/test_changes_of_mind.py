"""What was decided holds as long as what it was about: an edit, a refusal or a withdrawal is decided anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.context.assemble import letters
from lamella.context.layout import Layout, OldResults, Slot
from lamella.context.layouts import LAYOUTS
from lamella.context.segments import WITHDRAWN
from lamella.core.agents import Agent, Project
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ConfigurationError, ContextLengthExceeded
from lamella.core.prompt import Kind, Lifetime, Zone

from .plans import LOOSE
from .windows import absent, answer, call, document, made, request, result, results, text_of, the, turn, words


def test_a_project_that_was_too_large_is_taken_once_it_is_edited() -> None:
    large = Project("proj_1", "Ship", files=(document(1, 90_000), document(2, 5)))
    first = made(request(turn(1), project=large, budget=20_000), "onyx")
    assert [(d.subject, d.outcome) for d in first.decisions] == [("proj_1.1@claude-opus-5", "listed")]
    assert '"contents"' not in text_of(the(first, "proj_1"))
    assert letters(first.prompt.segments) == "S P U1"
    small = replace(large, files=large.files[1:], revision=2)
    again = made(request(turn(1), project=small, budget=20_000, decisions=first.decisions), "onyx")
    assert [decision.outcome for decision in again.decisions] == ["included"]
    assert '"contents":"words"' in text_of(the(again, "proj_1"))


def test_a_project_that_grew_is_decided_again() -> None:
    small = Project("proj_1", "Ship", files=(document(1, 5),))
    first = made(request(turn(1), project=small, budget=20_000), "onyx")
    large = replace(small, files=(*small.files, document(2, 90_000)), revision=2)
    again = made(request(turn(1), project=large, budget=20_000, decisions=first.decisions), "onyx")
    assert [(d.subject, d.outcome) for d in again.decisions] == [("proj_1.2@claude-opus-5", "listed")]


def test_a_cut_result_is_cut_once_more_when_the_provider_counts_more() -> None:
    running = turn(1, call("step_1", result("c1", words(9_000))))
    first = made(request(running, budget=4_000))
    assert [decision.kind for decision in first.decisions] == [DecisionKind.CUT]
    again = made(request(running, budget=4_000, decisions=first.decisions, calibration=1.5))
    assert [decision.kind for decision in again.decisions] == [DecisionKind.CUT]
    assert len(results(again)["c1"]) < len(results(first)["c1"])
    assert again.report.estimate * 1.05 <= 4_000


def test_dynamic_context_that_is_gone_is_taken_back_once() -> None:
    told = turn(1, answer("step_1"), dynamic="You may read base A.")
    asked = made(request(told, turn(2, answer("step_2")), turn(3)))
    assert letters(asked.prompt.segments) == "S U1 D A1 U2 D A2 U3"
    assert text_of(the(asked, "turn_2/dynamic")) == WITHDRAWN
    back = made(request(told, turn(2, answer("step_2")), turn(3, dynamic="You may read base A.")))
    assert letters(back.prompt.segments) == "S U1 D A1 U2 D A2 U3 D"
    never = made(request(turn(1, answer("step_1")), turn(2)))
    assert letters(never.prompt.segments) == "S U1 A1 U2"


def test_dynamic_context_of_a_late_session_is_last_and_gone_with_the_next_request() -> None:
    late = LAYOUTS["lamella"].late
    assert late is not None
    told = turn(1, answer("step_1"), dynamic="You may read base A.")
    running = turn(2, call("step_2", result("c1", "Yes.")), dynamic="You may read base A.")
    assert letters(made(request(told, turn(2, dynamic="Base A.")), late).prompt.segments) == "S U1 A1 U2 D"
    asked = made(request(told, running, reminder="Answer."), late)
    assert letters(asked.prompt.segments) == "S U1 A1 U2 TC TR D R"
    untold = made(request(told, turn(2)), late)
    assert letters(untold.prompt.segments) == "S U1 A1 U2"
    assert absent(untold)[Kind.DYNAMIC] == "no dynamic context came with this message"
    # A model that binds its thinking to what stands before it has it kept.
    bound = made(request(told, running, model=replace(LOOSE, binds_thinking=True)), late)
    assert letters(bound.prompt.segments) == "S U1 D A1 U2 TC TR"


def test_the_boundary_is_the_newest_one_on_this_path() -> None:
    """Another branch of the conversation has a boundary of its own."""
    decisions = tuple(
        Decision(DecisionKind.PRUNE, "conv", step, "engine", "full") for step in ("step_1", "step_elsewhere")
    )
    old = turn(1, call("step_1", result("c1", "One.")), answer("step_2"))
    assert results(made(request(old, turn(2), decisions=decisions))) == {"c1": "search"}


@pytest.mark.parametrize("title", ["a.txt", "项目计划和预算的完整中文标题文件名" * 8, "x" * 300])
def test_what_stands_around_a_document_is_counted(title: str) -> None:
    many = [replace(document(number, 0, ""), title=title) for number in range(1, 60)]
    segment = the(made(request(turn(1, attached=many))), "turn_1/files")
    assert segment.tokens >= count_tokens(text_of(segment))
    assert segment.tokens < count_tokens(text_of(segment)) * 1.2 + 20


def test_two_segments_of_one_name_are_an_error() -> None:
    agent, project = Agent("x", "Pirate", "Arr."), Project("x", "Ship", "Sail.")
    with pytest.raises(ConfigurationError, match="Two segments of a window are named “x”"):
        made(request(turn(1), agent=agent, project=project))


def test_a_reminder_that_is_too_large_is_named() -> None:
    with pytest.raises(ContextLengthExceeded) as caught:
        made(request(turn(1), budget=5_000, reminder=words(9_000)))
    assert caught.value.param == "reminder"
    assert "Reminder" in caught.value.message


def changed(**fields: object) -> Layout:
    """The default layout with other fields."""
    return replace(LAYOUTS["lamella"], name="other", **fields)  # type: ignore[arg-type]


def order(*kinds: Kind) -> tuple[Slot, ...]:
    """The default's slots, these kinds first in this order."""
    slots = LAYOUTS["lamella"].slots
    first = [next(slot for slot in slots if slot.kind is kind) for kind in kinds]
    return (*first, *(slot for slot in slots if slot.kind not in kinds))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"old_results": OldResults.NOTICE}, "step: results that are replaced when a turn is over have the lifetime"),
        ({"slots": order(Kind.SYSTEM, Kind.TOOLS)}, "tools: it can't come after system"),
        ({"slots": order(Kind.TOOLS, Kind.SYSTEM, Kind.PROJECT, Kind.AGENT)}, "agent: it can't come after project"),
        ({"slots": order(Kind.TOOLS, Kind.SYSTEM, Kind.STEP)}, "can't come after step"),
        ({"slots": order(Kind.REMINDER)}, "can't come after reminder"),
    ],
)
def test_a_table_that_cannot_hold_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        changed(**fields)
    assert words in caught.value.message
    assert caught.value.hint == "Correct the table of the layout."


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        (
            Slot(Kind.USER, Zone.TURN, Lifetime.SESSION, keep_for_bound_thinking=True),
            "user: only a reminder can be kept",
        ),
        (Slot(Kind.FILES, Zone.TURN, Lifetime.SESSION, as_system=True), "files: only a reminder can be kept"),
        (Slot(Kind.USER, Zone.TURN, Lifetime.SESSION, when_changed=True), "user: only dynamic context in zone turn"),
    ],
)
def test_a_flag_that_a_kind_does_not_have_is_refused(slot: Slot, words: str) -> None:
    slots = tuple(slot if slot.kind is old.kind else old for old in LAYOUTS["lamella"].slots)
    with pytest.raises(ConfigurationError) as caught:
        changed(slots=slots)
    assert words in caught.value.message
