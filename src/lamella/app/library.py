"""Agents, projects and versions of the system prompt, validated and stored.

A project's files are included in the window if they fit, otherwise the model searches them. This is found by assembling
the first request of a new conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from lamella.app.idempotency import CreationRequest, IdempotentCreation
from lamella.app.providers import Models
from lamella.context.assemble import assemble
from lamella.context.choices import INCLUDED, subject_of
from lamella.context.documents import has_content, key_of
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.layouts import DEFAULT
from lamella.core.agents import Agent, Project, check_prompt
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded, InvalidRequest, NotFound
from lamella.core.ids import Ids
from lamella.core.messages import Attachment, Image, Turn, UserMessage
from lamella.core.models import ModelFacts, effort_named
from lamella.core.prompt import Sampling, ToolSpec
from lamella.core.records import Caller, File, Page, PageQuery, ProjectContent, StoredAgent, StoredProject, SystemPrompt
from lamella.core.settings import EngineSettings
from lamella.core.tokens import TokenCounter
from lamella.storage import Store
from lamella.tooling.tool import Registry
from lamella.turns.effective_settings import layout_named

QUESTION = "?"
NO_TEXT = "it has no text that could be read"


class FileReach(StrEnum):
    """Where the model finds a file."""

    IN_CONTEXT = "in_context"
    SEARCHED = "searched"
    LEFT_OUT = "left_out"
    """It has no text, or it is a picture that the model does not see or that does not fit."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Where the model finds a file, and why."""

    place: FileReach
    why: str


@dataclass(frozen=True, slots=True)
class ProjectWindow:
    """The initial settings of a new conversation, besides the project."""

    model: ModelFacts
    budget: int
    layout: Layout
    system: str
    tools: tuple[ToolSpec, ...]


def placed(project: StoredProject, window: ProjectWindow) -> dict[str, FileLocation]:
    """For each file id, where the model finds it in a new conversation."""
    held = [_sized(file, number) for number, file in enumerate(project.files, start=1)]
    moment = datetime(2000, 1, 1, tzinfo=UTC)
    message = UserMessage("message", QUESTION, moment, "UTC", count_tokens(QUESTION))
    context = ContextInput(
        model=window.model,
        budget=window.budget,
        sampling=Sampling(1),
        system=window.system,
        tools=window.tools,
        history=(),
        turn=Turn("turn", message),
        calibration=window.model.token_factor,
        project=Project(project.id, project.name, project.instructions, tuple(held), project.revision),
    )
    try:
        decisions = assemble(context, window.layout).decisions
    except ContextLengthExceeded as error:
        return {one.file_id: FileLocation(FileReach.SEARCHED, error.message) for one in held}
    return {one.file_id: _place(one, window.model, decisions) for one in held}


def _sized(file: File, number: int) -> Attachment:
    """A file without its content: only sizes matter, and they are known."""
    image = None
    if file.width is not None and file.height is not None:
        image = Image(file.id, file.media_type, file.width, file.height, "", b"")
    text = "" if file.status == "ready" and image is None else None
    return Attachment(file.id, number, file.name, file.media_type, file.size, file.tokens, text, image=image)


def _place(file: Attachment, model: ModelFacts, decisions: Sequence[Decision]) -> FileLocation:
    if file.image is not None and model.images is None:
        return FileLocation(FileReach.LEFT_OUT, f"{model.name} sees no pictures")
    if not has_content(file, model):
        return FileLocation(FileReach.LEFT_OUT, NO_TEXT)
    about = subject_of(key_of(file), model.name)
    found = [d for d in decisions if d.kind is DecisionKind.PROJECT or d.subject == about]
    if not found:
        return FileLocation(FileReach.IN_CONTEXT, f"“{file.title}” fits the window of {model.name}")
    if found[-1].outcome == INCLUDED:
        return FileLocation(FileReach.IN_CONTEXT, found[-1].why)
    return FileLocation(FileReach.SEARCHED if file.image is None else FileReach.LEFT_OUT, found[-1].why)


MAX_PROJECT_FILES = 100

Given = Mapping[str, Any]
"""The fields that a request names, checked for their types, by the names of `Agent` or `ProjectContent`."""


@dataclass(frozen=True, slots=True)
class Library:
    """The agents, projects and system prompts of every user."""

    store: Store
    models: Models
    registry: Registry
    layouts: Mapping[str, Layout]
    settings: EngineSettings
    counter: TokenCounter
    shipped: str
    once: IdempotentCreation
    clock: Clock
    ids: Ids
    files_held: Callable[[], None] = lambda: None
    """Called when a project's files changed."""

    # Agents

    async def create_agent(self, caller: Caller, fields: Given, key: str | None = None) -> StoredAgent:
        """Create an agent. Raises `InvalidRequest` for unknown tools, model or layout, and for one that replaces the
        system prompt without a prompt.
        """
        await self._check_agent(fields, fields.get("model"))
        _checked(Agent("", **fields))

        async def make(id: str) -> StoredAgent:
            return await self.store.library.add_agent(caller, Agent(id, **fields), self.clock.now())

        return await self.once.create(
            caller,
            CreationRequest(key, "agents", fields),
            self.ids.new("agent"),
            lambda id: self.store.library.agent(caller, id),
            make,
        )

    async def change_agent(self, caller: Caller, agent_id: str, fields: Given) -> StoredAgent:
        """The agent with these fields; raises `InvalidRequest` as `create_agent` does."""
        before = (await self.store.library.agent(caller, agent_id)).agent
        await self._check_agent(fields, fields.get("model", before.model))
        return await self.store.library.change_agent(
            caller, agent_id, lambda now: _checked(replace(now, **fields)), self.clock.now()
        )

    async def _check_agent(self, fields: Given, model: str | None) -> None:
        _check_filled(fields, "name")
        if (tools := fields.get("tools")) is not None:
            self._check_tools(tools)
        if (layout := fields.get("layout")) is not None:
            layout_named(layout, self.layouts)
        if fields.get("model") is not None:
            self.models.facts(fields["model"])
        if fields.get("fallback_model") is not None:
            self._check_fallback(fields["fallback_model"])
        if fields.get("thinking_effort") is not None:
            effort_named(fields["thinking_effort"])
        for name in ("prompt", "reminder"):
            if fields.get(name):
                await self._check_fits(fields[name], name, model)

    def _check_fallback(self, name: str) -> None:
        try:
            self.models.facts(name)
        except InvalidRequest as error:
            raise InvalidRequest(error.message, hint=error.hint, param="fallback_model") from None

    def _check_tools(self, names: tuple[str, ...]) -> None:
        there = [tool.name for tool in self.registry.specs()]
        unknown = next((name for name in names if name not in there), None)
        if unknown is not None:
            choices = "Choose from " + ", ".join(there) + "." if there else "This server has no tools."
            raise InvalidRequest(f"There is no tool “{unknown}”.", hint=choices, param="tools")
        if len(set(names)) != len(names):
            raise InvalidRequest("A tool is named twice.", hint="Name each tool once.", param="tools")

    async def _check_fits(self, text: str, param: str, model: str | None) -> None:
        """A text that no request of this model could hold is refused before anybody waits for an answer."""
        facts = self.models.facts(model or self.models.default)
        tokens = round(await asyncio.to_thread(self.counter.count, text) * facts.token_factor)
        budget = self.settings.budget(facts)
        if tokens > budget:
            raise InvalidRequest(
                f"This text has about {tokens:,} tokens; {facts.name} takes {budget:,} in all.",
                hint="Shorten it, or move its content into files of a project.",
                param=param,
            )

    # Projects

    async def create_project(self, caller: Caller, content: ProjectContent, key: str | None = None) -> StoredProject:
        """A new project; raises `InvalidRequest` for files that it can't hold, `NotFound` for foreign ones."""
        _check_project(content)

        async def make(id: str) -> StoredProject:
            return await self.store.library.add_project(caller, id, content, self.clock.now())

        made = await self.once.create(
            caller,
            CreationRequest(key, "projects", content),
            self.ids.new("proj"),
            lambda id: self.store.library.project(caller, id),
            make,
        )
        self.files_held()
        return made

    async def change_project(
        self, caller: Caller, project_id: str, edit: Callable[[ProjectContent], ProjectContent]
    ) -> StoredProject:
        """The project as `edit` makes it; raises as `create_project` does."""

        def checked(before: ProjectContent) -> ProjectContent:
            after = edit(before)
            _check_project(after)
            return after

        changed = await self.store.library.change_project(caller, project_id, checked, self.clock.now())
        self.files_held()
        return changed

    async def places(
        self, caller: Caller, project_id: str, model: str, layout: str | None
    ) -> tuple[StoredProject, dict[str, FileLocation]]:
        """A project, and where a model finds its files, in a layout or the default one.

        Raises `NotFound`, and `InvalidRequest` for an unknown model or layout.
        """
        facts = self.models.facts(model)
        table = layout_named(layout or DEFAULT, self.layouts)
        project = await self.store.library.project(caller, project_id)
        system = (await self.current_prompt(caller)).text
        window = ProjectWindow(facts, self.settings.budget(facts), table, system, tuple(self.registry.specs()))
        return project, await asyncio.to_thread(placed, project, window)

    async def add_project_file(self, caller: Caller, project_id: str, file_id: str) -> StoredProject:
        """The project with this file added last; a file that it has keeps its place."""

        def added(now: ProjectContent) -> ProjectContent:
            return now if file_id in now.file_ids else replace(now, file_ids=(*now.file_ids, file_id))

        return await self.change_project(caller, project_id, added)

    async def remove_project_file(self, caller: Caller, project_id: str, file_id: str) -> StoredProject:
        """The project without this file. Raises `NotFound` if it does not have it."""

        def removed(now: ProjectContent) -> ProjectContent:
            if file_id not in now.file_ids:
                raise NotFound(f"The project has no file {file_id}.", param="file_id")
            return replace(now, file_ids=tuple(held for held in now.file_ids if held != file_id))

        return await self.change_project(caller, project_id, removed)

    # System prompts

    @property
    def shipped_prompt(self) -> SystemPrompt:
        """Version 0: the shipped one."""
        return SystemPrompt(0, self.shipped, "The one that ships.")

    async def current_prompt(self, caller: Caller) -> SystemPrompt:
        """The newest version, which new conversations use."""
        return await self.store.library.newest_system_prompt(caller) or self.shipped_prompt

    async def prompt(self, caller: Caller, version: int) -> SystemPrompt:
        """One version; raises `NotFound`."""
        return self.shipped_prompt if version == 0 else await self.store.library.system_prompt(caller, version)

    async def prompts(self, caller: Caller, query: PageQuery) -> Page[SystemPrompt]:
        """The versions; the shipped one is the oldest."""
        if query.order == "asc" and query.after is None:
            rest = await self.store.library.system_prompts(caller, replace(query, after="0"))
            kept = rest.data[: query.limit - 1]
            return Page((self.shipped_prompt, *kept), rest.has_more or len(kept) < len(rest.data))
        found = await self.store.library.system_prompts(caller, query)
        if query.order == "asc" or found.has_more or query.after == "0":
            return found
        if len(found.data) == query.limit:
            return Page(found.data, has_more=True)
        return Page((*found.data, self.shipped_prompt), has_more=False)

    async def write_prompt(self, caller: Caller, text: str, note: str, key: str | None = None) -> SystemPrompt:
        """A new version; raises `InvalidRequest` for an empty text."""
        _check_filled({"text": text}, "text")
        await self._check_fits(text, "text", None)

        async def find(version: str) -> SystemPrompt:
            found = await self.store.library.system_prompt(caller, int(version))
            if (found.text, found.note) != (text, note):  # a process ended between the key and its version
                raise NotFound(f"Version {version} has another text.")
            return found

        async def make(version: str) -> SystemPrompt:
            return await self.store.library.add_system_prompt(caller, text, note, self.clock.now())

        following = (await self.current_prompt(caller)).version + 1
        request = CreationRequest(key, "system-prompts", [text, note])
        return await self.once.create(caller, request, str(following), find, make)


def _check_filled(fields: Given, *names: str) -> None:
    for name in names:
        if name in fields and not fields[name].strip():
            raise InvalidRequest(f"The {name} is empty.", hint="Write something.", param=name)


def _checked(agent: Agent) -> Agent:
    check_prompt(agent.prompt, replaces_system=agent.replaces_system)
    return agent


def _check_project(content: ProjectContent) -> None:
    _check_filled({"name": content.name}, "name")
    if len(content.file_ids) > MAX_PROJECT_FILES:
        raise InvalidRequest(
            f"A project can have {MAX_PROJECT_FILES} files at most.", hint="Make another project.", param="file_ids"
        )
    if len(set(content.file_ids)) != len(content.file_ids):
        raise InvalidRequest("A file is named twice.", hint="Name each file once.", param="file_ids")
