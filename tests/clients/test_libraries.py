"""Libraries as programs use them: three turns of one conversation over each API that a library speaks."""

from __future__ import annotations

import pytest

from .conftest import PROGRAMS, Door, is_told
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


async def test_a_typed_answer_of_pydantic_ai_writes_the_prompt_again(door: Door) -> None:
    door.calls("in the tower", "look", {"place": "the tower"})
    report = {"tool_calls": [{"name": "final_result", "arguments": {"lamp": "green"}}]}
    door.provider.script({"report": {"match": "Report, please", **report}})
    said = await door.run("pydantic-ai", str(PROGRAMS / "pydantic_agents.py"), "typed")
    assert said.count("lamp='green'") == 3
    lines = await door.lines()
    assert {line["dialect"] for line in lines} == {"anthropic", "openai", "responses"}
    for line in lines:
        assert (line["turns"], line["requests"], line["breaks"]) == (4, 5, 1)
        *_, newest = await door.why(line)
        assert newest["cause"] == ("settings" if line["dialect"] == "anthropic" else "tools"), newest["text"]
        assert is_told("Pydantic AI, openai-agents and LiteLLM", newest["text"]), newest["text"]


async def test_the_tries_of_litellm_are_one_turn(door: Door) -> None:
    door.provider.script({"busy": {"match": "overload", "text": "No.", "fault": {"kind": "500", "times": 99}}})
    said = await door.run("litellm", str(PROGRAMS / "litellm_retries.py"))
    assert said.count("failed") == 3
    lines = await door.lines()
    assert {line["title"]: (line["turns"], line["requests"]) for line in lines} == {
        "overload default": (1, 3),
        "overload two": (1, 5),
        "overload none": (1, 1),
    }
    assert {line["client"].rpartition(" ")[0] for line in lines} == {"openai for Python"}
    for line in lines:
        assert all(one["error"] is not None for one in await door.requests(line))


async def _node(door: Door, name: str, file: str) -> list[str]:
    """Run a program with the libraries of a client; the lines that it printed."""
    if place(name).exists():
        (door.home / "node_modules").symlink_to(place(name) / "node_modules")
    return (await door.run(name, door.write(file, (PROGRAMS / file).read_text()))).splitlines()


async def test_the_library_of_openai_for_javascript(door: Door) -> None:
    """What this server keeps: files, conversations, and a background response whose stream broke off."""
    assert await _node(door, "openai-js", "openai_js.mjs") == [
        "content The lamp is green.",
        "same true",
        "events true response.completed",
        "end true",
        "items user user assistant user assistant",
        "error 400 previous_response_not_found",
        "deleted true",
    ]


async def test_the_library_of_anthropic_for_javascript(door: Door) -> None:
    door.calls("in the tower", "look", {"place": "the tower"})
    told, said = (lines := await _node(door, "anthropic-js", "anthropic_js.mjs"))[:4], lines[4:]
    assert told == [
        "models true true",
        "file lamp.txt 18 The lamp is green.",
        "deleted file_deleted",
        "error 404 not_found_error",
    ]
    assert "The lamp is green." in "\n".join(said)
    [line] = await door.lines()
    assert (line["dialect"], line["turns"], line["requests"]) == ("anthropic", 3, 4)
    assert (line["breaks"], line["cost"]) == (0, pytest.approx(door.provider.cost))


async def test_the_session_of_openai_agents(door: Door) -> None:
    """It stores every item in a conversation of this server, and sends all of them with each request."""
    door.calls("in the tower", "look", {"place": "the tower"})
    *said, listed, popped = (await door.run("openai-agents", str(PROGRAMS / "agents_session.py"))).splitlines()
    assert "The lamp is green." in "\n".join(said)
    assert listed == "['message', 'function_call', 'function_call_output', 'message', 'message', 'message']"
    assert popped == "popped assistant 5"
    [line] = await door.lines()
    assert (line["dialect"], line["turns"], line["requests"]) == ("responses", 2, 3)


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
