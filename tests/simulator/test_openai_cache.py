"""Conformance of the OpenAI cache rules with the vendor's guide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lamella_simulator.blocks import Block, Marker, Salts, build_prefix
from lamella_simulator.cache.openai import readable
from lamella_simulator.models import BY_ID
from lamella_simulator.testing import EXACT, InProcess

from .texts import Json, at, chat_counters, tokens

pytestmark = pytest.mark.anyio
BREAKPOINT = {"mode": "explicit"}
EXPLICIT = {"prompt_cache_options": {"mode": "explicit"}}


def message(role: str, *parts: str | Json) -> Json:
    content: list[Any] = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content}


def marked(content: str, **extra: str) -> Json:
    return {"type": "text", "text": content, "prompt_cache_breakpoint": {**BREAKPOINT, **extra}}


async def test_12k_then_15k(provider: InProcess) -> None:
    """The guide's example: 12,000 tokens read, 3,000 written."""
    first = [message("developer", tokens(2_000)), message("user", tokens(10_000, "blue"))]
    second = [*first, message("assistant", tokens(1_000, "green")), message("user", tokens(2_000, "gold"))]
    assert chat_counters((await provider.chat({"messages": first}, now=at(0))).usage) == (0, 12_000)
    usage = (await provider.chat({"messages": second}, now=at(1))).usage
    assert chat_counters(usage) == (12_000, 3_000)
    assert usage["prompt_tokens"] == 15_000


async def test_prompt_tokens_include_what_was_cached(provider: InProcess) -> None:
    body = {"messages": [message("user", tokens(2_000))]}
    await provider.chat(body, now=at(0))
    usage = (await provider.chat(body, now=at(1))).usage
    assert usage["prompt_tokens"] == 2_000
    assert usage["total_tokens"] == 2_000 + usage["completion_tokens"]
    assert chat_counters(usage) == (2_000, 0)


async def test_extending_the_last_message_destroys_its_ending(provider: InProcess) -> None:
    await provider.chat({"messages": [message("user", tokens(2_000))]}, now=at(0))
    extended = {"messages": [message("user", tokens(2_000), tokens(100, "blue"))]}
    assert chat_counters((await provider.chat(extended, now=at(1))).usage) == (0, 2_100)


async def test_going_from_implicit_to_explicit_misses(provider: InProcess) -> None:
    first = [message("user", tokens(2_000))]
    grown = [*first, message("assistant", "ok"), message("user", marked(tokens(100, "blue")))]
    await provider.chat({"messages": first}, now=at(0))
    missed = await provider.chat({"messages": grown, **EXPLICIT}, now=at(1))
    assert chat_counters(missed.usage)[0] == 0


async def test_a_breakpoint_at_the_same_spot_finds_the_implicit_entry(provider: InProcess) -> None:
    await provider.chat({"messages": [message("user", tokens(2_000))]}, now=at(0))
    grown = [message("user", marked(tokens(2_000))), message("assistant", "ok"), message("user", "go on")]
    found = await provider.chat({"messages": grown, **EXPLICIT}, now=at(1))
    assert chat_counters(found.usage) == (2_000, 0)


async def test_explicit_without_breakpoints_caches_nothing(provider: InProcess) -> None:
    body = {"messages": [message("user", tokens(2_000))], **EXPLICIT}
    for minute in (0, 1):
        assert chat_counters((await provider.chat(body, now=at(minute))).usage) == (0, 0)


async def test_text_after_the_last_breakpoint_is_not_written(provider: InProcess) -> None:
    body = {"messages": [message("user", marked(tokens(2_000)), tokens(500, "blue"))], **EXPLICIT}
    assert chat_counters((await provider.chat(body, now=at(0))).usage) == (0, 2_000)


async def test_only_the_last_four_places_are_written(provider: InProcess) -> None:
    words = ("red", "blue", "green", "gold", "black", "white")
    parts = [marked(tokens(1_100, word)) for word in words]
    await provider.chat({"messages": [message("user", *parts)], **EXPLICIT}, now=at(0))
    ledger = (await provider.get("/_sim/ledger")).json["entries"]
    assert [entry["tokens"] for entry in ledger] == [3_300, 4_400, 5_500, 6_600]


@pytest.mark.parametrize(("turns", "read"), [(20, 1_100), (21, 0)])
async def test_the_last_ending_and_twenty_before_it_may_match(provider: InProcess, turns: int, read: int) -> None:
    first = [message("user", tokens(1_100))]
    await provider.chat({"messages": first}, now=at(0))
    grown = first + [message(role, f"turn {i}") for i in range(turns) for role in ("assistant", "user")]
    assert chat_counters((await provider.chat({"messages": grown}, now=at(1))).usage)[0] == read


@pytest.mark.parametrize(("latest", "places"), [(50, {0, 1, *range(10, 60)}), (80, set(range(60))), (0, {0, 1})])
def test_the_first_two_and_the_latest_breakpoints_may_match(latest: int, places: set[int]) -> None:
    blocks = [Block("messages", "user", b"%d" % i, 100, "", Marker(1_800)) for i in range(60)]
    prefix = build_prefix(Salts(""), blocks)
    settings = replace(EXACT, openai_latest_breakpoints=latest)
    assert readable(prefix, list(range(60)), implicit=False, settings=settings) == places


@pytest.mark.parametrize(
    ("option", "written"), [(False, [2_200, 3_300, 4_400, 4_410]), (True, [10, 3_300, 4_400, 4_410])]
)
async def test_the_implicit_place_takes_one_of_the_four(option: bool, written: list[int]) -> None:
    provider = InProcess(replace(EXACT, openai_implicit_writes_developer=option, openai_minimum=1))
    parts = [marked(tokens(1_100, word)) for word in ("red", "blue", "green", "gold")]
    body = {"messages": [message("developer", tokens(10)), message("user", *parts, tokens(10))]}
    if not option:
        body["messages"].pop(0)
    await provider.chat(body, now=at(0))
    ledger = (await provider.get("/_sim/ledger")).json["entries"]
    assert [entry["tokens"] for entry in ledger] == [n if not option or n == 10 else n + 10 for n in written]


async def test_later_instructions_and_answers_are_no_endings(provider: InProcess) -> None:
    for late in ("developer", "assistant"):
        said = [message("user", tokens(1_100, late)), message(late, tokens(100))]
        assert chat_counters((await provider.chat({"messages": said})).usage)[1] == 1_100
        items = [{"role": said["role"], "content": said["content"][0]["text"]} for said in said]
        usage = (await provider.responses({"input": items})).usage
        assert usage["input_tokens_details"]["cache_write_tokens"] == 1_100


async def test_a_breakpoint_has_its_own_life(provider: InProcess) -> None:
    body = {"messages": [message("user", marked(tokens(2_000), ttl="12h"))], **EXPLICIT}
    await provider.chat(body, now=at(0))
    assert chat_counters((await provider.chat(body, now=at(600))).usage)[0] == 2_000


@pytest.mark.parametrize(("size", "written"), [(1_023, 0), (1_024, 1_024)])
async def test_the_minimum_is_exact(provider: InProcess, size: int, written: int) -> None:
    body = {"messages": [message("user", tokens(size))]}
    assert chat_counters((await provider.chat(body, now=at(0))).usage) == (0, written)


async def test_an_entry_lives_thirty_minutes_after_its_last_use(provider: InProcess) -> None:
    body = {"messages": [message("user", tokens(2_000))]}
    read = [chat_counters((await provider.chat(body, now=at(minute))).usage)[0] for minute in (0, 29, 58, 89)]
    assert read == [0, 2_000, 2_000, 0]


async def test_twelve_hours_on_request(provider: InProcess) -> None:
    body = {"messages": [message("user", tokens(2_000))], "prompt_cache_options": {"ttl": "12h"}}
    await provider.chat(body, now=at(0))
    assert chat_counters((await provider.chat(body, now=at(600))).usage)[0] == 2_000
    request = (await provider.get("/_sim/requests?last=2")).json["requests"][0]
    assert request["cost"] == pytest.approx((2_000 * 4 * 2.5 + request["usage"]["completion_tokens"] * 20) / 1e6)


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ({"prompt_cache_key": "other"}, 0),
        ({"reasoning_effort": "low"}, 0),
        ({"parallel_tool_calls": False}, 0),
        ({"tool_choice": "none"}, 2_000),
        ({"reasoning_effort": "medium", "parallel_tool_calls": True}, 2_000),
    ],
)
async def test_what_opens_another_cache(provider: InProcess, change: Json, read: int) -> None:
    body: Json = {"messages": [message("user", tokens(2_000))]}
    await provider.chat(body, now=at(0))
    assert chat_counters((await provider.chat({**body, **change}, now=at(1))).usage)[0] == read


async def test_tool_results_end_where_their_group_ends(provider: InProcess) -> None:
    def calls(*names: str) -> Json:
        function = {"name": "t", "arguments": "{}"}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": function} for name in names],
        }

    def result(name: str, content: str) -> Json:
        return {"role": "tool", "tool_call_id": name, "content": content}

    history = [message("user", tokens(1_500)), calls("a", "b"), result("a", tokens(300)), result("b", tokens(200))]
    await provider.chat({"messages": history}, now=at(0))
    total = (await provider.chat({"messages": history}, now=at(1))).usage
    assert chat_counters(total) == (total["prompt_tokens"], 0)
    grown = [*history, message("assistant", "found"), message("user", tokens(100, "blue"))]
    assert chat_counters((await provider.chat({"messages": grown}, now=at(2))).usage)[0] == total["prompt_tokens"]


async def test_changed_user_turn_after_a_shared_developer_block(provider: InProcess) -> None:
    """Without a breakpoint the developer block is no match point that was written; by option it is."""
    for option, read in ((False, 0), (True, 2_000)):
        provider = InProcess(replace(EXACT, openai_implicit_writes_developer=option))
        for minute, word in enumerate(("blue", "green")):
            body = {"messages": [message("developer", tokens(2_000)), message("user", tokens(500, word))]}
            usage = (await provider.chat(body, now=at(minute))).usage
        assert chat_counters(usage)[0] == read


async def test_an_older_model_reads_whole_steps_of_any_prefix(provider: InProcess) -> None:
    first = {"model": "gpt-5.4", "messages": [message("user", tokens(2_000) + tokens(500, " blue"))]}
    second = {"model": "gpt-5.4", "messages": [message("user", tokens(2_000) + tokens(500, " green"))]}
    await provider.chat(first, now=at(0))
    usage = (await provider.chat(second, now=at(1))).usage
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2_000 // 128 * 128
    assert "cache_write_tokens" not in usage["prompt_tokens_details"]
    assert (await provider.chat(first, now=at(30))).usage["prompt_tokens_details"]["cached_tokens"] == 0


async def test_an_older_model_reads_and_keeps_nothing_below_its_minimum(provider: InProcess) -> None:
    def body(shared: int, rest: int, word: str) -> Json:
        return {"model": "gpt-5.4", "messages": [message("user", tokens(shared) + tokens(rest, f" {word}"))]}

    await provider.chat(body(1_000, 1, "pink"))
    assert (await provider.get("/_sim/ledger")).json == {"entries": []}
    for word, read in (("blue", 0), ("green", 0)):
        usage = (await provider.chat(body(900, 1_100, word))).usage
        assert usage["prompt_tokens_details"]["cached_tokens"] == read


def test_a_long_prompt_costs_twice_as_much() -> None:
    for size, factor in ((272_000, 1), (272_001, 2)):
        assert BY_ID["gpt-5.6"].prices.cost(size, 0, 0, 0, 0) == pytest.approx(size * 4 * factor / 1e6)


async def test_gpt_5_5_reads_steps_of_2048(provider: InProcess) -> None:
    body = {"model": "gpt-5.5", "messages": [message("user", tokens(5_000))]}
    await provider.chat(body, now=at(0))
    assert (await provider.chat(body, now=at(29))).usage["prompt_tokens_details"]["cached_tokens"] == 4_096


async def test_options_of_newer_models_are_refused_by_older_ones(provider: InProcess) -> None:
    refused = await provider.chat({"model": "gpt-5.4", "messages": [message("user", "a")], **EXPLICIT})
    assert refused.status == 400


@pytest.mark.parametrize(("retention", "seconds"), [("in_memory", 600), ("24h", 86_400)])
async def test_a_step_of_an_older_model_ends_when_it_is_idle(retention: str, seconds: int) -> None:
    provider = InProcess(EXACT)
    body = {"model": "gpt-5.4", "prompt_cache_retention": retention, "messages": [message("user", tokens(3_000))]}
    read = []
    for pause in (0, seconds - 1, seconds - 1, seconds):
        await provider.post("/_sim/clock", {"advance_seconds": pause})
        read.append((await provider.chat(body)).usage["prompt_tokens_details"]["cached_tokens"])
    assert read == [0, 2_944, 2_944, 0]


async def test_too_many_requests_of_one_key_overflow_on_older_models() -> None:
    provider = InProcess(replace(EXACT, legacy_requests_per_key=2))
    body = {"model": "gpt-5.4", "prompt_cache_key": "a", "messages": [message("user", tokens(3_000))]}
    read = [(await provider.chat(body, now=at(0, i))).usage["prompt_tokens_details"]["cached_tokens"] for i in range(3)]
    assert read == [0, 2_944, 0]
    other = {**body, "prompt_cache_key": "b"}
    await provider.chat(other, now=at(0, 4))
    assert (await provider.chat(other, now=at(0, 5))).usage["prompt_tokens_details"]["cached_tokens"] == 2_944
    assert (await provider.chat(body, now=at(1, 30))).usage["prompt_tokens_details"]["cached_tokens"] == 2_944


async def test_prewarming_writes_and_says_nothing(provider: InProcess) -> None:
    warm = {"prompt_cache_options": {"prewarm": True}}
    said = (await provider.chat({"messages": [message("user", tokens(2_000))], **warm})).json
    assert (said["usage"]["completion_tokens"], said["choices"][0]["message"]["content"]) == (0, None)
    again = (await provider.chat({"messages": [message("user", tokens(2_000))]})).usage
    assert again["prompt_tokens_details"]["cached_tokens"] == 2_000
    silent = (await provider.responses({"input": tokens(2_000, "blue"), **warm})).json
    assert (silent["output"], silent["status"]) == ([], "completed")
    assert (await provider.responses({"input": tokens(2_000, "blue")})).usage["input_tokens_details"][
        "cached_tokens"
    ] == 2_000
