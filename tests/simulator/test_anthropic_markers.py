"""Which markers are refused."""

from __future__ import annotations

import pytest

from lamella_simulator.testing import InProcess

from .texts import FIVE_MINUTES, ONE_HOUR, Json, assistant, counters, text, tokens, user

pytestmark = pytest.mark.anyio


def marked(number: int) -> list[Json]:
    return [user(*[text(f"block {index}", FIVE_MINUTES) for index in range(number)], "tail")]


async def test_four_markers_are_allowed_and_a_fifth_is_refused(provider: InProcess) -> None:
    assert (await provider.messages({"messages": marked(4)})).status == 200
    refused = await provider.messages({"messages": marked(5)})
    assert (refused.status, refused.error) == (
        400,
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    )


async def test_the_automatic_marker_takes_a_slot(provider: InProcess) -> None:
    assert (await provider.messages({"messages": marked(3), "cache_control": FIVE_MINUTES})).status == 200
    refused = await provider.messages({"messages": marked(4), "cache_control": FIVE_MINUTES})
    assert refused.status == 400
    assert "takes a slot" in refused.error


async def test_the_automatic_marker_on_an_equal_explicit_one_changes_nothing(provider: InProcess) -> None:
    messages = marked(4)
    messages[0]["content"].pop()
    assert (await provider.messages({"messages": messages, "cache_control": FIVE_MINUTES})).status == 200
    assert (await provider.messages({"messages": messages, "cache_control": ONE_HOUR})).status == 400


async def test_the_automatic_marker_has_the_life_of_an_explicit_one_and_keeps_the_order(provider: InProcess) -> None:
    here = {"messages": [user(text("a", FIVE_MINUTES))], "cache_control": ONE_HOUR}
    assert "another ttl" in (await provider.messages(here)).error
    before = {"messages": [user(text("a", FIVE_MINUTES), "b")], "cache_control": ONE_HOUR}
    assert "must not come after a ttl='5m'" in (await provider.messages(before)).error


async def test_the_automatic_marker_walks_back_over_thinking(provider: InProcess) -> None:
    """Only a model that takes the beginning of its own answer may be sent thinking at the end."""
    await provider.script(think={"text": "ok", "reasoning": {"text": "hm", "tokens": 300}})
    body: Json = {"model": "claude-haiku-4-5", "max_tokens": 2_000, "messages": [user(tokens(5_000))]}
    body |= {"thinking": {"type": "enabled", "budget_tokens": 1_024}}
    thought = (await provider.messages(body, reply="think")).json["content"][:1]
    grown = {**body, "messages": [*body["messages"], assistant(*thought)], "cache_control": FIVE_MINUTES}
    assert counters((await provider.messages(grown)).usage) == (0, 5_000, 300)


async def test_long_lives_come_first(provider: InProcess) -> None:
    wrong = [user(text("a", FIVE_MINUTES)), assistant("b"), user(text("c", ONE_HOUR))]
    right = [user(text("a", ONE_HOUR)), assistant("b"), user(text("c", FIVE_MINUTES))]
    refused = await provider.messages({"messages": wrong})
    assert refused.status == 400
    assert "must not come after a ttl='5m'" in refused.error
    assert (await provider.messages({"messages": right})).status == 200


@pytest.mark.parametrize(
    "marker",
    [
        {"type": "persistent"},
        {"type": "ephemeral", "ttl": "2h"},
        {"type": "ephemeral", "scope": "global"},
        "ephemeral",
    ],
)
async def test_a_malformed_marker_is_refused(provider: InProcess, marker: object) -> None:
    block = {"type": "text", "text": "a", "cache_control": marker}
    assert (await provider.messages({"messages": [user(block)]})).status == 400


async def test_thinking_and_empty_text_cannot_carry_a_marker(provider: InProcess) -> None:
    await provider.script(think={"text": "ok", "reasoning": "hm"})
    thinking = (await provider.messages({"messages": [user("a")]}, reply="think")).json["content"][0]
    history = [user("a"), assistant({**thinking, "cache_control": FIVE_MINUTES}, "ok"), user("b")]
    refused = await provider.messages({"messages": history})
    assert refused.error == "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"
    assert (await provider.messages({"messages": [user(text("", FIVE_MINUTES))]})).status == 400


async def test_parts_of_citations_and_documents_cannot_carry_a_marker(provider: InProcess) -> None:
    cited = {"type": "text", "text": "a", "citations": [{"type": "char_location", "cache_control": FIVE_MINUTES}]}
    refused = await provider.messages({"messages": [user("a"), assistant(cited), user("b")]})
    assert refused.error.startswith("messages.1.content.0.citations.0.cache_control: Extra inputs are not permitted")
    paper = {"type": "document", "source": {"type": "content", "content": [text("a", FIVE_MINUTES)]}}
    assert "source.content.0.cache_control" in (await provider.messages({"messages": [user(paper)]})).error


async def test_a_marker_inside_a_tool_result_marks_the_result(provider: InProcess) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "t", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [text(tokens(900), FIVE_MINUTES)]}
    messages = [user("go"), assistant(call), user(result, tokens(7, "blue"))]
    assert counters((await provider.messages({"messages": messages})).usage)[2] == 7
