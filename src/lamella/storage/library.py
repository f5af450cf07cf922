"""Agents, projects and the versions of the system prompt, and how often each was edited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update

from lamella.core.agents import Agent
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Caller, File, Page, PageQuery, ProjectContent, StoredAgent, StoredProject, SystemPrompt
from lamella.storage.database import Rows, reads, writes
from lamella.storage.files import find_files
from lamella.storage.keys import forget_keys
from lamella.storage.knowledge.documents import index_files
from lamella.storage.rows import find_row, owned_by, page, page_rows, record, values
from lamella.storage.tables import agents, files, project_files, projects, system_prompts


def find_agent(connection: Connection, caller: Caller, agent_id: str) -> StoredAgent:
    """The caller's agent."""
    return _agent_of(find_row(connection, agents, caller, agent_id, "agent"))


def _agent_of(row: RowMapping) -> StoredAgent:
    return record(StoredAgent, row, agent=record(Agent, row))


class LibraryRows(Rows):
    """Agents, projects, and the versions of the system prompt."""

    @writes
    def add_agent(self, connection: Connection, caller: Caller, agent: Agent, at: datetime) -> StoredAgent:
        """Store a new agent of the caller."""
        row = values(agents, agent, owner=caller.user_id, created_at=at, updated_at=at)
        connection.execute(insert(agents), row)
        return find_agent(connection, caller, agent.id)

    @reads
    def agent(self, connection: Connection, caller: Caller, agent_id: str) -> StoredAgent:
        """One agent."""
        return find_agent(connection, caller, agent_id)

    @reads
    def agents(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[StoredAgent]:
        """The caller's agents."""
        own = select(agents).where(agents.c.owner == caller.user_id)
        return page(connection, own, agents.c.id, query, _agent_of)

    @writes
    def change_agent(
        self, connection: Connection, caller: Caller, agent_id: str, edit: Callable[[Agent], Agent], at: datetime
    ) -> StoredAgent:
        """Store what `edit` makes of it, in one transaction; a difference is a new revision."""
        before = find_agent(connection, caller, agent_id).agent
        after = edit(before)
        if after != before:
            changed = values(agents, replace(after, id=before.id, revision=before.revision + 1), updated_at=at)
            connection.execute(update(agents).where(*owned_by(agents, caller, agent_id)).values(**changed))
        return find_agent(connection, caller, agent_id)

    @writes
    def delete_agent(self, connection: Connection, caller: Caller, agent_id: str) -> None:
        """Remove it; its conversations go on without it."""
        find_agent(connection, caller, agent_id)
        forget_keys(connection, caller, agent_id)
        connection.execute(delete(agents).where(*owned_by(agents, caller, agent_id)))

    @writes
    def add_system_prompt(
        self, connection: Connection, caller: Caller, text: str, note: str, at: datetime
    ) -> SystemPrompt:
        """Store a new version: the one after the newest."""
        column = system_prompts.c
        newest = select(func.coalesce(func.max(column.version), 0)).where(column.owner == caller.user_id)
        version = connection.execute(newest).scalar_one() + 1
        made = SystemPrompt(version, text, note, at)
        connection.execute(insert(system_prompts), values(system_prompts, made, owner=caller.user_id))
        return made

    @reads
    def system_prompt(self, connection: Connection, caller: Caller, version: int) -> SystemPrompt:
        """One stored version; the one that ships, 0, is not stored."""
        query = select(system_prompts).where(
            system_prompts.c.owner == caller.user_id, system_prompts.c.version == version
        )
        row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFound(f"There is no version {version} of the system prompt.", param="system_prompt_version")
        return record(SystemPrompt, row)

    @reads
    def newest_system_prompt(self, connection: Connection, caller: Caller) -> SystemPrompt | None:
        """The newest stored version, None when the caller wrote none."""
        own = select(system_prompts).where(system_prompts.c.owner == caller.user_id)
        query = own.order_by(system_prompts.c.version.desc()).limit(1)
        row = connection.execute(query).mappings().first()
        return None if row is None else record(SystemPrompt, row)

    @reads
    def system_prompts(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[SystemPrompt]:
        """The stored versions; `query.after` is a version."""
        own = select(system_prompts).where(system_prompts.c.owner == caller.user_id)
        if query.after is not None:
            version_of(query.after, "after")
        return page(connection, own, system_prompts.c.version, query, partial(record, SystemPrompt))

    @writes
    def add_project(
        self, connection: Connection, caller: Caller, project_id: str, content: ProjectContent, at: datetime
    ) -> StoredProject:
        """Store a new project of the caller; raises `InvalidRequest` for a file that has no text to give."""
        new = {"id": project_id, "owner": caller.user_id, "revision": 1, "created_at": at, "updated_at": at}
        connection.execute(insert(projects), values(projects, content, **new))
        held = _hold(connection, caller, project_id, content.file_ids)
        index_files(connection, self._ids, caller.user_id, held, at)
        return find_project(connection, caller, project_id)

    @reads
    def project(self, connection: Connection, caller: Caller, project_id: str) -> StoredProject:
        """One project."""
        return find_project(connection, caller, project_id)

    @reads
    def projects(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[StoredProject]:
        """The caller's projects."""
        own = select(projects).where(projects.c.owner == caller.user_id)
        rows = page_rows(connection, own, projects.c.id, query)
        return Page(_projects_of(connection, caller, rows.data), rows.has_more)

    @writes
    def change_project(
        self,
        connection: Connection,
        caller: Caller,
        project_id: str,
        edit: Callable[[ProjectContent], ProjectContent],
        at: datetime,
    ) -> StoredProject:
        """Store what `edit` makes of it, in one transaction; a difference is a new revision.

        Raises `InvalidRequest` for a file that has no text to give.
        """
        project = find_project(connection, caller, project_id)
        before = project.content
        after = edit(before)
        if after != before:
            changed = values(projects, after, revision=project.revision + 1, updated_at=at)
            connection.execute(update(projects).where(*owned_by(projects, caller, project_id)).values(**changed))
            if after.file_ids != before.file_ids:
                held = _hold(connection, caller, project_id, after.file_ids)
                index_files(connection, self._ids, caller.user_id, held, at)
        return find_project(connection, caller, project_id)

    @writes
    def delete_project(self, connection: Connection, caller: Caller, project_id: str) -> None:
        """Remove it; its files stay, and its conversations go on without it."""
        find_project(connection, caller, project_id)
        forget_keys(connection, caller, project_id)
        connection.execute(delete(projects).where(*owned_by(projects, caller, project_id)))


LARGEST = 2**31 - 1


def version_of(text: str, param: str) -> int:
    """The version that a client wrote. Raises `InvalidRequest` if it is not a version."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise InvalidRequest(
            f"“{text[:40]}” is no version of a system prompt.", hint="Versions are numbers, from 0.", param=param
        )
    return min(int(text), LARGEST)


def _files(connection: Connection, caller: Caller, project_ids: Sequence[str]) -> Mapping[str, Sequence[File]]:
    """The files of these projects, in order, by project."""
    query = (
        select(project_files.c.project_id, *files.c)
        .join(files, files.c.id == project_files.c.file_id)
        .where(project_files.c.project_id.in_(project_ids), project_files.c.owner == caller.user_id)
        .order_by(project_files.c.project_id, project_files.c.position)
    )
    found: defaultdict[str, list[File]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        found[row["project_id"]].append(record(File, row))
    return found


def find_project(connection: Connection, caller: Caller, project_id: str) -> StoredProject:
    """The caller's project."""
    [found] = _projects_of(connection, caller, [find_row(connection, projects, caller, project_id, "project")])
    return found


def _projects_of(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> tuple[StoredProject, ...]:
    held = _files(connection, caller, [row["id"] for row in rows])
    return tuple(record(StoredProject, row, files=tuple(held.get(row["id"], ()))) for row in rows)


def _check_readable(file: File) -> None:
    """A project holds documents and pictures; raises `InvalidRequest` for what could not be read."""
    if file.status == "failed":
        raise InvalidRequest(
            f"“{file.name}” could not be read: {file.reason or 'there is no text in it'}.",
            hint="Upload it in another form, and add that.",
            param="file_ids",
        )


def _hold(connection: Connection, caller: Caller, project_id: str, file_ids: Sequence[str]) -> list[File]:
    """Make these the files of a project; gives them."""
    held = find_files(connection, caller, file_ids)
    for file in held:
        _check_readable(file)
    before = (project_files.c.project_id == project_id, project_files.c.owner == caller.user_id)
    connection.execute(delete(project_files).where(*before))
    rows = [
        {"project_id": project_id, "file_id": file_id, "owner": caller.user_id, "position": position}
        for position, file_id in enumerate(file_ids)
    ]
    if rows:
        connection.execute(insert(project_files), rows)
    return held
