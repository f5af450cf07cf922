"""Conformance of the Anthropic cache rules with the examples of the vendor's pages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lamella_simulator.anthropic.validation import OUTPUT_BETA, TURN_BETA
from lamella_simulator.testing import EXACT, InProcess

from .texts import FIVE_MINUTES, ONE_HOUR, Json, assistant, at, counters, text, tokens, user

pytestmark = pytest.mark.anyio


def numbered(first: int, last: int, *marked: int) -> list[Json]:
    """Content blocks numbered from 1, 100 tokens each, some of them marked."""
    words = ["red", "blue", "green", "gold", "black", "white", "pink", "gray", "brown", "silver"]
    return [
        text(tokens(99 - index // 10, words[index % 10]) + f" {words[index % 7]}" * (1 + index // 10), mark)
        for index, mark in ((i, FIVE_MINUTES if i in marked else None) for i in range(first, last + 1))
    ]


async def test_a_second_identical_request_reads_what_the_first_wrote(provider: InProcess) -> None:
    body = {"system": [text(tokens(1_000), FIVE_MINUTES)], "messages": [user(tokens(10, "blue"))]}
    assert counters((await provider.messages(body, now=at(0))).usage) == (0, 1_000, 10)
    assert counters((await provider.messages(body, now=at(1))).usage) == (1_000, 0, 10)


async def test_a_marker_more_than_20_positions_behind_the_last_write_misses(provider: InProcess) -> None:
    """The documented example: a write at block 15, the next marker at block 35."""
    await provider.messages({"messages": [user(*numbered(1, 15, 15))]}, now=at(0))
    far = await provider.messages({"messages": [user(*numbered(1, 35, 35))]}, now=at(1))
    assert counters(far.usage) == (0, 3_500, 0)


async def test_a_marker_19_positions_behind_the_last_write_hits(provider: InProcess) -> None:
    await provider.messages({"messages": [user(*numbered(1, 15, 15))]}, now=at(0))
    near = await provider.messages({"messages": [user(*numbered(1, 34, 34))]}, now=at(1))
    assert counters(near.usage) == (1_500, 1_900, 0)


async def test_marking_the_old_position_again_hits_at_any_distance(provider: InProcess) -> None:
    await provider.messages({"messages": [user(*numbered(1, 15, 15))]}, now=at(0))
    both = await provider.messages({"messages": [user(*numbered(1, 60, 15, 60))]}, now=at(1))
    assert counters(both.usage) == (1_500, 4_500, 0)


async def test_the_look_back_goes_on_from_the_next_earlier_marker(provider: InProcess) -> None:
    """Write at 10; markers at 15 and 35: 35 to 16 misses, then 15 to 1 finds 10."""
    await provider.messages({"messages": [user(*numbered(1, 10, 10))]}, now=at(0))
    found = await provider.messages({"messages": [user(*numbered(1, 35, 15, 35))]}, now=at(1))
    assert counters(found.usage) == (1_000, 2_500, 0)


async def test_nothing_is_written_at_positions_without_a_marker(provider: InProcess) -> None:
    await provider.messages({"messages": [user(*numbered(1, 15, 15))]}, now=at(0))
    shorter = await provider.messages({"messages": [user(*numbered(1, 12, 12))]}, now=at(1))
    assert counters(shorter.usage) == (0, 1_200, 0)


async def test_a_timestamp_in_the_last_block_writes_every_time_and_never_reads(provider: InProcess) -> None:
    for minute in range(3):
        body = {
            "cache_control": FIVE_MINUTES,
            "messages": [user(tokens(1_000), f"It is 9:0{minute}")],
        }
        read, written, fresh = counters((await provider.messages(body, now=at(minute))).usage)
        assert (read, fresh) == (0, 0)
        assert written > 1_000


async def test_three_turns_of_automatic_caching(provider: InProcess) -> None:
    """Each turn reads all of the turn before and writes only what is new."""
    first = [user(tokens(1_000))]
    second = [*first, assistant(tokens(200, "blue")), user(tokens(100, "green"))]
    third = [*second, assistant(tokens(300, "gold")), user(tokens(50, "black"))]
    seen = []
    for minute, messages in enumerate([first, second, third]):
        body: Json = {"cache_control": FIVE_MINUTES, "messages": messages}
        seen.append(counters((await provider.messages(body, now=at(minute))).usage))
    assert seen == [(0, 1_000, 0), (1_000, 300, 0), (1_300, 350, 0)]


async def test_mixed_lives_are_billed_by_a_b_and_c(provider: InProcess) -> None:
    """A is the highest hit, B the highest 1h marker after it, C the last marker."""
    tool = {"name": "t", "input_schema": {"type": "object"}}
    head: Json = {"tools": [tool], "system": [text(tokens(1_000), ONE_HOUR)]}
    await provider.messages({**head, "messages": [user("x")]}, now=at(0))
    before = (await provider.messages({**head, "messages": [user("x")]}, now=at(1))).usage["cache_read_input_tokens"]
    messages = [user(text(tokens(2_000, "blue"), ONE_HOUR)), assistant(text(tokens(500, "green"), FIVE_MINUTES))]
    messages.append(user(tokens(70, "gold")))
    usage = (await provider.messages({**head, "messages": messages}, now=at(2))).usage
    assert counters(usage) == (before, 2_500, 70)
    assert usage["cache_creation"] == {"ephemeral_1h_input_tokens": 2_000, "ephemeral_5m_input_tokens": 500}


async def test_b_is_the_highest_of_several_long_markers(provider: InProcess) -> None:
    marks = (("red", 1_000, ONE_HOUR), ("blue", 1_000, ONE_HOUR), ("green", 500, FIVE_MINUTES))
    blocks = [text(tokens(number, word), mark) for word, number, mark in marks]
    usage = (await provider.messages({"messages": [user(*blocks)]})).usage
    assert usage["cache_creation"] == {"ephemeral_1h_input_tokens": 2_000, "ephemeral_5m_input_tokens": 500}


async def test_a_life_counts_from_the_start_of_the_request_not_from_its_end(provider: InProcess) -> None:
    """A stream of four minutes leaves one minute."""
    await provider.script(long={"text": "done", "ttft_ms": 60_000, "ms": 240_000})
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.messages(body, now=at(0), reply="long")
    assert counters((await provider.messages(body, now=at(4, 59))).usage) == (1_000, 0, 0)

    other = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000, "blue"))]}
    await provider.messages(other, now=at(0), reply="long")
    assert counters((await provider.messages(other, now=at(5, 1))).usage) == (0, 1_000, 0)


async def test_a_hit_renews_the_life_of_what_it_hit(provider: InProcess) -> None:
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    read = [counters((await provider.messages(body, now=at(minute))).usage)[0] for minute in (0, 4, 8, 12)]
    assert read == [0, 1_000, 1_000, 1_000]


async def test_a_deep_hit_leaves_the_entries_before_it_to_die(provider: InProcess) -> None:
    deep = {"system": [text(tokens(1_000), FIVE_MINUTES)], "messages": [user(text(tokens(500), FIVE_MINUTES))]}
    only_deep = {"system": [text(tokens(1_000))], "messages": deep["messages"]}
    only_system = {"system": deep["system"], "messages": [user("other")]}
    await provider.messages(deep, now=at(0))
    assert counters((await provider.messages(only_deep, now=at(4))).usage)[0] == 1_500
    assert counters((await provider.messages(only_system, now=at(6))).usage)[0] == 0


async def test_an_option_lets_a_deep_hit_renew_the_entries_before_it() -> None:
    provider = InProcess(replace(EXACT, renew_ancestors=True))
    deep = {"system": [text(tokens(1_000), FIVE_MINUTES)], "messages": [user(text(tokens(500), FIVE_MINUTES))]}
    await provider.messages(deep, now=at(0))
    await provider.messages({"system": [text(tokens(1_000))], "messages": deep["messages"]}, now=at(4))
    only_system = {"system": deep["system"], "messages": [user("other")]}
    assert counters((await provider.messages(only_system, now=at(6))).usage)[0] == 1_000


async def test_marking_both_keeps_both_alive(provider: InProcess) -> None:
    both = {"system": [text(tokens(1_000), FIVE_MINUTES)], "messages": [user(text(tokens(500), FIVE_MINUTES))]}
    await provider.messages(both, now=at(0))
    await provider.messages(both, now=at(4))
    only_system = {"system": both["system"], "messages": [user("other")]}
    assert counters((await provider.messages(only_system, now=at(8))).usage)[0] == 1_000


async def test_parallel_requests_all_pay_until_the_first_answer_begins(provider: InProcess) -> None:
    await provider.script(slow={"text": "ok", "ttft_ms": 2_000})
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    parallel = [await provider.messages(body, now=at(0, second), reply="slow") for second in (0, 0, 1)]
    assert [counters(answer.usage)[:2] for answer in parallel] == [(0, 1_000)] * 3
    assert counters((await provider.messages(body, now=at(0, 2), reply="slow")).usage)[:2] == (1_000, 0)


async def test_a_change_of_tool_choice_keeps_tools_and_system_only(provider: InProcess) -> None:
    body: Json = {
        "tools": [{"name": "t", "input_schema": {"type": "object"}}],
        "system": [text(tokens(1_000), FIVE_MINUTES)],
        "messages": [user(text(tokens(500), FIVE_MINUTES))],
    }
    written = counters((await provider.messages(body, now=at(0))).usage)[1]
    changed = {**body, "tool_choice": {"type": "none"}}
    assert counters((await provider.messages(changed, now=at(1))).usage) == (written - 500, 500, 0)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param({"thinking": {"type": "adaptive"}}, 1_500, id="a default spelt out"),
        pytest.param({"output_config": {"effort": "high"}}, 1_500, id="the default effort"),
        pytest.param({"tool_choice": {"type": "auto"}}, 1_500, id="the default tool choice"),
        pytest.param({"output_config": {"effort": "low"}}, 1_000, id="another effort"),
        pytest.param(
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, 1_000, id="one call at a time"
        ),
        pytest.param({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, 0, id="a format"),
        pytest.param({"system": [text(tokens(1_000, "blue"), FIVE_MINUTES)]}, 0, id="another system text"),
        pytest.param({"tools": [{"name": "t", "input_schema": {"type": "object"}}]}, 0, id="a tool more"),
        pytest.param({"thinking": {"type": "disabled"}}, 1_000, id="another thinking mode"),
        pytest.param({"speed": "fast"}, 0, id="another speed"),
        pytest.param({"model": "claude-sonnet-5"}, 0, id="another model"),
    ],
)
async def test_what_a_setting_loses(provider: InProcess, change: Json, kept: int) -> None:
    body: Json = {
        "system": [text(tokens(1_000), FIVE_MINUTES)],
        "messages": [user(text(tokens(500), FIVE_MINUTES))],
    }
    await provider.messages(body, now=at(0))
    assert counters((await provider.messages({**body, **change}, now=at(1))).usage)[0] == kept


async def test_the_order_of_the_tools_is_part_of_the_prompt(provider: InProcess) -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in "ab"]
    body: Json = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    for order, is_read in ((tools, False), (tools, True), (tools[::-1], False)):
        usage = (await provider.messages({**body, "tools": order}, now=at(0))).usage
        assert bool(counters(usage)[0]) is is_read


async def test_a_setting_is_part_of_the_messages_where_nothing_stands_before_them(provider: InProcess) -> None:
    body: Json = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.messages(body, now=at(0))
    for change in ({"tool_choice": {"type": "none"}}, {"speed": "fast"}):
        assert counters((await provider.messages({**body, **change}, now=at(0))).usage)[0] == 0


async def test_another_budget_loses_the_messages(provider: InProcess) -> None:
    body: Json = {"model": "claude-opus-4-6", "max_tokens": 9_000, "system": [text(tokens(5_000), FIVE_MINUTES)]}
    body |= {"messages": [user(text(tokens(500), FIVE_MINUTES))]}
    read = [
        counters((await provider.messages({**body, "thinking": {"type": "enabled", "budget_tokens": n}})).usage)[0]
        for n in (2_000, 2_000, 4_000)
    ]
    assert read == [0, 5_500, 5_000]


async def test_tools_and_system_blocks_take_places_in_the_look_back(provider: InProcess) -> None:
    """Write behind one tool and one system block; 18 blocks later is the 20th position, one more is too far."""
    tool = {"name": "t", "description": tokens(600), "input_schema": {"type": "object"}, "cache_control": FIVE_MINUTES}
    await provider.messages({"tools": [tool], "messages": [user("x")]}, now=at(0))
    bare = {key: value for key, value in tool.items() if key != "cache_control"}
    for blocks, is_read in ((18, True), (19, False)):
        parts = [text(f"part {i} of {blocks}", FIVE_MINUTES if i == blocks - 1 else None) for i in range(blocks)]
        body: Json = {"tools": [bare], "system": [text("Be brief.")], "messages": [user(*parts)]}
        assert bool(counters((await provider.messages(body, now=at(0))).usage)[0]) is is_read


async def test_a_system_message_in_the_middle_only_adds(provider: InProcess) -> None:
    talk = [user(tokens(1_000)), assistant("ok"), user("go on")]
    await provider.messages({"cache_control": FIVE_MINUTES, "messages": talk[:1]}, now=at(0))
    noted = [*talk, {"role": "system", "content": "Now in French."}]
    assert (
        counters((await provider.messages({"cache_control": FIVE_MINUTES, "messages": noted}, now=at(1))).usage)[0]
        == 1_000
    )


async def test_fifty_requests_at_once_all_miss_and_then_all_hit(provider: InProcess) -> None:
    await provider.script(slow={"text": "ok", "ttft_ms": 2_000})
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    for second, expected in ((0, (0, 1_000)), (2, (1_000, 0))):
        asked = [provider.messages(body, now=at(0, second), reply="slow") for _ in range(50)]
        assert {counters(answer.usage)[:2] for answer in await asyncio.gather(*asked)} == {expected}


SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}


async def test_web_search_is_switched_in_the_system_prompt(provider: InProcess) -> None:
    """The other tools stay in the cache, wherever it stands among them."""
    tools = [{"name": "t", "description": tokens(600), "input_schema": {"type": "object"}, "cache_control": ONE_HOUR}]
    body: Json = {"system": [text("Be brief.", FIVE_MINUTES)], "messages": [user(text(tokens(700), FIVE_MINUTES))]}
    whole = counters((await provider.messages({**body, "tools": tools}, now=at(0))).usage)[1]
    first = (await provider.messages({**body, "tools": [SEARCH, *tools]}, now=at(0))).usage
    assert 600 < counters(first)[0] == whole - 700 - 3
    assert counters((await provider.messages({**body, "tools": [*tools, SEARCH]}, now=at(0))).usage)[1] == 0


async def test_citations_are_switched_in_the_system_prompt(provider: InProcess) -> None:
    tool = {"name": "t", "description": tokens(600), "input_schema": {"type": "object"}, "cache_control": FIVE_MINUTES}
    body: Json = {"tools": [tool], "system": [text(tokens(1_000), FIVE_MINUTES)]}
    paper = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": tokens(50)}}
    asked = [user(paper, "what?")]
    whole = counters((await provider.messages({**body, "messages": asked}, now=at(0))).usage)[1]
    assert counters((await provider.messages({**body, "messages": asked}, now=at(0))).usage)[0] == whole
    cited = [user({**paper, "citations": {"enabled": True}}, "what?")]
    assert counters((await provider.messages({**body, "messages": cited}, now=at(0))).usage)[:2] == (
        whole - 1_000,
        1_000,
    )


async def test_a_forced_call_lengthens_the_hidden_prompt(provider: InProcess) -> None:
    body: Json = {"tools": [{"name": "t", "input_schema": {"type": "object"}}], "messages": [user("a")]}
    totals = [
        sum(counters((await provider.messages({**body, "tool_choice": {"type": kind}})).usage))
        for kind in ("auto", "none", "any")
    ]
    assert (totals[1] - totals[0], totals[2] - totals[0]) == (0, 120)


async def test_an_effort_of_one_message_keeps_the_cache(provider: InProcess) -> None:
    body: Json = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.messages(body, now=at(0))
    quick = [*body["messages"], {"role": "system", "output_config": {"effort": "low"}}]
    told = await provider.messages({**body, "messages": quick}, now=at(1), beta=OUTPUT_BETA)
    assert counters(told.usage) == (1_000, 0, 0)
    assert (await provider.messages({**body, "messages": quick}, beta=TURN_BETA)).status == 200
    for effort in ({"effort": "huge"}, {}):
        refused = [*body["messages"], {"role": "system", "output_config": effort}]
        assert (await provider.messages({**body, "messages": refused}, beta=OUTPUT_BETA)).status == 400


async def test_workspaces_of_one_key_do_not_share_a_cache(provider: InProcess) -> None:
    body = {"model": "claude-opus-5", "max_tokens": 9, "cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    read = []
    for workspace in ("a", "a", "b"):
        headers = {"x-api-key": "k", "anthropic-workspace-id": workspace}
        read.append(counters((await provider.post_with(headers, "/v1/messages", body)).usage)[0])
    assert read == [0, 1_000, 0]


async def test_the_first_image_loses_the_messages(provider: InProcess) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    head = {"system": [text(tokens(1_000), FIVE_MINUTES)]}
    await provider.messages({**head, "messages": [user(text(tokens(500), FIVE_MINUTES))]}, now=at(0))
    grown = [user(text(tokens(500), FIVE_MINUTES)), assistant("ok"), user(image)]
    usage = (await provider.messages({**head, "messages": grown}, now=at(1))).usage
    assert counters(usage)[:2] == (1_000, 500)
    assert usage["input_tokens"] >= 1_500


@pytest.mark.parametrize(("size", "written"), [(511, 0), (512, 512)])
async def test_the_minimum_is_exact_and_silent(provider: InProcess, size: int, written: int) -> None:
    body = {"messages": [user(text(tokens(size), FIVE_MINUTES))]}
    assert counters((await provider.messages(body, now=at(0))).usage) == (0, written, size - written)


async def test_a_short_prefix_is_not_written_though_a_later_one_is(provider: InProcess) -> None:
    body = {"system": [text(tokens(100), FIVE_MINUTES)], "messages": [user(text(tokens(900), FIVE_MINUTES))]}
    assert counters((await provider.messages(body, now=at(0))).usage) == (0, 1_000, 0)
    ledger = (await provider.get("/_sim/ledger")).json["entries"]
    assert [entry["tokens"] for entry in ledger] == [1_000]


async def test_accounts_do_not_share_a_cache(provider: InProcess) -> None:
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.messages(body, now=at(0), key="one")
    assert counters((await provider.messages(body, now=at(1), key="two")).usage)[0] == 0


async def test_a_string_is_one_text_block_and_neighbours_of_one_role_are_one_message(provider: InProcess) -> None:
    apart = [{"role": "user", "content": tokens(600)}, {"role": "user", "content": tokens(600, "blue")}]
    together = [user(tokens(600), tokens(600, "blue"))]
    await provider.messages({"cache_control": FIVE_MINUTES, "messages": apart}, now=at(0))
    usage = (await provider.messages({"cache_control": FIVE_MINUTES, "messages": together}, now=at(1))).usage
    assert counters(usage) == (1_200, 0, 0)


async def test_the_key_order_of_a_tool_input_is_part_of_the_prompt(provider: InProcess) -> None:
    def history(arguments: Json) -> list[Json]:
        call = {"type": "tool_use", "id": "c1", "name": "t", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": tokens(600)}
        return [user("go"), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    first = {"cache_control": FIVE_MINUTES, "messages": history({"a": 1, "b": 2})}
    await provider.messages(first, now=at(0))
    swapped = {"cache_control": FIVE_MINUTES, "messages": history({"b": 2, "a": 1})}
    assert counters((await provider.messages(first, now=at(1))).usage)[0] > 600
    assert counters((await provider.messages(swapped, now=at(1))).usage)[0] == 0


async def test_the_order_of_fields_in_a_message_is_no_part_of_the_prompt(provider: InProcess) -> None:
    block = {"type": "text", "text": tokens(1_000)}
    first = {"cache_control": FIVE_MINUTES, "messages": [{"role": "user", "content": [block]}]}
    await provider.messages(first, now=at(0))
    swapped = [{"content": [dict(reversed(block.items()))], "role": "user"}]
    usage = (await provider.messages({"cache_control": FIVE_MINUTES, "messages": swapped}, now=at(1))).usage
    assert counters(usage) == (1_000, 0, 0)


async def test_moving_a_marker_does_not_change_the_prefix(provider: InProcess) -> None:
    await provider.messages({"messages": [user(text(tokens(1_000), FIVE_MINUTES))]}, now=at(0))
    grown = [user(tokens(1_000)), assistant("ok"), user(text(tokens(50, "blue"), FIVE_MINUTES))]
    assert counters((await provider.messages({"messages": grown}, now=at(1))).usage)[0] == 1_000


async def test_an_unanswered_request_writes_nothing(provider: InProcess) -> None:
    await provider.script(busy={"text": "ok", "fault": {"kind": 529}})
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    assert (await provider.messages(body, now=at(0), reply="busy")).status == 529
    assert counters((await provider.messages(body, now=at(1), reply="busy")).usage)[:2] == (0, 1_000)


async def test_zero_max_tokens_warms_the_cache_and_says_nothing(provider: InProcess) -> None:
    body: Json = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    warmed = (await provider.messages({**body, "max_tokens": 0}, now=at(0))).json
    assert (warmed["content"], warmed["stop_reason"]) == ([], "max_tokens")
    assert warmed["usage"]["output_tokens"] == 0
    assert counters((await provider.messages(body, now=at(1))).usage)[0] == 1_000


async def test_lost_entries_are_an_option() -> None:
    provider = InProcess(replace(EXACT, eviction_rate=1.0))
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.messages(body, now=at(0))
    assert counters((await provider.messages(body, now=at(1))).usage)[:2] == (0, 1_000)


async def test_a_one_hour_entry_outlives_a_pause_that_kills_a_short_one(provider: InProcess) -> None:
    body = {
        "system": [text(tokens(1_000), ONE_HOUR)],
        "messages": [user(text(tokens(500), FIVE_MINUTES))],
    }
    await provider.messages(body, now=at(0))
    assert counters((await provider.messages(body, now=at(59))).usage) == (1_000, 500, 0)
    assert counters((await provider.messages(body, now=at(120))).usage) == (0, 1_500, 0)


@pytest.mark.parametrize(("upgrade", "read"), [(False, 0), (True, 1_000)])
async def test_a_long_marker_over_a_short_entry(upgrade: bool, read: int) -> None:
    provider = InProcess(replace(EXACT, upgrade_to_1h=upgrade))
    for minute, marker in ((0, FIVE_MINUTES), (1, ONE_HOUR)):
        await provider.messages({"messages": [user(text(tokens(1_000), marker))]}, now=at(minute))
    later = await provider.messages({"messages": [user(text(tokens(1_000), ONE_HOUR))]}, now=at(30))
    assert counters(later.usage)[0] == read


async def test_a_deferred_tool_is_no_part_of_the_prompt(provider: InProcess) -> None:
    shown: Json = {"name": "look", "input_schema": {"type": "object"}, "description": tokens(1_000)}
    body: Json = {"tools": [{**shown, "cache_control": FIVE_MINUTES}], "messages": [user("a")]}
    first = (await provider.messages(body)).usage
    for description in ("Finds.", tokens(500)):
        later = {**shown, "name": "find", "defer_loading": True, "description": description}
        usage = (await provider.messages({**body, "tools": [*body["tools"], later]})).usage
        assert usage["cache_read_input_tokens"] == first["cache_creation_input_tokens"] > 1_000
        assert usage["input_tokens"] == first["input_tokens"]
    deferred = {**shown, "defer_loading": True}
    assert "must be non-deferred" in (await provider.messages({**body, "tools": [deferred]})).error
    marked = {**deferred, "name": "find", "cache_control": FIVE_MINUTES}
    assert "cache_control" in (await provider.messages({**body, "tools": [shown, marked]})).error


async def test_a_dated_name_is_the_same_model(provider: InProcess) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1_024}
    body: Json = {"max_tokens": 2_000, "thinking": thinking, "messages": [user("a")]}
    assert (await provider.messages({**body, "model": "claude-haiku-4-5-20251001"})).status == 200
