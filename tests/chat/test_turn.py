"""A whole turn, from the bytes a client sends to the rows and the request that the provider received."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER
from lamella.core.json import Json, encode
from lamella.core.messages import StopReason, Text, TurnStatus
from lamella.core.packets import decode_packet

from .stage import Playback, only, staged, text_of, types

pytestmark = pytest.mark.anyio

LONG = "Rivers carry sand to the sea. " * 400


async def test_packets_come_in_order_and_numbered(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, "Hello?", {"text": "Hello there, friend.", "chunk": 4})
    assert types(packets) == [
        *("turn.started", "run.started", "request.started", "text.delta", "usage", "run.finished", "turn.finished")
    ]
    assert [packet["n"] for packet in packets] == list(range(1, len(packets) + 1))
    assert {packet["turn_id"] for packet in packets} == {packets[0]["turn_id"]}
    assert {packet["block_index"] for packet in packets if packet["type"] == "text.delta"} == {0}
    assert text_of(packets) == "Hello there, friend."
    assert sum(packet["type"] == "text.delta" for packet in packets) == 5
    assert all(decode_packet(encode(packet)) for packet in packets)


async def test_what_is_stored_is_what_was_sent_and_billed(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, "Hello?", {"text": "Hello there.", "reasoning": "Hm."})
    turn_id = packets[0]["turn_id"]
    [seen] = await stage.seen()
    billed = seen["usage"]
    usage = {
        "input": billed["input_tokens"] + billed["cache_read_input_tokens"] + billed["cache_creation_input_tokens"],
        "cache_read": billed["cache_read_input_tokens"],
        "cache_write": billed["cache_creation_input_tokens"],
        "fresh": billed["input_tokens"],
        "output": billed["output_tokens"],
        "reasoning": billed["output_tokens_details"]["thinking_tokens"],
        "estimated": False,
        "cache_write_1h": billed["cache_creation"]["ephemeral_1h_input_tokens"],
        "input_estimated": False,
    }
    turn = await stage.client.get(f"/turns/{turn_id}")
    assert (turn["status"], turn["answer"], turn["error"], turn["usage"]) == ("finished", "Hello there.", None, usage)
    assert turn["cost"] == pytest.approx(seen["cost"])
    assert only(packets, "turn.finished")["usage"] == usage
    assert only(packets, "usage")["usage"] == usage

    [step] = (await stage.app.store.turns.path(LOCAL_OWNER, conversation))[0].steps
    assert (step.parts, step.stop_reason) == ((Text("Hello there."),), StopReason.END_TURN)
    [row] = stage.rows("SELECT * FROM messages WHERE turn_id = :id AND seq = 1", id=turn_id)
    assert (row["input_tokens"], row["output_tokens"]) == (usage["input"], usage["output"])
    assert row["cost"] == pytest.approx(seen["cost"])

    request_id = only(packets, "request.started")["request_id"]
    raw = await stage.client.call("GET", f"/requests/{request_id}/raw")
    # The vendor's SDK orders the outermost fields its own way; everything within them is the same byte for byte.
    assert {name: encode(part) for name, part in raw.json().items()} == {
        name: encode(part) for name, part in seen["body"].items()
    }
    mapped = await stage.client.get(f"/requests/{request_id}/map")
    assert (mapped["letters"], mapped["usage"]) == ("S U1", usage)
    assert mapped["provider_request_id"]
    assert sum(segment["tokens"] for segment in mapped["segments"]) == usage["input"]
    assert (await stage.client.get(f"/turns/{turn_id}/requests"))["data"][0]["id"] == request_id


async def test_the_second_turn_reads_the_first_from_the_cache(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.turn(conversation, LONG + "What is this?", {"text": "A text about rivers."})
    packets = await stage.turn(conversation, "And what of the sand?", {"text": "It goes to the sea."})
    first, second = await stage.seen()
    assert second["body"]["messages"][1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "A text about rivers."}],
    }
    assert first["usage"]["cache_creation_input_tokens"] > 2_000
    assert second["usage"]["cache_read_input_tokens"] == first["usage"]["cache_creation_input_tokens"]
    usage = only(packets, "usage")["usage"]
    assert usage["cache_read"] / usage["input"] > 0.9
    assert only(packets, "request.started")["predicted_read"] > 0
    gauge = await stage.client.get(f"/conversations/{conversation}/context")
    assert (gauge["read"], gauge["input"], gauge["estimate"]) == (usage["cache_read"], usage["input"], False)


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/plain, */*", "Application/JSON;q=0.9"])
async def test_a_client_that_takes_json_gets_the_finished_turn(stage: Playback, accept: str) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": "Hello there."})
    turn = await stage.client.post(f"/conversations/{conversation}/turns", {"text": "Hi"}, headers={"accept": accept})
    assert (turn["object"], turn["status"], turn["answer"]) == ("turn", "finished", "Hello there.")


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream", "application/json, text/event-stream", ""])
async def test_every_other_client_gets_the_stream(stage: Playback, accept: str) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": "Hello there."})
    path = f"/conversations/{conversation}/turns"
    answer = await stage.client.call("POST", path, json={"text": "Hi"}, headers={"accept": accept})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.text.startswith('id: 1\ndata: {"type":"turn.started","n":1,')
    assert answer.text.endswith("}\n\n")


async def test_a_title_is_made_of_the_first_message(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.turn(conversation, "  \nWhat is a river?\nTell me.", {"text": "Water."})
    await stage.turn(conversation, "And a lake?", {"text": "Also water."})
    assert (await stage.client.get(f"/conversations/{conversation}"))["title"] == "What is a river?"


async def test_an_answer_that_is_none_does_no_harm(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, "Hello?", {"fault": {"kind": "empty", "times": 2}})
    assert only(packets, "turn.finished")["status"] == "failed"
    packets = await stage.turn(conversation, "Are you there?", {"text": "Yes."})
    assert text_of(packets) == "Yes."
    assert all(message["content"] for message in (await stage.seen())[-1]["body"]["messages"])


async def test_an_odd_text_reaches_the_provider_as_it_was_written(stage: Playback) -> None:
    odd = "Grüße 🦎 \u2028 漢字 ﷽ \\ud800 </script> {{x}}"
    answer = f"{odd} \x00"
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, odd, {"text": answer})
    assert text_of(packets) == answer
    turn = await stage.client.get(f"/turns/{packets[0]['turn_id']}")
    assert (turn["text"], turn["answer"]) == (odd, answer)
    assert (await stage.seen())[-1]["body"]["messages"][0]["content"][-1]["text"].startswith(odd)


@pytest.mark.parametrize(
    "sent", [{"text": "NUL \x00"}, {"text": "Hi", "dynamic_context": ["\x00"]}, {"text": "/title \x00"}]
)
async def test_a_text_with_nul_is_refused_before_anything_is_stored(stage: Playback, sent: Json) -> None:
    conversation = await stage.client.conversation()
    answer = await stage.client.http.post(f"/api/v1/conversations/{conversation}/turns", json=sent)
    assert answer.status_code == 400
    assert "NUL (U+0000)" in answer.json()["error"]["message"]
    assert (await stage.client.get(f"/conversations/{conversation}/turns"))["data"] == []


async def test_thinking_is_shown_apart_from_the_answer_and_sent_back(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path, thinking_effort="low") as stage:
        conversation = await stage.client.conversation()
        reply: Json = {"text": "Hi.", "reasoning": "Let me see.", "chunk": 5}
        packets = await stage.turn(conversation, "Hello?", reply)
        thought = [packet for packet in packets if packet["type"] == "reasoning.delta"]
        assert "".join(packet["text"] for packet in thought) == "Let me see."
        assert {packet["block_index"] for packet in thought} == {0}
        assert only(packets, "text.delta")["block_index"] == 1
        assert only(packets, "usage")["usage"]["reasoning"] > 0
        await stage.turn(conversation, "And?", {"text": "Bye."})
        kinds = [part["type"] for part in (await stage.seen())[-1]["body"]["messages"][1]["content"]]
        assert kinds == ["thinking", "text"]


async def test_the_status_of_every_row_is_final(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    packets = await stage.turn(conversation, "Hello?", {"text": "Hi."})
    record = await stage.app.store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])
    assert record.status is TurnStatus.FINISHED
    assert record.finished_at is not None
    assert record.finished_at >= record.started_at
    assert (await stage.client.get(f"/conversations/{conversation}"))["running_turn"] is None
    stored = await stage.app.store.turns.journal(LOCAL_OWNER, record.id, 0)
    assert [decode_packet(data).n for _, data in stored] == [packet["n"] for packet in packets]


async def test_a_turn_can_be_read_again_after_a_restart(provider: str, tmp_path: Path) -> None:
    async with staged(provider, tmp_path) as stage:
        conversation = await stage.client.conversation()
        packets = await stage.turn(conversation, "Hello?", {"text": "Hi.", "chunk": 1})
        turn_id = packets[0]["turn_id"]
        before = [await stage.client.get(f"/turns/{turn_id}{part}") for part in ("", "/requests")]
    async with staged(provider, tmp_path) as stage:
        assert await stage.client.packets(turn_id) == packets
        assert [await stage.client.get(f"/turns/{turn_id}{part}") for part in ("", "/requests")] == before
