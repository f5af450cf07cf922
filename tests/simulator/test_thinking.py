"""Thinking that comes back: signatures, the prefix check, and thinking that is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.anthropic.thinking import BETA
from lamella_simulator.anthropic.validation import CLEAR_AT_BETA
from lamella_simulator.testing import EXACT, InProcess

from .texts import Json, assistant, text, tokens, user

pytestmark = pytest.mark.anyio
BOUND = "claude-opus-5-5"
DROP: Json = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
CALLS: list[Json] = [{"id": "c1", "name": "t", "arguments": {}}]
RESULT: Json = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}


async def turn(provider: InProcess, messages: list[Json], model: str = BOUND, **body: object) -> Json:
    """The assistant message that the model answers with; it thinks."""
    answer = await provider.messages({"model": model, "messages": messages, **body}, reply="think", beta=CLEAR_AT_BETA)
    assert answer.status == 200, answer.text
    return {"role": "assistant", "content": answer.json["content"]}


@pytest.fixture
async def thinker(provider: InProcess) -> InProcess:
    await provider.script(
        think={"text": "ok", "reasoning": {"text": "Let me see.", "tokens": 300}},
        call={"text": "Looking.", "reasoning": "A search will do.", "tool_calls": CALLS},
    )
    return provider


async def history(provider: InProcess, turns: int) -> list[Json]:
    messages: list[Json] = []
    for index in range(turns):
        messages.append(user(f"question {index}"))
        messages.append(await turn(provider, messages))
    return [*messages, user("last")]


async def send(provider: InProcess, messages: list[Json], **body: object) -> tuple[int, str]:
    answer = await provider.messages({"model": BOUND, "messages": messages, **body}, beta=CLEAR_AT_BETA)
    return answer.status, "" if answer.status == 200 else answer.error


async def test_an_unchanged_history_passes(thinker: InProcess) -> None:
    assert await send(thinker, await history(thinker, 3)) == (200, "")


async def test_returned_thinking_counts_with_its_real_tokens(thinker: InProcess) -> None:
    with_thinking = await history(thinker, 1)
    without = [with_thinking[0], assistant("ok"), with_thinking[2]]
    body = {"model": BOUND, "max_tokens": None}
    counts = [
        (await thinker.messages({**body, "messages": messages}, path="/v1/messages/count_tokens")).json
        for messages in (with_thinking, without)
    ]
    assert counts[0]["input_tokens"] - counts[1]["input_tokens"] == 300


async def test_a_changed_earlier_message_is_refused(thinker: InProcess) -> None:
    messages = await history(thinker, 2)
    messages[0] = user("question zero")
    status, error = await send(thinker, messages)
    assert status == 400
    assert error.startswith("messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a ")


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Be brief."},
        {"tools": [{"name": "t", "input_schema": {"type": "object"}}]},
    ],
)
async def test_a_changed_system_or_tool_list_is_refused(thinker: InProcess, change: Json) -> None:
    assert (await send(thinker, await history(thinker, 1), **change))[0] == 400


async def test_an_injected_and_removed_reminder_is_refused(thinker: InProcess) -> None:
    reminded = [user("question"), user("<system-reminder>Be kind.</system-reminder>")]
    answer = await turn(thinker, reminded)
    assert await send(thinker, [*reminded, answer, user("next")]) == (200, "")
    assert (await send(thinker, [reminded[0], answer, user("next")]))[0] == 400


async def test_markers_and_strings_do_not_count_as_changes(thinker: InProcess) -> None:
    messages = await history(thinker, 1)
    messages[0] = {"role": "user", "content": [text("question 0", {"type": "ephemeral"})]}
    assert await send(thinker, messages) == (200, "")
    assert await send(thinker, [{"role": "user", "content": "question 0"}, *messages[1:]]) == (200, "")


def without_thinking(message: Json) -> Json:
    return {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]}


async def test_thinking_may_go_from_the_front_but_not_from_the_middle(thinker: InProcess) -> None:
    messages = await history(thinker, 3)
    front = [without_thinking(message) if index == 1 else message for index, message in enumerate(messages)]
    middle = [without_thinking(message) if index == 3 else message for index, message in enumerate(messages)]
    assert await send(thinker, front) == (200, "")
    status, error = await send(thinker, middle)
    assert status == 400
    assert error.startswith("messages.5.content.0")


async def test_drop_block_drops_the_failing_and_all_later_blocks(thinker: InProcess) -> None:
    messages = await history(thinker, 3)
    messages[2] = user("another question")
    body = {"model": BOUND, "messages": messages, "thinking": DROP}
    answer = await thinker.messages(body, beta=BETA)
    assert answer.status == 200
    assert answer.json["input_transformations"] == [
        {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"}
        for path in ("messages.3.content.0", "messages.5.content.0")
    ]
    streamed = (await thinker.messages({**body, "stream": True}, beta=BETA)).events
    assert len(streamed[0]["message"]["input_transformations"]) == 2
    clean = await thinker.messages({**body, "messages": [user("a")]}, beta=BETA)
    assert clean.json["input_transformations"] == []


async def test_drop_block_drops_what_follows_a_gap_too(thinker: InProcess) -> None:
    messages = await history(thinker, 4)
    messages[3] = without_thinking(messages[3])
    answer = await thinker.messages({"model": BOUND, "messages": messages, "thinking": DROP}, beta=BETA)
    dropped = [entry["path"] for entry in answer.json["input_transformations"]]
    assert dropped == ["messages.5.content.0", "messages.7.content.0"]


async def test_dropped_thinking_is_not_billed(thinker: InProcess) -> None:
    messages = await history(thinker, 1)
    whole = (await thinker.messages({"model": BOUND, "messages": messages, "thinking": DROP}, beta=BETA)).usage
    messages[0] = user("Question 0")
    cut = (await thinker.messages({"model": BOUND, "messages": messages, "thinking": DROP}, beta=BETA)).usage
    assert whole["input_tokens"] - cut["input_tokens"] == 300


async def test_older_accounts_are_not_checked_unless_they_ask() -> None:
    provider = InProcess(replace(EXACT, prefix_check_enforced=False))
    await provider.script(think={"text": "ok", "reasoning": "hm"})
    messages = await history(provider, 1)
    messages[0] = user("changed")
    allowed = await provider.messages({"model": BOUND, "messages": messages}, beta=BETA)
    assert [entry["type"] for entry in allowed.json["input_transformations"]] == ["thinking_mismatch_allowed"]
    asked = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    refused = await provider.messages({"model": BOUND, "messages": messages, "thinking": asked}, beta=BETA)
    assert refused.status == 400


async def test_models_without_the_check_do_not_mind(thinker: InProcess) -> None:
    messages = [user("question"), await turn(thinker, [user("question")], "claude-opus-5"), user("next")]
    messages[0] = user("changed")
    assert (await thinker.messages({"model": "claude-opus-5", "messages": messages})).status == 200


async def test_forged_and_edited_thinking_is_refused_everywhere(thinker: InProcess) -> None:
    messages = [user("question"), await turn(thinker, [user("question")], "claude-opus-5"), user("next")]
    genuine = messages[1]["content"][0]
    for wrong in ({"signature": "AAAA"}, {"signature": genuine["signature"][:-8] + "AAAAAAA="}, {"thinking": "No."}):
        messages[1]["content"][0] = {**genuine, **wrong}
        assert (await thinker.messages({"model": "claude-opus-5", "messages": messages})).status == 400


async def test_another_models_thinking_is_dropped_in_silence(thinker: InProcess) -> None:
    messages = [user("question"), await turn(thinker, [user("question")], "claude-opus-5"), user("next")]
    answer = await thinker.messages({"model": BOUND, "messages": messages}, beta=BETA)
    assert [entry["reason"] for entry in answer.json["input_transformations"]] == ["model_binding_mismatch"]


async def test_models_may_alternate(thinker: InProcess) -> None:
    messages: list[Json] = []
    for index, model in enumerate((BOUND, "claude-sonnet-5-5", BOUND, "claude-sonnet-5-5")):
        messages.append(user(f"question {index}"))
        messages.append(await turn(thinker, messages, model))
    for model in (BOUND, "claude-sonnet-5-5"):
        assert (await thinker.messages({"model": model, "messages": [*messages, user("x")]})).status == 200


async def test_another_accounts_thinking_is_dropped(thinker: InProcess) -> None:
    messages = await history(thinker, 1)
    answer = await thinker.messages({"model": BOUND, "messages": messages}, key="other", beta=BETA)
    assert answer.json["input_transformations"][0]["reason"] == "organization_binding_mismatch"


async def test_missing_thinking_inside_a_tool_loop_is_refused(thinker: InProcess) -> None:
    asked = [user("question")]
    body: Json = {"model": BOUND, "messages": asked}
    called = (await thinker.messages(body, reply="call")).json["content"]
    loop = [*asked, {"role": "assistant", "content": called}, user(RESULT)]
    assert await send(thinker, loop) == (200, "")
    cut = [*asked, {"role": "assistant", "content": called[1:]}, user(RESULT)]
    status, error = await send(thinker, cut)
    assert status == 400
    assert error.startswith("messages.1.content.1.type: Expected `thinking` or `redacted_thinking`, but found")
    assert await send(thinker, [*cut, assistant("done"), user("next")]) == (200, "")


async def test_an_answer_without_thinking_is_not_missed(thinker: InProcess) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "t", "input": {}}
    assert await send(thinker, [user("question"), assistant(call), user(RESULT)]) == (200, "")


LAST_TURN: Json = {"model": "claude-haiku-4-5", "thinking": {"type": "enabled", "budget_tokens": 1_024}}


async def test_an_older_model_forgets_thinking_of_earlier_turns(thinker: InProcess) -> None:
    """claude-haiku-4-5 keeps the last turn's only: behind a person's next message older thinking is stripped."""
    body: Json = {**LAST_TURN, "max_tokens": 4_000}
    asked = [user("question")]
    called = (await thinker.messages({**body, "messages": asked}, reply="call")).json["content"]
    loop = [*asked, {"role": "assistant", "content": called}, user(RESULT)]
    later = [*loop, assistant("Found."), user("next")]

    async def counted(messages: list[Json]) -> int:
        told = await thinker.messages({**body, "messages": messages}, path="/v1/messages/count_tokens")
        return int(told.json["input_tokens"])

    last = (await thinker.get("/_sim/requests?last=1")).json["requests"][0]["usage"]
    thought = last["output_tokens_details"]["thinking_tokens"]
    more = await counted([*asked, *later[3:]]) - await counted(asked)
    assert await counted(later) == await counted([asked[0], assistant(*called[1:]), *later[2:]])
    assert await counted(loop) == await counted(later) - more + thought


async def test_stripped_thinking_loses_the_messages_behind_it(thinker: InProcess) -> None:
    mark = {"type": "ephemeral"}
    body: Json = {**LAST_TURN, "max_tokens": 4_000}
    asked = [user(text(tokens(5_000), mark))]
    called = (await thinker.messages({**body, "messages": asked}, reply="call")).json["content"]
    result = {**RESULT, "cache_control": mark}
    loop = [*asked, {"role": "assistant", "content": called}, user(result)]
    running = (await thinker.messages({**body, "messages": loop})).usage
    assert running["cache_creation_input_tokens"] > 0
    next_turn = [*loop, assistant("Found."), user(text("next", mark))]
    usage = (await thinker.messages({**body, "messages": next_turn})).usage
    assert usage["cache_read_input_tokens"] == 5_000


async def test_thinking_is_not_shown_where_it_is_off(thinker: InProcess) -> None:
    for model, extra, kinds in (
        ("claude-opus-5", {"thinking": {"type": "disabled"}}, ["text"]),
        ("claude-opus-5", {}, ["thinking", "text"]),
        ("claude-opus-4-8", {}, ["text"]),
        ("claude-opus-4-8", {"thinking": {"type": "adaptive"}}, ["thinking", "text"]),
    ):
        answer = await thinker.messages({"model": model, "messages": [user("a")], **extra}, reply="think")
        assert [block["type"] for block in answer.json["content"]] == kinds


async def test_omitted_thinking_comes_as_a_signature_and_goes_back(thinker: InProcess) -> None:
    omitted: Json = {"type": "adaptive", "display": "omitted"}
    first = await turn(thinker, [user("question")], thinking=omitted)
    assert first["content"][0]["thinking"] == ""
    assert await send(thinker, [user("question"), first, user("next")], thinking=omitted) == (200, "")


async def test_a_turn_scoped_system_message_stays_but_is_no_longer_shown(thinker: InProcess) -> None:
    reminder: Json = {"role": "system", "content": tokens(50), "clear_at": "next_user_message"}
    asked = [user("question"), reminder]
    answer = await turn(thinker, asked)
    grown = [*asked, answer, user("next")]
    assert await send(thinker, grown) == (200, "")
    assert (await send(thinker, [asked[0], answer, user("next")]))[0] == 400

    def counted(messages: list[Json]) -> Json:
        return {"model": BOUND, "messages": messages, "max_tokens": None}

    how = {"path": "/v1/messages/count_tokens", "beta": CLEAR_AT_BETA}
    shown = (await thinker.messages(counted(asked), **how)).json["input_tokens"]
    plain = (await thinker.messages(counted(asked[:1]), **how)).json["input_tokens"]
    later = (await thinker.messages(counted([*asked, assistant("ok"), user("b")]), **how)).json["input_tokens"]
    bare = [asked[0], assistant("ok"), user("b")]
    assert shown - plain == 50
    assert later == (await thinker.messages(counted(bare), **how)).json["input_tokens"]


async def test_by_option_a_turn_scoped_message_may_vanish() -> None:
    provider = InProcess(replace(EXACT, clear_at_may_vanish=True))
    await provider.script(think={"text": "ok", "reasoning": "hm"})
    reminder: Json = {"role": "system", "content": "Be kind.", "clear_at": "next_user_message"}
    answer = await turn(provider, [user("question"), reminder])
    assert await send(provider, [user("question"), answer, user("next")]) == (200, "")


@pytest.mark.parametrize(("counts", "read"), [(True, 0), (False, 1_000)])
async def test_by_option_thinking_takes_no_place_in_the_look_back(counts: bool, read: int) -> None:
    provider = InProcess(replace(EXACT, lookback_counts_thinking=counts))
    await provider.script(think={"text": "ok", "reasoning": "hm"})
    mark = {"type": "ephemeral"}
    await provider.messages({"messages": [user(text(tokens(1_000), mark))]})
    messages = [user(tokens(1_000))]
    for index in range(7):
        messages.append(await turn(provider, messages, "claude-opus-5"))
        messages.append(user(f"question {index}"))
    usage = (await provider.messages({"messages": messages, "cache_control": mark})).usage
    assert usage["cache_read_input_tokens"] == read
