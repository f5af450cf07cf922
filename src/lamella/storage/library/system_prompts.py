"""The versions of an owner's system prompt (SPEC O1), counted from 1; version 0 ships and is not stored."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, insert, select

from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Caller, Page, PageQuery, SystemPrompt
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.mapping import system_prompt_of
from lamella.storage.tables import system_prompts

LARGEST = 2**31 - 1


def version_of(text: str, param: str) -> int:
    """The version that a client wrote; raises `InvalidRequest` for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise InvalidRequest(
            f"“{text[:40]}” is no version of a system prompt.", hint="Versions are numbers, from 0.", param=param
        )
    return min(int(text), LARGEST)


class SystemPromptVerbs(Verbs):
    """The verbs of `Store` about system prompts."""

    @writes
    def add_system_prompt(
        self, connection: Connection, caller: Caller, text: str, note: str, at: datetime
    ) -> SystemPrompt:
        """Store a new version: the one after the newest."""
        column = system_prompts.c
        newest = select(func.coalesce(func.max(column.version), 0)).where(column.owner == caller.user_id)
        version = connection.execute(newest).scalar_one() + 1
        row = {
            "owner": caller.user_id,
            "version": version,
            "text": text,
            "note": note,
            "created_at": moment_text(at),
        }
        connection.execute(insert(system_prompts), row)
        return SystemPrompt(version, text, note, at)

    @reads
    def system_prompt(self, connection: Connection, caller: Caller, version: int) -> SystemPrompt:
        """One stored version."""
        query = select(system_prompts).where(
            system_prompts.c.owner == caller.user_id, system_prompts.c.version == version
        )
        row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFound(f"There is no version {version} of the system prompt.", param="system_prompt_version")
        return system_prompt_of(row)

    @reads
    def newest_system_prompt(self, connection: Connection, caller: Caller) -> SystemPrompt | None:
        """The newest stored version, None when the caller wrote none."""
        mine = select(system_prompts).where(system_prompts.c.owner == caller.user_id)
        query = mine.order_by(system_prompts.c.version.desc()).limit(1)
        row = connection.execute(query).mappings().first()
        return None if row is None else system_prompt_of(row)

    @reads
    def system_prompts(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[SystemPrompt]:
        """The stored versions; `query.after` is a version."""
        version = system_prompts.c.version
        rows = select(system_prompts).where(system_prompts.c.owner == caller.user_id)
        rising = query.order == "asc"
        if query.after is not None:
            after = version_of(query.after, "after")
            rows = rows.where(version > after if rising else version < after)
        limited = rows.order_by(version.asc() if rising else version.desc()).limit(query.limit + 1)
        found = connection.execute(limited).mappings().all()
        return Page(tuple(map(system_prompt_of, found[: query.limit])), len(found) > query.limit)
