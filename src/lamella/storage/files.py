"""Files: rows, texts and pictures, and the numbers that they have in conversations.

A file gets one document number in a conversation, for good, whether it is attached, comes with the project or is found
by a tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from lamella.core.errors import FileInUse, NotFound
from lamella.core.messages import Attachment, Image
from lamella.core.records import Caller, File, Page, PageQuery
from lamella.storage.database import Rows, reads, writes
from lamella.storage.failures import damaged, unicode_only
from lamella.storage.grants import titles_held_back
from lamella.storage.keys import forget_keys, has_key
from lamella.storage.knowledge.documents import forget_documents, uploaded_documents
from lamella.storage.rows import Row, find_row, owned_by, page, record, recorder, values
from lamella.storage.tables import (
    attachments,
    conversations,
    document_numbers,
    file_images,
    file_texts,
    files,
    knowledge_documents,
    messages,
    project_files,
    projects,
    turns,
)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A file's document number in a conversation, how often it came there, and which of these uses is the project's."""

    document: int
    uses: int = 0
    project_use: int | None = None


@dataclass(slots=True)
class Numbers:
    """The numbers of some files in a conversation, and the next one that is free; gives numbers to new ones."""

    following: int
    known: dict[str, Numbered]
    changed: set[str] = field(default_factory=set)

    def attach(self, file_id: str) -> tuple[int, int]:
        """Number and use of a file that is attached now."""
        numbered = self._of(file_id)
        self._put(file_id, replace(numbered, uses=numbered.uses + 1))
        return numbered.document, numbered.uses

    def project(self, file_id: str) -> tuple[int, int]:
        """Number and use of a file of the project: always the same."""
        numbered = self._of(file_id)
        if numbered.project_use is not None:
            return numbered.document, numbered.project_use
        self._put(file_id, replace(numbered, uses=numbered.uses + 1, project_use=numbered.uses))
        return numbered.document, numbered.uses

    def _of(self, file_id: str) -> Numbered:
        known = self.known.get(file_id)
        if known is None:
            known = Numbered(self.following)
            self.following += 1
        return known

    def _put(self, file_id: str, numbered: Numbered) -> None:
        self.known[file_id] = numbered
        self.changed.add(file_id)


def numbers_of(connection: Connection, caller: Caller, conversation_id: str, file_ids: Sequence[str]) -> Numbers:
    """What is stored of these files in a conversation. Raises `NotFound`."""
    following = select(conversations.c.next_document).where(*owned_by(conversations, caller, conversation_id))
    number: int | None = connection.execute(following).scalar_one_or_none()
    if number is None:
        raise NotFound(f"There is no conversation {conversation_id}.", param="conversation_id")
    return Numbers(number, _known(connection, caller, conversation_id, file_ids) if file_ids else {})


def _known(
    connection: Connection, caller: Caller, conversation_id: str, file_ids: Sequence[str]
) -> dict[str, Numbered]:
    query = select(document_numbers).where(
        document_numbers.c.conversation_id == conversation_id,
        document_numbers.c.owner == caller.user_id,
        document_numbers.c.file_id.in_(file_ids),
    )
    rows = connection.execute(query).mappings()
    return {row["file_id"]: record(Numbered, row) for row in rows}


def store_numbers(connection: Connection, caller: Caller, conversation_id: str, numbers: Numbers) -> None:
    """Store what was given since they were read, in the same transaction."""
    if not numbers.changed:
        return
    changed: Mapping[str, Numbered] = {file_id: numbers.known[file_id] for file_id in sorted(numbers.changed)}
    these = (document_numbers.c.conversation_id == conversation_id, document_numbers.c.owner == caller.user_id)
    connection.execute(delete(document_numbers).where(*these, document_numbers.c.file_id.in_(list(changed))))
    of = {"conversation_id": conversation_id, "owner": caller.user_id}
    rows = [values(document_numbers, numbered, file_id=file_id, **of) for file_id, numbered in changed.items()]
    connection.execute(insert(document_numbers), rows)
    connection.execute(
        update(conversations)
        .where(*owned_by(conversations, caller, conversation_id))
        .values(next_document=numbers.following)
    )


file_of = recorder(File, files.c)

HOLDERS_NAMED = 5
"""Conversations, and projects, that an error names at most."""


def find_file(connection: Connection, caller: Caller, file_id: str) -> File:
    """The caller's file."""
    return file_of(find_row(connection, files, caller, file_id, "file"))


def find_files(connection: Connection, caller: Caller, file_ids: Sequence[str], param: str = "file_ids") -> list[File]:
    """The caller's files of these ids, in their order."""
    if not file_ids:
        return []
    query = select(files).where(files.c.id.in_(sorted(set(file_ids))), files.c.owner == caller.user_id)
    found = {row["id"]: file_of(row) for row in connection.execute(query).mappings()}
    for file_id in file_ids:
        if file_id not in found:
            raise NotFound(f"There is no file {file_id}.", param=param)
    return [found[file_id] for file_id in file_ids]


@dataclass(frozen=True, slots=True)
class Contents:
    """The texts and the pictures of some files, by id."""

    texts: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)


def attachment_of(file: File, document: int, use: int, contents: Contents) -> Attachment:
    """A file as an attachment with its number, and which use of it in the conversation this is."""
    return Attachment(
        file_id=file.id,
        document=document,
        title=file.name,
        media_type=file.media_type,
        size=file.size,
        tokens=file.tokens,
        text=contents.texts.get(file.id),
        reason=file.reason,
        image=contents.images.get(file.id),
        use=use,
    )


def file_text_row(owner: str, file_id: str, text: str) -> Row:
    """The row of a file's text."""
    with unicode_only():
        return {"file_id": file_id, "owner": owner, "data": text.encode()}


def _text_of(row: RowMapping) -> str:
    try:
        return str(row["data"], "utf-8")
    except UnicodeDecodeError as error:
        raise damaged(f"the text of {row['file_id']}", error) from error


def _texts(connection: Connection, caller: Caller, file_ids: Sequence[str]) -> dict[str, str]:
    if not file_ids:
        return {}
    query = select(file_texts).where(file_texts.c.file_id.in_(file_ids), file_texts.c.owner == caller.user_id)
    return {row["file_id"]: _text_of(row) for row in connection.execute(query).mappings()}


def _images(connection: Connection, caller: Caller, file_ids: Sequence[str]) -> dict[str, Image]:
    if not file_ids:
        return {}
    query = select(file_images).where(file_images.c.file_id.in_(file_ids), file_images.c.owner == caller.user_id)
    return {row["file_id"]: record(Image, row) for row in connection.execute(query).mappings()}


def find_contents(connection: Connection, caller: Caller, of: Iterable[File]) -> Contents:
    """The texts and pictures of the caller's files, each loaded once."""
    pictures: dict[str, bool] = {file.id: file.width is not None for file in of}
    return Contents(
        texts=_texts(connection, caller, sorted(id for id, is_picture in pictures.items() if not is_picture)),
        images=_images(connection, caller, sorted(id for id, is_picture in pictures.items() if is_picture)),
    )


def numbered(
    connection: Connection, caller: Caller, wanted: Sequence[File], places: Sequence[tuple[int, int]]
) -> tuple[Attachment, ...]:
    """Files as attachments, each with its number and use."""
    contents = find_contents(connection, caller, wanted)
    return tuple(attachment_of(file, *place, contents) for file, place in zip(wanted, places, strict=True))


def _holders(connection: Connection, caller: Caller, file_id: str) -> list[str]:
    """Whatever holds a file, in words."""
    of_messages = (
        select(conversations.c.id, conversations.c.title, conversations.c.title_made_from)
        .join(turns, turns.c.conversation_id == conversations.c.id)
        .join(messages, messages.c.turn_id == turns.c.id)
        .join(attachments, attachments.c.message_id == messages.c.id)
        .where(attachments.c.file_id == file_id, attachments.c.owner == caller.user_id)
        .distinct()
        .order_by(conversations.c.id)
        .limit(HOLDERS_NAMED)
    )
    of_projects = (
        select(projects.c.id, projects.c.name)
        .join(project_files, project_files.c.project_id == projects.c.id)
        .where(project_files.c.file_id == file_id, project_files.c.owner == caller.user_id)
        .order_by(projects.c.id)
        .limit(HOLDERS_NAMED)
    )
    titles = titles_held_back(connection, caller, connection.execute(of_messages).mappings().all())
    found = [f"conversation “{title}” ({id})" for id, title in titles.items()]
    return [*found, *(f"project “{name}” ({id})" for id, name in connection.execute(of_projects))]


def known_files(connection: Connection) -> frozenset[str]:
    """The ids of every stored file and document of every owner: what has bytes in a `FileStore`."""
    found = list(connection.execute(select(files.c.id)).scalars())
    return frozenset([*found, *uploaded_documents(connection)])


class FileRows(Rows):
    """Uploaded files."""

    @writes
    def add_file(
        self,
        connection: Connection,
        caller: Caller,
        file: File,
        text: str | None,
        image: Image | None = None,
        key: str | None = None,
    ) -> bool:
        """Store a file's row, and its extracted text or its picture.

        Returns False and stores nothing if the Idempotency-Key of the upload belongs to another one meanwhile.
        """
        if key is not None and not has_key(connection, caller, key, file.id):
            return False
        connection.execute(insert(files), values(files, file, owner=caller.user_id))
        if text is not None:
            connection.execute(insert(file_texts), file_text_row(caller.user_id, file.id, text))
        if image is not None:
            connection.execute(insert(file_images), values(file_images, image, owner=caller.user_id))
        return True

    @writes
    def delete_file(self, connection: Connection, caller: Caller, file_id: str) -> None:
        """Remove a file; raises `FileInUse` while a message or a project holds it."""
        file = find_file(connection, caller, file_id)
        holders = _holders(connection, caller, file_id)
        if holders:
            raise FileInUse(
                f"“{file.name}” is in use.",
                hint="Remove it first from: " + "; ".join(holders) + ".",
                param="file_id",
            )
        forget_keys(connection, caller, file_id)
        forget_documents(connection, self._ids, caller, knowledge_documents.c.id == file_id)
        connection.execute(delete(files).where(*owned_by(files, caller, file_id)))

    @reads
    def attachments(
        self,
        connection: Connection,
        caller: Caller,
        conversation_id: str,
        file_ids: Sequence[str],
        project: Sequence[Attachment] = (),
    ) -> tuple[Attachment, ...]:
        """Files as they would be attached to a message of a conversation; nothing is stored.

        Each has the one number that it has there. `project` are the files of its project, whose numbers come first.
        """
        wanted = find_files(connection, caller, file_ids)
        held = [file.file_id for file in project]
        numbers = numbers_of(connection, caller, conversation_id, [*held, *file_ids])
        for file_id in held:
            numbers.project(file_id)
        return numbered(connection, caller, wanted, [numbers.attach(file.id) for file in wanted])

    @reads
    def file(self, connection: Connection, caller: Caller, file_id: str) -> File:
        """One file."""
        return find_file(connection, caller, file_id)

    @reads
    def files(self, connection: Connection, caller: Caller, query: PageQuery, purpose: str | None = None) -> Page[File]:
        """The caller's files, or those of a purpose."""
        own = select(files).where(files.c.owner == caller.user_id)
        if purpose is not None:
            own = own.where(files.c.purpose == purpose)
        return page(connection, own, files.c.id, query, file_of)

    @reads
    def file_text(self, connection: Connection, caller: Caller, file_id: str) -> str | None:
        """The extracted text. None if there is none."""
        find_file(connection, caller, file_id)
        return _texts(connection, caller, [file_id]).get(file_id)

    @reads
    def file_ids(self, connection: Connection) -> frozenset[str]:
        """The ids of every stored file of every owner: for clearing up at start."""
        return known_files(connection)
