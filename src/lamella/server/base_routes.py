"""Knowledge bases, and who may read them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lamella.core.errors import NotFound
from lamella.server.access_schemas import BasePatch, GrantBody, NewBase, base_json, change_json, grant_json
from lamella.server.asked import PREFIX, IdempotencyKey, TheApp, TheCaller, ThePage
from lamella.server.schemas import Json, list_json, whole_list_json

router = APIRouter(prefix=PREFIX)


@router.post("/knowledge-bases", status_code=201)
async def create_base(body: NewBase, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Json:
    """A new knowledge base of the caller's."""
    return base_json(await app.bases.create(caller, body.content(), key), caller)


@router.get("/knowledge-bases")
async def bases(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The bases that the caller can see, newest first, each with the caller's `level`."""
    return list_json(await app.access.bases(caller, page), lambda base: base_json(base, caller))


@router.get("/knowledge-bases/{base_id}")
async def base(base_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One base."""
    return base_json(await app.access.base(caller, base_id), caller)


@router.patch("/knowledge-bases/{base_id}")
async def patch_base(base_id: str, body: BasePatch, app: TheApp, caller: TheCaller) -> Json:
    """Change its name and description, or whether members without a grant see these."""
    return base_json(await app.bases.change(caller, base_id, body.edit), caller)


@router.delete("/knowledge-bases/{base_id}", status_code=204)
async def delete_base(base_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a base with all that belongs to it."""
    await app.bases.delete(caller, base_id)
    return Response(status_code=204)


@router.get("/knowledge-bases/{base_id}/grants")
async def grants(base_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Who may read a base of the caller's, and how much."""
    return whole_list_json([grant_json(grant) for grant in await app.access.grants(caller, base_id)])


@router.get("/knowledge-bases/{base_id}/grant-changes")
async def grant_changes(base_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """Every change of these grants: who made it, when, from which level to which."""
    return list_json(await app.access.grant_changes(caller, base_id, page), change_json)


@router.put("/knowledge-bases/{base_id}/grants/{subject_id}")
async def grant(base_id: str, subject_id: str, body: GrantBody, app: TheApp, caller: TheCaller) -> Json:
    """Let a user or a group read so much of a base."""
    granted = await app.bases.grant(caller, base_id, subject_id, body.wanted())
    if granted is None:
        raise NotFound(f"The grant to {subject_id} was taken away meanwhile.", param="subject_id")
    return grant_json(granted)


@router.delete("/knowledge-bases/{base_id}/grants/{subject_id}", status_code=204)
async def take_grant_away(base_id: str, subject_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Take a grant away."""
    await app.bases.grant(caller, base_id, subject_id, None)
    return Response(status_code=204)
