"""Whatever people do, in any order: the replay of the export sends what was sent, byte for byte."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from lamella.core.errors import LamellaError
from lamella.server.testing import Object, ServerClient

from .carrying import CHINESE, LANGUAGES, RUSSIAN, WORDS, assert_carried, carrier, rested

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SEEDS = int(os.environ.get("EXPORTED_CONVERSATIONS", "6"))
FIRST = int(os.environ.get("EXPORTED_FIRST", "0"))
MODELS = ["claude-sonnet-5-5", "claude-haiku-4-5", "gpt-6.1-terra", "gpt-5.5", "claude-opus-5-5"]
ASKED = [
    "hello",
    "both",
    "read the page",
    "condensed",
    "kept",
    "opened",
    "failing",
    "said",
    "acting",
    "empty",
    "limited",
]
FAILING = ["overload", "broken", "refused", "cut off"]

WRITTEN = [text.replace("\u0001", "") for text in LANGUAGES]

ROOMY: Object = {"keep_recent_tokens": 300, "titles": True}
TIGHT: Object = {
    "context_budget": 9_000,
    "max_output": 1_000,
    "keep_recent_tokens": 400,
    "compaction_threshold": "45%",
    "compaction_when": "full",
    "tool_prune_threshold": 900,
    "tool_keep_threshold": 200,
    "tool_prune_when": "full",
    "titles": True,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["roomy", "tight"])
async def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServerClient]:
    settings = {"roomy": ROOMY, "tight": TIGHT}[request.param]
    async with carrier(tmp_path_factory.mktemp("data"), **settings) as (_, speaking):
        yield speaking


class People:
    """Somebody who does one thing after another in a conversation, at random."""

    def __init__(self, random: Random, client: ServerClient) -> None:
        self.random = random
        self.client = client
        self.conversation = ""
        self.turns: list[str] = []
        self.files: list[str] = []
        self.did: list[str] = []

    async def begin(self) -> None:
        """A conversation with or without an agent and a project."""
        layout = self.random.choice(["lamella", "lamella", "lis", "onyx", "wegent"])
        self.conversation = await self.client.conversation(model=self.random.choice(MODELS), layout=layout)
        self.did.append(layout)

    @property
    def where(self) -> str:
        return f"/conversations/{self.conversation}"

    def words(self, asked: list[str] | None = None) -> str:
        """A message that some answer is scripted for, in some language, of some length."""
        text = self.random.choice(asked or ASKED)
        return f"{text}. " + self.random.choice(LANGUAGES) * self.random.choice([0, 1, 1, 5, 30])

    async def heard(self, packets: list[Object]) -> None:
        self.turns += [packet["turn_id"] for packet in packets[:1] if "turn_id" in packet]

    async def send(self) -> None:
        fields: Object = {}
        if self.random.random() < 0.3:
            name = self.random.choice(["note.txt", "概要.md"])
            made = await self.client.upload(name, (self.random.choice(WRITTEN) * 9).encode())
            self.files.append(made["id"])
        if self.files and self.random.random() < 0.4:
            fields["file_ids"] = self.random.sample(self.files, k=1)
        if self.random.random() < 0.3:
            fields["dynamic_context"] = [f"The user is Ann. {self.random.choice(LANGUAGES)}"]
        if self.random.random() < 0.2:
            fields["models"] = self.random.sample(MODELS, k=self.random.choice([1, 2, 3]))
        if self.random.random() < 0.15:
            fields["layout"] = self.random.choice(["lamella", "onyx", "lis"])
        if self.random.random() < 0.15:
            fields["thinking_effort"] = self.random.choice(["off", "low", "high"])
        if self.random.random() < 0.1:
            fields["marker_policy"] = self.random.choice(["planner", "auto_tail", "off"])
        fields["timezone"] = self.random.choice(["UTC", "Asia/Tokyo", "America/St_Johns"])
        await self.heard(await self.client.send(self.conversation, self.words(), **fields))

    async def tell(self) -> None:
        """Add a message with its answer as items of OpenAI's API: no model is asked."""
        asked = {"role": "user", "content": f"Told: {self.random.choice(WRITTEN)}"}
        items = [asked, {"role": "assistant", "content": f"So. {self.random.choice(WRITTEN)}"}]
        answer = await self.client.http.post(f"/v1/conversations/{self.conversation}/items", json={"items": items})
        assert answer.status_code in (200, 409), answer.text

    async def fail(self) -> None:
        await self.heard(await self.client.send(self.conversation, self.words(FAILING)))

    async def stop(self) -> None:
        text, packet = self.random.choice(
            [("slowly", "text.delta"), ("waiting", "tool.result"), ("waiting", "tool.call"), ("both", "turn.started")]
        )
        async with self.client.sending(self.conversation, text) as events:
            told = False
            async for event in events:
                if event.type == packet and not told:
                    told = True
                    self.turns.append(event.packet["turn_id"])
                    await self.client.post(f"/turns/{event.packet['turn_id']}/stop")

    async def hurry(self) -> None:
        """Messages that come while an answer runs."""
        async with self.client.sending(self.conversation, "slowly") as events:
            [await anext(events) for _ in range(3)]
            waiting = [self.client.send(self.conversation, self.words(), debounce_ms=0) for _ in range(2)]
            asked = asyncio.gather(*waiting)
            async for _ in events:
                pass
            await asked

    async def edit(self) -> None:
        if self.turns:
            turn = await self.client.get(f"/turns/{self.random.choice(self.turns)}")
            run = self.random.choice(turn["runs"])
            parent = self.random.choice([run["id"], turn["user_message_id"], None])
            await self.heard(await self.client.send(self.conversation, self.words(), parent_message_id=parent))

    async def again(self) -> None:
        if self.turns:
            asked = self.random.choice(self.turns)
            await self.heard(await self.client.send(self.conversation, "", regenerate=asked))

    async def prefer(self) -> None:
        if self.turns:
            turn = await self.client.get(f"/turns/{self.random.choice(self.turns)}")
            run = self.random.choice(turn["runs"])
            latest = self.random.random() < 0.5
            await self.client.post(f"/turns/{turn['id']}/prefer", {"run_id": run["id"], "latest": latest})

    async def change(self) -> None:
        chosen: Object = self.random.choice(
            [
                {"model": self.random.choice(MODELS)},
                {"layout": self.random.choice(["lamella", "onyx", "lis", "wegent"])},
                {"thinking_effort": self.random.choice(["off", "medium", None])},
                {"agent_id": (await self.agent())["id"]},
                {"agent_id": None},
                {"project_id": (await self.project())["id"]},
                {"project_id": None},
            ]
        )
        await self.client.call("PATCH", self.where, json=chosen)

    async def agent(self) -> Object:
        tools = self.random.choice([None, ["look", "read", "open"]])
        replaces = self.random.random() < 0.3
        prompt = f"You are careful. {self.random.choice(LANGUAGES)}"
        body = {"name": "Agent", "prompt": prompt, "tools": tools, "replaces_system": replaces, "reminder": "Look."}
        return await self.client.post("/agents", body)

    async def project(self) -> Object:
        made = await self.client.upload("plan.md", (self.random.choice(WRITTEN) * 12).encode())
        body = {"name": "Plan", "instructions": self.random.choice(["", "Be exact."]), "file_ids": [made["id"]]}
        return await self.client.post("/projects", body)

    async def edit_around(self) -> None:
        """Edit the agent or the project of the conversation."""
        now = await self.client.get(self.where)
        if now["agent_id"] is not None:
            await self.client.call("PATCH", f"/agents/{now['agent_id']}", json={"prompt": f"Other. {CHINESE}"})
        if now["project_id"] is not None:
            changed = {"instructions": self.random.choice([WORDS, RUSSIAN])}
            await self.client.call("PATCH", f"/projects/{now['project_id']}", json=changed)

    async def command(self) -> None:
        await rested(self.client, self.conversation)
        text = self.random.choice(["/compact", "/compact the mill", "/prune", "/new", "/status", "/undo"])
        await self.client.call("POST", f"{self.where}/commands", json={"text": text})
        self.did.append(text)
        if self.random.random() < 0.7:
            await rested(self.client, self.conversation)

    async def resume(self) -> None:
        await rested(self.client, self.conversation)
        sessions = (await self.client.get(f"{self.where}/sessions"))["data"]
        await self.client.call("POST", f"/sessions/{self.random.choice(sessions)['id']}/resume", json={})

    async def act(self) -> None:
        """Do one thing."""
        deeds: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.send, 12),
            (self.tell, 2),
            (self.fail, 2),
            (self.stop, 2),
            (self.hurry, 1),
            (self.edit, 3),
            (self.again, 2),
            (self.prefer, 2),
            (self.change, 4),
            (self.edit_around, 2),
            (self.command, 4),
            (self.resume, 1),
        ]
        [deed] = self.random.choices([deed for deed, _ in deeds], weights=[weight for _, weight in deeds])
        self.did.append(deed.__name__)
        with suppress(LamellaError):  # what is refused stores nothing
            await deed()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
async def test_a_conversation_of_any_kind_is_carried_away(client: ServerClient, seed: int) -> None:
    people = People(Random(seed), client)
    await people.begin()
    await people.send()
    for _ in range(people.random.randint(3, 10)):
        await people.act()
    await rested(client, people.conversation)
    await assert_carried(client, people.conversation)


@pytest.mark.parametrize("when", ["full", "balanced", "pays"])
async def test_thresholds_shape_summaries_in_a_replay_too(tmp_path: Path, when: str) -> None:
    """How long a summary is asked for, and what earlier ones may hold, comes from the threshold."""
    settings: Object = {"compaction_threshold": "2000", "compaction_when": when, "keep_recent_tokens": 200}
    async with carrier(tmp_path, **settings) as (_, client):
        conversation = await client.conversation(layout="lis")
        for number in range(9):
            await client.send(conversation, f"read the page {number}. {WORDS * 9}")
            await rested(client, conversation)
            if number % 3 == 2:
                await client.post(f"/conversations/{conversation}/compact", {})
                await rested(client, conversation)
        found = await assert_carried(client, conversation)
    assert sum(request.record.purpose == "summary" for request in found.report.requests) > 1
