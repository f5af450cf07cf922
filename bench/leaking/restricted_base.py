"""A base that the local user may use and not read, and what its second model says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from sqlite3 import connect

import numpy as np

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.json import encode_text
from lamella.core.knowledge import Document, DocumentState
from lamella.core.records import Caller, PageQuery
from lamella.llm.scripted import FACTS, ScriptedModel
from lamella.search.postings import TermRun, packed_entries
from lamella.storage.packing import unpacked
from lamella.storage.store import Store

ANN = Caller("user_ann")
"""Owns the base."""

KEPT_IN_THE_BASE = (
    "knowledge_documents",
    "knowledge_names",
    "knowledge_passages",
    "knowledge_vectors",
)
"""Beginnings of the names of the tables that documents and their index are kept in."""


def second_model() -> ScriptedModel:
    """The model that reads what is protected."""
    return ScriptedModel(facts=replace(FACTS, name="second"))


def reply(summary: str, reason: str = "answered", confidence: float = 0.9) -> str:
    """What a second model answers that keeps to its form."""
    decision = "answer" if summary else "refuse"
    return encode_text({"decision": decision, "reason": reason, "summary": summary, "confidence": confidence})


async def restricted_base(app: App, text: str, name: str = "Contracts", title: str = "a.md") -> str:
    """A base of Ann's with one document that is ready; the local user may use it and not read it."""
    now, id = app.clock.now(), app.ids.new("kb")
    assert isinstance(app.store, Store)
    if ANN.user_id not in {user.id for user in (await app.accounts.directory.users(PageQuery())).data}:
        await app.store.directory.add_user(User(ANN.user_id, "Ann", Role.MEMBER, now))
    await app.access.add_base(ANN, id, BaseContent(name), now)
    await add(app, id, text, title)
    await grant(app, id, GrantLevel.RESTRICTED)
    return id


async def add(app: App, base: str, text: str, title: str, owner: Caller = ANN) -> Document:
    """One more document of the owner's, once it is ready."""

    async def pieces() -> AsyncIterator[bytes]:
        yield text.encode()

    document = await app.knowledge.add(owner, base, title, pieces())
    return await ready(app, owner, base, document.id)


async def ready(app: App, owner: Caller, base: str, document_id: str) -> Document:
    """A document of the owner's, once it is ready."""
    async with asyncio.timeout(30):
        while True:
            document = await app.knowledge.document(owner, base, document_id)
            if document.state is DocumentState.READY:
                return document
            await asyncio.sleep(0.01)


async def grant(app: App, base: str, level: GrantLevel | None) -> None:
    """What the local user may do with it from now on."""
    subject = Subject("user", LOCAL_OWNER.user_id)
    await app.access.set_grant(ANN, base, subject, level, app.clock.now())


def stored_elsewhere(folder: Path) -> Iterator[tuple[str, str]]:
    """Everything on disk outside of knowledge bases: rows of the database by table, and files, uploads excepted."""
    with closing(connect(folder / "lamella.db")) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            if not table.startswith((*KEPT_IN_THE_BASE, "postings")):
                for row in database.execute(f'select * from "{table}"'):
                    yield table, " ".join(map(stored_text, row))
        for (page,) in database.execute("select data from postings where shelf = 0"):
            yield "postings", terms_of_page(page)
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("lamella.db") and path.parent.name != "files":
            yield str(path), path.read_bytes().decode("utf-8", "replace")


def stored_text(value: object) -> str:
    """What a value of a row says, packed or not."""
    return unpacked(value).decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def terms_of_page(page: bytes) -> str:
    """The terms of a page of postings, with blanks between."""
    return " ".join(TermRun.read(packed_entries(np.zeros(0, np.int64)), [page]).terms)
