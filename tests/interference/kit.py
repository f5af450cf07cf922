"""Law 9: what a caller gets does not depend on text that they may not read.

The same story is told on two servers that differ in protected text alone, and everything that leaves them for the
caller of the story is compared: requests to models, HTTP answers with their packets, logs. Requests to the second
model, which reads what is restricted, stay inside. What a test brings is how the text is planted (a foreign
conversation, a base with a restricted grant) and what the caller does.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from lamella.app.app import App, open_app
from lamella.chat.dynamic_context import Blocks, BlockScope, DynamicContextProvider
from lamella.core.clock import SystemClock
from lamella.core.ids import CountingIds
from lamella.core.json import Json, encode_text
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import ServerClient, authentication_of, serving
from lamella.server.testing import client as connected
from lamella.server.web import create_web
from lamella.settings import read_settings
from leaking.restricted_base import second_model

_ID = re.compile(r"\b(?:([a-z]+)_[0-9]{6}|(lam)_[0-9a-z]{8})\b")
_DURATION = re.compile(r'"(seconds|ms|took_ms)":\s*[0-9.e+-]+')


DECLARED = ("chunks", "passages")
"""What a log tells of passages with restricted access, by docs/explanation/restricted.md: their ids and lengths."""


class StandingClock(SystemClock):
    """It is always the same moment, so that two servers say the same of it; waiting takes as long as ever."""

    def now(self) -> datetime:
        return datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Left:
    """Everything that left a server while a story was told, in order, each with what it was."""

    things: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, text: str) -> None:
        """Something left."""
        self.things.append((what, text))

    def normalised(self) -> list[tuple[str, str]]:
        """The same with ids by their first appearance and without durations: these are of a server, not of a text."""
        names: dict[str, str] = {}

        def named(found: re.Match[str]) -> str:
            return names.setdefault(found[0], f"{found[1] or found[2]}#{len(names)}")

        return [(_ID.sub(named, what), _DURATION.sub(r'"\1":0', _ID.sub(named, text))) for what, text in self.things]


@dataclass(frozen=True)
class World:
    """A server with its owner of protected text (Ann), and the caller of the story (Bob), who has a key of his own."""

    app: App
    model: ScriptedModel
    second: ScriptedModel
    ann: ServerClient
    bob: ServerClient
    ids: dict[str, str]
    left: Left

    async def ask(self, method: str, path: str, body: Json = None, **headers: str) -> Any:
        """Bob asks; the whole answer counts as what leaves, but for the number and the time of the answer."""
        content = None if body is None else encode_text(body)
        given = {"content-type": "application/json", **headers}
        answer = await self.bob.call(method, path, content=content, headers=given)
        shown = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
        self.left.add(f"{method} {path}", f"{answer.status_code} {sorted(shown.items())} {answer.text}")
        return answer.json() if answer.headers.get("content-type") == "application/json" else answer.text


Plant = Callable[[World, str], Awaitable[None]]
"""Puts the protected text where Ann has it, and what the story needs of that into `ids`."""

Timeline = Callable[[World], Awaitable[None]]
"""What Bob does, by `World.ask`."""


@dataclass
class Later:
    """A provider of dynamic context that is made from the app, after that was opened with it."""

    name: str = "later"
    order: int = 0
    made: DynamicContextProvider | None = None

    async def block(self, scope: BlockScope) -> str | None:
        return None if self.made is None else await self.made.block(scope)


async def told(
    folder: Path,
    protected: str,
    plant: Plant,
    story: Timeline,
    settings: Mapping[str, object] | None = None,
    blocks: Callable[[App], DynamicContextProvider] | None = None,
) -> Left:
    """What leaves a server over `folder` while the story is told, once the text is planted."""
    model, second, left, later = ScriptedModel(), second_model(), Left(), Later()
    beside: dict[str, object] = {"debounce_ms": 0, "titles": False, "restricted_model": second.facts.name}
    given = read_settings(data=folder, **beside, **(settings or {}))
    async with AsyncExitStack() as stack:
        models = ScriptedModels(model, second)
        app = await stack.enter_async_context(
            open_app(given, models=models, blocks=Blocks([later]), clock=StandingClock(), ids=CountingIds())
        )
        later.made = None if blocks is None else blocks(app)
        address = await stack.enter_async_context(serving(create_web(app, authentication_of(app))))
        first = await stack.enter_async_context(connected(address))
        key = await first.set_up()
        ann = await stack.enter_async_context(connected(address, authorization=f"Bearer {key}"))
        user = await ann.post("/users", {"name": "Bob"})
        secret = user["key"]["secret"]
        bob = await stack.enter_async_context(connected(address, authorization=f"Bearer {secret}"))
        world = World(app, model, second, ann, bob, {"bob": user["id"]}, left)
        await plant(world, protected)
        asked = len(model.requests)
        with capture_logs() as logs:
            await story(world)
        for request in model.requests[asked:]:
            left.add("a request to the model", encode_text(model.body(request)))
        for line in logs:
            left.add("a line of the log", str(sorted((key, line[key]) for key in line if key not in DECLARED)))
    return left


async def differences(
    folder: Path,
    texts: tuple[str, str],
    plant: Plant,
    story: Timeline,
    settings: Mapping[str, object] | None = None,
    blocks: Callable[[App], DynamicContextProvider] | None = None,
) -> list[str]:
    """What leaves two servers and is not the same, where only the protected text differs; or what holds that text."""
    both = [await told(folder / str(number), text, plant, story, settings, blocks) for number, text in enumerate(texts)]
    found = [
        f"{left}\nis with the other text\n{right}"
        for left, right in zip_longest(*(left.normalised() for left in both))
        if left != right
    ]
    canaries = [word for text in texts for word in re.findall(r"CANARY-\w+", text)]
    held = [
        f"{canary} in {what}: {text}"
        for left in both
        for what, text in left.things
        for canary in canaries
        if canary in text
    ]
    assert all(len(left.things) > 3 for left in both), "the story says next to nothing"
    return found + held
