"""Breaks that are planted in what real clients really sent: `why` names each to the block and the byte.

A client has a conversation with a server that adds nothing. Of two requests that follow each other, the second is
changed; both are sent again, through a gateway to the simulator. Where the change is, `planting` finds by itself.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random

import pytest

from lamella.server.testing import served
from lamella.settings import Settings, read_settings
from lamella_simulator.provider import Provider, simulated

from .conftest import PROGRAMS, Door, Object, calls
from .install import place
from .planting import DIALECTS, PLANTS, Place, Planted, first_difference

pytestmark = [pytest.mark.anyio, pytest.mark.long]
PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "responses": "/v1/responses"}
TIMES = 2
"""So often each change is planted, at another place."""


def settings_of(provider: Provider, data: Path, **more: object) -> Settings:
    return read_settings(
        data=data,
        anthropic_api_key="sk-upstream",
        anthropic_base_url=provider.url,
        openai_api_key="sk-upstream",
        openai_base_url=provider.openai_url,
        **more,
    )


@pytest.fixture
async def door(provider: Provider, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Door]:
    """A server that adds nothing: what comes to the simulator is what the client wrote."""
    settings = settings_of(provider, tmp_path / "data", gateway_markers=False, gateway_usage=False)
    home = tmp_path / "home"
    home.mkdir()
    async with served(settings) as (app, client):
        yield Door(app, client, provider, home)


async def sent(door: Door, dialect: str) -> list[Object]:
    """The bodies of the conversation in this dialect, oldest first."""
    lines = await door.lines()
    [line] = [one for one in lines if one["label"] == "conversation" and one["dialect"] == dialect]
    bodies = {record.request_id: record.json for record in door.provider.requests}
    return [bodies[request["provider_request_id"]] for request in await door.requests(line)]


class Replays:
    """A gateway to a simulator that takes any history."""

    def __init__(self, door: Door) -> None:
        self._client, self._door = door.client, door
        self.named: Counter[str] = Counter()

    def answers(self, script: dict[str, Object]) -> dict[str, Object]:
        """Answer as the client was answered: what it keeps of an answer names its conversation."""
        self._door.provider.script(script)
        return script

    async def plant(self, name: str, dialect: str, bodies: Sequence[Object], *, session: bool) -> None:
        """Send a conversation whose last body is changed, and hold what is found against where the change is."""
        number = self.named.total()
        headers = {"x-session-id": f"planted-{number}"} if session else {}
        breaks, bills = 0, []
        for body in bodies:
            data = json.dumps(body, ensure_ascii=bool(number % 2), indent=number % 3 or None).encode()
            answer = await self._client.http.post(PATHS[dialect], content=data, headers=headers)
            assert answer.status_code == 200, (name, answer.text)
            lines = [one for one in await self._door.lines() if one["session"] == headers.get("x-session-id")]
            assert len(lines) == 1, (name, bodies.index(body), lines)
            breaks, before = lines[0]["breaks"], breaks
        requests = await self._door.requests(lines[0])
        assert len(requests) == len(bodies), name
        bills = [request["usage"] for request in requests[-2:]]
        is_small = bills[1]["cache_read"] >= 0.98 * (bills[0]["cache_read"] + bills[0]["cache_write"])
        found = await self._client.get(f"/requests/{lines[0]['request_id']}/diff")
        place = first_difference(dialect, *bodies[-2:])
        try:
            self._check(PLANTS[name], place, found, breaks - before, is_small=is_small)
        except AssertionError as error:
            raise AssertionError(f"{name}: {place} {found}") from error
        self.named[name if not is_small else f"{name}, which costs little"] += 1
        for line in lines if not session else ():
            await self._client.call("DELETE", f"/conversations/{line['id']}")

    def _check(self, planted: Planted, place: Place | None, found: Object, breaks: int, *, is_small: bool) -> None:
        """`is_small`: what was not read is less than a change is told for; its place is named all the same."""
        told = found["difference"]
        assert (told is None) is (place is None), found
        if told is not None and place is not None:
            assert (told["block"], told["byte"]) == place, found
        if planted.causes is None or is_small:
            assert found["cause"] == "read", found
            assert breaks == 0
        else:
            assert found["cause"] in planted.causes, found
            assert breaks == 1


@pytest.fixture
async def replays(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Replays]:
    options = {"require_beta_headers": False, "prefix_check_enforced": False, "missing_thinking_refused": False}
    with simulated(**options) as provider:
        async with served(settings_of(provider, tmp_path / "replays")) as (app, client):
            yield Replays(Door(app, client, provider, tmp_path))


async def plant_all(replays: Replays, dialect: str, bodies: list[Object], *, session: bool = False) -> int:
    """Plant all that has a place in the last of these bodies. Returns how many were named."""
    fits = first_difference(dialect, *bodies[-2:]) is None
    earlier = bodies[:-1] if fits else bodies
    for name, planted in PLANTS.items():
        if planted.only not in ("", dialect):
            continue
        seen: list[Object] = []
        for seed in range(TIMES):
            try:
                made = [planted.of(dialect, body, bodies[-1], Random(seed)) for body in earlier]
            except (LookupError, StopIteration, ValueError):  # this client sends nothing of the kind
                continue
            if (last := made[-1][1]) not in seen:
                seen.append(last)
                await replays.plant(name, dialect, [*(body for body, _ in made), last], session=session)
    sys.stdout.write(f"{dialect}: {replays.named}\n")
    return replays.named.total()


async def test_claude_code(door: Door, replays: Replays) -> None:
    path = door.write("hello.txt", "The lamp is green.\n")
    door.provider.script(replays.answers(calls("hello.txt", "Read", {"file_path": path}, reasoning="I read it.")))
    asked = ("--model", "claude-opus-5-5", "--allowedTools", "Read")
    await door.run("claude-code", "-p", "What is in hello.txt?", *asked)
    await door.run("claude-code", "-c", "-p", "And the ships?", *asked)
    assert await plant_all(replays, "anthropic", await sent(door, "anthropic"), session=True) >= 25


async def test_codex(door: Door, replays: Replays) -> None:
    door.write("hello.txt", "The lamp is green.\n")
    code = "const r = await tools.exec_command({cmd: 'cat hello.txt'}); text(r.output ?? r);"
    door.provider.script(replays.answers(calls("hello.txt", "exec", {"input": code})))
    asked = ("--skip-git-repo-check", "-c", f'openai_base_url="{door.url}/v1"', "-m", "gpt-6.1-terra")
    await door.run("codex", "exec", *asked, "What is in hello.txt?")
    await door.run("codex", "exec", "resume", "--last", *asked, "And the ships?")
    assert await plant_all(replays, "responses", await sent(door, "responses"), session=True) >= 20


async def test_aider(door: Door, replays: Replays) -> None:
    path = door.write("hello.txt", "The lamp is green. " * 400)
    asked = ("--model", "openai/gpt-6.1-terra", "--file", path, "--yes-always", "--no-gitignore", "--no-git")
    quiet = ("--no-pretty", "--no-fancy-input", "--no-check-update", "--no-analytics", "--no-show-model-warnings")
    await door.run("aider", *asked, *quiet, typed="What is in hello.txt?\nThank you\n")
    assert await plant_all(replays, "openai", await sent(door, "openai")) >= 15


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_langchain(door: Door, replays: Replays, dialect: str) -> None:
    door.provider.script(replays.answers(calls("in the tower", "look", {"place": "the tower"})))
    await door.run("langchain", str(PROGRAMS / "langchain_models.py"))
    assert await plant_all(replays, dialect, await sent(door, dialect)) >= 25


@pytest.mark.parametrize("dialect", ["anthropic", "responses"])
async def test_the_ai_sdk(door: Door, replays: Replays, dialect: str) -> None:
    door.provider.script(replays.answers(calls("in the tower", "look", {"place": "the tower"})))
    if place("ai-sdk").exists():
        (door.home / "node_modules").symlink_to(place("ai-sdk") / "node_modules")
    await door.run("ai-sdk", door.write("ai_sdk.mjs", (PROGRAMS / "ai_sdk.mjs").read_text()))
    assert await plant_all(replays, dialect, await sent(door, dialect)) >= 25
