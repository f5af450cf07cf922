"""A layout is a table in one file: a fifth one needs nothing else, and one that makes no sense says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.context.assemble import letters
from lamella.context.layout import Layout, OldResults, Slot
from lamella.context.layouts import LAYOUTS, by_name
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.agents import Agent, Project, Summary
from lamella.core.decisions import DecisionKind
from lamella.core.errors import ConfigurationError
from lamella.core.prompt import Kind, Lifetime, Zone

from .growing import Grown, grown
from .plans import laws
from .test_laws import LAWS
from .windows import answer, call, document, made, request, result, turn

FIFTH = Layout(
    name="fifth",
    description="The project in front, dynamic context last, old results gone at once.",
    slots=(
        Slot(Kind.TOOLS, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SYSTEM, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.SUMMARY, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.PROJECT, Zone.FIXED, Lifetime.SESSION),
        Slot(Kind.AGENT, Zone.TRAVELLING, Lifetime.TURN),
        Slot(Kind.USER, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.FILES, Zone.TURN, Lifetime.SESSION),
        Slot(Kind.STEP, Zone.TURN, Lifetime.TURN),
        Slot(Kind.DYNAMIC, Zone.TRAILING, Lifetime.STEP),
        Slot(Kind.REMINDER, Zone.TRAILING, Lifetime.STEP),
    ),
    old_results=OldResults.NOTICE,
    markers="planner",
)


def test_its_window_is_in_the_order_of_its_table() -> None:
    asked = request(
        turn(1, call("step_1", result("c1", "One.")), answer("step_2"), attached=[document(1, 5)]),
        turn(2, call("step_3", result("c2", "Two.")), attached=[document(2, 5)], dynamic="Ann."),
        agent=Agent("agent_1", "Pirate", "Talk like a pirate."),
        project=Project("proj_1", "Ship", "Sail."),
        summaries=(Summary("sum_1", "Before.", 2),),
        reminder="Cite.",
    )
    assert letters(made(asked, FIFTH).prompt.segments) == "S Σ P U1 F TC tr A1 CA U2 F TC TR D R"


def test_a_line_about_turns_that_left_changes_what_stands_after_the_summaries() -> None:
    """In this layout that is the project, and not the first turn: the line itself is the first change."""
    long = [turn(number, answer(f"step_{number}", "word " * 3_000)) for number in range(4)]
    left = made(request(*long, turn(9), budget=8_000, project=Project("proj_1", "Ship", "Sail.")), FIFTH)
    assert letters(left.prompt.segments).startswith("S Σ P")
    (decision,) = [one for one in left.decisions if one.kind is DecisionKind.LEFT_OUT]
    assert decision.first_changed == "left-out"


@pytest.mark.parametrize("law", LAWS)
@settings(laws, max_examples=25)
@given(grown(layouts=st.just(FIFTH)))
def test_it_keeps_the_laws(law: Callable[[Grown], None], conversation: Grown) -> None:
    law(conversation)


def test_the_late_form_of_dynamic_context_is_a_table_too() -> None:
    late = LAMELLA.late
    assert late is not None
    kinds = [slot.kind for slot in late.slots]
    assert kinds[-2:] == [Kind.DYNAMIC, Kind.REMINDER]
    assert [kind for kind in kinds if kind is not Kind.DYNAMIC] == [
        slot.kind for slot in LAMELLA.slots if slot.kind is not Kind.DYNAMIC
    ]
    assert (late.name, late.late, late.kept) == ("lamella", None, LAMELLA)
    assert FIFTH.late is None
    with pytest.raises(ConfigurationError, match="only dynamic context in zone trailing can be the late form"):
        replace(LAMELLA, late_dynamic=Slot(Kind.DYNAMIC, Zone.TURN, Lifetime.SESSION))


def test_it_is_found_by_its_name() -> None:
    known = by_name(*LAYOUTS.values(), FIFTH)
    assert list(known) == ["lamella", "fifth", "lis", "onyx", "wegent"]
    assert known["fifth"] is FIFTH


def test_two_of_one_name() -> None:
    with pytest.raises(ConfigurationError) as raised:
        by_name(*LAYOUTS.values(), FIFTH, Layout("fifth", LAMELLA.slots))
    assert (raised.value.message, raised.value.hint) == ("There are two layouts “fifth”.", "Rename one.")
    assert raised.value.param == "fifth"


def test_an_unknown_kind() -> None:
    unknown: Kind = "banner"  # type: ignore[assignment]
    with pytest.raises(ConfigurationError) as raised:
        Layout("mine", (*LAMELLA.slots, Slot(unknown, Zone.FIXED, Lifetime.SESSION)))
    assert raised.value.message == "layout “mine”, banner: there is no such kind of segment."


def test_a_kind_twice() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Layout("mine", (*LAMELLA.slots, Slot(Kind.USER, Zone.TURN, Lifetime.SESSION)))
    assert raised.value.message == "layout “mine”, user: it is in the table twice."


def test_a_kind_where_it_can_not_stand() -> None:
    slots = tuple(slot for slot in LAMELLA.slots if slot.kind is not Kind.USER)
    with pytest.raises(ConfigurationError) as raised:
        Layout("mine", (*slots, Slot(Kind.USER, Zone.TRAILING, Lifetime.STEP)))
    assert raised.value.message == "layout “mine”, user: it can stand in zone turn, not trailing."


def test_a_kind_that_has_no_place() -> None:
    slots = tuple(slot for slot in LAMELLA.slots if slot.kind not in (Kind.PROJECT, Kind.AGENT))
    with pytest.raises(ConfigurationError) as raised:
        Layout("mine", slots)
    assert raised.value.message == "layout “mine”, agent, project: there is no place for it."
