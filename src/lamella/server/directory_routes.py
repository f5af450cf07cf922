"""Users and groups: every member knows their names, admins keep them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lamella.app.accounts import KeyOrder, filled
from lamella.core.access import Role
from lamella.core.errors import NotFound
from lamella.core.records import Page
from lamella.server.access_schemas import (
    GroupBody,
    NewKey,
    NewUser,
    UserPatch,
    group_json,
    issued_json,
    key_json,
    named_json,
    user_json,
)
from lamella.server.asked import PREFIX, TheAdmin, TheApp, TheIdentity, ThePage
from lamella.server.schemas import Json, list_json

router = APIRouter(prefix=PREFIX)


@router.get("/users")
async def users(page: ThePage, app: TheApp, identity: TheIdentity) -> Json:
    """The users, newest first: for an admin with all there is, for others the names of those who are not disabled."""
    found = await app.accounts.directory.users(page)
    if identity.role is Role.ADMIN:
        return list_json(found, user_json)
    return list_json(Page(tuple(user for user in found.data if not user.disabled), found.has_more), named_json)


@router.post("/users", status_code=201)
async def create_user(body: NewUser, app: TheApp, admin: TheAdmin) -> Json:
    """A new user with a first `key`, whose `secret` is in this answer and nowhere else."""
    made = await app.accounts.create_user(admin, body.name, Role(body.role))
    return {**user_json(made.user), "key": issued_json(made.issued)}


@router.get("/users/{user_id}")
async def user(user_id: str, app: TheApp, identity: TheIdentity) -> Json:
    """One user, for an admin and for themselves."""
    if identity.role is not Role.ADMIN and identity.caller.user_id != user_id:
        raise NotFound(f"There is no user {user_id}.", param="user_id")
    return user_json(await app.accounts.directory.user(user_id))


@router.patch("/users/{user_id}")
async def patch_user(user_id: str, body: UserPatch, app: TheApp, admin: TheAdmin) -> Json:
    """Change name and role, or disable a user: their keys open nothing, and no grant holds for them."""
    return user_json(await app.accounts.directory.change_user(user_id, body.change()))


@router.get("/users/{user_id}/keys")
async def keys_of_user(user_id: str, page: ThePage, app: TheApp, admin: TheAdmin) -> Json:
    """The keys of a user, without their secrets."""
    await app.accounts.directory.user(user_id)
    return list_json(await app.accounts.directory.keys(user_id, page), lambda key: key_json(key, admin.key_id))


@router.post("/users/{user_id}/keys", status_code=201)
async def issue_key(user_id: str, body: NewKey, app: TheApp, admin: TheAdmin) -> Json:
    """A new key for a user who lost theirs; it says who issued it."""
    order = KeyOrder(user_id, body.name, body.scope_set(), body.end())
    return issued_json(await app.accounts.create_key(admin, order))


@router.delete("/users/{user_id}/keys/{key_id}")
async def revoke_key_of_user(user_id: str, key_id: str, app: TheApp, admin: TheAdmin) -> Json:
    """Revoke a user's key."""
    return key_json(await app.accounts.revoke(user_id, key_id))


@router.get("/groups")
async def groups(page: ThePage, app: TheApp, identity: TheIdentity) -> Json:
    """The groups, newest first: for an admin with their members, for others by name."""
    shape = group_json if identity.role is Role.ADMIN else named_json
    return list_json(await app.accounts.directory.groups(page), shape)


@router.post("/groups", status_code=201)
async def create_group(body: GroupBody, app: TheApp, admin: TheAdmin) -> Json:
    """A new group."""
    return group_json(await app.accounts.create_group(body.name))


@router.get("/groups/{group_id}")
async def group(group_id: str, app: TheApp, identity: TheIdentity) -> Json:
    """One group with its members, for an admin and for who is in it."""
    found = await app.accounts.directory.group(group_id)
    if identity.role is not Role.ADMIN and identity.caller.user_id not in {user.id for user in found.members}:
        raise NotFound(f"There is no group {group_id}.", param="group_id")
    return group_json(found)


@router.patch("/groups/{group_id}")
async def rename_group(group_id: str, body: GroupBody, app: TheApp, admin: TheAdmin) -> Json:
    """Give a group another name."""
    return group_json(await app.accounts.directory.rename_group(group_id, filled(body.name)))


@router.delete("/groups/{group_id}", status_code=204)
async def delete_group(group_id: str, app: TheApp, admin: TheAdmin) -> Response:
    """Remove a group, with its grants."""
    await app.accounts.directory.delete_group(group_id, admin.caller.user_id, app.clock.now())
    return Response(status_code=204)


@router.put("/groups/{group_id}/members/{user_id}")
async def add_member(group_id: str, user_id: str, app: TheApp, admin: TheAdmin) -> Json:
    """Put a user into a group."""
    return group_json(await app.accounts.directory.add_member(group_id, user_id, admin.caller.user_id, app.clock.now()))


@router.delete("/groups/{group_id}/members/{user_id}")
async def remove_member(group_id: str, user_id: str, app: TheApp, admin: TheAdmin) -> Json:
    """Take a user out of a group."""
    return group_json(
        await app.accounts.directory.remove_member(group_id, user_id, admin.caller.user_id, app.clock.now())
    )
