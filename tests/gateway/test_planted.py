"""Breaks that are planted in bodies of every dialect: `why` names the block and the byte, and who changed it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from lamella.cache.difference import CLIENT, Cause, Origin
from lamella.cache.why import Evidence, Why, why
from lamella.core.json import decode_object, encode
from lamella.core.records import RequestRecord
from lamella.core.tokens import Usage
from lamella.gateway.dialects import Dialect, ObservedWindow, effort_of, read
from lamella.llm.model_table import facts

from .clients import PROSE, Client, tool

Object = dict[str, Any]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DIALECTS = {Dialect.MESSAGES: "messages", Dialect.CHAT: "chat", Dialect.RESPONSES: "responses"}
TIMES = 8
"""So often each break is planted in each dialect, at another place."""


def talking(wire: str, random: Random) -> Client:
    """A client in the middle of a conversation with a tool."""
    client = Client(wire, marks=wire == "messages")
    for turn in range(4):
        question, said = f"Question {turn}: {PROSE * random.randint(1, 3)}", f"Answer {turn}: {PROSE}"
        if wire == "messages":
            call = {"type": "tool_use", "id": f"t{turn}", "name": "Weather", "input": {"place": f"{turn}"}}
            result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"Rain {turn}"}
            client.history += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
                {"role": "assistant", "content": [{"type": "text", "text": said}]},
            ]
        elif wire == "chat":
            function = {"name": "Weather", "arguments": f'{{"place":"{turn}"}}'}
            call = {"id": f"t{turn}", "type": "function", "function": function}
            client.history += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"t{turn}", "content": f"Rain {turn}"},
                {"role": "assistant", "content": said},
            ]
        else:
            call = {"type": "function_call", "call_id": f"t{turn}", "name": "Weather", "arguments": f'{{"p":"{turn}"}}'}
            client.history += [
                {"role": "user", "content": question},
                call,
                {"type": "function_call_output", "call_id": f"t{turn}", "output": f"Rain {turn}"},
                {"role": "assistant", "content": [{"type": "output_text", "text": said}]},
            ]
    client.history.append({"role": "user", "content": "And now?"})
    return client


def at_random(text: str, random: Random) -> str:
    """The text with one letter that is another."""
    place = random.randrange(10, len(text) - 10)
    return f"{text[:place]}{'#' if text[place] != '#' else '%'}{text[place + 1 :]}"


def tool_text(client: Client, random: Random) -> None:
    described = random.choice(client.tools)
    described = described.get("function", described)
    described["description"] = at_random(described["description"], random)


def tool_order(client: Client, random: Random) -> None:
    first = random.randrange(len(client.tools) - 1)
    client.tools[first], client.tools[first + 1] = client.tools[first + 1], client.tools[first]


def tool_gone(client: Client, random: Random) -> None:
    client.tools.pop(random.randrange(len(client.tools)))


def tool_new(client: Client, random: Random) -> None:
    client.tools.insert(random.randrange(len(client.tools)), tool("Tides", client.wire))


def tool_field(client: Client, random: Random) -> None:
    random.choice(client.tools)["of_tomorrow"] = True


def system_text(client: Client, random: Random) -> None:
    client.system = at_random(client.system, random)


def clock(client: Client, random: Random) -> None:
    client.system = client.system.replace("12:00", f"12:{random.randint(10, 59)}")


def question(client: Client, random: Random) -> None:
    message = client.history[4 * random.randrange(4)]
    message["content"] = at_random(message["content"], random)


def result(client: Client, random: Random) -> None:
    message = client.history[4 * random.randrange(4) + 2]
    changed = decode_object(encode(message).replace(b"Rain", b"Snow"))
    message.clear()
    message.update(changed)


def answer(client: Client, random: Random) -> None:
    message = client.history[4 * random.randrange(4) + 3]
    changed = decode_object(encode(message).replace(b"keeper", b"keeqer"))
    message.clear()
    message.update(changed)


def left_out(client: Client, random: Random) -> None:
    start = 4 * random.randrange(3)
    del client.history[start : start + 4]


BREAKS: dict[Callable[[Client, Random], None], tuple[Cause, Origin]] = {
    tool_text: (Cause.TOOLS, Origin.TOOLS),
    tool_order: (Cause.TOOLS, Origin.TOOLS),
    tool_gone: (Cause.TOOLS, Origin.TOOLS),
    tool_new: (Cause.TOOLS, Origin.TOOLS),
    tool_field: (Cause.TOOLS, Origin.TOOLS),
    system_text: (Cause.EDITED, Origin.CLIENT),
    clock: (Cause.TIME, Origin.CLOCK),
    question: (Cause.EDITED, Origin.CLIENT),
    result: (Cause.EDITED, Origin.CLIENT),
    answer: (Cause.EDITED, Origin.CLIENT),
    left_out: (Cause.EDITED, Origin.CLIENT),
}


SAID: dict[Callable[[Client, Random], None], str] = {
    tool_text: "a tool is described differently",
    tool_order: "the tools are in another order",
    tool_gone: "a tool was left out",
    tool_new: "(tool Tides, block",
}


def record(window: ObservedWindow, at: datetime, usage: Usage) -> RequestRecord:
    """The window as it is stored."""
    local = sum(segment.tokens for segment in window.segments)
    fixed = {"notes": (), "budget": 0, "predicted_read": 0, "predicted_written": 0, "predicted_hit": None}
    return RequestRecord(
        id=f"req_{at}", conversation_id="c", turn_id="t", step=0, purpose="chat", model=window.model, layout=CLIENT,
        marker_policy=CLIENT, at=at, head=window.head, letters="", segments=window.stored, zones=(), markers=(),
        protocol=window.dialect, local_tokens=local, estimate=local, usage=usage, thinking_effort=effort_of(window),
        **fixed,  # type: ignore[arg-type]
    )  # fmt: skip


def explained(dialect: Dialect, before: Object, after: Object) -> tuple[Why, ObservedWindow, ObservedWindow]:
    """Why `after` read nothing of what `before` wrote."""
    one, other = (read(dialect, decode_object(encode(body))) for body in (before, after))
    size = sum(segment.tokens for segment in one.segments)
    first = record(one, NOON, Usage(input=size, cache_write_5m=size))
    second = record(other, NOON + timedelta(seconds=20), Usage(input=size))
    data = {block.digest: block.data for window in (one, other) for block in window.blocks}
    model = facts("claude-opus-5-5" if dialect is Dialect.MESSAGES else "gpt-6.1-terra")
    return why(Evidence(second, first, (), model, data)), one, other


def first_difference(one: ObservedWindow, other: ObservedWindow) -> tuple[int, int]:
    """Block and byte of the first difference, looked for in the plainest way."""
    pairs = list(zip([b.data for b in one.blocks], [b.data for b in other.blocks], strict=False))
    block = next(n for n, (a, b) in enumerate(pairs) if a != b)
    a, b = pairs[block]
    return block, next(n for n in range(max(len(a), len(b))) if a[n : n + 1] != b[n : n + 1])


@pytest.mark.parametrize("planted", BREAKS, ids=lambda planted: planted.__name__)
@pytest.mark.parametrize("dialect", DIALECTS, ids=DIALECTS.values())
def test_every_planted_break_is_named_to_the_byte(dialect: Dialect, planted: Callable[[Client, Random], None]) -> None:
    for seed in range(TIMES):
        random = Random(f"{dialect} {planted.__name__} {seed}")
        client = talking(DIALECTS[dialect], random)
        client.system = f"It is 2026-03-01 12:00 now. {client.system}"
        before = client.body()
        client = copy.deepcopy(client)
        planted(client, random)
        found, one, other = explained(dialect, before, client.body())
        cause, by = BREAKS[planted]
        assert (found.cause, found.by) == (cause, by), found.text
        assert found.difference is not None
        block, byte = first_difference(one, other)
        assert found.difference.block == block
        if planted is not tool_gone:  # the last tool has nothing at its place
            assert found.difference.byte == byte
        assert SAID.get(planted, "") in found.text
        if planted is tool_text:
            assert f"tool {found.difference.tool}," in found.text


@pytest.mark.parametrize("dialect", DIALECTS, ids=DIALECTS.values())
def test_a_setting_that_changed_is_named(dialect: Dialect) -> None:
    client = talking(DIALECTS[dialect], Random(1))
    before = client.body()
    for fields, cause in (({"tool_choice": "none"}, Cause.SETTINGS), (_effort(dialect), Cause.EFFORT)):
        found, *_ = explained(dialect, before, before | fields)
        assert found.cause is cause, found.text
    found, *_ = explained(dialect, before, before | {"model": "another"})
    assert found.cause is Cause.MODEL


def _effort(dialect: Dialect) -> Object:
    if dialect is Dialect.MESSAGES:
        return {"output_config": {"effort": "low"}}
    return {"reasoning": {"effort": "low"}} if dialect is Dialect.RESPONSES else {"reasoning_effort": "low"}


def test_a_tool_within_an_item_is_named() -> None:
    """Codex sends its tools as an item of the input, some of them in a namespace."""
    client = talking("responses", Random(1))
    described = [{"type": "namespace", "name": "functions", "tools": client.tools}]
    client.tools = []
    body = client.body()
    body.pop("tools", None)
    body["input"].insert(0, {"type": "additional_tools", "role": "developer", "tools": described})
    after = copy.deepcopy(body)
    after["input"][0]["tools"][0]["tools"][2]["description"] += " Now."
    found, one, other = explained(Dialect.RESPONSES, body, after)
    assert (found.cause, found.by) == (Cause.TOOLS, Origin.TOOLS)
    assert found.difference is not None
    assert (found.difference.block, found.difference.byte) == first_difference(one, other)
    assert found.difference.tool == "Oil"
    assert "(tool Oil, block 1, byte" in found.text
    assert "the tools in it were changed, as the client gave them" in found.text


@pytest.mark.parametrize("dialect", DIALECTS, ids=DIALECTS.values())
def test_tools_that_all_went_are_not_compared_with_what_follows_them(dialect: Dialect) -> None:
    client = talking(DIALECTS[dialect], Random(1))
    before = client.body()
    after = {name: value for name, value in before.items() if name != "tools"}
    found, *_ = explained(dialect, before, after)
    assert (found.cause, found.by) == (Cause.TOOLS, Origin.TOOLS)
    assert found.difference is not None
    assert (found.difference.block, found.difference.byte, found.difference.now) == (0, 0, None)
    assert "a tool was left out" in found.text
