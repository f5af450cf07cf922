"""The audit of access, for admins: grants, members of groups, and uses of restricted bases."""

from __future__ import annotations

from fastapi import APIRouter

from lamella.core.access import AuditEntry, AuditKind
from lamella.server.asked import PREFIX, TheAdmin, TheApp, ThePage
from lamella.server.schemas import Json, list_json

router = APIRouter(prefix=PREFIX)


@router.get("/audit/{kind}")
async def audit(kind: AuditKind, page: ThePage, app: TheApp, admin: TheAdmin) -> Json:
    """What happened: changes of `grants`, of `members` of groups, and `restricted-uses` without what was asked."""
    return list_json(await app.accounts.directory.audit(kind, page), entry_json)


def entry_json(entry: AuditEntry) -> Json:
    """Something that happened."""
    return {
        "id": entry.id,
        "object": "audit.entry",
        "at": entry.at.isoformat(),
        "by": entry.by,
        "by_name": entry.by_name,
        "subject_id": entry.subject or None,
        "subject_name": entry.subject_name or None,
        "on_id": entry.on,
        "on_name": entry.on_name,
        "from": entry.before,
        "to": entry.after,
    }
