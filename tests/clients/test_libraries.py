"""Libraries as programs use them: three turns of one conversation over each API that a library speaks."""

from __future__ import annotations

import pytest

from .conftest import PROGRAMS, Door
from .install import place

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.mark.parametrize(
    ("name", "file", "client", "apis"),
    [
        ("openai-python", "openai_python.py", "openai for Python", {"openai", "responses"}),
        ("anthropic-python", "anthropic_python.py", "anthropic for Python", {"anthropic"}),
        ("langchain", "langchain_models.py", "", {"anthropic", "openai", "responses"}),
        ("pydantic-ai", "pydantic_agents.py", "pydantic-ai", {"anthropic", "openai", "responses"}),
        ("openai-agents", "agents_sdk.py", "openai-agents", {"responses"}),
        ("litellm", "litellm_calls.py", "", {"anthropic", "openai"}),
    ],
)
async def test_three_turns_are_one_conversation(door: Door, name: str, file: str, client: str, apis: set[str]) -> None:
    has_tools = name != "litellm"
    if has_tools:
        door.calls("in the tower", "look", {"place": "the tower"})
    said = await door.run(name, str(PROGRAMS / file))
    assert said.count("The lamp is green.") == (len(apis) if has_tools else 0)
    lines = await door.lines()
    assert {line["dialect"] for line in lines} == apis
    for line in lines:
        assert (line["label"], line["turns"], line["requests"]) == ("conversation", 3, 3 + has_tools), line
        assert (line["breaks"], line["lost"]) == (0, 0)
        assert line["client"].startswith(client)
        *_, newest = await door.requests(line)
        assert newest["usage"]["cache_read"] == newest["predicted"]["read"] > 0
        if line["dialect"] == "anthropic":
            assert newest["marker_policy"] == "planner", "it marks nothing itself"
            assert line["saved"] > 0
    assert sum(line["cost"] for line in lines) == pytest.approx(door.provider.cost)


async def test_the_ai_sdk(door: Door) -> None:
    """It describes its tools otherwise for a stream than for an answer at once, and writes its prompt again."""
    door.calls("in the tower", "look", {"place": "the tower"})
    if place("ai-sdk").exists():
        (door.home / "node_modules").symlink_to(place("ai-sdk") / "node_modules")
    path = door.write("ai_sdk.mjs", (PROGRAMS / "ai_sdk.mjs").read_text())
    await door.run("ai-sdk", path)
    lines = {line["dialect"]: line for line in await door.lines()}
    assert set(lines) == {"anthropic", "responses"}
    for line in lines.values():
        assert (line["label"], line["turns"], line["requests"]) == ("conversation", 3, 4)
        assert line["client"].startswith("AI SDK")
    assert sum(line["cost"] for line in lines.values()) == pytest.approx(door.provider.cost)
    assert (lines["anthropic"]["breaks"], lines["responses"]["breaks"]) == (1, 0)
    *_, newest = await door.why(lines["anthropic"])
    assert "tool look" in newest["text"]
