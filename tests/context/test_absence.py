"""The report says of every kind that a layout has a place for why it is not in the window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.context.layouts import LAYOUTS
from lamella.core.agents import Agent, Project, Summary
from lamella.core.json import decode_object
from lamella.core.prompt import Kind

from .windows import absent, answer, call, document, made, request, result, the, turn
from .wires import body

BARE = request(turn(1), tools=(), system="")
FULL = request(
    turn(1, answer("step_1"), attached=[document(1, 5)]),
    turn(2, call("step_2", result("c1", "One.")), dynamic="Ann."),
    agent=Agent("agent_1", "Pirate", "Talk like a pirate."),
    project=Project("proj_1", "Ship", "Sail."),
    summaries=(Summary("sum_1", "Before.", 2),),
    reminder="Cite.",
    searched=True,
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_empty_conversation_says_it_of_everything(layout: str) -> None:
    whys = absent(made(BARE, layout))
    assert whys == {
        Kind.TOOLS: "no tool can be called in this conversation",
        Kind.SYSTEM: "the system prompt is empty",
        Kind.AGENT: "no agent is chosen",
        Kind.PROJECT: "the conversation belongs to no project",
        Kind.SUMMARY: "there is no summary of an earlier session",
        Kind.FILES: "no file came with a message",
        Kind.DYNAMIC: "no dynamic context came with this message",
        Kind.REMINDER: "no reminder is due in this step, or it is in the window already",
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_full_one_lacks_nothing(layout: str) -> None:
    assert absent(made(FULL, layout)) == {}


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (
            Agent("a", "Judge", "Weigh.", replaces_system=True),
            "the prompt of “Judge” replaces the system prompt",
        ),
        (Agent("a", "Blank", " \n"), "the prompt of “Blank” is empty"),
    ],
)
def test_why_an_agent_has_no_place_of_its_own(agent: Agent, why: str) -> None:
    assert absent(made(replace(FULL, agent=agent)))[Kind.AGENT] == why


def test_why_a_project_is_not_there() -> None:
    large = Project("p", "Ship", files=(document(9, 400_000),))
    assert all(Kind.PROJECT not in absent(made(replace(FULL, project=large), layout)) for layout in LAYOUTS)
    empty = absent(made(replace(FULL, project=Project("p", "Ship")), "lamella"))
    assert empty[Kind.PROJECT] == "the project “Ship” is empty"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_onyx_drops_the_tools_with_the_last_step(layout: str) -> None:
    window = made(replace(FULL, last_step=True), layout)
    dropped = layout == "onyx"
    assert ("tools" not in body(window, "anthropic")) == dropped
    assert (absent(window).get(Kind.TOOLS) == f"layout {layout} sends no tools with the last step") == dropped
    if dropped:
        assert "# Tools of this step" not in str(the(window, "sections").messages)


def test_the_calls_of_that_turn_stay_valid_without_their_tools() -> None:
    sent = body(made(replace(FULL, last_step=True), "onyx"), "openai")
    messages = sent["messages"]
    assert isinstance(messages, list)
    (call_message,) = [message for message in messages if message.get("tool_calls")]
    assert decode_object(call_message["tool_calls"][0]["function"]["arguments"]) == {"query": "x"}
