"""Accounts: API keys are made, checked and revoked here, and one step turns accounts on.

A key is written as `lam_`, eight characters that find it, `_`, and 260 random bits.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

import structlog

from lamella.core.access import (
    EVERY_SCOPE,
    LOCAL_USER,
    NO_OPTIONS,
    Group,
    Identity,
    Key,
    KeyOptions,
    Role,
    Scope,
    User,
)
from lamella.core.clock import Clock
from lamella.core.errors import AuthenticationFailed, InvalidRequest, PermissionDenied, StoreFailed
from lamella.core.ids import Ids
from lamella.core.records import Caller
from lamella.storage.directory import FIRST_RUN_TOKEN, DirectoryRows

MARK = "lam_"
"""Every key begins with it, so that scanners of source code can find leaked keys."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_FORM = re.compile(rf"{MARK}([{_ALPHABET}]{{8}})_[{_ALPHABET}]{{52}}")


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A new key: the secret, shown once, and the stored parts."""

    secret: str = field(repr=False)
    prefix: str
    digest: bytes = field(repr=False)


def mint() -> NewSecret:
    """A new random key."""
    prefix, rest = (_random(8), _random(52))
    secret = f"{MARK}{prefix}_{rest}"
    return NewSecret(secret, prefix, digest_of(secret))


def prefix_of(secret: str) -> str | None:
    """The part by which a key is looked up; None if it is not a key."""
    form = _FORM.fullmatch(secret)
    return None if form is None else form[1]


def digest_of(secret: str) -> bytes:
    """The stored digest of a key. Keys are random and long, so a plain hash can't be reversed by guessing."""
    return sha256(secret.encode()).digest()


def is_same(given: bytes, kept: bytes) -> bool:
    """Whether two digests are equal, in constant time."""
    return hmac.compare_digest(given, kept)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


log = structlog.get_logger()

LOGIN_LIFE = timedelta(days=30)
"""How long a page stays logged in."""

NOTED_EVERY = timedelta(minutes=1)
"""How exact it is noted when a key was last used: a write for every request would be too many."""

LOCAL_IDENTITY = Identity(Caller(LOCAL_USER), "Local user", Role.ADMIN)
"""Who holds the data folder: on loopback without accounts, and at a terminal that opens the folder itself."""

_UNKNOWN = "This key is not known here."
_ANOTHER = "Use another key, or ask an admin for one."
_NO_KEY = digest_of("")
"""Compared with if no key was found, so that this takes equally long."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A stored key, and its secret to be shown once; None if it was shown before."""

    key: Key
    secret: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key to create: user, name, scopes, expiry, options; no scopes means all of its maker."""

    user_id: str
    name: str
    scopes: frozenset[Scope] | None = None
    expires_at: datetime | None = None
    options: KeyOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class InvitedUser:
    """A new user with a first key."""

    user: User
    issued: IssuedKey


class Accounts:
    """API keys, stored in a directory. Its errors never contain a key."""

    def __init__(self, directory: DirectoryRows, clock: Clock, ids: Ids) -> None:
        self.directory = directory
        self._clock = clock
        self._ids = ids
        self._is_set_up = False

    async def are_set_up(self) -> bool:
        """Whether everybody needs a key. That never ends, so only "no" is checked again."""
        if not self._is_set_up:
            self._is_set_up = await self.directory.set_up_at() is not None
        return self._is_set_up

    async def set_up(self, name: str) -> InvitedUser:
        """Turn accounts on: the local user becomes the first admin; raises `PermissionDenied` the second time."""
        minted, now = mint(), self._clock.now()
        key = self._key(minted, KeyRequest(LOCAL_USER, "first key", EVERY_SCOPE), LOCAL_USER, now)
        user = await self.directory.set_up(filled(name), key, now)
        return InvitedUser(user, IssuedKey(key, minted.secret))

    async def first_run_token(self) -> str | None:
        """What the first admin is made with, the same for all processes of the database; None after that."""
        if await self.are_set_up():
            return None
        return (await self.directory.shared_value(FIRST_RUN_TOKEN, secrets.token_hex(16).encode())).decode()

    async def check_set_up(self) -> None:
        """Raises `PermissionDenied` while the person at this machine is the only user."""
        if not await self.are_set_up():
            raise PermissionDenied(
                "Accounts are not set up: there is one user, who needs no key.",
                hint="Set them up with `lamella users setup NAME`, or POST /api/v1/setup.",
            )

    # Who asks

    async def identify(self, secret: str) -> Identity:
        """The identity of a key. Raises `AuthenticationFailed` if it is not valid."""
        key, user = await self._found(secret)
        now = self._clock.now()
        if key.last_used_at is None or now - key.last_used_at >= NOTED_EVERY:
            await self._note_use(key, now)
        return Identity(Caller(user.id), user.name, user.role, key.scopes, key.id, key.options)

    async def log_in(self, secret: str) -> IssuedKey:
        """A key of its own for a page, which ends with the key it logged in by; raises `AuthenticationFailed`."""
        key, _ = await self._found(secret)
        if key.parent_id is not None:
            raise AuthenticationFailed(_UNKNOWN, hint=_ANOTHER)
        minted, now = mint(), self._clock.now()
        ends = now + LOGIN_LIFE if key.expires_at is None else min(now + LOGIN_LIFE, key.expires_at)
        order = KeyRequest(key.user_id, f"{key.name} (page)", key.scopes, ends, key.options)
        login = self._key(minted, order, key.user_id, now, parent_id=key.id)
        return IssuedKey(await self.directory.add_key(login), minted.secret)

    async def log_out(self, identity: Identity) -> None:
        """End a page's login; a key that was made by a user is not one, and stays."""
        if identity.key_id is None:
            return
        key = await self.directory.key(identity.caller.user_id, identity.key_id)
        if key.parent_id is not None:
            await self.directory.revoke_key(key.user_id, key.id, self._clock.now())

    async def _found(self, secret: str) -> tuple[Key, User]:
        prefix, digest, now = prefix_of(secret), digest_of(secret), self._clock.now()
        there = () if prefix is None else await self.directory.keys_by_prefix(prefix)
        same = [found for found in there if is_same(digest, found[0].digest)]
        if not same:
            is_same(digest, _NO_KEY)
            raise AuthenticationFailed(_UNKNOWN, hint=_ANOTHER)
        key, parent, user = same[0]
        if not key.is_open(now) or (parent is not None and not parent.is_open(now)):
            raise AuthenticationFailed("This key has expired or was revoked.", hint=_ANOTHER)
        if user.disabled:
            raise AuthenticationFailed("The user of this key is disabled.", hint="Ask an admin.")
        return key, user

    async def _note_use(self, key: Key, now: datetime) -> None:
        try:
            await self.directory.use_key(key.id, now)
        except StoreFailed as error:
            log.warning("when a key was used could not be noted", key=key.id, error=error.message)

    # Making

    async def create_key(self, by: Identity, order: KeyRequest) -> IssuedKey:
        """A new key, no wider than the one it is made with; raises `InvalidRequest`."""
        minted, now = mint(), self._clock.now()
        key = self._key(minted, _allowed(by, order, now), by.caller.user_id, now)
        return IssuedKey(await self.directory.add_key(key), minted.secret)

    async def create_user(self, by: Identity, name: str, role: Role) -> InvitedUser:
        """A new user with a first key, to hand over; raises `InvalidRequest` for a name that is taken."""
        await self.check_set_up()
        minted, now = mint(), self._clock.now()
        user = User(self._ids.new("user"), filled(name), role, now)
        key = self._key(minted, _allowed(by, KeyRequest(user.id, "first key"), now), by.caller.user_id, now)
        return InvitedUser(await self.directory.add_user(user, key), IssuedKey(key, minted.secret))

    async def create_group(self, name: str) -> Group:
        """A new group; raises `InvalidRequest` for a name that is taken."""
        return await self.directory.add_group(Group(self._ids.new("group"), filled(name), self._clock.now()))

    async def revoke(self, user_id: str, key_id: str) -> Key:
        """End a key and the logins by it."""
        return await self.directory.revoke_key(user_id, key_id, self._clock.now())

    def _key(
        self, minted: NewSecret, order: KeyRequest, issued_by: str, now: datetime, *, parent_id: str | None = None
    ) -> Key:
        return Key(
            id=self._ids.new("key"),
            user_id=order.user_id,
            name=filled(order.name),
            prefix=minted.prefix,
            digest=minted.digest,
            scopes=EVERY_SCOPE if order.scopes is None else order.scopes,
            issued_by=issued_by,
            created_at=now,
            expires_at=order.expires_at,
            parent_id=parent_id,
            options=order.options,
        )


def _allowed(by: Identity, order: KeyRequest, now: datetime) -> KeyRequest:
    """The request with its scopes. Raises `InvalidRequest` if it asks for more than its maker has."""
    if order.expires_at is not None and order.expires_at <= now:
        raise InvalidRequest("The key would have expired already.", hint="Name a later moment.", param="expires_at")
    scopes = by.scopes if order.scopes is None else order.scopes
    if not scopes:
        raise InvalidRequest("The key would open nothing.", hint="Name a scope.", param="scopes")
    if not scopes <= by.scopes:
        missing = ", ".join(sorted(scopes - by.scopes))
        raise InvalidRequest(
            f"The key that makes it has not the scope {missing}.", hint="Ask for no more than it has.", param="scopes"
        )
    return replace(order, scopes=scopes)


def filled(name: str) -> str:
    """A name without blanks around it; raises `InvalidRequest` for an empty one."""
    stripped = " ".join(name.split())
    if not stripped:
        raise InvalidRequest("The name is empty.", hint="Write something.", param="name")
    return stripped
