"""A clock that is set back, as by a correction or a summer time that nobody meant: nothing waits for it to come round.

What was stored says when it is due by the clock of before. How long it has waited nobody knows then, so it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lamella.core.clock import VirtualClock
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.records import ProviderLimit
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings

from .test_queue import answered, asked
from .test_stop import until

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = 3_600.0


@asynccontextmanager
async def opened(folder: Path, model: ScriptedModel, clock: VirtualClock) -> AsyncIterator[ServerClient]:
    settings = read_settings(data=folder, debounce_ms=30_000, titles=False)
    async with served(settings, models=ScriptedModels(model), clock=clock) as (_, client):
        yield client


async def queued(client: ServerClient, conversation: str, text: str, **fields: Any) -> None:
    """Send a message that waits for more, and go away."""
    async with client.sending(conversation, text, **fields) as events:
        await until(events, "turn.queued")


async def test_a_message_that_waits_for_more_is_answered_no_later(tmp_path: Path) -> None:
    model, clock = ScriptedModel([saying("Yes.")]), VirtualClock(NOON)
    async with opened(tmp_path, model, clock) as client:
        conversation = await client.conversation()
        await queued(client, conversation, "Are you there?")
        clock.advance(5)
        clock.put_back(HOUR)
        await asyncio.sleep(0.05)
        clock.advance(30)
        [turn] = await answered(client, conversation, 1)
        assert turn["answer"] == "Yes."


async def test_it_is_after_a_restart_too_and_what_is_made_then_comes_after_it(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Yes."), saying("Also yes.")])
    async with opened(tmp_path, model, VirtualClock(NOON)) as client:
        conversation = await client.conversation()
        await client.post(f"/conversations/{conversation}/commands", {"text": "/help"})
        await queued(client, conversation, "Are you there?")
    clock = VirtualClock(NOON - timedelta(seconds=HOUR))
    async with opened(tmp_path, model, clock) as client:
        await answered(client, conversation, 1)
        await queued(client, conversation, "And there?")
        clock.advance(30)
        first, second = await answered(client, conversation, 2)
        assert (first["text"], second["text"]) == ("Are you there?", "And there?")
        assert asked(model) == ["Are you there?", "And there?"]
        # The order of ids is that in which they were made, whatever the clock says.
        await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        told = (await client.get(f"/conversations/{conversation}/commands?order=asc"))["data"]
        assert [one["name"] for one in told] == ["help", "status"]
        newer = await client.conversation()
        assert [one["id"] for one in (await client.get("/conversations"))["data"]] == [newer, conversation]


async def test_a_limit_of_a_provider_is_kept_to_no_longer(tmp_path: Path) -> None:
    """It was learned an hour before it ends; by the clock of now it would be believed for three."""
    model, clock = ScriptedModel(), VirtualClock(NOON)
    settings = read_settings(data=tmp_path, debounce_ms=0, context_budget=20_000, keep_recent_tokens=100, titles=False)
    async with served(settings, models=ScriptedModels(model), clock=clock) as (app, client):
        conversation = await client.conversation()
        long = " ".join(f"word{number}" for number in range(600))
        for number in range(2):
            model.then(saying(f"Answer {number}.", usage=Usage(input=1_250 * (number + 1), output=5)))
            await client.send(conversation, f"Question {number}? {long}")
        limit = ProviderLimit("scripted", "scripted", 900, NOON + timedelta(hours=1))
        await app.store.requests.keep_provider_limit(limit)

        async def has_all(text: str) -> bool:
            """Whether the first question still stands in what is sent with this message."""
            model.then([ProviderRefusedRequest("no summary")], saying("Yes."), saying("Yes."))
            await client.send(conversation, text)
            return b"Question 0?" in b"".join(block.data for block in model.requests[-1].blocks)

        assert not await has_all("hi")
        clock.put_back(2 * HOUR)
        assert await has_all("And now?")
