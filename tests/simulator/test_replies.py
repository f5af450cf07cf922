"""Scripts and faults: what a scripted answer looks like on each wire, and how it fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.testing import EXACT, Answered, InProcess

from .texts import FIVE_MINUTES, Json, tokens, user

pytestmark = pytest.mark.anyio
ASK: Json = {"messages": [user("a")]}
CHAT: Json = {"messages": [{"role": "user", "content": "a"}]}
CALL: Json = {"id": "c1", "name": "search", "arguments": {"query": "long words to be cut"}}


def kinds(answer: Answered) -> list[str]:
    return [event["type"] for event in answer.events]


def streamed_text(answer: Answered) -> str:
    deltas = [event["delta"] for event in answer.events if event["type"] == "content_block_delta"]
    return "".join(delta.get("text", "") for delta in deltas)


async def test_the_order_of_events_is_the_vendors(provider: InProcess) -> None:
    await provider.script(r={"text": "Hello there.", "reasoning": "hm", "tool_calls": [CALL], "chunk": 100})
    answer = await provider.messages({**ASK, "stream": True}, reply="r")
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    thinking = ["content_block_start", "ping", "content_block_delta", "content_block_delta", "content_block_stop"]
    tool = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    assert kinds(answer) == ["message_start", *thinking, *block, *tool, "message_delta", "message_stop"]
    start, end = answer.events[0]["message"]["usage"], answer.events[-2]["usage"]
    assert start["output_tokens"] == 1
    assert {name: end[name] for name in ("input_tokens", "cache_read_input_tokens")} == {
        name: start[name] for name in ("input_tokens", "cache_read_input_tokens")
    }
    assert end["output_tokens_details"]["thinking_tokens"] > 0
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_stream_and_whole_say_the_same(provider: InProcess) -> None:
    await provider.script(r={"text": "Hello there, and welcome to the show.", "tool_calls": [CALL], "chunk": 5})
    whole = (await provider.messages(ASK, reply="r")).json
    streamed = await provider.messages({**ASK, "stream": True}, reply="r")
    assert streamed_text(streamed) == whole["content"][0]["text"]
    assert whole["content"][1] == {"type": "tool_use", "id": "c1", "name": "search", "input": CALL["arguments"]}
    assert streamed.events[-2]["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    assert whole["stop_reason"] == streamed.events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_scripted_numbers_are_taken_as_they_are(provider: InProcess) -> None:
    await provider.script(r={"text": "x", "reasoning": {"text": "hm", "tokens": 700}, "output_tokens": 900})
    usage = (await provider.messages(ASK, reply="r")).usage
    assert (usage["output_tokens"], usage["output_tokens_details"]["thinking_tokens"]) == (900, 700)


async def test_a_call_without_an_id_gets_one(provider: InProcess) -> None:
    await provider.script(r={"tool_calls": [{"name": "t"}, {"name": "t"}]})
    content = (await provider.messages(ASK, reply="r")).json["content"]
    assert len({block["id"] for block in content}) == 2
    assert all(block["id"].startswith("toolu_") for block in content)
    message = (await provider.chat(CHAT, reply="r")).json["choices"][0]["message"]
    assert all(call["id"].startswith("call_") for call in message["tool_calls"])


async def test_max_tokens_cuts_the_answer(provider: InProcess) -> None:
    await provider.script(r={"text": "one two three four five six seven eight nine ten"})
    answer = (await provider.messages({**ASK, "max_tokens": 5}, reply="r")).json
    assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == ("max_tokens", 5)
    assert 0 < len(answer["content"][0]["text"]) < 30
    choice = (await provider.chat({**CHAT, "max_completion_tokens": 5}, reply="r")).json["choices"][0]
    assert choice["finish_reason"] == "length"


async def test_an_unknown_script_is_an_error(provider: InProcess) -> None:
    assert (await provider.messages(ASK, reply="nobody")).status == 400


async def test_a_request_that_names_no_script_gets_the_default_one(provider: InProcess) -> None:
    await provider.script(usual={"text": "As usual."}, other={"text": "Something else."})
    assert (await provider.post("/_sim/settings", {"default_reply": "usual"})).status == 200
    assert (await provider.messages(ASK)).json["content"][0]["text"] == "As usual."
    assert (await provider.chat(CHAT)).json["choices"][0]["message"]["content"] == "As usual."
    assert (await provider.messages(ASK, reply="other")).json["content"][0]["text"] == "Something else."
    assert (await provider.post("/_sim/settings", {"default_reply": None})).status == 200
    assert (await provider.messages(ASK)).json["content"][0]["text"] != "As usual."


async def test_a_malformed_script_is_refused(provider: InProcess) -> None:
    for wrong in ({"txt": "a"}, {"text": 1}, {"text": "a", "fault": {"kind": "fire"}}):
        assert (await provider.post("/_sim/replies", {"r": wrong})).status == 400


@pytest.mark.parametrize(
    ("kind", "anthropic", "openai"),
    [
        (429, "rate_limit_error", "rate_limit_error"),
        ("529", "overloaded_error", "server_error"),
        (500, "api_error", "server_error"),
        (504, "timeout_error", "server_error"),
    ],
)
async def test_http_faults_fire_as_often_as_told(
    provider: InProcess, kind: int | str, anthropic: str, openai: str
) -> None:
    for post, body, name in ((provider.messages, ASK, anthropic), (provider.chat, CHAT, openai)):
        await provider.script(r={"text": "ok", "fault": {"kind": kind, "times": 2}})
        answers = [await post(body, reply="r") for _ in range(3)]
        assert [answer.status for answer in answers] == [int(kind), int(kind), 200]
        assert answers[0].json["error"]["type"] == name
        assert ("retry-after" in answers[0].headers) == (kind == 429)


async def test_retry_after_is_scripted(provider: InProcess) -> None:
    await provider.script(r={"fault": {"kind": 529, "retry_after": 2.5}})
    assert (await provider.messages(ASK, reply="r")).headers["retry-after"] == "2.5"
    await provider.script(r={"fault": {"kind": 429, "retry_after": False}})
    refused = await provider.messages(ASK, reply="r")
    assert (refused.status, "retry-after" in refused.headers) == (429, False)


async def test_a_cold_cache_reads_nothing_once(provider: InProcess) -> None:
    await provider.script(r={"text": "ok"})
    long: Json = {"messages": [user(tokens(2_000))], "cache_control": FIVE_MINUTES}
    chat: Json = {"messages": [{"role": "user", "content": tokens(2_000)}]}
    await provider.messages(long)
    await provider.chat(chat)
    await provider.post("/_sim/faults", [{"kind": "cold_cache", "times": 2}])
    assert (await provider.messages(long)).usage["cache_read_input_tokens"] == 0
    assert (await provider.chat(chat)).usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert (await provider.messages(long)).usage["cache_read_input_tokens"] == 2_000
    assert (await provider.chat(chat)).usage["prompt_tokens_details"]["cached_tokens"] == 2_000


async def test_an_event_of_an_unknown_type_says_nothing(provider: InProcess) -> None:
    for post, body in ((provider.messages, ASK), (provider.chat, CHAT), (provider.responses, {"input": "a"})):
        await provider.script(r={"text": "ok", "fault": {"kind": "unknown_event"}})
        strange, plain = [(await post({**body, "stream": True}, reply="r")).events for _ in range(2)]
        assert len(strange) == len(plain) + 1
        (note,) = [event for event in strange if "simulator" in str(event.get("type", event.get("object")))]
        assert "ok" not in str(note)


async def test_faults_can_be_ordered_for_whatever_comes_next(provider: InProcess) -> None:
    ordered = [{"kind": 529}, {"kind": "max_tokens", "when": 3, "times": 2}]
    assert (await provider.post("/_sim/faults", ordered)).json["faults"][1]["times"] == 2
    await provider.script(r={"text": "0123456789"})
    answers = [await provider.messages(ASK, reply="r") for _ in range(4)]
    assert [answer.status for answer in answers] == [529, 200, 200, 200]
    assert [answer.json["content"][0]["text"] for answer in answers[1:]] == ["012", "012", "0123456789"]
    assert (await provider.get("/_sim/faults")).json == {"faults": []}
    assert (await provider.post("/_sim/faults", [{"kind": "earthquake"}])).status == 400


async def test_a_reply_is_found_by_what_came_last(provider: InProcess) -> None:
    await provider.script(
        ask={"match": "^How (long|wide)", "tool_calls": [{**CALL, "name": "measure"}]},
        tell={"match": "^12 metres$", "text": "It is 12 metres."},
    )
    first = (await provider.messages({"system": "You measure.", "messages": [user("How wide is it?")]})).json
    assert first["content"][0]["name"] == "measure"
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "12 metres"}
    call = {"role": "assistant", "content": first["content"]}
    second = await provider.messages({"messages": [user("How wide is it?"), call, user(result)]})
    assert second.json["content"][0]["text"] == "It is 12 metres."
    other = (await provider.messages({"messages": [user("Somehow?")]})).json
    assert other["content"][0]["text"] != "It is 12 metres."
    logged = (await provider.get("/_sim/requests")).json["requests"]
    assert [record["reply"] for record in logged] == ["ask", "tell", None]
    assert (await provider.post("/_sim/replies", {"r": {"match": "("}})).status == 400


async def test_an_error_in_the_middle_of_a_stream(provider: InProcess) -> None:
    await provider.script(r={"text": "0123456789" * 3, "chunk": 4, "fault": {"kind": "stream_error", "when": 10}})
    answer = await provider.messages({**ASK, "stream": True}, reply="r")
    assert answer.status == 200
    assert streamed_text(answer) == "0123456789"
    assert answer.events[-1]["error"]["type"] == "overloaded_error"
    await provider.script(r={"text": "0123456789" * 3, "fault": {"kind": 500, "when": 0}})
    assert (await provider.chat({**CHAT, "stream": True}, reply="r")).events[-1]["error"]["type"] == "server_error"


async def test_a_refusal_after_some_text(provider: InProcess) -> None:
    await provider.script(r={"text": "I will explain it all.", "fault": {"kind": "refusal", "when": 6, "times": 2}})
    answer = (await provider.messages(ASK, reply="r")).json
    assert (answer["stop_reason"], answer["content"][0]["text"]) == ("refusal", "I will")
    assert answer["stop_details"]["type"] == "refusal"
    assert (await provider.chat(CHAT, reply="r")).json["choices"][0]["message"]["refusal"]
    assert (await provider.messages(ASK, reply="r")).json["stop_reason"] == "end_turn"


async def test_truncated_tool_json(provider: InProcess) -> None:
    await provider.script(r={"text": "Look.", "tool_calls": [CALL], "fault": {"kind": "truncated_tool_json"}})
    answer = await provider.messages({**ASK, "stream": True}, reply="r")
    parts = [e["delta"].get("partial_json", "") for e in answer.events if e["type"] == "content_block_delta"]
    cut = "".join(parts)
    assert cut.startswith('{"query":"')
    assert not cut.endswith("}")
    assert answer.events[-2]["delta"]["stop_reason"] == "max_tokens"


async def test_max_tokens_and_empty_answers(provider: InProcess) -> None:
    await provider.script(
        cut={"text": "0123456789", "fault": {"kind": "max_tokens", "when": 4}},
        empty={"text": "0123456789", "fault": {"kind": "empty"}},
    )
    cut = (await provider.messages(ASK, reply="cut")).json
    assert (cut["content"][0]["text"], cut["stop_reason"]) == ("0123", "max_tokens")
    empty = (await provider.messages(ASK, reply="empty")).json
    assert (empty["content"], empty["stop_reason"]) == ([], "end_turn")


async def test_an_answer_ends_before_a_stop_sequence(provider: InProcess) -> None:
    await provider.script(r={"text": "One. Two. Three.", "reasoning": "Two.", "tool_calls": [CALL], "chunk": 3})
    stopped = {**ASK, "stop_sequences": ["Three", "Two"]}
    answer = (await provider.messages(stopped, reply="r")).json
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "Two")
    assert [block.get("text") or block["type"] for block in answer["content"]] == ["thinking", "One. "]
    streamed = await provider.messages({**stopped, "stream": True}, reply="r")
    assert (streamed_text(streamed), streamed.events[-2]["delta"]["stop_sequence"]) == ("One. ", "Two")
    assert streamed.events[-2]["usage"]["output_tokens"] == answer["usage"]["output_tokens"]
    for stop in ("Two", ["Two"]):
        choice = (await provider.chat({**CHAT, "stop": stop}, reply="r")).json["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("One. ", "stop")
    free = (await provider.messages({**ASK, "stop_sequences": ["Four"]}, reply="r")).json
    assert (free["stop_reason"], free["stop_sequence"]) == ("tool_use", None)


async def test_usage_tells_speed_tier_and_place(provider: InProcess) -> None:
    for asked, told in (({}, "standard"), ({"speed": "fast"}, "fast")):
        usage = (await provider.messages({**ASK, **asked})).usage
        assert (usage["speed"], usage["service_tier"], usage["server_tool_use"]) == (told, "standard", None)
        assert "inference_geo" in usage


async def test_slowness_delays_the_cache_and_nobody(provider: InProcess) -> None:
    """Virtual time: a minute to the first token passes in no time, but the entry is readable a minute later."""
    body = {"cache_control": {"type": "ephemeral"}, "messages": [user("red " * 2_000)]}
    await provider.script(r={"text": "ok", "fault": {"kind": "slow", "ms": 60_000}})
    await provider.messages(body, reply="r", now="2026-03-01T09:00:00Z")
    early = await provider.messages(body, reply="r", now="2026-03-01T09:00:30Z")
    late = await provider.messages(body, reply="r", now="2026-03-01T09:01:00Z")
    assert early.usage["cache_read_input_tokens"] == 0
    assert late.usage["cache_read_input_tokens"] > 0


async def test_the_keep_facts_rule_repeats_facts_and_nothing_else(provider: InProcess) -> None:
    await provider.script(r={"rule": "keep_facts"})
    said = "We met. The code is FACT-42. It rained. FACT-7 is the room."
    answer = (await provider.messages({"messages": [user(said)]}, reply="r")).json
    assert answer["content"][0]["text"] == "The code is FACT-42.\nFACT-7 is the room."


SENT = "\n\n[Sent: Sunday 2026-03-01 09:00 +01:00, Europe/Berlin]"
EARLIER = "<conversation-summary>\nThe gate is FACT-1.\n</conversation-summary>"
INDEX = "<index>\n- msg_1: “Is FACT-2 the room?”\n- msg_2: “And now FACT-3, which is a long…”\n</index>"


async def test_keep_facts_reads_only_what_it_is_asked_to_summarise(provider: InProcess) -> None:
    """Not the summaries of earlier sessions, the turns that stay, nor the words of the instruction."""
    await provider.script(r={"rule": "keep_facts"})
    told = [
        user(f"{EARLIER}\n\nIs FACT-2 the room?{SENT}"),
        {"role": "assistant", "content": "It is FACT-20."},
        user(f"And now FACT-3, which is a long story.{SENT}"),
        {"role": "assistant", "content": "It ends with FACT-30."},
        user(f"FACT-4 stays.{SENT}"),
        {"role": "assistant", "content": "FACT-40 too."},
    ]
    material = "<material>\n[msg_1] Result of look:\nThe key is FACT-5.\n</material>\n\n"
    answer = await provider.messages({"messages": [*told, user(material + INDEX + SENT)]}, reply="r")
    assert answer.json["content"][0]["text"].splitlines() == [
        "Is FACT-2 the room?",
        "It is FACT-20.",
        "And now FACT-3, which is a long story.",
        "It ends with FACT-30.",
        "The key is FACT-5.",
    ]
    for line in ("- msg_1 and the one after it: “Is”", "- msg_1 and the 1 after it: “Is”"):
        grouped = f"{material}<index>\n{line}\n</index>{SENT}"
        same = await provider.messages({"messages": [*told, user(grouped)]}, reply="r")
        assert same.json["content"] == answer.json["content"]
    later = [*told, user(INDEX + SENT), {"role": "assistant", "content": "Done."}, user(f"Which?{SENT}")]
    everything = (await provider.messages({"messages": later}, reply="r")).json["content"][0]["text"]
    assert "The gate is FACT-1." in everything
    assert "FACT-40 too." in everything


async def test_chunks_of_chat_completions(provider: InProcess) -> None:
    await provider.script(r={"text": "Hi.", "tool_calls": [CALL, {**CALL, "id": "c2"}]})
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    answer = await provider.chat(body, reply="r")
    assert answer.text.endswith("data: [DONE]\n\n")
    *chunks, last = answer.events
    assert (last["choices"], chunks[-1]["choices"][0]["finish_reason"]) == ([], "tool_calls")
    assert last["usage"]["prompt_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks)
    calls = [d["tool_calls"][0] for d in (c["choices"][0]["delta"] for c in chunks) if d.get("tool_calls")]
    assert [call["id"] for call in calls if "id" in call] == ["c1", "c2"]
    assert {call["index"] for call in calls} == {0, 1}
    plain = await provider.chat({**CHAT, "stream": True}, reply="r")
    assert all("usage" not in event for event in plain.events)


async def test_by_option_chat_shows_reasoning_as_compatible_servers_do() -> None:
    for shown in (False, True):
        provider = InProcess(replace(EXACT, openai_reasoning_content=shown))
        await provider.script(r={"text": "ok", "reasoning": "hm"})
        message = (await provider.chat(CHAT, reply="r")).json["choices"][0]["message"]
        streamed = await provider.chat({**CHAT, "stream": True}, reply="r")
        assert message.get("reasoning_content") == ("hm" if shown else None)
        assert ("reasoning_content" in streamed.text) == shown
