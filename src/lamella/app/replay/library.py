"""The agents, projects and files of a trace, stored as those of a user: edited where the trace names them again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from lamella.app.trace.content import FileContent, content_of
from lamella.app.trace.format import TraceAgent, TraceFile, TraceProject
from lamella.core.agents import Agent
from lamella.core.clock import Clock
from lamella.core.counting import ApproximateCounter
from lamella.core.errors import InvalidRequest
from lamella.core.ids import Ids
from lamella.core.ports import FileStore, Store
from lamella.core.records import Caller, File, ProjectContent
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.intake import Intake

OWNER = Caller("user_replay")


class TraceLibrary:
    """What a replay has stored so far, by name. An agent or project of a known name is edited."""

    def __init__(self, store: Store, uploads: FileStore, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        limits = ExtractionLimits()
        self._intake = Intake(store, uploads, ProcessExtractor(limits), clock, ids, limits.max_bytes)
        self._agents: dict[str, str] = {}
        self._projects: dict[str, str] = {}
        self._project_files: dict[tuple[str, FileContent], str] = {}

    async def agent(self, agent: TraceAgent) -> str:
        """The id of the agent as it is now."""
        now, known = self._clock.now(), self._agents.get(agent.name)
        if known is None:
            id = self._agents[agent.name] = self._ids.new("agent")
            new = Agent(id, agent.name, agent.prompt, agent.reminder, agent.replaces_system)
            await self._store.add_agent(OWNER, new, now)
            return id

        def edit(before: Agent) -> Agent:
            return replace(before, prompt=agent.prompt, reminder=agent.reminder, replaces_system=agent.replaces_system)

        await self._store.change_agent(OWNER, known, edit, now)
        return known

    async def project(self, project: TraceProject) -> str:
        """The id of the project as it is now; a file that is the same as before is the same file."""
        file_ids = []
        for file in project.files:
            key = (file.name, content_of(file))
            if key not in self._project_files:
                self._project_files[key] = await self.file(file)
            file_ids.append(self._project_files[key])
        content = ProjectContent(project.name, project.instructions, tuple(file_ids))
        now, known = self._clock.now(), self._projects.get(project.name)
        if known is None:
            known = self._projects[project.name] = self._ids.new("proj")
            await self._store.add_project(OWNER, known, content, now)
        else:
            await self._store.change_project(OWNER, known, lambda _: content, now)
        return known

    async def file(self, file: TraceFile) -> str:
        """Store a file and give its id. A picture is read as an upload is, in a process of its own."""
        content = content_of(file)
        if content.data is not None:
            stored = await self._intake.receive(OWNER, file.name, _whole(content.data))
            if stored.status == "failed":
                raise InvalidRequest(f"The picture “{file.name}” can't be read: {stored.reason}")
            return stored.id
        text = content.text or ""
        row = File(
            id=self._ids.new("file"),
            name=file.name,
            media_type=content.media_type,
            size=content.size,
            status="ready",
            tokens=ApproximateCounter().count(text),
            created_at=self._clock.now(),
        )
        await self._store.add_file(OWNER, row, text)
        return row.id


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data
