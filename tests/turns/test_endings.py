"""Answers that are none, or not whole: packets of whole turns, requests, rows, and what recovery makes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.agent.container import CUT_CALL, REFUSED_CALL
from lamella.agent.reminders import SAID_NOTHING
from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.counting import ApproximateCounter
from lamella.core.messages import StopReason, ToolCall
from lamella.core.packets import decode_packet
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope
from lamella.turns.recovery import rebuild

pytestmark = pytest.mark.anyio

BILLED = deltas.UsageReported(Usage(input=100, output=10))
LIMIT = deltas.Closed(StopReason.MAX_TOKENS)
REFUSED = deltas.Closed(StopReason.REFUSAL, "it is about locks")
ENDED = deltas.Closed(StopReason.END_TURN)
MOST = 900
VOLATILE = frozenset(
    {"n", "turn_id", "model_index", "conversation_id", "user_message_id", "sent_at", "run_id", "request_id", "cost"}
    | {"estimate", "budget", "predicted_read", "documents", "seconds", "renderer", "purpose", "usage", "letters"}
)


class Look:
    """Remembers what it was called with."""

    spec = ToolSpec("look", "Looks.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        self.seen.append(call.id)
        return f"seen {call.id}"


@asynccontextmanager
async def talking(
    folder: Path, *steps: list[ReplayEvent], **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, ScriptedModel, Look]]:
    model, look = ScriptedModel(steps), Look()
    opened = read_settings(data=folder, **{"max_output": MOST, **settings})
    async with served(opened, models=ScriptedModels(model), tools=(look,)) as (app, client):
        yield app, client, model, look


EMPTY: tuple[Any, ...] = (None, "", [])


def told(packets: list[Object]) -> list[Object]:
    """A whole turn without ids, times, figures and what is empty."""
    assert [packet["n"] for packet in packets] == list(range(1, len(packets) + 1))
    return [
        {name: value for name, value in packet.items() if name not in VOLATILE and value not in EMPTY}
        for packet in packets
    ]


BEGIN: list[Object] = [{"type": "turn.started"}, {"type": "run.started", "model": "scripted"}]


def asked(step: int = 0) -> Object:
    return {"type": "request.started", "step": step}


def text(words: str, block: int = 0) -> Object:
    return {"type": "text.delta", "text": words, "block_index": block}


USAGE: Object = {"type": "usage"}


def end(said: str, status: str = "finished", error: Object | None = None) -> list[Object]:
    ended: Object = {"type": "run.finished", "status": said}
    return [ended | ({"error": error} if error else {}), {"type": "turn.finished", "status": status}]


def failed(type: str, message: str, hint: str) -> list[Object]:
    error = {"message": message, "type": type, "code": "provider_error", "param": None, "hint": hint}
    return [{"type": "error", "error": error}, *end("error", "failed", error)]


OTHER_WORDS = "Say it in other words, or choose another model."
LONGER = "or let answers be longer with LAMELLA_MAX_OUTPUT."
NOTHING = failed(
    "ProviderAnsweredNothing",
    "scripted ended its answer without saying anything.",
    "Send the message again, or choose another model.",
)
DECLINED = failed("ProviderRefusedAnswer", "scripted refused to answer: it is about locks.", OTHER_WORDS)
USED_UP = failed(
    "OutputLimitReached",
    "scripted used up its 900 tokens of output, all of them for thinking, and came to no answer.",
    f"Choose a lower thinking effort, {LONGER}",
)
NOT_WHOLE: Object = {
    "type": "answer.partial",
    "reason": "max_tokens",
    "message": "The answer is not whole: scripted reached its limit of 900 tokens of output.",
    "hint": f"Ask it to go on, {LONGER}",
}
BROKEN_OFF: Object = {
    "type": "answer.partial",
    "reason": "refusal",
    "message": "scripted refused to answer, or to go on: it is about locks.",
    "hint": OTHER_WORDS,
}
THOUGHT: Object = {"type": "reasoning.delta", "text": "Hm.", "block_index": 0}


@pytest.mark.parametrize(
    ("steps", "packets"),
    [
        pytest.param(
            [[BILLED, ENDED], saying("Here.")],
            [*BEGIN, asked(), USAGE, asked(), text("Here."), USAGE, *end("end_turn")],
            id="nothing, then an answer",
        ),
        pytest.param(
            [[BILLED, ENDED], [BILLED, ENDED]], [*BEGIN, asked(), USAGE, asked(), USAGE, *NOTHING], id="nothing twice"
        ),
        pytest.param(
            [[deltas.ReasoningDelta(0, "Hm."), BILLED, ENDED], saying("Here.")],
            [*BEGIN, asked(), THOUGHT, USAGE, asked(), text("Here.", 1), USAGE, *end("end_turn")],
            id="only thinking, then an answer",
        ),
        pytest.param(
            [[deltas.TextDelta(0, " \n"), BILLED, ENDED], saying("Here.")],
            [*BEGIN, asked(), text(" \n"), USAGE, asked(), text("Here.", 1), USAGE, *end("end_turn")],
            id="only white space, then an answer",
        ),
        pytest.param([[BILLED, REFUSED]], [*BEGIN, asked(), USAGE, *DECLINED], id="refused, and billed"),
        pytest.param(
            [[REFUSED], saying("Here.")],
            [*BEGIN, asked(), USAGE, asked(), text("Here."), USAGE, *end("end_turn")],
            id="refused for nothing, then an answer",
        ),
        pytest.param(
            [[REFUSED], [REFUSED]], [*BEGIN, asked(), USAGE, asked(), USAGE, *DECLINED], id="refused for nothing, twice"
        ),
        pytest.param(
            [[deltas.TextDelta(0, "I would"), BILLED, REFUSED]],
            [*BEGIN, asked(), text("I would"), USAGE, BROKEN_OFF, *end("refusal")],
            id="refused in the middle",
        ),
        pytest.param(
            [[deltas.TextDelta(0, "Half a sent"), BILLED, LIMIT]],
            [*BEGIN, asked(), text("Half a sent"), USAGE, NOT_WHOLE, *end("max_tokens")],
            id="cut off in the text",
        ),
        pytest.param(
            [[deltas.ReasoningDelta(0, "Hm."), BILLED, LIMIT]],
            [*BEGIN, asked(), THOUGHT, USAGE, *USED_UP],
            id="cut off while thinking",
        ),
    ],
)
async def test_the_packets_of_a_turn(tmp_path: Path, steps: list[list[ReplayEvent]], packets: list[Object]) -> None:
    async with talking(tmp_path, *steps) as (app, client, model, _):
        seen = await client.send(await client.conversation(), "Go")
        assert told(seen) == packets
        assert len(model.requests) == len(steps)
        turn = await app.store.turns.turn(LOCAL_OWNER, str(seen[0]["turn_id"]))
        assert all(step.parts for step in turn.steps)
        assert turn.run.answer == "".join(p["text"] for p in seen if p["type"] == "text.delta").strip()
        [run] = (await client.get(f"/turns/{turn.id}"))["runs"]
        assert run["usage"]["input"] == 100 * sum(step[-2:-1] != [] for step in steps)


async def test_who_said_nothing_is_told_so_and_only_then(tmp_path: Path) -> None:
    async with talking(tmp_path, [BILLED, ENDED], saying("Here."), saying("And there.")) as (_, client, model, _):
        conversation = await client.conversation()
        await client.send(conversation, "Go")
        await client.send(conversation, "And?")
    assert [SAID_NOTHING in str(request.blocks[-1].value) for request in model.requests] == [False, True, False]
    roles = [[block.role for block in request.blocks if block.level == "messages"] for request in model.requests]
    assert roles[2] == ["user", "assistant", "user"]


async def test_a_model_that_refuses_for_nothing_is_asked_the_same_again(tmp_path: Path) -> None:
    async with talking(tmp_path, [REFUSED], saying("Here.")) as (_, client, model, _):
        await client.send(await client.conversation(), "Go")
    assert model.requests[0] == model.requests[1]


def cut_call(id: str, arguments: str = '{"where": "in the', *before: ReplayEvent) -> list[ReplayEvent]:
    return [
        *before,
        deltas.ToolCallOpened(5, id, "look"),
        *([deltas.ToolArgsDelta(5, arguments)] if arguments else []),
        BILLED,
        LIMIT,
    ]


def results(request: WireRequest) -> dict[str, str]:
    blocks = [block.value for block in request.blocks if block.value.get("type") == "tool_result"]
    return {str(block["tool_use_id"]): str(block["content"]) for block in blocks}


@pytest.mark.parametrize("arguments", ["", "{", '{"where": "in the'])
async def test_a_call_that_was_cut_off_does_not_run_and_the_model_goes_on(tmp_path: Path, arguments: str) -> None:
    """Even one whose name alone came: without arguments it would be whole."""
    async with talking(tmp_path, cut_call("c1", arguments), saying("I see.")) as (app, client, model, look):
        packets = await client.send(await client.conversation(), "Go")
        turn = await app.store.turns.turn(LOCAL_OWNER, str(packets[0]["turn_id"]))
    result = {
        "type": "tool.result",
        "call_id": "c1",
        "name": "look",
        "content": CUT_CALL.format(most=MOST),
        "is_error": True,
        "block_index": 0,
    }
    pieces = [{"type": "tool.args.delta", "call_id": "c1", "json": arguments, "block_index": 0}] if arguments else []
    assert told(packets) == [
        *BEGIN,
        asked(),
        {"type": "tool.call", "call_id": "c1", "name": "look", "block_index": 0},
        *pieces,
        USAGE,
        result,
        asked(1),
        text("I see.", 1),
        USAGE,
        *end("end_turn"),
    ]
    assert look.seen == []
    assert results(model.requests[1]) == {"c1": CUT_CALL.format(most=MOST)}
    assert [step.stop_reason for step in turn.steps] == [StopReason.MAX_TOKENS, StopReason.END_TURN]


async def test_a_whole_call_before_the_cut_runs(tmp_path: Path) -> None:
    whole: list[ReplayEvent] = [deltas.ToolCallOpened(1, "c0", "look"), deltas.ToolArgsDelta(1, "{}")]
    bare: list[ReplayEvent] = [deltas.ToolCallOpened(2, "c1", "look")]
    async with talking(tmp_path, cut_call("c2", "{", *whole, *bare), saying("I see.")) as (_, client, model, look):
        await client.send(await client.conversation(), "Go")
    assert look.seen == ["c0", "c1"]
    assert list(results(model.requests[1])) == ["c0", "c1", "c2"]


async def test_calls_that_never_fit_end_the_turn(tmp_path: Path) -> None:
    said: list[ReplayEvent] = [deltas.TextDelta(0, "Let me look.")]
    async with talking(tmp_path, cut_call("c1", "{", *said), cut_call("c2"), saying("Never.")) as (
        app,
        client,
        model,
        _,
    ):
        conversation = await client.conversation()
        packets = await client.send(conversation, "Go")
        assert told(packets)[-3:] == failed(
            "OutputLimitReached",
            "scripted reached its limit of 900 tokens of output in the middle of a call of look, twice.",
            f"Ask for it in smaller pieces, {LONGER}",
        )
        turn = await app.store.turns.turn(LOCAL_OWNER, str(packets[0]["turn_id"]))
        assert turn.steps[0].text == "Let me look."
        assert (len(model.requests), len(turn.steps)) == (2, 2)
        model.then()
        await client.send(conversation, "Smaller, please.")
    assert list(results(model.requests[-1])) == ["c1", "c2"]


async def test_calls_of_a_refused_answer_do_not_run(tmp_path: Path) -> None:
    call: list[ReplayEvent] = [deltas.TextDelta(0, "I will."), deltas.ToolCallOpened(1, "c1", "look"), BILLED, REFUSED]
    async with talking(tmp_path, call) as (_, client, _, look):
        packets = await client.send(await client.conversation(), "Go")
    assert told(packets)[-4:] == [
        {"type": "tool.result", "call_id": "c1", "name": "look", "content": REFUSED_CALL, "is_error": True}
        | {"block_index": 1},
        BROKEN_OFF,
        *end("refusal"),
    ]
    assert look.seen == []


async def test_a_model_that_calls_to_the_last_step_is_told_of(tmp_path: Path) -> None:
    calls = [calling(ToolCall(f"c{n}", "look", "{}")) for n in range(3)]
    async with talking(tmp_path, *calls, step_limit=2) as (_, client, _, _):
        packets = await client.send(await client.conversation(), "Go")
    assert told(packets)[-3:] == [
        {
            "type": "answer.partial",
            "reason": "step_limit",
            "message": "scripted called tools to the last step that a turn may have, and gave no answer.",
            "hint": "Ask it to continue: earlier results are kept. "
            "LAMELLA_STEP_LIMIT sets the number of steps per turn.",
        },
        *end("end_turn"),
    ]


async def test_what_the_model_is_shown_of_an_answer_that_is_not_whole(tmp_path: Path) -> None:
    half: list[ReplayEvent] = [deltas.TextDelta(0, "Half a sent"), BILLED, LIMIT]
    async with talking(tmp_path, half, saying("ence.")) as (app, client, model, _):
        conversation = await client.conversation()
        packets = await client.send(conversation, "Go")
        await client.send(conversation, "Go on.")
        turn = await app.store.turns.turn(LOCAL_OWNER, str(packets[0]["turn_id"]))
    assert turn.run.answer == "Half a sent"
    sent = [block.value for block in model.requests[1].blocks if block.level == "messages"]
    assert "reached the limit of its length" in str(sent[2]["text"])
    assert (sent[1]["text"], str(sent[3]["text"]).splitlines()[0]) == ("Half a sent", "Go on.")


async def test_recovery_builds_the_same_steps(tmp_path: Path) -> None:
    """An attempt that came to nothing is no step, in the rows as in what the journal tells."""
    nothing: list[ReplayEvent] = [deltas.ReasoningDelta(0, "Hm."), BILLED, ENDED]
    async with talking(tmp_path, nothing, cut_call("c1"), saying("Here.")) as (app, client, _, _):
        packets = await client.send(await client.conversation(), "Go")
        turn_id = str(packets[0]["turn_id"])
        turn = await app.store.turns.turn(LOCAL_OWNER, turn_id)
        stored = [decode_packet(data) for _, data in await app.store.turns.journal(LOCAL_OWNER, turn_id, 0)]
    built = rebuild(stored, ApproximateCounter())
    assert [step.parts for step in built.steps] == [step.parts for step in turn.steps]
    assert [end.usage.input for end in built.ends] == [100, 100, 100]
