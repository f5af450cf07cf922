"""What the provider says of a miss stands beside what was found here, and where the two disagree that is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.cache.difference import Cause
from lamella.cache.why import Evidence, why
from lamella.core.caching import CacheVerdict, Diagnosis
from lamella.core.records import StoredSegment

from .test_why import BEFORE, FACTS, OLD, record, segment

NAMED = replace(BEFORE, answer_id="msg_1")
CHANGED = (segment("system", content="another"), OLD[1])


@pytest.mark.parametrize(
    ("segments", "read", "diagnosis", "said", "agrees"),
    [
        (OLD, 0, Diagnosis("msg_1", CacheVerdict.SAME), "nothing in the request kept its cache from being read.", True),
        (
            OLD,
            0,
            Diagnosis("msg_1", CacheVerdict.CHANGED, "tools_changed", 12_400),
            "differs from the cause found here.",
            False,
        ),
        (
            OLD,
            12_400,
            Diagnosis("msg_1", CacheVerdict.CHANGED, "tools_changed"),
            "which differs from the cause found here.",
            False,
        ),
        (
            CHANGED,
            0,
            Diagnosis("msg_1", CacheVerdict.CHANGED, "system_changed", 12_400),
            "(12.4k tokens missed).",
            True,
        ),
        (
            CHANGED,
            0,
            Diagnosis("msg_1", CacheVerdict.CHANGED, "model_changed"),
            "which differs from the cause found here.",
            False,
        ),
        (CHANGED, 0, Diagnosis("msg_1", CacheVerdict.SAME), "which differs from the cause found here.", False),
        (
            CHANGED,
            0,
            Diagnosis("msg_1", CacheVerdict.CHANGED, "moon_changed"),
            "The provider says: moon_changed.",
            None,
        ),
        (CHANGED, 0, Diagnosis("msg_1", CacheVerdict.PENDING), "it was still comparing when the answer began.", None),
        (CHANGED, 0, Diagnosis("msg_0", CacheVerdict.SAME), "compared with an earlier answer: nothing", None),
    ],
)
def test_both_are_told(
    segments: tuple[StoredSegment, ...], read: int, diagnosis: Diagnosis, said: str, agrees: bool | None
) -> None:
    now = record(1, *segments, read=read, predicted=12_400 if segments is OLD else 0)
    ours = why(Evidence(now, NAMED, (), FACTS))
    both = why(Evidence(replace(now, diagnosis=diagnosis), NAMED, (), FACTS))
    assert both.text.startswith(f"{ours.text} The provider says")
    assert said in both.text
    assert both.provider is not None
    assert both.provider.agrees is agrees
    assert replace(both, text=ours.text, provider=None) == ours


def test_where_all_was_read_it_is_told_for_programs_alone() -> None:
    now = record(1, *OLD, read=12_400, predicted=12_400)
    moved = Diagnosis("msg_1", CacheVerdict.CHANGED, "messages_changed", 9)
    found = why(Evidence(replace(now, diagnosis=moved), NAMED, (), FACTS))
    assert found.text == why(Evidence(now, NAMED, (), FACTS)).text
    assert found.provider is not None
    assert found.provider.text.endswith("(9 tokens missed), after the cached prefix.")
    assert found.provider.agrees is True


def test_a_first_request_has_nothing_to_compare() -> None:
    now = replace(record(1, *OLD), diagnosis=Diagnosis("msg_0", CacheVerdict.NOT_FOUND))
    found = why(Evidence(now, None, (), FACTS))
    assert found.cause is Cause.FIRST
    assert found.text.endswith("compared with an earlier answer: it does not know the answer to compare with.")


def test_what_differs_behind_what_was_cached_explains_no_miss() -> None:
    """A reminder moves with every message, and a provider that compares whole prompts tells of it."""
    before = replace(NAMED, segments=(*OLD, segment("reminder", "step")))
    now = record(1, *OLD, segment("reminder", "step", "another"))
    moved = Diagnosis("msg_1", CacheVerdict.CHANGED, "messages_changed", 28)
    found = why(Evidence(replace(now, diagnosis=moved), before, (), FACTS))
    assert (found.cause, found.difference) == (Cause.MISSED, None)
    assert found.text.endswith(
        "The provider says: earlier messages changed (28 tokens missed), after the cached prefix."
    )
    assert found.provider is not None
    assert found.provider.agrees is None
    assert (found.differs is not None, found.is_behind) == (True, True)
