"""Law 5: calls have exactly their results, roles are valid, no text is empty, thinking goes back only where it may."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from hypothesis import given

from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.json import decode_object
from lamella.core.messages import Reasoning, Text, ToolCall, Turn
from lamella.core.prompt import WireBlock

from .conversations import Grown, Sent, grown, in_lamella, laws, raw_contexts
from .wires import body, wired

Json = dict[str, Any]
CLAUDE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
GPT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GPT_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
THINKING = ("thinking", "redacted_thinking")


def check_anthropic(sent: Json) -> None:
    """What the Messages API asks of a history (PROVIDERS 1.7)."""
    messages = sent["messages"]
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] == "user"
    assert all(first["role"] != second["role"] for first, second in pairwise(messages))
    ids: list[str] = []
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        blocks = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if message["role"] == "assistant":
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            ids += calls
            assert all(CLAUDE_NAME.fullmatch(block["name"]) for block in blocks if block["type"] == "tool_use")
            assert blocks[-1]["type"] not in THINKING
            assert all(block["signature"] for block in blocks if block["type"] == "thinking")
            assert calls == results_first(following["content"])
    assert len(ids) == len(set(ids))
    assert all(CLAUDE_ID.fullmatch(id) for id in ids)


def results_first(blocks: list[Json]) -> list[str]:
    """The ids of the results that open a message; none may stand behind anything else."""
    kinds = [block["type"] for block in blocks]
    count = kinds.count("tool_result")
    assert kinds[:count] == ["tool_result"] * count
    assert all(block.get("content", "x").strip() for block in blocks[:count])
    return [block["tool_use_id"] for block in blocks[:count]]


def check_openai(sent: Json) -> None:
    """What Chat Completions asks of a history (PROVIDERS 2)."""
    ids: list[str] = []
    waiting: list[str] = []
    roles = [message["role"] for message in sent["messages"]]
    assert "system" not in roles[roles.index("user") :]
    for message in sent["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
        calls = message.get("tool_calls", [])
        assert (message["content"] or "").strip() or calls
        for call in calls:
            assert GPT_NAME.fullmatch(call["function"]["name"])
            decode_object(call["function"]["arguments"])
            waiting.append(call["id"])
        ids += waiting if message["role"] == "assistant" else []
    assert waiting == []
    assert sent["messages"][-1]["role"] in ("user", "tool")
    assert len(ids) == len(set(ids))
    assert all(GPT_ID.fullmatch(id) for id in ids)


@laws
@given(grown())
def test_every_request_of_a_conversation_is_valid(conversation: Grown) -> None:
    for sent in conversation.sent:
        check_anthropic(body(sent.assembled, "anthropic"))
        check_openai(body(sent.assembled, "openai"))


@laws
@given(raw_contexts())
def test_so_is_one_over_any_rows(context: ContextInput) -> None:
    assembled = assemble(context, LAMELLA)
    check_anthropic(body(assembled, "anthropic"))
    check_openai(body(assembled, "openai"))


@laws
@given(raw_contexts())
def test_thinking_made_after_something_else_is_not_sent(context: ContextInput) -> None:
    """No fingerprint in these rows is that of what stands before them."""
    kinds = {block["type"] for message in messages_of(context) for block in message["content"]}
    assert kinds.isdisjoint(THINKING)


def messages_of(context: ContextInput) -> list[Json]:
    sent: Any = body(assemble(context, LAMELLA), "anthropic")
    messages: list[Json] = sent["messages"]
    return messages


@laws
@given(grown(layouts=in_lamella))
def test_thinking_goes_to_its_model_behind_what_it_was_made_after(conversation: Grown) -> None:
    for sent in conversation.sent:
        steps = {step.id: step for turn in turns_of(sent) for step in turn.steps}
        blocks = wired(sent, "anthropic").blocks
        for index, block in enumerate(blocks):
            if block.value.get("type") in THINKING:
                assert steps[block.segment].model == sent.context.model.name
                said = [b for b in blocks[:index] if b.segment == block.segment]
                assert without_thinking(blocks[:index]) == without_thinking([*asked(conversation, block), *said])


def turns_of(sent: Sent) -> tuple[Turn, ...]:
    return (*sent.context.history, sent.context.turn)


def asked(conversation: Grown, block: WireBlock) -> list[WireBlock]:
    """The request that a thinking block answers, less a reminder that travels on."""
    request = conversation.made_by[block.segment]
    lasting = {s.id for s in request.assembled.prompt.segments if s.id != "reminder"}
    return [b for b in wired(request, "anthropic").blocks if b.segment in lasting]


def without_thinking(blocks: tuple[WireBlock, ...] | list[WireBlock]) -> list[bytes]:
    return [block.data for block in blocks if block.value.get("type") not in THINKING]


@laws
@given(grown(layouts=in_lamella))
def test_sealed_thinking_comes_back_to_the_model_that_made_it(conversation: Grown) -> None:
    """With one model and no pruning nothing before a step changes: all sealed thinking with words behind it is sent."""
    models = {turn.model.name for turn in conversation.plan.turns}
    if len(models) > 1 or any(turn.prunes for turn in conversation.plan.turns):
        return
    for sent in conversation.sent:
        owed = [
            (step.id, part.text if part.redacted is None else part.redacted)
            for turn in turns_of(sent)
            for step in turn.steps
            for position, part in enumerate(step.parts)
            if isinstance(part, Reasoning) and (part.signature or part.redacted)
            if any(isinstance(p, ToolCall) or (isinstance(p, Text) and p.text.strip()) for p in step.parts[position:])
        ]
        given = [
            (block.segment, block.value.get("thinking", block.value.get("data")))
            for block in wired(sent, "anthropic").blocks
            if block.value.get("type") in THINKING
        ]
        assert given == owed


@laws
@given(grown())
def test_call_ids_and_names_are_mapped_the_same_way_in_every_request(conversation: Grown) -> None:
    for wire in ("anthropic", "openai"):
        seen: dict[tuple[str, int], bytes] = {}
        for sent in conversation.sent:
            counts: dict[str, int] = {}
            for block in wired(sent, wire).blocks:
                if block.role == "assistant" and block.value.get("type") not in THINKING:
                    place = (block.segment, counts.setdefault(block.segment, 0))
                    counts[block.segment] += 1
                    assert seen.setdefault(place, block.data) == block.data
