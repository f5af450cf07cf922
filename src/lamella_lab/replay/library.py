"""The agents, projects and files of a trace, stored as those of a user: edited where the trace names them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace

from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.agents import Agent
from lamella.core.clock import Clock
from lamella.core.counting import ApproximateCounter
from lamella.core.errors import InvalidRequest
from lamella.core.ids import CountingIds, Ids
from lamella.core.json import digest
from lamella.core.messages import Image
from lamella.core.records import Caller, File, ProjectContent
from lamella.knowledge.extraction import ExtractionLimits, ProcessExtractor
from lamella.knowledge.file_uploads import FileUploads
from lamella.storage import Store
from lamella.storage.file_store import FileStore
from lamella_lab.trace.content import FileContent, content_of
from lamella_lab.trace.format import TraceAgent, TraceProject
from lamella_lab.trace.parts import TraceFile

OWNER = Caller("user_replay")

KEEPER = Caller("user_keeper")
"""Who owns the knowledge bases of a trace."""


class TraceIds(CountingIds):
    """Ids that are the same in every run, but for those that a trace gives."""

    def __init__(self) -> None:
        super().__init__()
        self._expected: defaultdict[str, list[str]] = defaultdict(list)

    def expect(self, prefix: str, id: str) -> None:
        """The next id with this prefix is this one."""
        self._expected[prefix].append(id)

    def new(self, prefix: str) -> str:
        """See `Ids`."""
        expected = self._expected[prefix]
        return expected.pop(0) if expected else super().new(prefix)


class TraceLibrary:
    """What a replay has stored so far, by name. An agent or project of a known name is edited."""

    def __init__(self, store: Store, uploads: FileStore, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        limits = ExtractionLimits()
        self._intake = FileUploads(store, uploads, ProcessExtractor(limits), clock, ids, limits.max_bytes)
        self._agents: dict[str, str] = {}
        self._projects: dict[str, str] = {}
        self._bases: set[str] = set()
        self._files: set[str] = set()
        """Those that were stored under an id of the trace's own."""
        self._project_files: dict[tuple[str, FileContent], str] = {}

    async def agent(self, agent: TraceAgent) -> str:
        """The id of the agent as it is now."""
        now, known = self._clock.now(), self._agents.get(agent.name)
        if known is None:
            id = self._agents[agent.name] = self._ids.new("agent")
            await self._store.library.add_agent(OWNER, _agent(id, agent), now)
            return id
        await self._store.library.change_agent(
            OWNER, known, lambda before: replace(_agent(known, agent), revision=before.revision), now
        )
        return known

    async def project(self, project: TraceProject) -> str:
        """The id of the project as it is now; a file that is the same as before is the same file."""
        file_ids = []
        for file in project.files:
            key = (file.id or file.name, content_of(file))
            if key not in self._project_files:
                self._project_files[key] = await self.file(file)
            file_ids.append(self._project_files[key])
        content = ProjectContent(project.name, project.instructions, tuple(file_ids))
        now, known = self._clock.now(), self._projects.get(project.name)
        if known is None:
            known = self._projects[project.name] = self._ids.new("proj")
            await self._store.library.add_project(OWNER, known, content, now)
        else:
            await self._store.library.change_project(OWNER, known, lambda _: content, now)
        return known

    async def grant(self, base: str, level: str) -> None:
        """Let the user of the trace read so much of a knowledge base, which is made if it is new."""
        now = self._clock.now()
        if not self._bases:
            for caller in (OWNER, KEEPER):
                await self._store.directory.add_user(User(caller.user_id, caller.user_id, Role.MEMBER, now))
        if base not in self._bases:
            self._bases.add(base)
            await self._store.access.add_base(KEEPER, base, BaseContent(base), now)
        await self._store.access.set_grant(KEEPER, base, Subject("user", OWNER.user_id), GrantLevel(level), now)

    async def file(self, file: TraceFile) -> str:
        """Store a file and give its id. A picture is read as an upload is, in a process of its own."""
        content = content_of(file)
        if file.id is not None:
            return await self._stored(file, file.id, content)
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
        await self._store.files.add_file(OWNER, row, text)
        return row.id

    async def _stored(self, file: TraceFile, id: str, content: FileContent) -> str:
        """Store a file as it was stored, once."""
        if id in self._files:
            return id
        self._files.add(id)
        tokens = file.tokens if file.tokens is not None else ApproximateCounter().count(content.text or "")
        row = File(
            id=id,
            name=file.name,
            media_type=content.media_type,
            size=content.size,
            status="ready" if file.unreadable is None else "failed",
            tokens=tokens,
            created_at=self._clock.now(),
            reason=file.unreadable,
            width=file.width,
            height=file.height,
        )
        image = None
        if content.data is not None:
            size = (file.width or 1, file.height or 1)
            image = Image(id, content.media_type, *size, digest(content.data), content.data)
        await self._store.files.add_file(OWNER, row, content.text, image)
        return id


def _agent(id: str, agent: TraceAgent) -> Agent:
    tools = tuple(agent.tools) if agent.tools is not None else None
    return Agent(
        id,
        agent.name,
        agent.prompt,
        agent.reminder,
        agent.replaces_system,
        tools,
        fallback_model=agent.fallback_model,
    )


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    yield data
