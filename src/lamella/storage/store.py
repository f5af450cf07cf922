"""`SqlStore`: every verb of the port `Store` over one database."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from lamella.core.clock import SystemClock
from lamella.core.ids import Ids, RandomIds
from lamella.core.ports import Store
from lamella.storage.beginnings import BeginningVerbs
from lamella.storage.conversations import ConversationVerbs
from lamella.storage.files import FileVerbs
from lamella.storage.journal import JournalVerbs
from lamella.storage.keys import KeyVerbs
from lamella.storage.migrate import migrate
from lamella.storage.requests import RequestVerbs
from lamella.storage.sqlite import sqlite_database, sqlite_url
from lamella.storage.turns import TurnVerbs


class SqlStore(ConversationVerbs, FileVerbs, TurnVerbs, RequestVerbs, BeginningVerbs, JournalVerbs, KeyVerbs):
    """The store; `ids` names the decisions. Closing it, or leaving its block, closes the database."""

    async def __aenter__(self) -> SqlStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def open_store(url_or_path: str | Path, ids: Ids | None = None) -> SqlStore:
    """The store of a database file, brought up to date; `async with await open_store(…) as store` closes it again.

    Raises `ConfigurationError` for a database that this version cannot use, `StoreFailed` when it cannot be opened.
    """
    url = sqlite_url(url_or_path)
    await migrate(url)
    return SqlStore(sqlite_database(url), ids or RandomIds(SystemClock()))


_: type[Store] = SqlStore
