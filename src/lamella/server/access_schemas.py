"""Bodies about users, keys, groups, bases and grants, and those rows as clients see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, SecretStr, StringConstraints

from lamella.app.accounts import Issued, filled
from lamella.app.bases import described
from lamella.core.access import (
    BaseContent,
    Grant,
    GrantChange,
    GrantLevel,
    Group,
    Identity,
    Key,
    KnowledgeBase,
    Role,
    Scope,
    User,
    UserChange,
)
from lamella.core.errors import InvalidRequest
from lamella.core.records import Caller
from lamella.server.schemas import Body, Json

Name = Annotated[str, StringConstraints(max_length=200)]
Secret = Annotated[SecretStr, Field(max_length=200, strict=False)]
RoleName = Literal["admin", "member"]
ScopeName = Literal["read", "write", "manage"]
LevelName = Literal["full", "restricted", "none"]


class SetUpBody(Body):
    """`POST /api/v1/setup`: the first admin's name, and the first-run token that the server printed."""

    name: Name
    token: Secret | None = None


class LoginBody(Body):
    """`POST /api/v1/login`."""

    key: Secret


class NewKey(Body):
    """`POST /api/v1/keys`: without scopes all that the key of the request has; `expires_at` with its offset."""

    name: Name
    scopes: Annotated[list[ScopeName], Field(max_length=3)] | None = None
    expires_at: Annotated[str, StringConstraints(max_length=40)] | None = None

    def scope_set(self) -> frozenset[Scope] | None:
        """The scopes as such."""
        return None if self.scopes is None else frozenset(map(Scope, self.scopes))

    def end(self) -> datetime | None:
        """When it expires; raises `InvalidRequest` for what is no moment."""
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
    """`PATCH /api/v1/users/{id}`; what is left out stays."""

    name: Name | None = None
    role: RoleName | None = None
    disabled: bool | None = None

    def change(self) -> UserChange:
        """What was sent; raises `InvalidRequest` for an empty name."""
        name = None if self.name is None else filled(self.name)
        return UserChange(name, None if self.role is None else Role(self.role), self.disabled)


class GroupBody(Body):
    """`POST /api/v1/groups`, and `PATCH` of one."""

    name: Name


Hint = Annotated[str, StringConstraints(max_length=1000)]
Summary = Annotated[str, StringConstraints(max_length=4000)]
Keywords = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=60)]], Field(max_length=12)]
Topics = Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=100)]], Field(max_length=30)]


class NewBase(Body):
    """`POST /api/v1/knowledge-bases`."""

    name: Name
    description: Annotated[str, StringConstraints(max_length=4000)] = ""
    visible: bool = False
    hint: Hint = ""
    keywords: Keywords = Field(default_factory=list)
    summary: Summary = ""
    topics: Topics = Field(default_factory=list)

    def content(self) -> BaseContent:
        """What was sent."""
        said = BaseContent(self.name, self.description, self.visible, self.hint, tuple(self.keywords))
        return described(said, self.summary, self.topics)


class BasePatch(Body):
    """`PATCH /api/v1/knowledge-bases/{id}`; what is left out stays."""

    name: Name = ""
    description: Annotated[str, StringConstraints(max_length=4000)] = ""
    visible: bool = False
    hint: Hint = ""
    keywords: Keywords = Field(default_factory=list)
    summary: Summary = ""
    topics: Topics = Field(default_factory=list)

    def edit(self, now: BaseContent) -> BaseContent:
        """The base with what was sent."""
        sent = self.model_dump(exclude_unset=True)
        summary, topics = sent.pop("summary", now.summary), sent.pop("topics", now.topics)
        sent["keywords"] = tuple(sent.get("keywords", now.keywords))
        return described(replace(now, **sent), summary, topics)


class GrantBody(Body):
    """`PUT /api/v1/knowledge-bases/{id}/grants/{subject_id}`."""

    level: LevelName

    def wanted(self) -> GrantLevel:
        """The level as such."""
        return GrantLevel(self.level)


def _at(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def named_json(one: User | Group) -> Json:
    """What every member may know of a user or a group."""
    return {"id": one.id, "object": "user" if isinstance(one, User) else "group", "name": one.name}


def user_json(user: User) -> Json:
    """A user, for an admin and for themselves."""
    rest = {"role": user.role.value, "disabled": user.disabled, "created_at": user.created_at.isoformat()}
    return {**named_json(user), **rest}


def me_json(user: User, identity: Identity, *, accounts: bool) -> Json:
    """Who asks, with the key of this request; `accounts`: whether everybody needs one."""
    rest = {"scopes": sorted(identity.scopes), "key_id": identity.key_id, "accounts": accounts}
    return {**user_json(user), **rest}


def group_json(group: Group) -> Json:
    """A group with its members."""
    members = [named_json(user) for user in group.members]
    return {**named_json(group), "members": members, "created_at": group.created_at.isoformat()}


def key_json(key: Key, current: str | None = None) -> Json:
    """A key without its secret; `current`: whether this request came with it."""
    return {
        "id": key.id,
        "object": "key",
        "name": key.name,
        "begins_with": f"lam_{key.prefix}",
        "user_id": key.user_id,
        "issued_by": key.issued_by,
        "scopes": sorted(key.scopes),
        "current": key.id == current,
        "created_at": key.created_at.isoformat(),
        "expires_at": _at(key.expires_at),
        "last_used_at": _at(key.last_used_at),
        "revoked_at": _at(key.revoked_at),
    }


def issued_json(issued: Issued) -> Json:
    """A new key with its secret, which is shown here and never again."""
    return {**key_json(issued.key), "secret": issued.secret}


def base_json(base: KnowledgeBase, caller: Caller) -> Json:
    """A base as its caller sees it; what its documents are about is for whoever may read all of them."""
    content = base.content
    about: Json = {}
    if base.level is GrantLevel.FULL:
        about = {
            "hint": content.hint,
            "keywords": content.keywords,
            "summary": content.summary,
            "topics": content.topics,
            "described_by": content.described_by.value,
        }
    return {
        "id": base.id,
        "object": "knowledge_base",
        "name": content.name,
        "description": content.description,
        "visible": content.visible,
        **about,
        "level": base.level.value,
        "owner_id": base.owner,
        "yours": base.owner == caller.user_id,
        "created_at": base.created_at.isoformat(),
        "updated_at": base.updated_at.isoformat(),
    }


def grant_json(grant: Grant) -> Json:
    """What was granted to a user or a group."""
    return {
        "id": grant.subject.id,
        "object": "grant",
        "kind": grant.subject.kind,
        "name": grant.name,
        "level": grant.level.value,
        "by": grant.by,
        "at": grant.at.isoformat(),
    }


def change_json(change: GrantChange) -> Json:
    """A change of a grant; null is no grant."""
    return {
        "id": change.id,
        "object": "grant_change",
        "subject_id": change.subject.id,
        "kind": change.subject.kind,
        "name": change.name,
        "by": change.by,
        "at": change.at.isoformat(),
        "from": change.before and change.before.value,
        "to": change.after and change.after.value,
    }
