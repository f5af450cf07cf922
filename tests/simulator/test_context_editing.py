"""Context editing by the provider: old tool results and old thinking are cleared before the prompt is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.anthropic.editing import BETA
from lamella_simulator.testing import EXACT, InProcess

from .texts import FIVE_MINUTES, Json, assistant, at, counters, tokens, user

pytestmark = pytest.mark.anyio
CLEAR: Json = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 3}}


def rounds(number: int, size: int = 1_000, name: str = "search") -> list[Json]:
    """A question and so many calls with their results, each of `size` tokens."""
    messages = [user("find it")]
    for index in range(number):
        call = {"type": "tool_use", "id": f"c{index}", "name": name, "input": {"query": "x"}}
        result = {"type": "tool_result", "tool_use_id": f"c{index}", "content": tokens(size)}
        messages += [assistant(call), user(result)]
    return messages


def edited(*edits: Json) -> Json:
    return {"context_management": {"edits": list(edits)}}


async def cleared(provider: InProcess, messages: list[Json], *edits: Json, **rules: str) -> Json:
    answer = await provider.messages({"messages": messages, **edited(*edits)}, beta=BETA, **rules)
    assert answer.status == 200, answer.text
    return {**answer.json["usage"], "applied": answer.json["context_management"]["applied_edits"]}


async def test_all_results_but_the_last_three_are_cleared(provider: InProcess) -> None:
    plain = (await provider.messages({"messages": rounds(5)})).usage["input_tokens"]
    usage = await cleared(provider, rounds(5), CLEAR)
    (report,) = usage["applied"]
    assert (report["type"], report["cleared_tool_uses"]) == ("clear_tool_uses_20250919", 2)
    assert plain - usage["input_tokens"] == report["cleared_input_tokens"] > 1_900


async def test_below_its_trigger_nothing_is_cleared(provider: InProcess) -> None:
    default = {"type": "clear_tool_uses_20250919"}
    assert (await cleared(provider, rounds(5), default))["applied"] == []
    assert (await cleared(provider, rounds(5, 25_000), default))["applied"][0]["cleared_tool_uses"] == 2


@pytest.mark.parametrize(
    ("option", "uses"),
    [
        ({"keep": {"type": "tool_uses", "value": 1}}, 4),
        ({"exclude_tools": ["search"]}, None),
        ({"clear_at_least": {"type": "input_tokens", "value": 5_000}}, None),
        ({"clear_at_least": {"type": "input_tokens", "value": 1_500}}, 2),
    ],
)
async def test_what_an_edit_may_ask_for(provider: InProcess, option: Json, uses: int | None) -> None:
    applied = (await cleared(provider, rounds(5), {**CLEAR, **option}))["applied"]
    assert [report["cleared_tool_uses"] for report in applied] == ([] if uses is None else [uses])


async def test_inputs_of_cleared_calls_may_go_too(provider: InProcess) -> None:
    sizes = [
        (await cleared(provider, rounds(5), {**CLEAR, "clear_tool_inputs": which}))["input_tokens"]
        for which in (False, ["other"], ["search"], True)
    ]
    assert sizes[0] == sizes[1] > sizes[2] == sizes[3]


async def test_clearing_breaks_the_cache_at_the_first_cleared_result(provider: InProcess) -> None:
    automatic = {"cache_control": FIVE_MINUTES, **edited(CLEAR)}
    marked = rounds(2)
    marked[0] = user({"type": "text", "text": tokens(600), "cache_control": FIVE_MINUTES})
    await provider.messages({**automatic, "messages": marked}, beta=BETA, now=at(0))
    longer = [*marked, *rounds(5)[5:]]
    read, written, _ = counters(
        (await provider.messages({**automatic, "messages": longer}, beta=BETA, now=at(1))).usage
    )
    assert read == 600
    assert written > 3_000


async def test_a_stream_reports_the_edits_at_its_end(provider: InProcess) -> None:
    answer = await provider.messages({"messages": rounds(5), "stream": True, **edited(CLEAR)}, beta=BETA)
    (delta,) = [event for event in answer.events if event["type"] == "message_delta"]
    assert delta["context_management"]["applied_edits"][0]["cleared_tool_uses"] == 2


async def test_a_count_applies_the_edits_and_tells_the_count_before(provider: InProcess) -> None:
    body = {"messages": rounds(5), **edited(CLEAR)}
    counted = (await provider.messages(body, path="/v1/messages/count_tokens", beta=BETA)).json
    billed = await cleared(provider, rounds(5), CLEAR)
    assert counted["input_tokens"] == billed["input_tokens"]
    original = counted["context_management"]["original_input_tokens"]
    assert original == counted["input_tokens"] + billed["applied"][0]["cleared_input_tokens"]


async def thinking_history(provider: InProcess, turns: int) -> list[Json]:
    await provider.script(think={"text": "ok", "reasoning": {"text": "Let me see.", "tokens": 300}})
    messages: list[Json] = []
    for index in range(turns):
        messages.append(user(f"question {index}"))
        answer = await provider.messages({"messages": messages}, reply="think")
        messages.append({"role": "assistant", "content": answer.json["content"]})
    return [*messages, user("last")]


@pytest.mark.parametrize(
    ("keep", "turns"),
    [({"type": "thinking_turns", "value": 1}, 2), ({"type": "thinking_turns", "value": 2}, 1), ("all", 0)],
)
async def test_thinking_of_old_turns_is_cleared(provider: InProcess, keep: object, turns: int) -> None:
    messages = await thinking_history(provider, 3)
    applied = (await cleared(provider, messages, {"type": "clear_thinking_20251015", "keep": keep}))["applied"]
    reports = [(report["cleared_thinking_turns"], report["cleared_input_tokens"]) for report in applied]
    assert reports == ([(turns, 300 * turns)] if turns else [])


@pytest.mark.parametrize(("breaks", "status"), [(False, 200), (True, 400)])
async def test_clearing_before_thinking_is_an_option(breaks: bool, status: int) -> None:
    """Whether the provider's own edits pass its prefix check is not documented."""
    provider = InProcess(replace(EXACT, server_edits_break_prefix=breaks))
    await provider.script(think={"text": "ok", "reasoning": "hm"})
    model: Json = {"model": "claude-opus-5-5"}
    first = await provider.messages({**model, "messages": rounds(4)}, reply="think")
    messages = [*rounds(4), {"role": "assistant", "content": first.json["content"]}, user("and now?")]
    answer = await provider.messages({**model, "messages": messages, **edited(CLEAR)}, beta=BETA)
    assert answer.status == status


@pytest.mark.parametrize(
    ("body", "beta", "words"),
    [
        (edited(CLEAR), "", "context_management: Extra inputs"),
        (edited({"type": "clear_everything"}), BETA, "edits.0.type"),
        (edited({**CLEAR, "more": 1}), BETA, "more: Extra inputs"),
        (edited(CLEAR, {"type": "clear_thinking_20251015"}), BETA, "must be the first edit"),
        (edited({**CLEAR, "keep": {"type": "tool_uses"}}), BETA, "keep: Input should be"),
        (edited({**CLEAR, "trigger": {"type": "minutes", "value": 3}}), BETA, "trigger: Input should be"),
        (edited({**CLEAR, "exclude_tools": "search"}), BETA, "exclude_tools: Input should be a list"),
        ({"context_management": {"edits": {"type": "all"}}}, BETA, "edits: Input should be a list"),
        (edited({"type": "compact_20260112"}), BETA, "beta header is missing"),
    ],
)
async def test_edits_that_are_refused(provider: InProcess, body: Json, beta: str, words: str) -> None:
    answer = await provider.messages({"messages": rounds(1), **body}, beta=beta)
    assert answer.status == 400
    assert words in answer.error
