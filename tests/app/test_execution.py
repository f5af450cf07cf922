"""One request, run as a library and over HTTP by OpenAI's own client, sends the same bytes to the provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest

from databases import emptied
from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.cache.difference import Cause
from lamella.chat.dynamic_context import Blocks, BlockScope
from lamella.chat.message import ExecutionRequest
from lamella.core.access import BaseContent
from lamella.core.clock import SystemClock
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.ids import CountingIds
from lamella.core.records import Caller, PageQuery
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.routes.openai_request import to_openai
from lamella.server.testing import serving
from lamella.server.web import create_web
from lamella.settings import Settings, read_settings
from lamella_simulator.app import create_app
from lamella_simulator.testing import EXACT

pytestmark = pytest.mark.anyio


class Noon(SystemClock):
    """It is always the same moment; waiting takes as long as ever."""

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, tzinfo=UTC)


class WhoAsks:
    """A deployment's own block."""

    name, order = "who", 0

    async def block(self, scope: BlockScope) -> str | None:
        return f"The user is {scope.identity.name}, role {scope.identity.role.value}."


@dataclass(frozen=True)
class Bound:
    """What a story can name: its ids."""

    base: str
    file: str
    agent: str


async def one_piece(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def furnished(app: App) -> Bound:
    content = BaseContent("Airships", summary="How they were built.", topics=("frames", "gas"))
    base = await app.access.add_base(LOCAL_OWNER, "kb_1", content, app.clock.now())
    file = await app.intake.receive(LOCAL_OWNER, "plan.md", one_piece(b"# Plan\n\nThe hall is 240 m long."))
    agent = await app.library.create_agent(LOCAL_OWNER, {"name": "Clerk", "prompt": "Be exact.", "layout": "lis"}, None)
    return Bound(base.id, file.id, agent.agent.id)


Timeline = Callable[[Bound], Sequence[ExecutionRequest]]
"""Requests, one after the other in one conversation; only the first names no conversation."""

STORIES: dict[str, Timeline] = {
    "plain, and gone on with": lambda _: [ExecutionRequest(text="Hi"), ExecutionRequest(text="Grüße 🦎 \u2028 </s>")],
    "blocks that came along": lambda _: [
        ExecutionRequest(
            text="Why?",
            kb_meta_prompt="Knowledge bases: Airships (id: kb_9).",
            dynamic_context=("It rains.", " ", "It is late."),
            timezone="Asia/Tokyo",
            layout="onyx",
            marker_policy="auto_tail",
            metadata={"ticket": "7"},
        ),
        ExecutionRequest(text="And now?", kb_meta_prompt=""),
    ],
    "bases and files": lambda bound: [
        ExecutionRequest(text="How long?", knowledge_base_ids=(bound.base,), file_ids=(bound.file,)),
        ExecutionRequest(text="Sure?", knowledge_base_ids=(bound.base,), agent_id=bound.agent),
    ],
    "another model, thinking": lambda _: [
        ExecutionRequest(text="Think.", models=("claude-haiku-5-5",), thinking_effort="4096"),
        ExecutionRequest(text="From the beginning.", models=("claude-haiku-5-5",), parent_message_id=None),
    ],
}


def settings_for(folder: Path, provider: str) -> Settings:
    keys = {"anthropic_api_key": "test", "anthropic_base_url": provider}
    return read_settings(data=folder, model="claude-opus-5", titles=False, debounce_ms=0, **keys)


class Recorded(msgspec.Struct):
    """A request as the simulator received it."""

    path: str
    status: int
    body: msgspec.Raw


async def sent_to(provider: str) -> list[tuple[str, int, bytes]]:
    async with httpx2.AsyncClient(base_url=provider, trust_env=False) as http:
        answer = await http.get("/_sim/requests")
    found = msgspec.json.decode(answer.content, type=dict[str, list[Recorded]])["requests"]
    return [(one.path, one.status, bytes(one.body)) for one in found]


async def newest(app: App) -> str:
    return (await app.store.conversations.conversations(LOCAL_OWNER, PageQuery(limit=1))).data[0].id


async def in_process(folder: Path, provider: str, story: Timeline) -> list[tuple[str, int, bytes]]:
    blocks = Blocks([WhoAsks()])
    parts: dict[str, Any] = {"clock": Noon(), "ids": CountingIds()}
    async with open_app(settings_for(folder, provider), blocks=blocks, **parts) as lamella:
        for number, request in enumerate(story(await furnished(lamella))):
            there = await newest(lamella) if number else None
            turn = await lamella.run(replace(request, conversation_id=there))
            assert (turn.error, bool(turn.run.answer)) == (None, True)
    return await sent_to(provider)


async def over_http(folder: Path, provider: str, story: Timeline, *, streams: bool) -> list[tuple[str, int, bytes]]:
    blocks = Blocks([WhoAsks()])
    parts: dict[str, Any] = {"clock": Noon(), "ids": CountingIds()}
    async with (
        open_app(settings_for(folder, provider), blocks=blocks, **parts) as lamella,
        serving(create_web(lamella)) as address,
        speaking(address) as client,
    ):
        previous: str | None = None
        for request in story(await furnished(lamella)):
            body: Any = to_openai(request)
            if previous is not None and request.parent_message_id is not None:
                body["previous_response_id"] = previous
            elif previous is not None:
                body["conversation"] = await newest(lamella)
            if streams:
                last = [event async for event in await client.responses.create(**body, stream=True)][-1]
                response = last.response
            else:
                response = await client.responses.create(**body)
            assert (response.status, bool(response.output_text)) == ("completed", True)
            previous = response.id
    return await sent_to(provider)


def speaking(address: str) -> openai.AsyncOpenAI:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="unused", http_client=http, max_retries=0)


@pytest.mark.parametrize("name", STORIES)
async def test_in_process_and_over_http_the_provider_gets_the_same_bytes(name: str, tmp_path: Path) -> None:
    async with serving(create_app(EXACT)) as first, serving(create_app(EXACT)) as second:
        library = await in_process(tmp_path / "library", first, STORIES[name])
        await emptied(tmp_path)
        http = await over_http(tmp_path / "http", second, STORIES[name], streams=len(name) % 2 == 0)
    assert len(library) >= 2, "the simulator may search, too"
    assert all(b"The user is Local user, role admin." in body for _, _, body in library)
    assert (b"Knowledge bases that can be searched here:" in library[0][2]) == (name == "bases and files")
    assert http == library


async def test_a_library_is_refused_as_a_client_would_be_and_leaves_nothing_behind(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Yes.")])
    async with open_app(read_settings(data=tmp_path), models=ScriptedModels(model)) as lamella:
        for request, error in (
            (ExecutionRequest(text=" "), InvalidRequest),
            (ExecutionRequest(text="Hi", extra_fields={"mood": "good"}), InvalidRequest),
            (ExecutionRequest(text="Hi", thinking_effort="much"), InvalidRequest),
            (ExecutionRequest(text="Hi", knowledge_base_ids=("kb_no",)), NotFound),
            (ExecutionRequest(text="Hi", conversation_id="conv_no"), NotFound),
            (ExecutionRequest(text="Hi", file_ids=("file_no",)), NotFound),
        ):
            with pytest.raises(error):
                await lamella.run(request)
        assert (await lamella.store.conversations.conversations(LOCAL_OWNER, PageQuery())).data == ()
        await answered_once(lamella)
    assert len(model.requests) == 1


async def answered_once(lamella: App) -> None:
    request = ExecutionRequest(text="Hi")
    first = await lamella.run(request, key="k")
    assert (await lamella.run(request, key="k")).id == first.id


async def test_the_maps_of_a_turn_say_what_stood_in_its_windows_and_whose_they_are(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Yes.", usage=Usage(input=900, cache_write_5m=800, output=2))])
    async with open_app(read_settings(data=tmp_path), models=ScriptedModels(model)) as lamella:
        turn = await lamella.run(ExecutionRequest(text="Hi", dynamic_context=("It rains.",)))
        [found] = await lamella.maps(turn.id)
        assert [one.segment.letters for one in found.segments if one.segment.letters] == ["S", "U1", "D"]
        assert sum(one.tokens for one in found.segments) == 900
        assert (found.record.turn_id, found.why.cause) == (turn.id, Cause.FIRST)
        stranger = replace(LOCAL_IDENTITY, caller=Caller("user_other"))
        with pytest.raises(NotFound):
            await lamella.maps(turn.id, stranger)
