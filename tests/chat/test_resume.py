"""A client that leaves and comes back reads on exactly where it was; the turn never notices."""

from __future__ import annotations

import asyncio

import pytest

from lamella.core import deltas
from lamella.llm.scripted import Gate, ScriptedModel, Wait, saying
from lamella.server.testing import Object, ServerClient

from .stage import Playback, text_of, types
from .test_stop import until

pytestmark = pytest.mark.anyio

PIECES = tuple(f"piece {number} " for number in range(15))


async def test_a_turn_goes_on_when_its_client_leaves(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": "One, two, three, four, five, six.", "chunk": 4}, rate=100)
    async with stage.client.sending(conversation, "Count!") as events:
        seen = await until(events, "text.delta")
    whole = await stage.client.packets(seen[0]["turn_id"])
    turn = await stage.client.get(f"/turns/{seen[0]['turn_id']}")
    assert (turn["status"], turn["answer"]) == ("finished", "One, two, three, four, five, six.")
    assert (await stage.seen())[-1]["finished"]
    assert whole[: len(seen)] == seen


async def test_every_cut_of_a_stored_turn_is_continued_exactly(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying(*PIECES))
    conversation = await client.conversation()
    whole = await client.send(conversation, "Write!")
    turn_id = whole[0]["turn_id"]
    for cut in range(len(whole) + 2):
        resumed = await client.packets(turn_id, after=cut)
        assert whole[:cut] + resumed == whole


async def test_every_cut_of_a_running_turn_is_continued_exactly(client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    half = len(PIECES) // 2
    said = saying(*PIECES)
    model.then([*said[:half], gate, *said[half:]])
    conversation = await client.conversation()
    async with client.sending(conversation, "Write!") as events:
        seen = await until(events, "text.delta", half)

        async def continued(cut: int) -> list[Object]:
            async with client.following(seen[0]["turn_id"], last_event_id=cut) as rest:
                return [event.packet async for event in rest if event.n is not None]

        followers = [asyncio.create_task(continued(cut)) for cut in range(len(seen) + 1)]
        await asyncio.sleep(0.1)
        gate.opened.set()
        whole = seen + [event.packet async for event in events if event.n is not None]
        assert text_of(whole) == "".join(PIECES)
        for cut, resumed in enumerate(await asyncio.gather(*followers)):
            assert whole[:cut] + resumed == whole


async def test_a_client_may_leave_and_come_back_again_and_again(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    text = " ".join(f"word{number}" for number in range(60))
    await stage.script({"text": text, "chunk": 5}, rate=600)
    async with stage.client.sending(conversation, "Write!") as events:
        seen = await until(events, "text.delta")
    turn_id, again = seen[0]["turn_id"], 0
    while seen[-1]["type"] != "turn.finished":
        again += 1
        async with stage.client.following(turn_id, last_event_id=seen[-1]["n"]) as events:
            async for event in events:
                seen.append(event.packet)
                if len(seen) % 7 == 0:
                    break
    assert again > 5
    assert seen == await stage.client.packets(turn_id)
    assert text_of(seen) == text


async def test_after_wins_over_the_last_event_id(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying(*PIECES))
    whole = await client.send(await client.conversation(), "Write!")
    async with client.following(whole[0]["turn_id"], after=2, last_event_id=9) as events:
        assert [event.n async for event in events] == [packet["n"] for packet in whole[2:]]


async def test_a_number_that_was_never_sent_gives_what_follows_it(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("Hi."))
    whole = await client.send(await client.conversation(), "Write!")
    assert await client.packets(whole[0]["turn_id"], after=2**53) == []
    async with client.following(whole[0]["turn_id"], last_event_id=10**30) as events:
        assert [event async for event in events] == []


async def test_what_is_no_number_of_a_packet_is_refused(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("Hi."))
    whole = await client.send(await client.conversation(), "Write!")
    path = f"/turns/{whole[0]['turn_id']}/events"
    for sent in ("-1", "1.5", "١", "x", "1 2", "9" * 30 + "x"):
        answer = await client.call("GET", path, headers={"last-event-id": sent.encode()})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "Last-Event-ID")
    for sent in ("-1", "1.5", "x", "", str(2**53 + 1), str(10**40)):
        answer = await client.call("GET", f"{path}?after={sent}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")


async def test_silence_is_broken_by_comments(client: ServerClient, model: ScriptedModel) -> None:
    model.then([Wait(0.7), *saying("At last.")])
    conversation = await client.conversation()
    async with client.sending(conversation, "Think!") as events:
        found = [event async for event in events]
    comments = [event for event in found if event.n is None]
    assert 2 <= len(comments) <= 4
    assert types([event.packet for event in found if event.n is not None])[-1] == "turn.finished"


async def test_followers_who_leave_leave_the_turn_alone(client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([deltas.TextDelta(0, "Half"), gate, *saying(" and whole.")])
    conversation = await client.conversation()
    async with client.sending(conversation, "Write!") as events:
        seen = await until(events, "text.delta")
    turn_id = seen[0]["turn_id"]
    for _ in range(5):
        async with client.following(turn_id) as events:
            await until(events, "text.delta")
    gate.opened.set()
    assert text_of(await client.packets(turn_id)) == "Half and whole."
