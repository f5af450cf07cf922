"""Histories of clients: keys that hold while a client writes its messages otherwise, and turns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.json import encode_text
from lamella.core.messages import Image, Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import PromptMessage, Role
from lamella.gateway.histories import NOTHING_SAID, ToldStep, ToldTurn, read_history


def said(role: Role, *parts: Part | str) -> PromptMessage:
    return PromptMessage(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))


CALL = ToolCall("c1", "look", '{"at": "tide", "deep": true}')
RESULT = ToolResult("c1", "look", "High at noon.")
PICTURE = Image("p", "image/png", 10, 10, "digest-of-picture", b"png")

HISTORY = (
    said("user", "When is high tide?", PICTURE),
    said("assistant", "Let me look.", CALL),
    said("tool", RESULT),
    said("assistant", "At noon.\n\nBring boots."),
    said("user", "And tomorrow?"),
)


def keys(*messages: PromptMessage) -> list[str]:
    return [answer.key for answer in read_history(messages).answers]


SAME = {
    "an answer is trimmed": said("assistant", " At noon.\n\nBring boots.\n"),
    "an answer comes in blocks": said("assistant", "At noon.", "\n\n", "Bring boots."),
    "an answer is in one line": said("assistant", "At noon. Bring boots."),
    "its thinking is sent along": said("assistant", Reasoning("Noon.", "seal"), "At noon.\n\nBring boots."),
}


@pytest.mark.parametrize("how", SAME)
def test_an_answer_that_a_client_writes_otherwise_has_the_same_key(how: str) -> None:
    written = (*HISTORY[:3], SAME[how], HISTORY[4])
    assert keys(*written) == keys(*HISTORY)


def test_empty_messages_instructions_and_the_order_of_arguments_and_results_do_not_count() -> None:
    other = replace(CALL, arguments='{"deep":true,"at":"tide"}')
    written = (
        said("system", "Be brief."),
        said("user", "When is high tide?\n"),
        said("user", PICTURE),
        said("assistant", "", "Let me look.", other),
        said("tool", replace(RESULT, content="High at noon.\n", name="")),
        said("assistant", ""),
        said("system", "It is Monday."),
        *HISTORY[3:],
    )
    assert keys(*written) == keys(*HISTORY)
    more = ToolCall("c2", "look", "{}"), ToolResult("c2", "look", "Low.")
    asked = said("user", "?"), said("assistant", CALL, more[0])
    ends = said("assistant", "So."), said("user", "!")
    assert keys(*asked, said("tool", RESULT, more[1]), *ends) == keys(
        *asked, said("tool", more[1]), said("tool", RESULT), *ends
    )


OTHER = {
    "another word of the user": (0, said("user", "When is low tide?", PICTURE)),
    "indentation of the user": (0, said("user", "When  is high tide?", PICTURE)),
    "another picture": (0, said("user", "When is high tide?", replace(PICTURE, digest="other"))),
    "another id of a call": (1, said("assistant", "Let me look.", replace(CALL, id="c9"))),
    "other arguments": (1, said("assistant", "Let me look.", replace(CALL, arguments='{"at": "ebb"}'))),
    "another result": (2, said("tool", replace(RESULT, content="Low at noon."))),
    "another answer": (3, said("assistant", "At one.\n\nBring boots.")),
}


@pytest.mark.parametrize("what", OTHER)
def test_what_was_edited_has_other_keys_from_there_on(what: str) -> None:
    place, message = OTHER[what]
    edited = [*HISTORY]
    edited[place] = message
    before, after = keys(*HISTORY), keys(*edited)
    same = 1 if place in (2, 3) else 0
    assert before[:same] == after[:same]
    assert set(before[same:]).isdisjoint(after[same:])


def test_the_key_of_an_answer_is_found_when_it_comes_back() -> None:
    asked = read_history(HISTORY)
    key = asked.with_answer([Text("At one."), CALL])
    back = read_history((*HISTORY, said("assistant", "At one. ", CALL), said("tool", RESULT)))
    assert back.answers[-1].key == key
    assert asked.with_answer([]) == asked.with_answer([Text(" ")]) == ""


def test_a_history_without_an_answer_is_named_by_its_question() -> None:
    assert read_history(HISTORY).opening == ""
    one = read_history([said("system", "Be brief."), said("user", "Hello.")])
    assert one.opening == read_history([said("user", "Hello. ")]).opening != ""


def test_messages_as_turns() -> None:
    history = read_history(HISTORY)
    steps = ToldStep((Text("Let me look."), CALL), (RESULT,)), ToldStep((Text("At noon.\n\nBring boots."),))
    key = history.answers[-1].key
    first = ToldTurn("When is high tide?", (PICTURE,), steps, key=key)
    assert history.after(0) == (first, ToldTurn("And tomorrow?"))
    assert history.after(4) == (ToldTurn("And tomorrow?"),)


def test_results_at_the_end_go_on_with_the_calls_of_the_answer_before() -> None:
    history = read_history(HISTORY[:3])
    handed_out = ToldTurn(
        "When is high tide?", (PICTURE,), (ToldStep((Text("Let me look."), CALL)),), key=history.answers[0].key
    )
    assert history.after(0) == (handed_out, ToldTurn(results=(RESULT,)))
    assert history.after(2) == (ToldTurn(results=(RESULT,)),)


def test_a_system_message_in_the_middle_stays_there_and_an_answer_can_come_first() -> None:
    history = read_history([said("assistant", "Hello!"), said("user", "Hi."), said("system", "It is late.")])
    [greeting, asked] = history.after(0)
    assert (greeting.text, greeting.steps) == (NOTHING_SAID, (ToldStep((Text("Hello!"),)),))
    assert asked.text.startswith("Hi.\n\n<system")
    assert "It is late." in asked.text


TEXTS = st.text("ab \n", max_size=6)
PARTS = st.one_of(
    TEXTS.map(Text),
    st.builds(ToolCall, st.sampled_from(["c1", "c2"]), st.just("look"), st.sampled_from(["{}", '{"a":1}'])),
    st.builds(ToolResult, st.sampled_from(["c1", "c2"]), st.just("look"), TEXTS),
)
MESSAGES = st.lists(
    st.builds(
        PromptMessage, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(PARTS, max_size=3).map(tuple)
    ),
    max_size=8,
)


@given(MESSAGES)
def test_a_key_names_all_messages_up_to_its_answer_and_no_later_ones(messages: list[PromptMessage]) -> None:
    history = read_history(messages)
    for answer in history.answers:
        assert read_history(messages[: answer.end]).answers[-1] == answer
    assert len({answer.key for answer in history.answers}) == len(history.answers)


@given(MESSAGES)
def test_no_answer_and_no_result_is_lost_as_turns(messages: list[PromptMessage]) -> None:
    turns = read_history(messages).after(0)
    results = [result for turn in turns for result in turn.results]
    results += [result for turn in turns for step in turn.steps for result in step.results]
    assert len(results) == sum(
        isinstance(part, ToolResult) for m in messages if m.role != "assistant" for part in m.parts
    )
    calls = sum(isinstance(part, ToolCall) for turn in turns for step in turn.steps for part in step.parts)
    assert calls == sum(isinstance(part, ToolCall) for m in messages if m.role == "assistant" for part in m.parts)
    text = encode_text([turn.text for turn in turns])
    for part in (p for m in messages if m.role in ("user", "system") for p in m.parts):
        assert not isinstance(part, Text) or encode_text(part.text.strip())[1:-1] in text
