"""What is said of a request's bill: in one sentence, from what is stored of it and of the one before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lamella.cache.difference import Cause
from lamella.cache.why import Evidence, why
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.records import RequestRecord, StoredDecision, StoredMarker, StoredSegment
from lamella.core.tokens import Usage
from lamella.llm.model_table import ModelTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FACTS = ModelTable.shipped().facts("claude-opus-4-8", "anthropic")


def segment(id: str, lifetime: str = "session", content: str = "") -> StoredSegment:
    return StoredSegment(id, "user", lifetime, id, "user", f"The {id}", "U1", 100, (content or id,))


def record(
    minute: float, *segments: StoredSegment, read: int = 0, written: int = 0, predicted: int = 0
) -> RequestRecord:
    """A billed request so many minutes after noon, marked at its end, of 12,500 tokens at least, 100 behind that."""
    return RequestRecord(
        id=f"req_{minute}",
        conversation_id="conv_1",
        turn_id="turn_1",
        step=0,
        purpose="chat",
        model="claude-opus-4-8",
        layout="lamella",
        marker_policy="planner",
        at=NOON + timedelta(minutes=minute),
        head={},
        letters="",
        segments=segments,
        zones=(),
        markers=(StoredMarker(sum(len(one.blocks) for one in segments) - 1, "5m", "the end"),),
        notes=(),
        protocol="anthropic",
        local_tokens=1_000,
        estimate=1_000,
        budget=100_000,
        predicted_read=predicted,
        predicted_written=0,
        predicted_hit=None,
        usage=Usage(input=max(read + written, 12_400) + 100, cache_read=read, cache_write_5m=written, output=10),
        cost=0.0123,
    )


OLD = (segment("system"), segment("first"))
BEFORE = record(0, *OLD, written=12_400)


def decided(minute: float, first_changed: str | None, why: str = "somebody changed it") -> StoredDecision:
    decision = Decision(DecisionKind.SETTING, "agent", "agent_1@2", "user", why, first_changed=first_changed)
    return StoredDecision(f"dec_{minute}", NOON + timedelta(minutes=minute), decision)


def test_what_was_read_as_predicted() -> None:
    now = record(1, *OLD, segment("second"), read=12_400, written=700, predicted=12_400)
    found = why(Evidence(now, BEFORE, (), FACTS))
    assert found.text == (
        "12.4k of 13.2k tokens were read from the cache (12.4k predicted), 700 written, 100 paid in full ($0.0123). "
        "All that was cached was read."
    )
    assert (found.cause, found.lost, found.lost_cost) == (Cause.READ, 0, 0)


def test_it_is_said_if_more_was_read_than_was_known() -> None:
    now = record(1, *OLD, segment("second"), read=14_000, written=700, predicted=12_400)
    found = why(Evidence(now, BEFORE, (), FACTS))
    assert found.text.endswith(
        "All that was cached was read, and more than was known here: another process or program had written it."
    )
    assert (found.cause, found.lost) == (Cause.READ, 0)


def test_a_first_request_lost_nothing() -> None:
    found = why(Evidence(record(0, *OLD, written=900), None, (), FACTS))
    assert (found.cause, found.lost) == (Cause.FIRST, 0)
    assert "It is the first request of its conversation: nothing was cached yet." in found.text


def test_a_request_that_failed_says_so() -> None:
    failed = replace(record(1, *OLD, predicted=12_400), usage=None, error={"code": "overloaded"})
    found = why(Evidence(failed, BEFORE, (), FACTS))
    assert found.cause is Cause.NOT_BILLED
    assert found.text == "About 12.4k of 1k tokens were to be read; it failed before it was billed."


@pytest.mark.parametrize(
    ("now", "decisions", "cause", "says", "first"),
    [
        (record(6, *OLD), (), Cause.EXPIRED, "the cache had expired: 6 min passed, and it lives 5 min", None),
        (
            replace(record(1, *OLD), model="gpt-5.6"),
            (),
            Cause.MODEL,
            "the model was changed from claude-opus-4-8 to gpt-5.6",
            None,
        ),
        (
            replace(record(1, *OLD), thinking_effort="high"),
            (),
            Cause.EFFORT,
            "the thinking effort was changed from off to high",
            None,
        ),
        (
            record(1, segment("system", content="other"), OLD[1]),
            (decided(-1, "system", "long ago"), decided(0.5, "system", "the agent “A” was edited")),
            Cause.DECIDED,
            "from “The system” on the window is another, because the agent “A” was edited",
            "system",
        ),
        (
            record(1, OLD[0]),
            (
                StoredDecision(
                    "dec_1",
                    NOON + timedelta(minutes=0.5),
                    Decision(DecisionKind.SESSION, "sess_2", "turn_1", "engine", "/compact"),
                ),
            ),
            Cause.SHORTER,
            "because another session began (/compact)",
            "first",
        ),
        (
            record(1, OLD[0]),
            (
                StoredDecision(
                    "dec_1",
                    NOON + timedelta(minutes=0.5),
                    Decision(DecisionKind.PRUNE, "conv_1", "step_1", "engine", "8.1k tokens were old"),
                ),
            ),
            Cause.SHORTER,
            "old results of tools were pruned (8.1k tokens were old)",
            "first",
        ),
        (
            record(1, *OLD),
            (),
            Cause.MISSED,
            "the window begins as the one before, so the provider did not find what it had cached",
            None,
        ),
        (
            record(1, OLD[0]),
            (),
            Cause.MOVED,
            "from “The first” on the window is another, and no decision says why",
            "first",
        ),
    ],
)
def test_what_happened_to_what_was_cached(
    now: RequestRecord, decisions: tuple[StoredDecision, ...], cause: Cause, says: str, first: str | None
) -> None:
    found = why(Evidence(now, BEFORE, decisions, FACTS))
    assert (found.cause, found.lost, found.first_changed) == (cause, 12_400, first)
    assert says in found.text
    # 12,400 tokens at $5 a million: paid in full, where reading them costs a tenth.
    assert found.lost_cost == pytest.approx(12_400 * 0.9 * 5 / 1_000_000)
    assert "12.4k cached tokens were not read, $0.0558 more than reading them: " in found.text


def test_what_a_layout_moves_is_told_by_its_life() -> None:
    before = record(0, OLD[0], segment("dynamic", "turn"), written=5_000)
    found = why(Evidence(record(1, OLD[0], read=2_000), before, (), FACTS))
    assert (found.cause, found.lost) == (Cause.MOVED, 3_000)
    assert "in layout lamella that part lives for a turn only" in found.text


def test_an_hour_is_not_over_after_six_minutes() -> None:
    hour = replace(BEFORE, markers=(StoredMarker(1, "1h", "the end"),))
    assert why(Evidence(record(6, *OLD), hour, (), FACTS)).cause is Cause.MISSED
    assert why(Evidence(record(61, *OLD), hour, (), FACTS)).cause is Cause.EXPIRED


def test_the_end_may_live_for_less_than_what_stands_before_it() -> None:
    markers = (StoredMarker(0, "1h", "what stays"), StoredMarker(1, "5m", "the end"))
    before = replace(BEFORE, markers=markers)
    found = why(Evidence(record(6, *OLD, read=5_000, predicted=5_000), before, (), FACTS))
    assert (found.cause, found.lost) == (Cause.EXPIRED, 7_400)
    assert "the end of it had expired: 6 min passed, and that lives 5 min" in found.text
    # Where more was to be read, it was still there.
    assert why(Evidence(record(6, *OLD, predicted=5_000), before, (), FACTS)).cause is Cause.MISSED
    assert why(Evidence(record(4, *OLD, read=5_000, predicted=12_400), before, (), FACTS)).cause is Cause.MISSED


def test_nothing_was_cached_before() -> None:
    before = replace(record(0, *OLD), usage=Usage(input=300, output=10))
    found = why(Evidence(record(1, *OLD), before, (), FACTS))
    assert (found.cause, found.lost) == (Cause.NOTHING_CACHED, 0)
    assert "too short (at least 1k tokens for claude-opus-4-8)" in found.text
    off = replace(record(1, *OLD), marker_policy="off")
    assert "no markers are set" in why(Evidence(off, before, (), None)).text


def test_only_what_is_sent_again_costs_more() -> None:
    begun = Decision(DecisionKind.SESSION, "sess_2", "turn_1", "engine", "/new")
    decisions = (StoredDecision("dec_1", NOON + timedelta(seconds=30), begun),)
    now = replace(record(1, OLD[0]), usage=Usage(input=2_000, cache_read=1_200, cache_write_5m=700, output=10))
    found = why(Evidence(now, BEFORE, decisions, FACTS))
    assert (found.cause, found.lost) == (Cause.SHORTER, 11_200)
    assert found.lost_cost == pytest.approx(800 * 1.15 * 5 / 1_000_000)
    assert "11.2k cached tokens were not read, 800 were paid for again, $0.0046 more than reading them: " in found.text


def test_what_was_to_be_read_of_this_very_window_was_missed() -> None:
    now = record(1, OLD[0], predicted=9_000)
    found = why(Evidence(now, BEFORE, (decided(0.5, "first"),), FACTS))
    assert (found.cause, found.by) == (Cause.MISSED, None)
    assert "the change leaves the predicted prefix as it was" in found.text


def test_a_decision_about_what_both_windows_begin_with_changed_something_else() -> None:
    """A clock that was set back leaves decisions of earlier in the way."""
    now = record(1, OLD[0], segment("second"))
    begun = Decision(DecisionKind.SESSION, "sess_2", "turn_1", "engine", "/new")
    decisions = (StoredDecision("dec_1", NOON + timedelta(seconds=30), begun), decided(0.6, "system"))
    assert why(Evidence(now, BEFORE, decisions, FACTS)).cause is Cause.SHORTER
