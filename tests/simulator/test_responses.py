"""The Responses wire of the simulator: what it refuses, how it bills, and that its events tell what its answer says."""

from __future__ import annotations

from typing import Any

import pytest

from lamella_simulator.testing import InProcess

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Hello?"}
CALL: Json = {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"}
OUTPUT: Json = {"type": "function_call_output", "call_id": "c1", "output": "Nothing."}
ENCRYPTED: Json = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}, "store": False}
LONG = "The library opens at nine and closes at eight. " * 200


async def thought(simulator: InProcess) -> Json:
    """A reasoning item that the simulator made."""
    await simulator.script(t={"text": "Hi.", "reasoning": {"text": "Hm.\n\nYes.", "tokens": 70}})
    answered = await simulator.responses({"input": "Hello?", **ENCRYPTED}, reply="t")
    item: Json = answered.json["output"][0]
    return item


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "empty array"),
        ([USER, OUTPUT], "No tool call found for function call output with call_id c1."),
        ([USER, CALL], "No tool output found for function call c1."),
        ([USER, CALL, CALL, OUTPUT], "Duplicate function call"),
        ([USER, CALL, OUTPUT, OUTPUT], "No tool call found"),
        ([{"role": "robot", "content": "x"}], "'robot' in 'input[0].role'"),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], "'text'"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}], "'output_text'"),
        ([{"type": "item_of_next_year"}], "'item_of_next_year' in 'input[0].type'"),
        ([{**CALL, "name": "a b"}, OUTPUT], "does not match pattern"),
        ([{"type": "reasoning", "id": "rs_1", "summary": []}, USER], "not persisted"),
        (
            [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}, USER],
            "required following item",
        ),
        (
            [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}, CALL, OUTPUT],
            "could not be verified",
        ),
        (
            [{"role": "assistant", "content": [{"type": "output_text", "text": "x", "prompt_cache_breakpoint": {}}]}],
            "Unknown parameter: 'input[0].content[0].prompt_cache_breakpoint'",
        ),
    ],
)
async def test_what_is_refused(items: list[Json], said: str) -> None:
    answered = await InProcess().responses({"input": items})
    assert answered.status in (400, 404)
    assert said in answered.error


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"max_output_tokens": 15}, "below minimum"),
        ({"messages": []}, "Unknown parameter: 'messages'."),
        ({"previous_response_id": "resp_1"}, "not found"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "tools[0].name"),
        ({"model": "gpt-5.4", "prompt_cache_options": {"mode": "explicit"}}, "not supported with the model"),
    ],
)
async def test_what_of_the_head_is_refused(head: Json, said: str) -> None:
    answered = await InProcess().responses({"input": "Hello?", **head})
    assert answered.status in (400, 404)
    assert said in answered.error


async def test_reasoning_comes_back_as_it_was_and_is_billed_again() -> None:
    simulator = InProcess()
    item = await thought(simulator)
    assert [part["text"] for part in item["summary"]] == ["Hm.", "Yes."]
    answer: Json = {"role": "assistant", "content": "Hi."}
    await simulator.script(r={"text": "ok"})
    bills = []
    for items in ([USER, answer, USER], [USER, item, answer, USER]):
        answered = await simulator.responses({"input": items}, reply="r")
        bills.append(answered.usage["input_tokens"])
    assert bills[1] - bills[0] == 70
    for change in ({"id": "rs_other"}, {"encrypted_content": item["encrypted_content"][:-8] + "AAAAAAA="}):
        refused = await simulator.responses({"input": [USER, {**item, **change}, answer, USER]}, reply="r")
        assert refused.status == 400
        assert "could not be verified" in refused.error
    other = await simulator.responses({"input": [USER, item, answer, USER]}, reply="r", key="somebody else")
    assert "could not be verified" in other.error


async def test_older_models_do_not_read_the_reasoning_of_earlier_turns() -> None:
    simulator = InProcess()
    await simulator.script(t={"text": "Hi.", "reasoning": {"text": "Hm.", "tokens": 70}}, r={"text": "ok"})
    body: Json = {"model": "gpt-5.4", **ENCRYPTED}
    item = (await simulator.responses({**body, "input": "Hello?"}, reply="t")).json["output"][0]
    answer: Json = {"role": "assistant", "content": "Hi."}
    whole = await simulator.responses({**body, "input": [USER, item, answer, USER]}, reply="r")
    without = await simulator.responses({**body, "input": [USER, answer, USER]}, reply="r")
    assert whole.usage["input_tokens"] == without.usage["input_tokens"]


async def test_a_breakpoint_is_written_and_read_by_both_forms_of_a_text() -> None:
    """A text and a list of one part are the same prompt; a breakpoint is no part of it."""
    simulator = InProcess()
    await simulator.script(r={"text": "ok"})
    marked = [{"type": "input_text", "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}}]
    head: Json = {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}
    first = await simulator.responses({**head, "input": [{"role": "developer", "content": marked}, USER]}, reply="r")
    second = await simulator.responses({**head, "input": [{"role": "developer", "content": marked}, USER]}, reply="r")
    written = first.usage["input_tokens_details"]["cache_write_tokens"]
    assert written > 1_024
    assert second.usage["input_tokens_details"]["cached_tokens"] == written
    plain = await simulator.responses({"input": [{"role": "developer", "content": LONG}, USER]}, reply="r")
    assert plain.usage["input_tokens_details"]["cached_tokens"] == written
    assert plain.usage["input_tokens"] == first.usage["input_tokens"]


async def test_a_default_that_is_spelt_out_opens_no_other_cache() -> None:
    simulator = InProcess()
    read = []
    for text in ({}, {"format": {"type": "text"}, "verbosity": "medium"}, {"format": {"type": "json_object"}}):
        usage = (await simulator.responses({"input": LONG, "text": text})).usage
        read.append(bool(usage["input_tokens_details"]["cached_tokens"]))
    assert read == [False, True, False]


async def test_a_count_is_what_is_billed() -> None:
    simulator = InProcess()
    await simulator.script(r={"text": "ok"})
    body: Json = {"input": [{"role": "developer", "content": LONG}, USER, CALL, OUTPUT]}
    counted = await simulator.responses(body, path="/v1/responses/input_tokens")
    answered = await simulator.responses(body, reply="r")
    assert counted.json["input_tokens"] == answered.usage["input_tokens"]


@pytest.mark.parametrize("chunk", [1, 3, 1_000])
async def test_the_events_tell_what_the_answer_says(chunk: int) -> None:
    simulator = InProcess()
    calls = [{"name": "search", "arguments": {"query": "x"}}]
    await simulator.script(
        r={"text": "Hello.", "reasoning": "One.\n\nTwo.\n\nThree.", "tool_calls": calls, "chunk": chunk}
    )
    streamed = await simulator.responses({"input": "Hello?", "stream": True, **ENCRYPTED}, reply="r")
    events = streamed.events
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    for kind, said in (
        ("response.output_text.delta", "Hello."),
        ("response.reasoning_summary_text.delta", "One.Two.Three."),
        ("response.function_call_arguments.delta", '{"query":"x"}'),
    ):
        assert "".join(event["delta"] for event in events if event["type"] == kind) == said
    parts = [event["part"]["text"] for event in events if event["type"] == "response.reasoning_summary_part.done"]
    assert parts == ["One.", "Two.", "Three."]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    whole = await simulator.responses({"input": "Hello?", **ENCRYPTED}, reply="r")
    assert [item["type"] for item in whole.json["output"]] == [item["type"] for item in done]


async def test_an_answer_that_was_cut_says_so() -> None:
    simulator = InProcess()
    await simulator.script(r={"text": "0123456789", "fault": {"kind": "max_tokens", "when": 4}})
    last = (await simulator.responses({"input": "Hello?", "stream": True}, reply="r")).events[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"


NOTE: Json = {"type": "custom", "name": "note", "description": "Takes a text.", "format": {"type": "text"}}
NAMESPACE: Json = {"type": "namespace", "name": "desk", "description": "", "tools": [NOTE]}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_custom_tool_is_called_with_a_text_and_named_with_its_namespace(stream: bool) -> None:
    simulator = InProcess()
    await simulator.script(t={"tool_calls": [{"name": "note", "arguments": {"input": "dusk"}}]})
    added = {"type": "additional_tools", "role": "developer", "tools": [NAMESPACE]}
    answered = await simulator.responses({"input": [added, USER], "stream": stream}, reply="t")
    whole = answered.events[-1]["response"] if stream else answered.json
    call = whole["output"][-1]
    said = (call["type"], call["name"], call["namespace"], call["input"])
    assert said == ("custom_tool_call", "note", "desk", "dusk")
    if stream:
        [delta] = [one for one in answered.events if one["type"] == "response.custom_tool_call_input.delta"]
        assert delta["delta"] == "dusk"
    result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Noted."}
    assert (await simulator.responses({"input": [added, USER, call, result]})).status == 200
    open_call = await simulator.responses({"input": [added, USER, call]})
    assert "No tool output found" in open_call.error


async def test_tools_of_an_item_are_counted_where_they_stand() -> None:
    simulator = InProcess()
    tools: Json = {"type": "additional_tools", "role": "developer", "tools": [{**NOTE, "description": LONG}]}
    body: Json = {"input": [tools, USER], "client_metadata": {"turn": "1"}}
    first = (await simulator.responses(body)).json["usage"]
    assert first["input_tokens"] > 1_024
    grown = {**body, "input": [tools, USER, {"role": "assistant", "content": "Hi."}, USER], "client_metadata": {}}
    again = (await simulator.responses(grown)).json["usage"]
    assert again["input_tokens_details"]["cached_tokens"] == first["input_tokens_details"]["cache_write_tokens"]
    changed = {**body, "input": [{**tools, "tools": [{**NOTE, "description": f"New. {LONG}"}]}, USER]}
    assert (await simulator.responses(changed)).json["usage"]["input_tokens_details"]["cached_tokens"] == 0


async def test_an_effort_from_a_message_on_keeps_the_cache() -> None:
    simulator = InProcess()
    asked = {"role": "user", "content": LONG}
    written = (await simulator.responses({"input": [asked]})).json["usage"]["input_tokens_details"]
    update: Json = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    read = (await simulator.responses({"input": [asked, update]})).json["usage"]["input_tokens_details"]
    assert read["cached_tokens"] == written["cache_write_tokens"] > 1_024
    for odd in ({}, {"reasoning": {"effort": "huge"}}):
        refused = await simulator.responses({"input": [asked, {"type": "configuration_update", **odd}]})
        assert "reasoning.effort" in refused.error
