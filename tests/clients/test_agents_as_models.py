"""Libraries that name an agent as their model: three turns with a tool of their own over each API that they speak."""

from __future__ import annotations

import pytest

from lamella.app.app import LOCAL_OWNER

from .conftest import PROGRAMS, Door

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.mark.parametrize(
    ("name", "file", "apis"),
    [
        ("openai-python", "openai_python.py", {"openai", "responses"}),
        ("anthropic-python", "anthropic_python.py", {"anthropic"}),
        ("langchain", "langchain_models.py", {"anthropic", "openai"}),
        ("pydantic-ai", "pydantic_agents.py", {"anthropic", "openai", "responses"}),
        ("openai-agents", "agents_sdk.py", {"responses"}),
        ("litellm", "litellm_calls.py", {"anthropic", "openai"}),
    ],
)
async def test_three_turns_of_a_library_with_an_agent(door: Door, name: str, file: str, apis: set[str]) -> None:
    await door.client.post("/agents", {"name": "Keeper", "prompt": "You know lamps.", "model": "claude-opus-5-5"})
    door.environment["TOLD_MODEL"] = "agent:Keeper"
    has_tools = name != "litellm"
    if has_tools:
        door.calls("in the tower", "look", {"place": "the tower"})
    said = await door.run(name, str(PROGRAMS / file))
    assert said.count("The lamp is green.") >= (len(apis) if has_tools else 0)
    lines = await door.lines()
    assert {line["dialect"] for line in lines} == apis
    assert {line["label"] for line in lines} == {"agent:Keeper"}
    assert sum(line["cost"] for line in lines) == pytest.approx(door.provider.cost)
    for line in lines:
        path = await door.app.store.turns.path(LOCAL_OWNER, line["id"])
        asked = [turn.user.text for turn in path if turn.user.text]
        assert asked == ["How is the lamp in the tower?", "And the ships?", "Thank you"], line
        usages = [request["usage"] for request in await door.requests(line)]
        assert all(usage["cache_read"] > 0 for usage in usages[1:]), "each reads what the one before has written"
