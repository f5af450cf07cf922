"""Every kind of packet, written for each protocol of frontends, and held against what the protocols are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from ag_ui.core import Event as AgentEvent
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import TypeAdapter

from lamella.core.messages import TurnStatus
from lamella.core.packets import (
    AnyPacket,
    CacheLost,
    CitationPacket,
    CommandPacket,
    ContextDegraded,
    ErrorPacket,
    ModelFallback,
    PacketsExpired,
    PartialPacket,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    RunStarted,
    SourcePacket,
    TextPacket,
    ToolApprovalPacket,
    ToolArgsPacket,
    ToolCallPacket,
    ToolHandedOut,
    ToolResultPacket,
    ToolVerdictPacket,
    TurnFinished,
    TurnQueued,
    TurnStarted,
    TurnStopped,
    UsageBody,
    UsagePacket,
)
from lamella.core.records import Place, RunRecord, TurnRecord
from lamella.core.tokens import Usage
from lamella.server.routes import agui, ui_chat
from lamella.server.routes.agui import AgentEvents, AgentRunBody
from lamella.server.routes.ui_chat import UiChatEvents
from lamella.server.turn_events import CUT_OFF, TurnEvents

Object = dict[str, Any]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BILL = UsageBody.of(Usage(input=100, cache_read=60, cache_write_5m=20, output=10, reasoning=4))
ERROR = {"message": "It broke.", "type": "ProviderError", "code": "provider_error", "param": None, "hint": "Again."}


def turn() -> TurnRecord:
    run = RunRecord("run_1", 0, "m-1", TurnStatus.RUNNING, (), None, None, Usage(), 0.0)
    return TurnRecord(
        id="turn_1",
        conversation_id="conv_1",
        parent=Place(),
        status=TurnStatus.RUNNING,
        user_message_id="msg_1",
        text="Hi",
        sent_at=NOON,
        timezone="UTC",
        attachments=(),
        dynamic="",
        dynamic_from=(),
        runs=(run,),
        started_at=NOON,
        finished_at=None,
        error=None,
        usage=Usage(),
        cost=0.0,
    )


def ui_chat_events() -> UiChatEvents:
    return UiChatEvents(turn(), "turn_1")


def agent_events() -> AgentEvents:
    return AgentEvents(AgentRunBody(threadId="t", runId="r", messages=[]), "turn_1")


def request(step: int, purpose: str = "chat") -> RequestStarted:
    return RequestStarted(
        request_id=f"req_{step}", step=step, purpose=purpose, letters="S U1", estimate=9, budget=99, predicted_read=0
    )


def bill() -> UsagePacket:
    return UsagePacket(request_id="req_0", usage=BILL, cost=0.5, budget=99)


def ended(status: str = "finished") -> TurnFinished:
    return TurnFinished(status=status, usage=BILL, cost=0.5)


def called(id: str, block: int, *pieces: str) -> list[AnyPacket]:
    named = ToolCallPacket(call_id=id, name="look", block_index=block)
    return [named, *(ToolArgsPacket(call_id=id, json=piece, block_index=block) for piece in pieces)]


def answered(id: str, block: int, *, is_error: bool = False, rich: str = "") -> ToolResultPacket:
    return ToolResultPacket(
        call_id=id, name="look", content="Green.", is_error=is_error, rich=rich, seconds=0.1, block_index=block
    )


STARTED = TurnStarted(turn_id="turn_1", conversation_id="conv_1", user_message_id="msg_1", sent_at="", documents=[])
RUN = RunStarted(run_id="run_1", model="m-1")
FINISHED = RunFinished(run_id="run_1", status="end_turn", usage=BILL, cost=0.5)
WHOLE: list[Any] = [
    *[STARTED, RUN, request(0)],
    *(ReasoningPacket(text=text, block_index=0) for text in ("Hm", ".")),
    *(TextPacket(text=text, block_index=1) for text in ("Let me", " look.")),
    *[*called("c1", 2, '{"place":', '"tower"}'), *called("c2", 3, "{")],
    *[bill(), answered("c2", 3, is_error=True), answered("c1", 2, rich='{"documents":[]}'), request(1)],
    SourcePacket(document=1, title="Log", url="https://tower.example/log"),
    SourcePacket(document=2, title="book.pdf", file_id="file_1"),
    *[TextPacket(text="Green [1].", block_index=4), CitationPacket(document=1, start=6, end=9, block_index=4)],
    *[bill(), FINISHED, ended()],
]
"""A turn with two steps: thought, text, two calls of which one fails, an answer with sources."""

ONE_OF_EACH: list[Any] = [
    *WHOLE,
    TurnQueued(message_id="queued_1", position=1, due_at=None),
    ModelFallback(requested_model="m-1", model="m-2", error=ERROR),
    ContextDegraded(subject="document 1", why="It did not fit."),
    CacheLost(subject="model", level="tools", tokens=9, cost=0.1, why="Another model."),
    ToolApprovalPacket(call_id="c1", name="look", arguments="{}", n=7),
    ToolVerdictPacket(call_id="c1", approved=False),
    ToolHandedOut(call_id="c1", name="look", arguments="{}"),
    PartialPacket(reason="max_tokens", message="It is cut.", hint="Go on."),
    ErrorPacket(error=ERROR),
    TurnStopped(reason="user_cancelled"),
    PacketsExpired(expired_at="", kept_days=3),
    CommandPacket(id="note_1", name="help", argument="", answer="Help.", data={}, at=""),
]


def read(written: bytes) -> list[Object]:
    """The events of a stream; its end is `{}`."""
    frames = written.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [json.loads(data) if (data := frame.removeprefix("data: ")) != "[DONE]" else {} for frame in frames]


def played(events: TurnEvents, packets: Iterable[Any]) -> list[Object]:
    """The events of a whole stream."""
    written = [events.begin()]
    for packet in packets:
        written.append(events.take(packet))
        if events.waits is not None:
            break
    return read(b"".join([*written, events.end()]))


def kinds(events: Sequence[Object]) -> list[str]:
    return [str(one.get("type", "end")) for one in events]


@pytest.mark.parametrize(("made", "left_out"), [(ui_chat_events, ui_chat.LEFT_OUT), (agent_events, agui.LEFT_OUT)])
def test_every_kind_of_packet_is_written_or_left_out_with_a_reason(made: Any, left_out: dict[str, str]) -> None:
    tags = {kind.__struct_config__.tag for kind in get_args(AnyPacket)}
    assert {packet.__struct_config__.tag for packet in ONE_OF_EACH} == tags
    silent = set()
    for kind in get_args(AnyPacket):
        events = made()
        written = b""
        for packet in (one for one in [*called("c1", 0), *ONE_OF_EACH] if type(one) in (kind, ToolCallPacket)):
            told = events.take(packet)
            written += told if type(packet) is kind else b""
        silent |= set() if written else {str(kind.__struct_config__.tag)}
    assert silent == left_out.keys()
    assert all(reason.endswith(".") for reason in left_out.values())


def test_a_turn_as_a_message_of_the_ai_sdk() -> None:
    said = [one for one in played(ui_chat_events(), WHOLE) if not one.get("transient")]
    ours = {"providerExecuted": True, "dynamic": True}
    metadata = {"conversationId": "conv_1", "turnId": "turn_1", "model": "m-1"}
    assert said[:9] == [
        {"type": "start", "messageId": "turn_1", "messageMetadata": metadata},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "0"},
        {"type": "reasoning-delta", "id": "0", "delta": "Hm"},
        {"type": "reasoning-delta", "id": "0", "delta": "."},
        {"type": "reasoning-end", "id": "0"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "Let me"},
        {"type": "text-delta", "id": "1", "delta": " look."},
    ]
    assert said[9:20] == [
        {"type": "text-end", "id": "1"},
        {"type": "tool-input-start", "toolCallId": "c1", "toolName": "look", **ours},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"place":'},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '"tower"}'},
        {"type": "tool-input-start", "toolCallId": "c2", "toolName": "look", **ours},
        {"type": "tool-input-delta", "toolCallId": "c2", "inputTextDelta": "{"},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "look", "input": {"place": "tower"}, **ours},
        {"type": "tool-input-available", "toolCallId": "c2", "toolName": "look", "input": "{", **ours},
        {"type": "tool-output-error", "toolCallId": "c2", "errorText": "Green.", **ours},
        {"type": "tool-output-available", "toolCallId": "c1", "output": "Green.", **ours},
        {"type": "finish-step"},
    ]
    url, document, citation = said[21], said[22], said[25]
    assert (url["type"], url["url"], url["title"]) == ("source-url", "https://tower.example/log", "Log")
    assert (document["type"], document["filename"]) == ("source-document", "book.pdf")
    assert document["providerMetadata"] == {"lamella": {"document": 2, "fileId": "file_1"}}
    assert (citation["type"], citation["data"]["document"], citation["data"]["block_index"]) == ("data-citation", 1, 4)
    assert kinds(said[26:]) == ["text-end", "finish-step", "finish", "end"]
    assert said[-2]["finishReason"] == "stop"
    assert said[-2]["messageMetadata"]["usage"]["cache_read"] == 60


def test_a_turn_as_a_run_of_agui() -> None:
    run = {"threadId": "t", "runId": "r"}
    said = [one for one in played(agent_events(), WHOLE) if one["type"] != "CUSTOM"]
    thought, text, answer = ({"messageId": f"turn_1:{block}"} for block in (0, 1, 4))
    assert said[:10] == [
        {"type": "RUN_STARTED", **run, "protocolVersion": "1.0"},
        {"type": "STEP_STARTED", "stepName": "step 1"},
        {"type": "REASONING_START", **thought},
        {"type": "REASONING_MESSAGE_START", **thought, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", **thought, "delta": "Hm"},
        {"type": "REASONING_MESSAGE_CONTENT", **thought, "delta": "."},
        {"type": "REASONING_MESSAGE_END", **thought},
        {"type": "REASONING_END", **thought},
        {"type": "TEXT_MESSAGE_START", **text, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", **text, "delta": "Let me"},
    ]
    call = {"toolCallId": "c1"}
    assert said[12:15] == [
        {"type": "TOOL_CALL_START", **call, "toolCallName": "look", "parentMessageId": "turn_1:1"},
        {"type": "TOOL_CALL_ARGS", **call, "delta": '{"place":'},
        {"type": "TOOL_CALL_ARGS", **call, "delta": '"tower"}'},
    ]
    results = [one for one in said if one["type"] == "TOOL_CALL_RESULT"]
    assert results[1] == {
        "type": "TOOL_CALL_RESULT", "messageId": "turn_1:c1", **call, "content": "Green.", "role": "tool",
    }  # fmt: skip
    assert [one for one in said if one["type"] == "TEXT_MESSAGE_END"][-1] == {"type": "TEXT_MESSAGE_END", **answer}
    tokens = {"inputTokens": 200, "outputTokens": 20, "totalTokens": 220, "reasoningTokens": 8}
    cached = {"cachedInputTokens": 120, "cacheWriteInputTokens": 40}
    usage = [{"model": "m-1", **tokens, **cached}]
    assert said[-2:] == [
        {"type": "STEP_FINISHED", "stepName": "step 2"},
        {"type": "RUN_FINISHED", **run, "outcome": {"type": "success"}, "usage": usage},
    ]


def test_calls_without_a_text_stand_in_one_message_and_the_next_step_in_another() -> None:
    packets = [request(0), *called("c1", 0), *called("c2", 1), bill(), request(1), *called("c3", 2), bill(), ended()]
    begun = [one for one in played(agent_events(), packets) if one["type"] == "TOOL_CALL_START"]
    assert [one["parentMessageId"] for one in begun] == ["turn_1:0", "turn_1:0", "turn_1:2"]


def test_of_several_models_the_first_is_followed() -> None:
    others = [replace(packet, model_index=1) for packet in WHOLE[1:-1]]
    together = [packet for pair in zip(WHOLE[1:-1], others, strict=True) for packet in pair]
    for made in (ui_chat_events, agent_events):
        assert played(made(), [STARTED, *together, ended()]) == played(made(), WHOLE)


WAITS = [STARTED, RUN, request(0), *called("c1", 0, "{}"), bill()]
ASKED = ToolApprovalPacket(call_id="c1", name="look", arguments="{}", n=7, block_index=0)


def test_a_call_that_waits_ends_the_stream_and_the_next_one_goes_on() -> None:
    said = played(ui_chat_events(), [*WAITS, ASKED, TextPacket(text="never", block_index=9)])
    assert kinds(said)[-4:] == ["tool-approval-request", "finish-step", "finish", "end"]
    assert said[-4] == {"type": "tool-approval-request", "approvalId": "turn_1:7:c1", "toolCallId": "c1"}
    denied = [ToolVerdictPacket(call_id="c1", approved=False), answered("c1", 0, is_error=True), ended()]
    after = played(ui_chat_events(), denied)
    assert {"type": "tool-output-denied", "toolCallId": "c1"} in after
    run = played(agent_events(), [*WAITS, ASKED])
    assert run[-1]["outcome"]["type"] == "interrupt"
    [interrupt] = run[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"]) == ("turn_1:7:c1", "c1")
    assert run[-1]["usage"][0]["inputTokens"] == 100


OWN = [request(0), *called("c1", 0, '{"place":', '"tower"}'), *called("c2", 1, "{"), bill()]
HANDED = ToolHandedOut(call_id="c1", name="look", arguments='{"place":"tower"}', block_index=0)


def test_a_call_of_the_clients_own_tool_is_whole_once_it_is_handed_out() -> None:
    """The other one was cut off: the client must not run it."""
    chunks = [
        one
        for one in played(UiChatEvents(turn(), "turn_1", ["look"]), [*OWN, HANDED, ended()])
        if not one.get("transient")
    ]
    named = {"toolCallId": "c1", "toolName": "look"}
    assert chunks[2] == {"type": "tool-input-start", **named}
    assert kinds(chunks)[-6:-3] == ["tool-input-delta", "tool-input-available", "tool-input-error"]
    assert chunks[-5] == {"type": "tool-input-available", **named, "input": {"place": "tower"}}
    assert (chunks[-4]["toolCallId"], chunks[-2]["finishReason"]) == ("c2", "tool-calls")
    body = AgentRunBody(threadId="t", runId="r", messages=[])
    events = played(AgentEvents(body, "turn_1", ["look"]), [*OWN, HANDED, ended()])
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}
    over = [(one["type"], one["toolCallId"]) for one in events if one["type"] in ("TOOL_CALL_END", "TOOL_CALL_RESULT")]
    assert over == [("TOOL_CALL_END", "c1"), ("TOOL_CALL_END", "c2"), ("TOOL_CALL_RESULT", "c2")]


def test_a_call_of_the_clients_own_tool_that_is_refused_here_is_not_the_clients_to_run() -> None:
    packets = [*OWN, answered("c1", 0, is_error=True), HANDED, ended()]
    chunks = played(UiChatEvents(turn(), "turn_1", ["look"]), packets)
    assert "tool-input-available" not in kinds(chunks)
    assert [one["errorText"] for one in chunks if one.get("type") == "tool-input-error"] == ["Green.", CUT_OFF]


def test_a_turn_that_failed_ends_with_the_error_of_the_protocol() -> None:
    broken = [STARTED, RUN, request(0), TextPacket(text="So", block_index=0)]
    failed = [*broken, replace(FINISHED, status="error", error=ERROR), ended("failed")]
    chunks = [one for one in played(ui_chat_events(), failed) if not one.get("transient")]
    assert chunks[-2:] == [{"type": "error", "errorText": "It broke. Again."}, {}]
    assert "finish" not in kinds(chunks)
    events = played(agent_events(), failed)
    assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "provider_error")
    assert "RUN_FINISHED" not in kinds(events)


def test_a_stream_that_cannot_go_on_says_so() -> None:
    for events, kind in ((ui_chat_events(), "error"), (agent_events(), "RUN_ERROR")):
        written = events.begin() + events.take(request(0)) + events.take(TextPacket(text="So", block_index=0))
        said = [one for one in read(written + events.fail(ERROR)) if one]
        assert said[-1]["type"] == kind


@pytest.mark.parametrize(
    ("packet", "reason", "outcome"),
    [
        (PartialPacket(reason="max_tokens", message="", hint=""), "length", "success"),
        (PartialPacket(reason="refusal", message="", hint=""), "content-filter", "success"),
        (PartialPacket(reason="step_limit", message="", hint=""), "tool-calls", "success"),
        (TurnStopped(reason="user_cancelled"), "other", "cancelled"),
    ],
)
def test_how_an_answer_ended_early(packet: AnyPacket, reason: str, outcome: str) -> None:
    packets = [STARTED, RUN, request(0), TextPacket(text="So", block_index=0), packet, FINISHED, ended()]
    chunks = played(ui_chat_events(), packets)
    assert chunks[-2]["finishReason"] == reason
    assert ("abort" in kinds(chunks)) == (outcome == "cancelled")
    assert played(agent_events(), packets)[-1]["outcome"]["type"] == outcome


BRACKETS = {
    "start-step": "finish-step", "text-start": "text-end", "reasoning-start": "reasoning-end",
    "tool-input-start": "tool-input-available", "STEP_STARTED": "STEP_FINISHED",
    "TEXT_MESSAGE_START": "TEXT_MESSAGE_END", "REASONING_START": "REASONING_END", "TOOL_CALL_START": "TOOL_CALL_END",
}  # fmt: skip
NAMES = ("id", "messageId", "toolCallId", "stepName")

MIDDLE = [one for one in ONE_OF_EACH if not isinstance(one, TurnFinished | ToolCallPacket | ToolArgsPacket)]
PIECES = st.one_of(
    st.sampled_from(MIDDLE).map(lambda packet: [packet]),
    st.integers(0, 5).map(lambda step: [request(step)]),
    st.tuples(st.text(max_size=3), st.integers(0, 3)).map(lambda one: [TextPacket(text=one[0], block_index=one[1])]),
    st.just([ToolCallPacket(call_id="", name="look", block_index=5)]),
)
adapter: TypeAdapter[Any] = TypeAdapter(AgentEvent)


@given(st.lists(PIECES, max_size=25))
def test_brackets_close_in_any_order_of_packets_and_every_event_is_one_of_the_protocol(
    pieces: list[list[AnyPacket]],
) -> None:
    packets = [
        replace(packet, call_id=f"c{n}") if isinstance(packet, ToolCallPacket) else packet
        for n, packet in enumerate((packet for piece in pieces for packet in piece), start=100)
    ]
    for made in (ui_chat_events, agent_events):
        opened: set[tuple[str, str]] = set()
        for one in played(made(), [*packets, ended()]):
            kind, name = one.get("type", ""), next((str(one[name]) for name in NAMES if name in one), "")
            if kind in BRACKETS:
                assert (BRACKETS[kind], name) not in opened
                opened.add((BRACKETS[kind], name))
            else:
                opened.discard((kind, name))
            if kind.isupper():
                dumped = adapter.validate_python(one).model_dump(by_alias=True, mode="json")
                assert dumped == {key: value for key, value in one.items() if value is not None} | dumped
        assert opened == set()
