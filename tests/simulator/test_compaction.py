"""Compaction by the provider: Anthropic's by threshold and on demand, OpenAI's in line and by its own endpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.anthropic.editing import ON_DEMAND_BETA, THRESHOLD_BETA
from lamella_simulator.testing import EXACT, Answered, InProcess

from .texts import FIVE_MINUTES, Json, assistant, at, tokens, user

pytestmark = pytest.mark.anyio
FACT = "The boiler's number is FACT-17."
LONG = [user(FACT, tokens(30_000)), assistant("Noted."), user(tokens(30_000, "blue")), assistant("Yes."), user("And?")]
COMPACT: Json = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
SUMMARIZE: Json = {"compaction": {"type": "summarize"}}


def at_threshold(**options: object) -> Json:
    return {"context_management": {"edits": [{**COMPACT, **options}]}}


async def send(provider: InProcess, messages: list[Json], body: Json | None = None, **rules: str) -> Answered:
    rules = {"beta": f"{THRESHOLD_BETA},{ON_DEMAND_BETA}", **rules}
    answer = await provider.messages({"messages": messages, **(body or {})}, **rules)
    assert answer.status == 200, answer.text
    return answer


async def test_a_long_prompt_is_compacted_and_answered(provider: InProcess) -> None:
    answer = await send(provider, LONG, at_threshold())
    block, text = answer.json["content"]
    assert (block["type"], block["content"], text["type"]) == ("compaction", FACT, "text")
    assert answer.json["stop_reason"] == "end_turn"


async def test_iterations_are_not_in_the_totals(provider: InProcess) -> None:
    usage = (await send(provider, LONG, at_threshold())).usage
    compaction, message = usage["iterations"]
    assert (compaction["type"], message["type"]) == ("compaction", "message")
    assert compaction["input_tokens"] > 60_000
    assert usage["input_tokens"] == message["input_tokens"] < 100
    assert usage["output_tokens"] == message["output_tokens"]
    (record,) = (await provider.get("/_sim/requests")).json["requests"]
    bill = sum(part["input_tokens"] * 5 + part["output_tokens"] * 25 for part in usage["iterations"])
    assert record["cost"] == pytest.approx(bill / 1e6)


async def test_a_short_prompt_has_one_iteration(provider: InProcess) -> None:
    answer = await send(provider, [user("hello")], at_threshold())
    assert [part["type"] for part in answer.usage["iterations"]] == ["message"]
    assert "iterations" not in (await send(provider, [user("hello")])).usage


async def test_what_stands_before_the_block_is_ignored(provider: InProcess) -> None:
    first = (await send(provider, LONG, at_threshold())).json
    reply = {"role": "assistant", "content": first["content"]}
    whole, rest = [*LONG, reply, user("next")], [reply, user("next")]
    sizes = [(await send(provider, messages, at_threshold())).usage["input_tokens"] for messages in (whole, rest)]
    assert sizes[0] == sizes[1] < 200


async def test_a_pause_gives_the_block_alone(provider: InProcess) -> None:
    answer = await send(provider, LONG, at_threshold(pause_after_compaction=True))
    assert [block["type"] for block in answer.json["content"]] == ["compaction"]
    assert answer.json["stop_reason"] == "compaction"
    assert [part["type"] for part in answer.usage["iterations"]] == ["compaction"]


async def test_the_block_comes_in_one_delta(provider: InProcess) -> None:
    await provider.script(r={"text": "Go on.", "summary": "All of it. " * 20})
    answer = await send(provider, LONG, {**at_threshold(), "stream": True}, reply="r")
    deltas = [event["delta"] for event in answer.events if event["type"] == "content_block_delta"]
    summaries = [delta for delta in deltas if delta["type"] == "compaction_delta"]
    assert [summary["content"] for summary in summaries] == ["All of it. " * 20]
    (end,) = [event for event in answer.events if event["type"] == "message_delta"]
    assert [part["type"] for part in end["usage"]["iterations"]] == ["compaction", "message"]


async def test_a_failed_compaction_is_null_and_changes_nothing(provider: InProcess) -> None:
    await provider.script(r={"text": "ok", "fault": {"kind": "compaction_failed"}})
    answer = await send(provider, LONG, at_threshold(), reply="r")
    assert answer.json["content"][0] == {"type": "compaction", "content": None}
    assert answer.usage["input_tokens"] > 60_000
    reply = {"role": "assistant", "content": answer.json["content"]}
    assert (await send(provider, [*LONG, reply, user("next")])).usage["input_tokens"] > 60_000


async def test_a_summary_can_carry_a_marker(provider: InProcess) -> None:
    await provider.script(r={"text": "ok", "summary": tokens(2_000, "green")})
    block, text = (await send(provider, LONG, at_threshold(), reply="r")).json["content"]
    reply = {"role": "assistant", "content": [{**block, "cache_control": FIVE_MINUTES}, text]}
    await send(provider, [reply, user("next")], now=at(0))
    again = await send(provider, [reply, user("another")], now=at(1))
    assert again.usage["cache_read_input_tokens"] == 2_000


async def test_the_whole_reply_on_demand_is_one_signed_block(provider: InProcess) -> None:
    answer = await send(provider, LONG, SUMMARIZE)
    (block,) = answer.json["content"]
    assert (block["content"], answer.json["stop_reason"]) == (FACT, "compaction")
    assert block["signature"]
    forged = {"role": "assistant", "content": [{**block, "content": "Something else."}]}
    refused = await provider.messages({"messages": [forged, user("next")]}, beta=ON_DEMAND_BETA)
    assert (refused.status, "Invalid `signature` in `compaction` block" in refused.error) == (400, True)


@pytest.mark.parametrize(("in_totals", "iterations"), [(True, None), (False, ["compaction"])])
async def test_how_a_compaction_on_demand_is_told_is_an_option(in_totals: bool, iterations: list[str] | None) -> None:
    provider = InProcess(replace(EXACT, on_demand_in_totals=in_totals))
    usage = (await send(provider, LONG, SUMMARIZE)).usage
    assert (usage["input_tokens"] > 60_000) is in_totals
    assert ([part["type"] for part in usage["iterations"]] if "iterations" in usage else None) == iterations


async def test_kept_turns_with_thinking_pass_behind_a_signed_summary(provider: InProcess) -> None:
    """The swap that the prefix check accepts: the API's own summary, with the turns after it unchanged."""
    await provider.script(think={"text": "ok", "reasoning": "Let me see."})
    bound: Json = {"model": "claude-opus-5-5", "system": "You help."}
    early = [user("first " + FACT), assistant("Noted."), user("second")]
    summary = (await send(provider, early, {**bound, **SUMMARIZE})).json["content"]
    reply = (await send(provider, early, bound, reply="think")).json["content"]
    kept = [{"role": "assistant", "content": reply}, user("third")]
    swapped = [{"role": "user", "content": summary}, *kept]
    assert (await send(provider, swapped, bound)).status == 200
    rewritten = [user("They spoke of a boiler."), *kept]
    refused = await provider.messages({**bound, "messages": rewritten}, beta=ON_DEMAND_BETA)
    assert (refused.status, "different conversation" in refused.error) == (400, True)
    other = await provider.messages({**bound, "system": "You rule.", "messages": swapped}, beta=ON_DEMAND_BETA)
    assert other.status == 400


@pytest.mark.parametrize(
    ("body", "beta", "words"),
    [
        (SUMMARIZE, "", "compaction: Extra inputs"),
        ({"compaction": {"type": "shorten"}}, ON_DEMAND_BETA, "should be 'summarize'"),
        ({**SUMMARIZE, **at_threshold()}, f"{ON_DEMAND_BETA},{THRESHOLD_BETA}", "cannot be combined"),
        (at_threshold(trigger={"type": "input_tokens", "value": 10_000}), THRESHOLD_BETA, "equal to 50000"),
        (at_threshold(trigger={"type": "tool_uses", "value": 60_000}), THRESHOLD_BETA, "should be 'input_tokens'"),
    ],
)
async def test_compactions_that_are_refused(provider: InProcess, body: Json, beta: str, words: str) -> None:
    answer = await provider.messages({"messages": [user("a")], **body}, beta=beta)
    assert answer.status == 400
    assert words in answer.error


ITEMS: list[Json] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": FACT},
    {"role": "assistant", "content": tokens(3_000)},
    {"role": "user", "content": "And?"},
]


async def test_the_compact_endpoint_keeps_what_the_user_said(provider: InProcess) -> None:
    answer = await provider.responses({"input": ITEMS}, path="/v1/responses/compact")
    compacted = answer.json
    assert compacted["object"] == "response.compaction"
    assert [item["type"] for item in compacted["output"]] == ["message", "message", "compaction"]
    assert compacted["usage"]["input_tokens"] > 3_000
    following = {"input": [*compacted["output"], {"role": "user", "content": "What is the boiler's number?"}]}
    answered = await provider.responses(following)
    assert answered.status == 200
    assert answered.usage["input_tokens"] < 100
    stolen = await provider.responses(following, key="another")
    assert (stolen.status, stolen.json["error"]["code"]) == (400, "invalid_encrypted_content")


async def test_a_prompt_over_the_threshold_is_compacted_in_line(provider: InProcess) -> None:
    asks = {"context_management": [{"type": "compaction", "compact_threshold": 2_000}]}
    answer = await provider.responses({"input": ITEMS, **asks})
    item, message = answer.json["output"]
    assert (item["type"], message["type"]) == ("compaction", "message")
    following = [*ITEMS, item, message, {"role": "user", "content": "next"}]
    short = [ITEMS[0], item, message, {"role": "user", "content": "next"}]
    sizes = [(await provider.responses({"input": items, **asks})).usage["input_tokens"] for items in (following, short)]
    assert sizes[0] == sizes[1] < 200


@pytest.mark.parametrize("in_usage", [True, False])
async def test_whether_the_usage_has_both_passes_is_an_option(in_usage: bool) -> None:
    provider = InProcess(replace(EXACT, openai_compaction_in_usage=in_usage))
    asks = {"context_management": [{"type": "compaction", "compact_threshold": 2_000}]}
    usage = (await provider.responses({"input": ITEMS, **asks})).usage
    assert (usage["input_tokens"] > 3_000) is in_usage
    (record,) = (await provider.get("/_sim/requests")).json["requests"]
    assert record["cost"] > 3_000 * 4 / 1e6


async def test_a_stream_tells_that_it_is_compacting(provider: InProcess) -> None:
    asks = {"context_management": [{"type": "compaction", "compact_threshold": 2_000}], "stream": True}
    kinds = [event["type"] for event in (await provider.responses({"input": ITEMS, **asks})).events]
    start = kinds.index("response.compaction.compacting")
    assert kinds[start - 1 : start + 2] == [
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
    ]


@pytest.mark.parametrize(
    "entry", [{"type": "shortening", "compact_threshold": 2_000}, {"type": "compaction", "compact_threshold": 10}]
)
async def test_in_line_compactions_that_are_refused(provider: InProcess, entry: Json) -> None:
    assert (await provider.responses({"input": ITEMS, "context_management": [entry]})).status == 400
