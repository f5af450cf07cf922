"""A running backend with restricted bases, a second model that says what an attacker wants, and readers who search.

A reader's question goes the way of every call of `knowledge_base_search`: grants, search, second model, guard, record.
Each attack has a reader of its own, so what is counted for a reader stops no later attack: the attacker's best case.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from structlog.testing import capture_logs

from lamella.app.app import App, open_app
from lamella.app.conversations import NewConversation
from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.prompt import WireRequest
from lamella.core.records import Caller
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, saying
from lamella.settings import read_settings
from lamella.storage.store import Store
from lamella.tooling.tool import Invocation, ToolScope
from lamella.tools.knowledge_base_search import KnowledgeBaseSearch, SearchLimits
from leaking.restricted_base import ANN, add, second_model

NO_LIMIT = SearchLimits(10**9, 10**9, 10**6)
PASSAGES = 20
"""Passages that a question asks for: the most that the tool allows."""


@dataclass(frozen=True, slots=True)
class Got:
    """What comes back for a question. `text` is the released summary; `asked` how often the second model was asked."""

    decision: str
    reason: str
    text: str
    asked: int


Answers = Callable[[str, str], str]
"""A second model: its instruction and the material go in, its answer comes out."""


@dataclass(slots=True)
class Playback:
    """The backend. `says` is the second model of the moment, `material` all that it was shown since `watch`."""

    app: App
    tool: KnowledgeBaseSearch
    second: ScriptedModel
    says: Answers = field(default=lambda prompt, material: "")
    material: list[str] = field(default_factory=list)
    bases: dict[str, str] = field(default_factory=dict)
    _readers: int = 0

    async def base(self, name: str, documents: Sequence[tuple[str, str]]) -> None:
        """A base of Ann's with these documents, by title and text, once all are ready."""
        app = self.app
        assert isinstance(app.store, Store)
        self.bases[name] = id = app.ids.new("kb")
        await app.access.add_base(ANN, id, BaseContent("Base"), app.clock.now())
        # A first restricted reader: what a base does only with such readers, it does while documents are indexed.
        await self.reader(name)
        for title, text in documents:
            await add(app, id, text, f"{title}.md")

    async def reader(self, name: str) -> ToolScope:
        """A conversation of somebody new who may use the base and not read it."""
        assert isinstance(self.app.store, Store)
        self._readers += 1
        user, now = f"user_reader{self._readers}", self.app.clock.now()
        await self.app.store.directory.add_user(User(user, user, Role.MEMBER, now))
        grant = Subject("user", user)
        await self.app.access.set_grant(ANN, self.bases[name], grant, GrantLevel.RESTRICTED, now)
        conversation = await self.app.conversations.create(Caller(user), NewConversation())
        return ToolScope(Caller(user), conversation.id, (), base_ids=(self.bases[name],))

    async def ask(self, scope: ToolScope, question: str, says: Answers, passages: int = PASSAGES) -> Got:
        """A call of the tool in a reader's conversation, answered by a second model that says this."""
        self.says, before = says, len(self.material)
        call = Invocation(self.app.ids.new("call"), {"query": question, "max_results": passages})
        content = json.loads((await self.tool.run(scope, call)).content)
        [part] = content["restricted"]
        return Got(part["decision"], part["reason"], part.get("summary", ""), len(self.material) - before)

    def heard(self, request: WireRequest) -> Sequence[ReplayEvent]:
        """Answer a request to the second model, and be ready for the next."""
        self.second.then_from(self.heard)
        prompt, material = told(self.second.body(request))
        self.material.append(material)
        return saying(self.says(prompt, material))


def told(body: Mapping[str, object]) -> tuple[str, str]:
    """The instruction and the material in the body of a request."""
    system = "\n".join(_strings(body.get("system", "")))
    return system, "\n".join(_strings(body["messages"]))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key not in ("role", "type"):
                yield from _strings(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _strings(part)


def passages(material: str) -> list[str]:
    """What the material shows of documents: the strings of each passage; what the reader asked is none of it."""
    at = material.find("{")
    given = json.loads(material[at:]) if at >= 0 else {}
    return ["\n".join(_strings(passage)) for passage in given.get("passages", ())]


def question_of(material: str) -> str:
    """The question in the material, as the second model reads it; empty if it is asked to write sentences anew.

    Passages have numbers of their own, so a digit anywhere in the material is no figure of the question.
    """
    at = material.find("{")
    given = json.loads(material[at:]) if at >= 0 else {}
    return str(given.get("question", ""))


@asynccontextmanager
async def staged() -> AsyncIterator[Playback]:
    """A backend in a folder of its own, without bases yet."""
    with tempfile.TemporaryDirectory() as folder, capture_logs():
        second = second_model()
        given = read_settings(
            data=Path(folder),
            restricted_model="second",
            restricted_answers_per_day=0,
            restricted_short_answers_per_day=0,
            provider_retries=0,
            titles=False,
            knowledge_summaries=False,
        )
        async with open_app(given, models=ScriptedModels(ScriptedModel(), second)) as app:
            assert isinstance(app.store, Store)
            await app.store.directory.add_user(User(ANN.user_id, "Ann", Role.MEMBER, app.clock.now()))
            stage = Playback(app, KnowledgeBaseSearch(app.knowledge.reader, NO_LIMIT), second)
            second.then_from(stage.heard)
            yield stage
            await asyncio.sleep(0)
