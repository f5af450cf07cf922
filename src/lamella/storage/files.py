"""Uploaded files: their rows and extracted texts. Their bytes lie in a `FileStore`."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.errors import NotFound
from lamella.core.records import Caller, File, Page, PageQuery
from lamella.storage.database import Verbs, uninterrupted
from lamella.storage.mapping import file_of, file_row, file_text_of, file_text_row
from lamella.storage.pages import page
from lamella.storage.schema import file_texts, files


async def find_file(connection: AsyncConnection, caller: Caller, file_id: str) -> File:
    """The caller's file."""
    query = select(files).where(files.c.id == file_id, files.c.owner == caller.user_id)
    row = (await connection.execute(query)).mappings().first()
    if row is None:
        raise NotFound(f"There is no file {file_id}.", param="file_id")
    return file_of(row)


async def find_texts(connection: AsyncConnection, caller: Caller, file_ids: Iterable[str]) -> dict[str, str]:
    """The texts of the caller's files that have one, each loaded once."""
    wanted = sorted(set(file_ids))
    if not wanted:
        return {}
    query = select(file_texts).where(file_texts.c.file_id.in_(wanted), file_texts.c.owner == caller.user_id)
    rows = (await connection.execute(query)).mappings()
    return {row["file_id"]: file_text_of(row) for row in rows}


class FileVerbs(Verbs):
    """The verbs of `Store` about files."""

    @uninterrupted
    async def add_file(self, caller: Caller, file: File, text: str | None) -> None:
        """Store a file's row and its extracted text."""
        row = file_row(caller.user_id, file)
        text_row = None if text is None else file_text_row(caller.user_id, file.id, text)
        async with self._database.writing() as connection:
            await connection.execute(insert(files), row)
            if text_row is not None:
                await connection.execute(insert(file_texts), text_row)

    @uninterrupted
    async def file(self, caller: Caller, file_id: str) -> File:
        """One file."""
        async with self._database.reading() as connection:
            return await find_file(connection, caller, file_id)

    @uninterrupted
    async def files(self, caller: Caller, query: PageQuery) -> Page[File]:
        """The caller's files."""
        mine = select(files).where(files.c.owner == caller.user_id)
        async with self._database.reading() as connection:
            rows, has_more = await page(connection, mine, files.c.id, query)
        return Page(tuple(map(file_of, rows)), has_more)

    @uninterrupted
    async def file_text(self, caller: Caller, file_id: str) -> str | None:
        """The extracted text, None when there is none."""
        async with self._database.reading() as connection:
            await find_file(connection, caller, file_id)
            return (await find_texts(connection, caller, [file_id])).get(file_id)

    @uninterrupted
    async def file_ids(self) -> frozenset[str]:
        """The ids of every stored file of every owner: for clearing up at start."""
        async with self._database.reading() as connection:
            return frozenset((await connection.execute(select(files.c.id))).scalars())
