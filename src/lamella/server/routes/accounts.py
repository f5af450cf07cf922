"""Who asks: set-up, login and logout, users and groups, keys, and the audit of access."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from msgspec import field
from pydantic import Field, SecretStr, StringConstraints

from lamella.app.accounts import LOGIN_LIFE, InvitedUser, IssuedKey, KeyRequest, filled
from lamella.core.access import (
    AuditEntry,
    AuditKind,
    ContextOption,
    Group,
    Identity,
    Key,
    KeyOptions,
    LineStorage,
    Role,
    Scope,
    User,
    UserChange,
)
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.json import encode
from lamella.core.records import Page
from lamella.server.authentication import COOKIE, Authentication
from lamella.server.objects import Body, ListObject, Moment, Object, listed
from lamella.server.routing import JSON, TheAdmin, TheApp, TheCaller, TheIdentity, ThePage, api_router

router = api_router()

Name = Annotated[str, StringConstraints(max_length=200)]
Secret = Annotated[SecretStr, Field(max_length=200, strict=False)]
RoleName = Literal["admin", "member"]
ScopeName = Literal["read", "write", "manage"]
StorageName = Literal["full", "hashes", "off"]
ContextName = Literal["manage", "off"]


class SetUpBody(Body):
    """`POST /api/v1/setup`: the first admin's name, and the first-run token that the server printed."""

    name: Name
    token: Secret | None = None


class LoginBody(Body):
    """`POST /api/v1/login`."""

    key: Secret


class KeyOptionsBody(Body):
    """`PATCH /api/v1/keys/{id}`. Fields that are left out do not change; null follows the settings of the server.

    `storage`: what is stored of the requests of a client that has this key: `full`, `hashes` (no text), or `off`.
    `context`: `manage` keeps the histories that it sends short if that pays, which needs their text; `off` does not.
    """

    storage: StorageName | None = None
    context: ContextName | None = None

    def options(self, now: KeyOptions) -> KeyOptions:
        """These options in place of those of now. Raises `InvalidRequest` for two that exclude each other."""
        given = self.model_fields_set
        storage = now.storage if "storage" not in given else LineStorage(self.storage) if self.storage else None
        context = now.context if "context" not in given else ContextOption(self.context) if self.context else None
        if context is ContextOption.MANAGE and storage in (LineStorage.HASHES, LineStorage.OFF):
            raise InvalidRequest(
                "The context can't be managed if the texts of requests are not stored.",
                hint="Set storage to full, or context to off.",
                param="context",
            )
        return replace(now, storage=storage, context=context)


class NewKey(KeyOptionsBody):
    """`POST /api/v1/keys`. Without `scopes` it has all scopes of the request's key. `expires_at` needs an offset. The
    options are those of `PATCH`.
    """

    name: Name
    scopes: Annotated[list[ScopeName], Field(max_length=3)] | None = None
    expires_at: Annotated[str, StringConstraints(max_length=40)] | None = None

    def order(self, user_id: str) -> KeyRequest:
        """The key to make for a user; raises `InvalidRequest` for an end that is no moment."""
        scopes = None if self.scopes is None else frozenset(map(Scope, self.scopes))
        return KeyRequest(user_id, self.name, scopes, self._end(), self.options(KeyOptions()))

    def _end(self) -> datetime | None:
        if self.expires_at is None:
            return None
        try:
            moment = datetime.fromisoformat(self.expires_at)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise InvalidRequest(
                "This is no moment.", hint="Write one as 2027-01-31T12:00:00+01:00.", param="expires_at"
            )
        return moment


class NewUser(Body):
    """`POST /api/v1/users`."""

    name: Name
    role: RoleName = "member"


class UserPatch(Body):
    """`PATCH /api/v1/users/{id}`. Fields that are left out do not change."""

    name: Name | None = None
    role: RoleName | None = None
    disabled: bool | None = None

    def change(self) -> UserChange:
        """The change. Raises `InvalidRequest` for an empty name."""
        name = None if self.name is None else filled(self.name)
        return UserChange(name, None if self.role is None else Role(self.role), self.disabled)


class GroupBody(Body):
    """`POST /api/v1/groups`, and `PATCH` of one."""

    name: Name


class LoginObject(Object, kw_only=True):
    """What the login needs: whether accounts are set up, whether a key is needed, and whether setting up needs the
    first-run token.
    """

    object: Literal["login"] = "login"
    set_up: bool
    key_needed: bool
    token_needed: bool


class NamedObject(Object, kw_only=True):
    """The name and id of a user or a group, which every member may see."""

    id: str
    object: Literal["user", "group"]
    name: str


class UserObject(NamedObject, kw_only=True):
    """A user, for an admin and for themselves."""

    role: Role
    disabled: bool
    created_at: Moment


class MeObject(UserObject, kw_only=True):
    """Who asks, with the key of this request; `accounts`: whether everybody needs one."""

    scopes: list[Scope]
    key_id: str | None
    accounts: bool


class GroupObject(NamedObject, kw_only=True):
    """A group with its members."""

    members: list[NamedObject]
    created_at: Moment


class KeyObject(Object, kw_only=True):
    """A key without its secret. `current`: this request came with it; `issued_by`: the user who made it. `storage`:
    what is stored of the requests of its client; null follows the settings of the server. `context`: whether the
    histories that its client sends are kept short; null is `off`.
    """

    id: str
    object: Literal["key"] = "key"
    name: str
    prefix: str
    user_id: str
    issued_by: str
    scopes: list[Scope]
    current: bool
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None
    storage: LineStorage | None
    context: ContextOption | None


class IssuedKeyObject(KeyObject, kw_only=True):
    """A new key with its `secret`, which is shown only once; null if it was shown before."""

    secret: str | None


class InvitedUserObject(UserObject, kw_only=True):
    """A new user with a first key."""

    key: IssuedKeyObject


class AuditEntryObject(Object, kw_only=True):
    """An entry of the audit log: who (`by`), to whom (`subject`), where (`on`: a base or a group).

    `from` and `to` are levels of a grant, `member`, or the outcome of a question; null for none.
    """

    id: str
    object: Literal["audit.entry"] = "audit.entry"
    at: Moment
    by: str
    by_name: str
    subject_id: str | None
    subject_name: str | None
    on_id: str
    on_name: str
    from_: str | None = field(name="from")
    to: str | None


def named_object(one: User | Group) -> NamedObject:
    """A user or a group by name."""
    return NamedObject.of(one, object=_kind(one))


def user_object(user: User) -> UserObject:
    """A user."""
    return UserObject.of(user, object="user")


def me_object(user: User, identity: Identity, *, accounts: bool) -> MeObject:
    """Who asks."""
    return MeObject.of(user, object="user", scopes=sorted(identity.scopes), key_id=identity.key_id, accounts=accounts)


def group_object(group: Group) -> GroupObject:
    """A group with its members."""
    return GroupObject.of(group, object="group", members=[named_object(user) for user in group.members])


def _kind(one: User | Group) -> str:
    return "user" if isinstance(one, User) else "group"


def key_object(key: Key, current: str | None = None) -> KeyObject:
    """A key. `current` is the id of the request's key."""
    return KeyObject.of(key, **_of_key(key, current))


def issued_object(issued: IssuedKey) -> IssuedKeyObject:
    """A new key."""
    return IssuedKeyObject.of(issued.key, secret=issued.secret, **_of_key(issued.key, None))


def _of_key(key: Key, current: str | None) -> dict[str, Any]:
    of_options = {"storage": key.options.storage, "context": key.options.context}
    return {"prefix": f"lam_{key.prefix}", "scopes": sorted(key.scopes), "current": key.id == current, **of_options}


def invited_object(invited: InvitedUser) -> InvitedUserObject:
    """A new user."""
    return InvitedUserObject.of(invited.user, object="user", key=issued_object(invited.issued))


def entry_object(entry: AuditEntry) -> AuditEntryObject:
    """Something that happened."""
    return AuditEntryObject.of(
        entry,
        subject_id=entry.subject or None,
        subject_name=entry.subject_name or None,
        on_id=entry.on,
        from_=entry.before,
        to=entry.after,
    )


# Getting in


async def _authentication(request: Request) -> Authentication:
    authentication: Authentication | None = request.state.authentication
    if authentication is None:
        raise NotFound("This deployment knows its users by other means than keys.")
    return authentication


TheEntrance = Annotated[Authentication, Depends(_authentication)]


@router.get("/login")
async def what_it_takes(authentication: TheEntrance) -> LoginObject:
    """What the login needs: whether accounts are set up, whether a key is needed, and whether setting up needs the
    first-run token.
    """
    set_up = await authentication.accounts.are_set_up()
    return LoginObject(
        set_up=set_up,
        key_needed=set_up or not authentication.is_local,
        token_needed=not set_up and not authentication.holds_folder,
    )


@router.post("/login", responses={200: {JSON: MeObject}})
async def log_in(body: LoginBody, request: Request, authentication: TheEntrance) -> Response:
    """Log a page in by a key: the answer sets a cookie that no script can read."""
    issued = await authentication.accounts.log_in(body.key.get_secret_value())
    identity = await authentication.accounts.identify(issued.secret or "")
    user = await authentication.accounts.directory.user(identity.caller.user_id)
    answer = Response(encode(me_object(user, identity, accounts=True)), media_type=JSON)
    answer.set_cookie(
        COOKIE,
        issued.secret or "",
        max_age=int(LOGIN_LIFE.total_seconds()),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/logout", status_code=204)
async def log_out(request: Request, identity: TheIdentity, authentication: TheEntrance) -> Response:
    """Log the page out. The key stays valid."""
    await authentication.accounts.log_out(identity)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return answer


@router.post("/setup", status_code=201)
async def set_up(body: SetUpBody, authentication: TheEntrance) -> InvitedUserObject:
    """Set accounts up: the current user becomes the first admin, and everybody needs a key from then on."""
    authentication.check_token("" if body.token is None else body.token.get_secret_value())
    return invited_object(await authentication.accounts.set_up(body.name))


@router.get("/me")
async def me(identity: TheIdentity, app: TheApp) -> MeObject:
    """The user of this request, and the scopes of its key."""
    user = await app.accounts.directory.user(identity.caller.user_id)
    return me_object(user, identity, accounts=await app.accounts.are_set_up())


@router.get("/keys")
async def keys(page: ThePage, app: TheApp, identity: TheIdentity) -> ListObject[KeyObject]:
    """The caller's keys, newest first, revoked ones included."""
    found = await app.accounts.directory.keys(identity.caller.user_id, page)
    return listed(found, lambda key: key_object(key, identity.key_id))


@router.post("/keys", status_code=201)
async def create_key(body: NewKey, app: TheApp, identity: TheIdentity) -> IssuedKeyObject:
    """A new key of the caller's. Its `secret` is in this answer and nowhere else."""
    return issued_object(await app.accounts.create_key(identity, body.order(identity.caller.user_id)))


@router.get("/keys/{key_id}")
async def key(key_id: str, app: TheApp, identity: TheIdentity) -> KeyObject:
    """One key."""
    return key_object(await app.accounts.directory.key(identity.caller.user_id, key_id), identity.key_id)


@router.patch("/keys/{key_id}")
async def change_key(key_id: str, body: KeyOptionsBody, app: TheApp, identity: TheIdentity) -> KeyObject:
    """Change the options of a key. They hold from its next request on."""
    directory, user_id = app.accounts.directory, identity.caller.user_id
    options = body.options((await directory.key(user_id, key_id)).options)
    return key_object(await directory.set_key_options(user_id, key_id, options), identity.key_id)


@router.delete("/keys/{key_id}")
async def revoke_key(key_id: str, app: TheApp, caller: TheCaller) -> KeyObject:
    """Revoke a key: it opens nothing from now on, nor do the pages that logged in by it."""
    return key_object(await app.accounts.revoke(caller.user_id, key_id))


# Users and groups: every member knows their names, admins keep them


@router.get("/users")
async def users(page: ThePage, app: TheApp, identity: TheIdentity) -> ListObject[UserObject] | ListObject[NamedObject]:
    """The users, newest first: for an admin with all there is, for others the names of those who are not disabled."""
    found = await app.accounts.directory.users(page)
    if identity.role is Role.ADMIN:
        return listed(found, user_object)
    return listed(Page(tuple(user for user in found.data if not user.disabled), found.has_more), named_object)


@router.post("/users", status_code=201)
async def create_user(body: NewUser, app: TheApp, admin: TheAdmin) -> InvitedUserObject:
    """A new user with a first `key`, whose `secret` is in this answer and nowhere else."""
    return invited_object(await app.accounts.create_user(admin, body.name, Role(body.role)))


@router.get("/users/{user_id}")
async def user(user_id: str, app: TheApp, identity: TheIdentity) -> UserObject:
    """One user, for an admin and for themselves."""
    if identity.role is not Role.ADMIN and identity.caller.user_id != user_id:
        raise NotFound(f"There is no user {user_id}.", param="user_id")
    return user_object(await app.accounts.directory.user(user_id))


@router.patch("/users/{user_id}")
async def patch_user(user_id: str, body: UserPatch, app: TheApp, admin: TheAdmin) -> UserObject:
    """Change name and role, or disable a user: their keys open nothing, and no grant holds for them."""
    return user_object(await app.accounts.directory.change_user(user_id, body.change()))


@router.get("/users/{user_id}/keys")
async def keys_of_user(user_id: str, page: ThePage, app: TheApp, admin: TheAdmin) -> ListObject[KeyObject]:
    """The keys of a user, without their secrets."""
    await app.accounts.directory.user(user_id)
    return listed(await app.accounts.directory.keys(user_id, page), lambda key: key_object(key, admin.key_id))


@router.post("/users/{user_id}/keys", status_code=201)
async def issue_key(user_id: str, body: NewKey, app: TheApp, admin: TheAdmin) -> IssuedKeyObject:
    """A new key for a user who lost theirs; it says who issued it."""
    return issued_object(await app.accounts.create_key(admin, body.order(user_id)))


@router.delete("/users/{user_id}/keys/{key_id}")
async def revoke_key_of_user(user_id: str, key_id: str, app: TheApp, admin: TheAdmin) -> KeyObject:
    """Revoke a user's key."""
    return key_object(await app.accounts.revoke(user_id, key_id))


@router.get("/groups")
async def groups(
    page: ThePage, app: TheApp, identity: TheIdentity
) -> ListObject[GroupObject] | ListObject[NamedObject]:
    """The groups, newest first: for an admin with their members, for others by name."""
    found = await app.accounts.directory.groups(page)
    return listed(found, group_object) if identity.role is Role.ADMIN else listed(found, named_object)


@router.post("/groups", status_code=201)
async def create_group(body: GroupBody, app: TheApp, admin: TheAdmin) -> GroupObject:
    """A new group."""
    return group_object(await app.accounts.create_group(body.name))


@router.get("/groups/{group_id}")
async def group(group_id: str, app: TheApp, identity: TheIdentity) -> GroupObject:
    """One group with its members, for an admin and for who is in it."""
    found = await app.accounts.directory.group(group_id)
    if identity.role is not Role.ADMIN and identity.caller.user_id not in {user.id for user in found.members}:
        raise NotFound(f"There is no group {group_id}.", param="group_id")
    return group_object(found)


@router.patch("/groups/{group_id}")
async def rename_group(group_id: str, body: GroupBody, app: TheApp, admin: TheAdmin) -> GroupObject:
    """Rename a group."""
    return group_object(await app.accounts.directory.rename_group(group_id, filled(body.name)))


@router.delete("/groups/{group_id}", status_code=204)
async def delete_group(group_id: str, app: TheApp, admin: TheAdmin) -> Response:
    """Delete a group with its grants."""
    await app.accounts.directory.delete_group(group_id, admin.caller.user_id, app.clock.now())
    return Response(status_code=204)


@router.put("/groups/{group_id}/members/{user_id}")
async def add_member(group_id: str, user_id: str, app: TheApp, admin: TheAdmin) -> GroupObject:
    """Add a user to a group."""
    directory, by = app.accounts.directory, admin.caller.user_id
    return group_object(await directory.add_member(group_id, user_id, by, app.clock.now()))


@router.delete("/groups/{group_id}/members/{user_id}")
async def remove_member(group_id: str, user_id: str, app: TheApp, admin: TheAdmin) -> GroupObject:
    """Remove a user from a group."""
    directory, by = app.accounts.directory, admin.caller.user_id
    return group_object(await directory.remove_member(group_id, user_id, by, app.clock.now()))


@router.get("/audit/{kind}")
async def audit(kind: AuditKind, page: ThePage, app: TheApp, admin: TheAdmin) -> ListObject[AuditEntryObject]:
    """The audit log: changes of `grants`, of `members` of groups, and `restricted-uses` without the questions."""
    return listed(await app.accounts.directory.audit(kind, page), entry_object)
