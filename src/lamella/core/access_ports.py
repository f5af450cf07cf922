"""The ports about callers: users, groups and keys; knowledge bases and the grants on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lamella.core.access import (
    AuditEntry,
    AuditKind,
    BaseContent,
    Grant,
    GrantChange,
    GrantLevel,
    Group,
    Key,
    KnowledgeBase,
    Subject,
    User,
    UserChange,
)
from lamella.core.records import Caller, Page, PageQuery


class Directory(Protocol):
    """Users, groups and keys (`storage/`). It does not ask who may: whoever calls it has.

    Every verb is one transaction. Raises `NotFound` for unknown ids, `InvalidRequest` for a name that is taken,
    `StoreFailed` on failure.
    """

    async def set_up_at(self) -> datetime | None:
        """When accounts were set up; None while the person at this machine is the only user."""
        ...

    async def set_up(self, name: str, key: Key, at: datetime) -> User:
        """Turn accounts on: the local user is the first admin, with this name and key.

        Raises `PermissionDenied` when that was done before; then nothing is stored.
        """
        ...

    async def add_user(self, user: User, key: Key | None = None) -> User:
        """Store a new user, with a first key."""
        ...

    async def user(self, user_id: str) -> User:
        """One user."""
        ...

    async def users(self, query: PageQuery) -> Page[User]:
        """All users, the local one included."""
        ...

    async def change_user(self, user_id: str, change: UserChange) -> User:
        """Change a user; raises `InvalidRequest` when no admin would be left."""
        ...

    async def add_group(self, group: Group) -> Group:
        """Store a new group, without its members."""
        ...

    async def group(self, group_id: str) -> Group:
        """One group with its members."""
        ...

    async def groups(self, query: PageQuery) -> Page[Group]:
        """All groups, with their members."""
        ...

    async def rename_group(self, group_id: str, name: str) -> Group:
        """Give it another name."""
        ...

    async def delete_group(self, group_id: str, by: str, at: datetime) -> None:
        """Remove it with its grants, each a change that is kept."""
        ...

    async def add_member(self, group_id: str, user_id: str, by: str, at: datetime) -> Group:
        """Put a user into a group; one who is in it already stays."""
        ...

    async def remove_member(self, group_id: str, user_id: str, by: str, at: datetime) -> Group:
        """Take a user out of a group; raises `NotFound` for one who is not in it."""
        ...

    async def audit(self, kind: AuditKind, query: PageQuery) -> Page[AuditEntry]:
        """What happened of this kind."""
        ...

    async def add_key(self, key: Key) -> Key:
        """Store a new key of a user."""
        ...

    async def key(self, user_id: str, key_id: str) -> Key:
        """One key of a user."""
        ...

    async def keys(self, user_id: str, query: PageQuery) -> Page[Key]:
        """The keys of a user, revoked ones included; not those that pages logged in by."""
        ...

    async def keys_by_prefix(self, prefix: str) -> Sequence[tuple[Key, Key | None, User]]:
        """The keys with this prefix, each with its parent and its user."""
        ...

    async def revoke_key(self, user_id: str, key_id: str, at: datetime) -> Key:
        """End a key, and the logins by it; one that has ended stays as it is."""
        ...

    async def use_key(self, key_id: str, at: datetime) -> None:
        """Note when it was last used."""
        ...


class Access(Protocol):
    """Knowledge bases and the grants on them (`storage/`).

    A base that the caller can't see is `NotFound`: one without a grant where it is not `visible`, and every one with a
    `none` that names the caller. Only its owner may change it; raises `PermissionDenied` for who sees it and may not.
    """

    async def level(self, caller: Caller, base_id: str) -> GrantLevel:
        """How much of a base the caller may read, by `level_of` and as it stands now; `none` for an unknown base."""
        ...

    async def add_base(self, caller: Caller, base_id: str, content: BaseContent, at: datetime) -> KnowledgeBase:
        """Store a new base of the caller."""
        ...

    async def base(self, caller: Caller, base_id: str) -> KnowledgeBase:
        """One base that the caller can see, whatever the level."""
        ...

    async def bases(self, caller: Caller, query: PageQuery) -> Page[KnowledgeBase]:
        """The bases that the caller can see."""
        ...

    async def change_base(
        self, caller: Caller, base_id: str, edit: Callable[[BaseContent], BaseContent], at: datetime
    ) -> KnowledgeBase:
        """Store what `edit` makes of its content."""
        ...

    async def describe_base(
        self, caller: Caller, base_id: str, summary: str, topics: Sequence[str], made_from: str, at: datetime
    ) -> bool:
        """Store what a model says that a base is about; False, and nothing stored, where a person has said it.

        `made_from` is a fingerprint of the documents, as `described_from` gives it back.
        """
        ...

    async def described_from(self, caller: Caller, base_id: str) -> str | None:
        """The fingerprint of the documents that a model's words about a base were made from, "" for none.

        None where the words are a person's.
        """
        ...

    async def delete_base(self, caller: Caller, base_id: str, at: datetime) -> None:
        """Remove it with all that belongs to it, and its grants, each a change that is kept."""
        ...

    async def grants(self, caller: Caller, base_id: str) -> tuple[Grant, ...]:
        """Every grant on a base of the caller's, by name."""
        ...

    async def set_grant(
        self, caller: Caller, base_id: str, subject: Subject, level: GrantLevel | None, at: datetime
    ) -> Grant | None:
        """Grant a level, or take a grant away with None; a difference is a change that is kept.

        Raises `InvalidRequest` for the owner, `NotFound` for an unknown user or group.
        """
        ...

    async def grant_changes(self, caller: Caller, base_id: str, query: PageQuery) -> Page[GrantChange]:
        """Every change of the grants on a base of the caller's."""
        ...


LONGEST_QUESTION = 500
"""Characters of a question that are kept."""


@dataclass(frozen=True, slots=True)
class RestrictedUse:
    """A question to a restricted base: by whom, and what came of it.

    `decision` is `answer` or `refuse`; `removed` names the kinds of what the guard found. Tokens are the second
    model's: only the owner sees them, since they grow with the passages. Of the documents nothing is in it.
    """

    id: str
    base_id: str
    user_id: str
    user_name: str
    at: datetime
    question: str
    decision: str
    reason: str
    chunks: int
    removed: tuple[str, ...]
    cached: bool
    model: str
    input_tokens: int
    output_tokens: int


class RestrictedUses(Protocol):
    """The record of these questions (`storage/`)."""

    async def record_restricted_use(self, use: RestrictedUse) -> RestrictedUse:
        """Keep one, with the name that its user has; raises `NotFound` for a base that is gone."""
        ...

    async def restricted_uses(self, caller: Caller, base_id: str, query: PageQuery) -> Page[RestrictedUse]:
        """Those of a base of the caller's; raises `NotFound` and `PermissionDenied`."""
        ...
