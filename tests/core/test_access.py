"""How much of a base somebody may read: the one decision, which says `none` wherever something is in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.access import AccessFacts, GrantLevel, Role, can_see, level_of

BOB = AccessFacts("user_bob", "member", disabled=False, owner="user_ann", direct=None, groups=())
FULL, RESTRICTED, NONE = GrantLevel.FULL, GrantLevel.RESTRICTED, GrantLevel.NONE

LEVELS = st.sampled_from([level.value for level in GrantLevel])
WORDS = LEVELS | st.sampled_from(["", "FULL", "ful", "all", "None"])
standings = st.builds(
    AccessFacts,
    user_id=st.sampled_from(["user_ann", "user_bob"]),
    role=st.none() | st.sampled_from(["admin", "member", "owner", ""]),
    disabled=st.booleans(),
    owner=st.none() | st.just("user_ann"),
    direct=st.none() | WORDS,
    groups=st.none() | st.lists(WORDS, max_size=3).map(tuple),
)


@pytest.mark.parametrize(
    ("direct", "groups", "level"),
    [
        (None, (), NONE),
        ("restricted", (), RESTRICTED),
        ("full", (), FULL),
        (None, ("restricted",), RESTRICTED),
        (None, ("restricted", "full", "none"), FULL),
        ("restricted", ("full",), FULL),
        ("full", ("restricted",), FULL),
        ("none", ("full", "full"), NONE),
        (None, ("none",), NONE),
        ("restricted", ("none",), RESTRICTED),
    ],
)
def test_the_highest_holds_but_a_none_of_ones_own_wins(
    direct: str | None, groups: tuple[str, ...], level: GrantLevel
) -> None:
    assert level_of(replace(BOB, direct=direct, groups=groups)) is level


def test_the_owner_reads_all_and_an_admin_no_more_than_others() -> None:
    assert level_of(replace(BOB, user_id="user_ann")) is FULL
    assert level_of(replace(BOB, role="admin")) is NONE
    assert level_of(replace(BOB, role="admin", direct="restricted")) is RESTRICTED


@pytest.mark.parametrize(
    "doubt",
    [
        {"role": None},
        {"role": "root"},
        {"disabled": True},
        {"owner": None},
        {"groups": None},
        {"direct": "FULL"},
        {"groups": ("full", "everything")},
    ],
    ids=str,
)
def test_any_doubt_is_none(doubt: dict[str, object]) -> None:
    sure = replace(BOB, direct="full", groups=("full",))
    assert level_of(sure) is FULL
    assert level_of(replace(sure, **doubt)) is NONE  # type: ignore[arg-type]  # each is a field's own type
    if doubt not in ({"direct": "FULL"}, {"groups": ("full", "everything")}):
        assert level_of(replace(sure, user_id="user_ann", **doubt)) is NONE  # type: ignore[arg-type]


@given(standings)
def test_a_level_is_never_more_than_what_was_granted(standing: AccessFacts) -> None:
    level = level_of(standing)
    if standing.owner == standing.user_id:
        assert level in (FULL, NONE)
    elif level is not NONE:
        assert level.value in ((standing.direct,) if standing.direct else ()) + (standing.groups or ())
        assert standing.direct != "none"
    if level is not NONE:
        assert standing.role in {role.value for role in Role}
        assert not standing.disabled


@given(standings, st.lists(LEVELS, max_size=2))
def test_a_group_more_takes_nothing_away_and_a_role_gives_nothing(standing: AccessFacts, more: list[str]) -> None:
    rank = [NONE, RESTRICTED, FULL].index
    if standing.groups is not None:
        wider = replace(standing, groups=(*standing.groups, *more))
        assert rank(level_of(wider)) >= rank(level_of(standing))
    if standing.role == "member":
        assert level_of(replace(standing, role="admin")) is level_of(standing)


@given(standings, st.booleans())
def test_what_can_be_read_can_be_seen_and_a_doubt_shows_nothing(standing: AccessFacts, visible: bool) -> None:
    seen = can_see(standing, visible=visible)
    if level_of(standing) is not NONE:
        assert seen
    elif seen:
        assert (visible, standing.direct, standing.disabled) == (True, None, False)
        assert None not in (standing.role, standing.owner, standing.groups)


def test_a_visible_base_is_shown_to_who_has_no_grant_and_hidden_from_who_has_none() -> None:
    assert can_see(BOB, visible=True)
    assert not can_see(BOB, visible=False)
    assert can_see(replace(BOB, groups=("none",)), visible=True)
    assert not can_see(replace(BOB, direct="none"), visible=True)
    assert not can_see(replace(BOB, direct="none", groups=("full",)), visible=True)
