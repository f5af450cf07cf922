"""What a turn stands on: an agent that goes at the wrong moment, and a decision for whatever is not as before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from databases import place
from lamella.app.app import SHIPPED_TOOLS
from lamella.app.core import build_core, build_services
from lamella.cache.planner import MarkerPolicy
from lamella.chat import Message
from lamella.context.layouts import LAYOUTS
from lamella.core.agents import Agent, Project
from lamella.core.clock import SystemClock
from lamella.core.decisions import Decision
from lamella.core.errors import NotFound
from lamella.core.ids import CountingIds
from lamella.core.records import UNCHANGED, AgentAndProject, Caller, Choices, Conversation, Unchanged
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.storage.store import open_store
from lamella.tooling.tool import Registry
from lamella.turns.effective_settings import changes, setting_of

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOOLS = Registry(SHIPPED_TOOLS).specs()
PINNED = Conversation("conv_1", "", "scripted", "lamella", "planner", "Be brief.", TOOLS, NOON, NOON)
EDITOR = Agent("agent_1", "Editor", "You edit.")
PLAN = Project("proj_1", "Plan", "Be exact.")


class Vanishing:
    """Surroundings of a conversation whose agent is deleted just before it is looked up."""

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> AgentAndProject:
        if conversation.agent_id is not None:
            raise NotFound(f"There is no agent {conversation.agent_id}.", param="agent_id")
        return AgentAndProject()


@pytest.mark.parametrize(("named", "begins"), [(UNCHANGED, True), ("agent_1", False)])
async def test_an_agent_that_goes_while_a_turn_begins(tmp_path: Path, named: str | Unchanged, begins: bool) -> None:
    async with await open_store(place(tmp_path)) as store:
        services = build_services(store, Registry(SHIPPED_TOOLS), SystemClock(), CountingIds())
        core = build_core(
            replace(services, agent_and_project=Vanishing()),
            ScriptedModels(ScriptedModel([saying("Hi.")])),
            jobs=store.jobs,
        )
        await core.chat.start()
        await store.library.add_agent(ANN, EDITOR, NOON)
        await store.conversations.create_conversation(ANN, replace(PINNED, agent_id="agent_1"))
        message = Message("Hello", choices=Choices(agent_id=named))
        if begins:
            turn_id = await core.chat.sender.begin(ANN, "conv_1", message)
            async for _ in core.chat.stream(ANN, turn_id):
                pass
            assert (await store.turns.turn(ANN, turn_id)).steps[0].text == "Hi."
        else:
            with pytest.raises(NotFound):
                await core.chat.sender.begin(ANN, "conv_1", message)
        await core.chat.close()


def decided(
    around: AgentAndProject, known: tuple[Decision, ...] = (), *, layout: str = "lamella", deleted: str = ""
) -> tuple[Decision, ...]:
    """What a turn with these surroundings decides, after what is known."""
    now = setting_of(PINNED, Choices(layout=layout), around, LAYOUTS)
    assert now.policy is MarkerPolicy(LAYOUTS[layout].markers)
    return changes(now, PINNED, known, "user_ann", {deleted})


def test_a_turn_as_before_decides_nothing() -> None:
    assert decided(AgentAndProject()) == ()
    around = AgentAndProject(EDITOR, PLAN)
    first = decided(around)
    assert [one.subject for one in first] == ["agent", "project"]
    assert decided(around, first) == ()


@pytest.mark.parametrize(
    ("before", "now", "layout", "expected"),
    [
        (None, EDITOR, "lamella", "agent_1"),
        (None, EDITOR, "onyx", None),
        (None, EDITOR, "lis", None),
        (None, replace(EDITOR, replaces_system=True), "onyx", "system"),
        (EDITOR, replace(EDITOR, revision=2), "lamella", "agent_1"),
        (EDITOR, replace(EDITOR, revision=2, replaces_system=True), "lamella", "system"),
        (replace(EDITOR, replaces_system=True), replace(EDITOR, revision=2), "lamella", "system"),
        (replace(EDITOR, replaces_system=True), None, "wegent", "system"),
        (EDITOR, replace(EDITOR, id="agent_2", name="Other"), "lamella", "agent_2"),
        (EDITOR, None, "lamella", "agent_1"),
        (EDITOR, None, "onyx", None),
    ],
)
def test_the_first_segment_that_changes_with_an_agent(
    before: Agent | None, now: Agent | None, layout: str, expected: str | None
) -> None:
    known = decided(AgentAndProject(before), layout=layout)
    [decision] = decided(AgentAndProject(now), known, layout=layout)
    assert (decision.subject, decision.first_changed) == ("agent", expected)
    assert decision.outcome == (f"{now.id}@{now.revision}" if now else "none")


@pytest.mark.parametrize(
    ("before", "now", "deleted", "why"),
    [
        (None, PLAN, "", "the project “Plan” is used from here on"),
        (PLAN, replace(PLAN, revision=2), "", "the project “Plan” was edited: this is revision 2"),
        (PLAN, replace(PLAN, id="proj_2", name="Other"), "", "the project was changed to “Other”"),
        (PLAN, None, "", "the project proj_1 is not used any more"),
        (PLAN, None, "project", "the project proj_1 was deleted; the conversation continues without it"),
    ],
)
def test_every_change_says_why(before: Project | None, now: Project | None, deleted: str, why: str) -> None:
    known = decided(AgentAndProject(project=before))
    [decision] = decided(AgentAndProject(project=now), known, deleted=deleted)
    assert decision.why == why


def test_a_layout_of_one_turn_is_decided_there_and_back() -> None:
    there = decided(AgentAndProject(), layout="onyx")
    back = decided(AgentAndProject(), there)
    assert [(one.subject, one.outcome) for one in (*there, *back)] == [("layout", "onyx"), ("layout", "lamella")]
