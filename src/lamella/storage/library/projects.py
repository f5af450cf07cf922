"""Projects (SPEC O4): instructions and files, and how often they were edited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Caller, File, Page, PageQuery, ProjectContent, StoredProject
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.keys import forget_keys
from lamella.storage.knowledge.documents import index_files
from lamella.storage.library.files import find_files
from lamella.storage.mapping import file_of, project_of
from lamella.storage.pages import page
from lamella.storage.tables import files, project_files, projects


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
        found[row["project_id"]].append(file_of(row))
    return found


def find_project(connection: Connection, caller: Caller, project_id: str) -> StoredProject:
    """The caller's project."""
    query = select(projects).where(projects.c.id == project_id, projects.c.owner == caller.user_id)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"There is no project {project_id}.", param="project_id")
    return project_of(row, _files(connection, caller, [project_id]).get(project_id, ()))


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
    mine = (project_files.c.project_id == project_id, project_files.c.owner == caller.user_id)
    connection.execute(delete(project_files).where(*mine))
    rows = [
        {"project_id": project_id, "file_id": file_id, "owner": caller.user_id, "position": position}
        for position, file_id in enumerate(file_ids)
    ]
    if rows:
        connection.execute(insert(project_files), rows)
    return held


class ProjectVerbs(Verbs):
    """The verbs of `Store` about projects."""

    @writes
    def add_project(
        self, connection: Connection, caller: Caller, project_id: str, content: ProjectContent, at: datetime
    ) -> StoredProject:
        """Store a new project of the caller."""
        row = {
            "id": project_id,
            "owner": caller.user_id,
            "name": content.name,
            "instructions": content.instructions,
            "revision": 1,
            "created_at": moment_text(at),
            "updated_at": moment_text(at),
        }
        connection.execute(insert(projects), row)
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
        mine = select(projects).where(projects.c.owner == caller.user_id)
        rows, has_more = page(connection, mine, projects.c.id, query)
        held = _files(connection, caller, [row["id"] for row in rows])
        return Page(tuple(project_of(row, held.get(row["id"], ())) for row in rows), has_more)

    @writes
    def change_project(
        self,
        connection: Connection,
        caller: Caller,
        project_id: str,
        edit: Callable[[ProjectContent], ProjectContent],
        at: datetime,
    ) -> StoredProject:
        """Store what `edit` makes of it; a difference is a new revision."""
        project = find_project(connection, caller, project_id)
        before = project.content
        after = edit(before)
        if after != before:
            connection.execute(
                update(projects)
                .where(projects.c.id == project_id, projects.c.owner == caller.user_id)
                .values(
                    name=after.name,
                    instructions=after.instructions,
                    revision=project.revision + 1,
                    updated_at=moment_text(at),
                )
            )
            if after.file_ids != before.file_ids:
                held = _hold(connection, caller, project_id, after.file_ids)
                index_files(connection, self._ids, caller.user_id, held, at)
        return find_project(connection, caller, project_id)

    @writes
    def delete_project(self, connection: Connection, caller: Caller, project_id: str) -> None:
        """Remove it; its files stay, and its conversations go on without it."""
        find_project(connection, caller, project_id)
        forget_keys(connection, caller, project_id)
        connection.execute(delete(projects).where(projects.c.id == project_id, projects.c.owner == caller.user_id))
