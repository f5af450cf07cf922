"""Users, groups, bases and grants as rows: what is shown to whom, and what is kept of every change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from lamella.app.bases import described
from lamella.core.access import (
    EVERY_SCOPE,
    LOCAL_USER,
    AuditKind,
    BaseContent,
    GrantLevel,
    Group,
    Key,
    Role,
    Subject,
    User,
    UserChange,
)
from lamella.core.errors import InvalidRequest, NotFound, PermissionDenied
from lamella.core.records import Caller, PageQuery
from lamella.storage import Store
from lamella.storage.directory import FIRST_RUN_TOKEN

from .conftest import Backing
from .examples import ANN, BOB, NOON, minutes

pytestmark = pytest.mark.anyio

FULL, RESTRICTED, NONE = GrantLevel.FULL, GrantLevel.RESTRICTED, GrantLevel.NONE
CARL = Caller("user_carl")
BOBS, STAFF = Subject("user", "user_bob"), Subject("group", "group_staff")
OLDEST_FIRST = PageQuery(100, None, "asc")


async def people(store: Store) -> None:
    """Ann, Bob and Carl, of whom Bob is staff."""
    for name in ("ann", "bob", "carl"):
        await store.directory.add_user(User(f"user_{name}", name.title(), Role.MEMBER, NOON))
    await store.directory.add_group(Group("group_staff", "Staff", NOON))
    await store.directory.add_member("group_staff", "user_bob", "user_local", NOON)


async def library(store: Store, *, visible: bool = False) -> str:
    """A base of Ann's."""
    await people(store)
    return (await store.access.add_base(ANN, "kb_1", BaseContent("Prices", "What things cost.", visible), NOON)).id


def key(key_id: str = "key_1", user_id: str = "user_ann", **rest: object) -> Key:
    """A key of Ann's."""
    made = Key(key_id, user_id, "laptop", "abcd", b"\x01" * 32, EVERY_SCOPE, user_id, NOON)
    return replace(made, **rest)  # type: ignore[arg-type]  # the fields of a key


async def test_what_a_model_says_of_a_base_never_replaces_what_a_person_said(store: Store) -> None:
    base = await library(store)
    assert await store.access.described_from(ANN, base) == ""
    assert await store.access.describe_base(ANN, base, "Prices of tools.", ("tools", "prices"), "f1", NOON)
    found = (await store.access.base(ANN, base)).content
    assert (found.summary, found.topics, found.described_by) == ("Prices of tools.", ("tools", "prices"), "model")
    assert await store.access.described_from(ANN, base) == "f1"

    await store.access.change_base(ANN, base, lambda now: described(now, "Mine.", now.topics), NOON)
    assert await store.access.described_from(ANN, base) is None
    assert not await store.access.describe_base(ANN, base, "Again.", (), "f2", NOON)
    assert (await store.access.base(ANN, base)).content.summary == "Mine."

    await store.access.change_base(ANN, base, lambda now: described(now, " ", ()), NOON)
    assert await store.access.describe_base(ANN, base, "Again.", (), "f2", NOON)
    with pytest.raises(NotFound):
        await store.access.described_from(BOB, base)
    assert not await store.access.describe_base(BOB, base, "Foreign.", (), "f3", NOON)


async def test_a_new_database_has_the_local_user_as_its_admin(store: Store) -> None:
    [local] = (await store.directory.users(PageQuery())).data
    assert (local.id, local.role, local.disabled) == (LOCAL_USER, Role.ADMIN, False)
    assert await store.directory.set_up_at() is None


async def test_accounts_are_set_up_once(store: Store) -> None:
    admin = await store.directory.set_up("Ann", key(user_id=LOCAL_USER), minutes(1))
    assert (admin.id, admin.name, admin.role, await store.directory.set_up_at()) == (
        LOCAL_USER,
        "Ann",
        Role.ADMIN,
        minutes(1),
    )
    with pytest.raises(PermissionDenied):
        await store.directory.set_up("Bob", key("key_2", LOCAL_USER), minutes(2))
    assert [key.id for key in (await store.directory.keys(LOCAL_USER, PageQuery())).data] == ["key_1"]


async def test_names_are_taken_whatever_their_case_and_an_admin_stays(store: Store) -> None:
    await people(store)
    with pytest.raises(InvalidRequest, match="user “ANN” already"):
        await store.directory.add_user(User("user_2", "ANN", Role.MEMBER, NOON))
    with pytest.raises(InvalidRequest, match="already"):
        await store.directory.change_user("user_bob", UserChange(name="carl"))
    with pytest.raises(InvalidRequest, match="group “staff” already"):
        await store.directory.add_group(Group("group_2", "staff", NOON))
    for change in (UserChange(role=Role.MEMBER), UserChange(disabled=True)):
        with pytest.raises(InvalidRequest, match="only admin"):
            await store.directory.change_user(LOCAL_USER, change)
    assert (await store.directory.user(LOCAL_USER)).role is Role.ADMIN
    changed = await store.directory.change_user("user_bob", UserChange("Bobby", Role.ADMIN))
    assert (changed.name, changed.role) == ("Bobby", Role.ADMIN)
    assert (await store.directory.change_user(LOCAL_USER, UserChange(disabled=True))).disabled


async def test_members_come_and_go(store: Store) -> None:
    await people(store)
    assert [
        user.id for user in (await store.directory.add_member("group_staff", "user_carl", "user_local", NOON)).members
    ] == [
        "user_bob",
        "user_carl",
    ]
    assert len((await store.directory.add_member("group_staff", "user_carl", "user_local", NOON)).members) == 2
    assert [
        user.id for user in (await store.directory.remove_member("group_staff", "user_bob", "user_local", NOON)).members
    ] == ["user_carl"]
    for wrong in (
        store.directory.remove_member("group_staff", "user_bob", "user_local", NOON),
        store.directory.add_member("group_staff", "user_none", "user_local", NOON),
    ):
        with pytest.raises(NotFound):
            await wrong
    assert (await store.directory.rename_group("group_staff", "Crew")).name == "Crew"
    assert [group.name for group in (await store.directory.groups(PageQuery())).data] == ["Crew"]
    await store.directory.delete_group("group_staff", LOCAL_USER, NOON)
    kept = (await store.directory.audit(AuditKind.MEMBERS, PageQuery(10, None, "asc"))).data
    assert [(one.subject, one.on_name, one.before, one.after) for one in kept] == [
        ("user_bob", "Staff", None, "member"),
        ("user_carl", "Staff", None, "member"),
        ("user_bob", "Staff", "member", None),
        ("user_carl", "Crew", "member", None),
    ]
    assert {(one.by, one.by_name) for one in kept} == {(LOCAL_USER, (await store.directory.user(LOCAL_USER)).name)}


async def test_a_key_comes_back_and_ends_with_the_logins_by_it(store: Store) -> None:
    await people(store)
    await store.directory.add_key(key(expires_at=minutes(60)))
    await store.directory.add_key(key("key_2", prefix="efgh", parent_id="key_1"))
    assert [found.id for found in (await store.directory.keys("user_ann", PageQuery())).data] == ["key_1"]
    [(found, parent, user)] = await store.directory.keys_by_prefix("efgh")
    assert (found.id, parent and parent.id, user.name) == ("key_2", "key_1", "Ann")
    await store.directory.use_key("key_1", minutes(1))
    assert (await store.directory.key("user_ann", "key_1")).last_used_at == minutes(1)
    ended = await store.directory.revoke_key("user_ann", "key_1", minutes(2))
    again = await store.directory.revoke_key("user_ann", "key_1", minutes(3))
    assert ended == again
    assert (ended.revoked_at, (await store.directory.key("user_ann", "key_2")).revoked_at) == (minutes(2), minutes(2))
    for verb in (store.directory.key("user_bob", "key_1"), store.directory.revoke_key("user_bob", "key_1", NOON)):
        with pytest.raises(NotFound):
            await verb
    assert "\\x01" not in repr(ended)


async def test_a_base_is_there_for_who_may_see_it(store: Store) -> None:
    base = await library(store)
    assert (await store.access.base(ANN, base)).level is FULL
    assert (await store.access.bases(BOB, PageQuery())).data == ()
    with pytest.raises(NotFound) as foreign:
        await store.access.base(BOB, base)
    with pytest.raises(NotFound) as missing:
        await store.access.base(BOB, "kb_9")
    assert foreign.value.message.replace(base, "kb_9") == missing.value.message
    await store.access.set_grant(ANN, base, STAFF, RESTRICTED, NOON)
    assert [(seen.id, seen.level) for seen in (await store.access.bases(BOB, PageQuery())).data] == [(base, RESTRICTED)]
    assert (await store.access.bases(CARL, PageQuery())).data == ()
    await store.access.change_base(ANN, base, lambda now: replace(now, visible=True), minutes(1))
    assert [(seen.id, seen.level) for seen in (await store.access.bases(CARL, PageQuery())).data] == [(base, NONE)]
    assert [(seen.id, seen.level) for seen in (await store.access.bases(BOB, PageQuery())).data] == [(base, RESTRICTED)]
    await store.access.set_grant(ANN, base, BOBS, NONE, NOON)
    assert (await store.access.bases(BOB, PageQuery())).data == ()
    assert await store.access.level(BOB, base) is NONE


async def test_only_the_owner_changes_a_base(store: Store) -> None:
    base = await library(store)
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: store.access.change_base(BOB, base, lambda now: now, NOON),
        lambda: store.access.delete_base(BOB, base, NOON),
        lambda: store.access.grants(BOB, base),
        lambda: store.access.set_grant(BOB, base, Subject("user", "user_carl"), FULL, NOON),
        lambda: store.access.grant_changes(BOB, base, PageQuery()),
    ]
    for verb in verbs:
        with pytest.raises(NotFound):
            await verb()
    await store.access.set_grant(ANN, base, BOBS, FULL, NOON)
    for verb in verbs:
        with pytest.raises(PermissionDenied):
            await verb()
    assert await store.access.level(CARL, base) is NONE


async def test_every_change_of_a_grant_is_kept(store: Store) -> None:
    base = await library(store)
    for minute, (subject, level) in enumerate(
        [(BOBS, FULL), (BOBS, FULL), (BOBS, RESTRICTED), (STAFF, FULL), (BOBS, None), (BOBS, None)]
    ):
        await store.access.set_grant(ANN, base, subject, level, minutes(minute))
    await store.directory.delete_group("group_staff", "user_admin", minutes(9))
    kept = (await store.access.grant_changes(ANN, base, OLDEST_FIRST)).data
    assert [(one.name, one.before, one.after, one.by, one.at) for one in kept] == [
        ("Bob", None, FULL, "user_ann", minutes(0)),
        ("Bob", FULL, RESTRICTED, "user_ann", minutes(2)),
        ("Staff", None, FULL, "user_ann", minutes(3)),
        ("Bob", RESTRICTED, None, "user_ann", minutes(4)),
        ("Staff", FULL, None, "user_admin", minutes(9)),
    ]
    assert await store.access.grants(ANN, base) == ()
    assert await store.access.level(BOB, base) is NONE


async def test_who_is_granted_has_to_be_there_and_not_the_owner(store: Store) -> None:
    base = await library(store)
    for subject in (Subject("user", "user_none"), Subject("group", "user_bob"), Subject("user", "group_staff")):
        with pytest.raises(NotFound):
            await store.access.set_grant(ANN, base, subject, FULL, NOON)
    with pytest.raises(InvalidRequest, match="owner"):
        await store.access.set_grant(ANN, base, Subject("user", "user_ann"), NONE, NOON)
    assert (await store.access.grant_changes(ANN, base, PageQuery())).data == ()


async def test_a_base_that_is_gone_leaves_what_was_granted_in_the_record(store: Store, backing: Backing) -> None:
    base = await library(store)
    await store.access.set_grant(ANN, base, BOBS, FULL, NOON)
    await store.access.delete_base(ANN, base, minutes(1))
    assert await store.access.level(BOB, base) is NONE
    rows = backing.dump()
    assert "grants" not in rows
    assert [(row["before"], row["after"]) for row in rows["grant_changes"]] == [(None, "full"), ("full", None)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE grants SET level = 'everything'",
        "UPDATE users SET role = 'root' WHERE id = 'user_bob'",
        "UPDATE users SET disabled = TRUE WHERE id = 'user_bob'",
        "UPDATE grants SET subject_kind = 'team'",
    ],
)
async def test_a_row_that_makes_no_sense_opens_nothing(store: Store, backing: Backing, damage: str) -> None:
    base = await library(store, visible=True)
    await store.access.set_grant(ANN, base, BOBS, FULL, NOON)
    assert await store.access.level(BOB, base) is FULL
    backing.run(damage)
    assert await store.access.level(BOB, base) is NONE


async def test_a_caller_without_a_user_sees_and_makes_nothing(store: Store) -> None:
    base = await library(store, visible=True)
    nobody = Caller("user_nobody")
    assert await store.access.level(nobody, base) is NONE
    assert (await store.access.bases(nobody, PageQuery())).data == ()
    for verb in (store.access.base(nobody, base), store.access.add_base(nobody, "kb_2", BaseContent("Mine"), NOON)):
        with pytest.raises(NotFound):
            await verb


async def test_bases_are_paged_over_those_that_are_hidden(store: Store) -> None:
    await library(store, visible=True)
    for number in range(2, 9):
        await store.access.add_base(ANN, f"kb_{number}", BaseContent(f"Base {number}", visible=True), NOON)
        if number % 2:
            await store.access.set_grant(ANN, f"kb_{number}", BOBS, NONE, NOON)
    first = await store.access.bases(BOB, PageQuery(3, None, "asc"))
    assert ([base.id for base in first.data], first.has_more) == (["kb_1", "kb_2", "kb_4"], True)
    rest = await store.access.bases(BOB, PageQuery(3, "kb_4", "asc"))
    assert ([base.id for base in rest.data], rest.has_more) == (["kb_6", "kb_8"], False)


async def test_a_value_that_processes_share_is_the_first_one_that_was_made(store: Store, backing: Backing) -> None:
    assert await store.directory.shared_value("cache_salt", b"first") == b"first"
    async with await backing.open() as other:
        assert await other.directory.shared_value("cache_salt", b"second") == b"first"


async def test_the_first_run_token_is_kept_until_accounts_are_set_up(store: Store) -> None:
    assert await store.directory.shared_value(FIRST_RUN_TOKEN, b"printed") == b"printed"
    await store.directory.set_up("Ann", key(user_id=LOCAL_USER), minutes(1))
    assert await store.directory.shared_value(FIRST_RUN_TOKEN, b"another") == b"another"
