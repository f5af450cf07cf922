"""The form of dynamic context: chosen by price with the first turn of a session that has any, and pinned (5.10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lamella.cache.planner import MarkerPolicy
from lamella.context.layouts import LAYOUTS
from lamella.core.decisions import Decision
from lamella.core.messages import Step, StopReason, Turn, UserMessage
from lamella.core.models import Markers
from lamella.core.records import Conversation, ConversationSnapshot, Place, StoredDecision
from lamella.core.sessions import Session, SessionCause
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.turns.session_choices import FormRule, Terms, chosen_form, expected, layout_of

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAMELLA = LAYOUTS["lamella"]
PAYS = Terms(FACTS, MarkerPolicy.PLANNER, FormRule.PAYS)


def turn(number: int, dynamic: str = "", calls: int = 1) -> Turn:
    """A turn of so many calls, a minute after the one before."""
    sent = NOON + timedelta(minutes=number)
    steps = tuple(Step(f"s{number}_{i}", "m", (), StopReason.END_TURN, "", 1) for i in range(calls))
    return Turn(f"turn_{number}", UserMessage(f"m{number}", "?", sent, "UTC", 1, (), dynamic), steps)


def beginning(
    *path: Turn, decisions: tuple[Decision, ...] = (), session: int = 1, opened: int = 0
) -> ConversationSnapshot:
    """A session of this number that was opened so many minutes past noon."""
    begins = f"end_of_{session - 1}" if session > 1 else None
    here = Session(
        f"ses_{session}", "c", session, NOON + timedelta(minutes=opened), SessionCause.CREATED, begins_after=begins
    )
    stored = tuple(StoredDecision(f"d{i}", NOON, one) for i, one in enumerate(decisions))
    conversation = Conversation("c", "", "scripted", "lamella", "planner", "", (), NOON, NOON)
    return ConversationSnapshot(conversation, path, stored, None, here, (), Place(None, None))


CHANGING = tuple(turn(number, f"It is {number}.") for number in range(6))


def form(found: ConversationSnapshot, told: str = "It rains.", past: tuple[Turn, ...] = (), terms: Terms = PAYS) -> str:
    """What is chosen, `+` where it is decided now."""
    chosen = chosen_form(found, LAMELLA, told, past, terms)
    return ("kept" if chosen.layout is LAMELLA else "late") + "+" * len(chosen.decisions)


def test_a_new_conversation_keeps_it_where_reads_are_cheap() -> None:
    assert form(beginning()) == "kept+"
    dear = replace(FACTS, price=replace(FACTS.price, read=0.5))
    assert form(beginning(), terms=replace(PAYS, model=dear)) == "late+"
    assert form(beginning(), told="") == "kept"


def test_a_past_in_which_it_changed_with_every_message_says_late() -> None:
    found = beginning(session=2, opened=30)
    assert form(found, past=CHANGING) == "late+"
    assert form(found, past=tuple(turn(number, "It rains.") for number in range(6))) == "kept+"


@pytest.mark.parametrize(
    "terms",
    [
        replace(PAYS, model=replace(FACTS, binds_thinking=True)),
        replace(PAYS, model=replace(FACTS, price=replace(FACTS.price, read=0))),
        replace(PAYS, model=replace(FACTS, markers=Markers.NONE)),
        replace(PAYS, policy=MarkerPolicy.AUTO_TAIL),
        replace(PAYS, rule=FormRule.KEPT),
    ],
)
def test_what_can_not_be_cached_before_it_or_must_not_change_is_kept(terms: Terms) -> None:
    assert form(beginning(session=2, opened=30), past=CHANGING, terms=terms) == "kept+"


def test_within_a_session_the_form_is_the_one_that_was_decided() -> None:
    late = chosen_form(beginning(), LAMELLA, "It rains.", (), replace(PAYS, rule=FormRule.LATE)).decisions
    kept = chosen_form(beginning(), LAMELLA, "It rains.", (), PAYS).decisions
    assert form(beginning(*CHANGING, decisions=late), terms=replace(PAYS, rule=FormRule.KEPT)) == "late"
    assert form(beginning(*CHANGING, decisions=kept), terms=replace(PAYS, rule=FormRule.LATE)) == "kept"
    assert form(beginning(*CHANGING, decisions=late), told="") == "late", "also when nothing is asked"
    # The next session decides anew, whatever is carried on of the one before.
    assert form(beginning(*CHANGING, decisions=kept, session=2, opened=30), past=CHANGING) == "late+"


def test_a_session_that_began_before_there_was_a_choice_goes_on_as_it_is() -> None:
    assert form(beginning(*CHANGING), terms=replace(PAYS, rule=FormRule.LATE)) == "kept"


def test_a_session_that_is_over_is_read_in_the_form_that_it_had() -> None:
    late = chosen_form(beginning(), LAMELLA, "It rains.", (), replace(PAYS, rule=FormRule.LATE))
    over, now = beginning(*CHANGING, decisions=late.decisions), beginning(session=2, opened=30)
    assert layout_of(over, LAMELLA) == layout_of(over, late.layout) == late.layout
    assert layout_of(now, late.layout) == LAMELLA


def test_a_layout_without_the_choice_is_left_alone() -> None:
    for name in ("lis", "onyx", "wegent"):
        chosen = chosen_form(beginning(), LAYOUTS[name], "It rains.", (), replace(PAYS, rule=FormRule.LATE))
        assert (chosen.layout, chosen.decisions) == (LAYOUTS[name], ())


def test_what_is_expected_is_what_the_sessions_before_had_on_average() -> None:
    past = (*(turn(number, "A" if number < 2 else "B", calls=3) for number in range(4)), turn(4), turn(5))
    ahead = expected(past, 2, 100)
    assert (ahead.tokens, ahead.turns, ahead.told, ahead.changed) == (100, 3.0, 4 / 6, 2 / 4)
    assert ahead.calls == pytest.approx(14 / 6)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def client(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[ServerClient]:
    settings = read_settings(data=tmp_path, debounce_ms=0, titles=False)
    async with served(settings, models=ScriptedModels(model)) as (_, client):
        yield client


async def asked(client: ServerClient, model: ScriptedModel, conversation: str, *dynamic: str) -> str:
    """The letters of the request of a turn, which the preview of its message shows too."""
    message: dict[str, Any] = {"text": "And now?", "dynamic_context": list(dynamic)}
    shown = await client.post("/context/preview", {"conversation_id": conversation, **message})
    model.then(saying("Yes."))
    packets = await client.send(conversation, message["text"], dynamic_context=message["dynamic_context"])
    started = next(packet for packet in packets if packet["type"] == "request.started")
    sent = await client.get(f"/requests/{started['request_id']}/map")
    assert sent["letters"] == shown["letters"]
    return str(sent["letters"])


async def decided(client: ServerClient, conversation: str) -> list[str]:
    found = (await client.get(f"/conversations/{conversation}/decisions"))["data"]
    return [one["outcome"] for one in found if one["subject"] == "dynamic context"]


async def test_each_session_of_a_conversation_decides_by_what_it_went_through(
    client: ServerClient, model: ScriptedModel
) -> None:
    conversation = await client.conversation()
    assert await asked(client, model, conversation) == "S U1"
    assert await decided(client, conversation) == []
    assert await asked(client, model, conversation, "It is one.") == "S U1 A1 U2 D"
    assert await asked(client, model, conversation, "It is two.") == "S U1 A1 U2 D A2 U3 D"
    assert await decided(client, conversation) == ["kept@start"]
    await client.call("POST", f"/conversations/{conversation}/commands", json={"text": "/new"})
    assert await asked(client, model, conversation, "It is three.") == "S U1 D"
    assert await asked(client, model, conversation, "It is four.") == "S U1 A1 U2 D"
    second, first = await decided(client, conversation)
    assert (first, second.partition("@")[0]) == ("kept@start", "late")
    assert await asked(client, model, conversation) == "S U1 A1 U2 A2 U3"
