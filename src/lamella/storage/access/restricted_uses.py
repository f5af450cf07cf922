"""The record of who asked restricted bases what, as rows that go with the base."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, insert, select

from lamella.core.access_ports import LONGEST_QUESTION, RestrictedUse
from lamella.core.errors import NotFound
from lamella.core.json import decode, encode_text
from lamella.core.records import Caller, Page, PageQuery
from lamella.storage.access.knowledge_bases import own_base
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.failures import damaged
from lamella.storage.pages import page
from lamella.storage.tables import knowledge_bases, restricted_uses, users


class RestrictedUseVerbs(Verbs):
    """The verbs of `RestrictedUses`."""

    @writes
    def record_restricted_use(self, connection: Connection, use: RestrictedUse) -> RestrictedUse:
        """Keep one, with the name that its user has."""
        of_base = select(knowledge_bases.c.owner).where(knowledge_bases.c.id == use.base_id)
        owner = connection.execute(of_base).scalar()
        if owner is None:
            raise NotFound(f"There is no knowledge base {use.base_id}.", param="knowledge_base_id")
        name = connection.execute(select(users.c.name).where(users.c.id == use.user_id)).scalar()
        kept = replace(
            use, id=self._ids.new("use"), user_name=name or use.user_id, question=use.question[:LONGEST_QUESTION]
        )
        connection.execute(insert(restricted_uses), _row(kept, owner))
        return kept

    @reads
    def restricted_uses(
        self, connection: Connection, caller: Caller, base_id: str, query: PageQuery
    ) -> Page[RestrictedUse]:
        """Those of a base of the caller's."""
        of_base = select(restricted_uses).where(restricted_uses.c.knowledge_base_id == base_id)
        own_base(connection, caller, base_id)
        rows, has_more = page(connection, of_base, restricted_uses.c.id, query)
        return Page(tuple(map(_use_of, rows)), has_more)


def _row(use: RestrictedUse, owner: str) -> dict[str, object]:
    return {
        "id": use.id,
        "owner": owner,
        "knowledge_base_id": use.base_id,
        "user_id": use.user_id,
        "user_name": use.user_name,
        "at": moment_text(use.at),
        "question": use.question,
        "decision": use.decision,
        "reason": use.reason,
        "chunks": use.chunks,
        "removed": encode_text(use.removed),
        "cached": use.cached,
        "model": use.model,
        "input_tokens": use.input_tokens,
        "output_tokens": use.output_tokens,
    }


def _use_of(row: RowMapping) -> RestrictedUse:
    removed = decode(row["removed"])
    if not isinstance(removed, list):
        raise damaged(f"use {row['id']}", row["removed"])
    return RestrictedUse(
        id=row["id"],
        base_id=row["knowledge_base_id"],
        user_id=row["user_id"],
        user_name=row["user_name"],
        at=datetime.fromisoformat(row["at"]),
        question=row["question"],
        decision=row["decision"],
        reason=row["reason"],
        chunks=row["chunks"],
        removed=tuple(map(str, removed)),
        cached=row["cached"],
        model=row["model"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )
