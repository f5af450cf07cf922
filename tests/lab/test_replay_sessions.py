"""Replays of sessions: compactions in the background and late, commands between turns, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lamella.cli.replay  # noqa: F401 (registers the command)
from lamella.cli.main import cli
from lamella.core.caching import Ttl
from lamella.core.errors import InvalidRequest
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.report import ReplayReport

from .traces import SEARCH, Raw, letters, parsed, run

pytestmark = pytest.mark.anyio

TALK = "The museum keeps its models in the workshop, and the lift was repaired in May. " * 14


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def ground() -> AsyncIterator[ReplayEnvironment]:
    shared = ReplayEnvironment()
    yield shared
    await shared.close()


def told(number: int) -> Raw:
    """A turn with a fact and much beside it."""
    fact = f"FACT-{number}: the room {number} has slate floors."
    return {"pause": 40, "user": f"What of room {number}? {TALK}", "steps": [{"text": f"{fact} {TALK}"}]}


def asked(text: str) -> Raw:
    return {"pause": 20, "user": text, "steps": [{"text": "Slate."}]}


def museum(*more: Raw, summary: Any = "keep_facts", **settings: Any) -> Raw:
    """Three long turns, then more."""
    first = told(1) | {"at": "2026-03-01T09:00:00+00:00"}
    del first["pause"]
    usual = {"keep_recent_tokens": 800, "compaction_threshold": "100%", "context_budget": 20_000}
    return {
        "lamella_trace": 1,
        "model": "claude-sonnet-5-5",
        "system": "You know the museum. " * 80,
        "settings": usual | settings,
        "side": {"summary": summary},
        "turns": [first, told(2), told(3), *more],
    }


def command(text: str) -> Raw:
    return {"pause": 5, "user": text}


def happened(report: ReplayReport) -> list[tuple[int, str, str]]:
    """Behind which request what happened, and why."""
    return [(one.after, one.kind, one.cause) for one in report.happenings]


def purposes(report: ReplayReport) -> list[str]:
    return [request.record.purpose for request in report.requests]


async def test_a_compaction_that_is_asked_for_ends_before_the_next_turn(ground: ReplayEnvironment) -> None:
    report = await run(museum(command("/compact the roof"), asked("Which floor?")), ground)
    assert purposes(report) == ["chat", "chat", "chat", "summary", "chat"]
    assert letters(report)[-1] == "S Σ U1 A1 U2"
    assert happened(report) == [
        (4, "command", "/compact the roof"),
        (4, "session", "/compact the roof"),
        (4, "notice", "compacted"),
    ]
    _, session, notice = report.happenings
    assert session.text == "session 2"
    assert session.numbers["before"] > session.numbers["after"] > session.numbers["kept"]
    assert notice.text.startswith("Compacted (")
    summary = report.requests[3]
    assert b"Give most room to this: the roof" in summary.body
    assert "FACT-2" in report.requests[-1].body.decode()
    totals: Any = report.as_json()["totals"]
    assert totals["by_purpose"]["summary"]["requests"] == 1
    both = sum(part["cost"] for part in totals["by_purpose"].values())
    assert both == pytest.approx(totals["cost"], abs=1e-7)


@pytest.mark.parametrize("layout", ["lamella", "lis"])
async def test_a_summary_reads_the_cache_and_writes_nothing_to_it(ground: ReplayEnvironment, layout: str) -> None:
    report = await run(museum(command("/compact"), asked("Which floor?")) | {"layout": layout}, ground)
    before, summary = (report.requests[index].record.usage for index in (2, 3))
    assert before is not None
    assert summary is not None
    assert summary.cache_read >= before.cache_read + before.cache_write > 0
    assert summary.cache_write == 0


async def test_a_late_compaction_commits_when_its_turns_have_gone_by(ground: ReplayEnvironment) -> None:
    turns = (command("/compact"), asked("Which floor?"), asked("Sure?"), asked("Really?"))
    report = await run(museum(*turns, summary={"text": "keep_facts", "late": 2}), ground)
    assert purposes(report) == ["chat", "chat", "chat", "summary", "chat", "chat", "chat"]
    assert letters(report)[-3:] == [
        "S U1 A1 U2 A2 U3 A3 U4",
        "S U1 A1 U2 A2 U3 A3 U4 A4 U5",
        "S Σ U1 A1 U2 A2 U3 A3 U4",
    ]
    assert [after for after, kind, _ in happened(report) if kind == "session"] == [6]


async def test_a_new_session_that_is_begun_meanwhile_wins(ground: ReplayEnvironment) -> None:
    turns = (command("/compact"), command("/new"), asked("Hello?"), command("/resume 1"), asked("Where were we?"))
    report = await run(museum(*turns, summary=[{"text": "keep_facts", "late": 1}, "keep_facts"]), ground)
    assert letters(report)[4] == "S U1"
    assert [cause for _, kind, cause in happened(report) if kind == "session"] == ["/new", "/resume 1"]
    assert any("another session was opened meanwhile" in one.text for one in report.happenings)
    assert letters(report)[-1].endswith("U1 A1 U2 A2 U3 A3 U4")


async def test_an_answer_that_read_too_much_starts_it(ground: ReplayEnvironment) -> None:
    report = await run(museum(asked("Which floor?"), compaction_threshold="10%"), ground)
    assert letters(report)[-1] == "S Σ U1 A1 U2"
    [cause] = {cause for _, kind, cause in happened(report) if kind == "session"}
    assert "more than 2000 of 20000" in cause
    quiet = museum(asked("Which floor?"), compaction_threshold="10%", compaction_notify=False)
    assert {kind for _, kind, _ in happened(await run(quiet, ground))} == {"session"}


async def test_a_summariser_that_fails_is_told_and_tried_again_when_it_is_due(ground: ReplayEnvironment) -> None:
    broken = {"fault": {"kind": 500}}
    trace = museum(asked("Which floor?"), asked("Sure?"), compaction_threshold="10%", summary=[broken, "keep_facts"])
    trace["turns"][4] |= {"pause": 120}
    report = await run(trace, ground)
    failed = [one for one in report.happenings if one.kind == "not compacted"]
    assert len(failed) == 1
    assert "again at 09:" in failed[0].text
    assert purposes(report) == ["chat", "chat", "chat", "summary", "chat", "summary", "chat"]
    assert letters(report)[-1].startswith("S Σ U1")


async def test_pruned_results_are_stubs_and_the_pruning_is_told(ground: ReplayEnvironment) -> None:
    call = {"id": "c1", "name": "search", "arguments": {"query": "floors"}, "result": TALK * 4}
    looked = told(4) | {"steps": [{"text": "I look.", "tool_calls": [call]}, {"text": "Slate."}]}
    trace = museum(looked, command("/prune"), asked("Sure?"), tool_keep_threshold=0) | {"tools": [SEARCH]}
    report = await run(trace, ground)
    assert " TC tr " in letters(report)[-1]
    [pruned] = [one for one in report.happenings if one.kind == "prune"]
    assert pruned.numbers["before"] > pruned.numbers["after"]


async def test_two_replays_of_sessions_are_the_same(ground: ReplayEnvironment) -> None:
    turns = (command("/compact"), asked("Which floor?"), command("/new"), asked("Hello?"))
    trace = museum(*turns, summary={"text": "keep_facts", "late": 1})
    one, other = await run(trace, ground), await run(trace)
    assert [r.body for r in one.requests] == [r.body for r in other.requests]
    assert one.as_json() == other.as_json()


def test_the_lines_tell_what_happened_between_requests(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(museum(command("/compact"), asked("Which floor?"))))
    lines = CliRunner().invoke(cli, ["replay", str(path), "--set", "keep_recent_tokens=900"]).stdout.splitlines()
    assert any("(summary)" in line and "S U1 A1 U2 A2 U3" in line for line in lines)
    assert any("[command: /compact]: Summarising 2 of 3 turns" in line for line in lines)
    assert any("[session: /compact: " in line and "→" in line and line.endswith("session 2") for line in lines)
    assert any("Compacted (" in line for line in lines)
    assert any(line.split()[:2] == ["1", "summary"] for line in lines)


def test_a_pause_is_a_number_of_seconds_behind_an_entry() -> None:
    trace = parsed(museum())
    assert [(b.at - a.at).total_seconds() for a, b in zip(trace.entries, trace.entries[1:], strict=False)] == [40, 40]
    for wrong in ({"pause": -1}, {"pause": "soon"}, {"pause": 1, "at": "2026-03-01T10:00:00+00:00"}):
        with pytest.raises(InvalidRequest, match="Entry 4 of `turns`: `pause` can't be used like this"):
            parsed(museum({"user": "Hm?", "steps": [{"text": "Hm."}], **wrong}))


@pytest.mark.parametrize("layout", ["lamella", "onyx"])
async def test_a_huge_turn_of_a_model_that_binds_thinking_is_answered(ground: ReplayEnvironment, layout: str) -> None:
    """The provider checks each request: thinking behind a stub is left out, and everything else is as it was."""
    text = " ".join(f"word{number}" for number in range(900))
    steps: list[Raw] = [
        {
            "text": "I look.",
            "reasoning": f"Hm {number}.",
            "tool_calls": [{"id": f"c{number}", "name": "search", "arguments": {"query": "x"}, "result": text}],
        }
        for number in range(40)
    ]
    trace = museum(context_budget=16_000, max_output=2_000) | {
        "layout": layout,
        "model": "claude-opus-5-5",
        "tools": [SEARCH],
    }
    trace["turns"] = [trace["turns"][0] | {"user": "Go", "steps": [*steps, {"text": "Done."}]}, asked("And?")]
    report = await run(trace, ground)
    assert [request.record.error for request in report.requests] == [None] * 42
    assert report.requests[40].record.letters.endswith("TC TR R" if layout == "onyx" else "TC TR")
    assert report.requests[40].record.letters.count("tr") > 25


def comings(layout: str = "lamella", **settings: Any) -> Raw:
    """Somebody who says much, and goes away for two hours after every second message."""
    pauses = (0, 40, 7_200, 40, 7_200, 40, 7_200, 40, 7_200)
    turns = [told(number) | {"pause": pause} for number, pause in enumerate(pauses)]
    for turn in turns:
        turn["user"] += TALK * 12
    turns[0] = {name: value for name, value in turns[0].items() if name != "pause"} | {
        "at": "2026-03-01T09:00:00+00:00"
    }
    return museum() | {"layout": layout, "settings": {"keep_recent_tokens": 800, **settings}, "turns": turns}


async def test_somebody_who_often_returns_late_has_a_summary_just_before_the_cache_ends(
    ground: ReplayEnvironment,
) -> None:
    """It is asked for 45 seconds before, so that it reads the window from the cache; who comes back finds it short."""
    report = await run(comings(compaction_when="pays"), ground)
    sessions = [one for one in report.happenings if one.kind == "session"]
    assert sessions
    assert all(one.cause.startswith("the cache is about to end, a return after that is ") for one in sessions)
    assert all(one.numbers["returns"] > one.numbers["needed"] for one in sessions)
    asked = [index for index, request in enumerate(report.requests) if request.record.purpose == "summary"]
    for index in asked:
        before, summary = (report.requests[place].record for place in (index - 1, index))
        assert summary.usage is not None
        assert before.usage is not None
        life = max(Ttl(marker.ttl).seconds for marker in before.markers)
        assert (summary.at - before.at).total_seconds() == pytest.approx(life - 45, abs=1)
        assert summary.usage.cache_read == before.usage.cache_read + before.usage.cache_write > 0.6 * before.usage.input
        assert "Σ" in report.requests[index + 1].record.letters
    quiet = await run(comings("lis", compaction_when="pays"), ground)
    assert [one.kind for one in quiet.happenings] == []


async def test_below_the_floor_nobody_who_returns_late_finds_a_summary(ground: ReplayEnvironment) -> None:
    """By default the end of a cache is no reason to summarise a window that is far from full."""
    report = await run(comings(), ground)
    assert [one.kind for one in report.happenings] == []
    above = await run(comings(compaction_floor="5k"), ground)
    assert "session" in [one.kind for one in above.happenings]


async def test_an_amount_of_a_trace_that_is_none_is_refused(ground: ReplayEnvironment) -> None:
    for name in ("compaction_threshold", "compaction_floor"):
        with pytest.raises(InvalidRequest, match=f"{name} can't be “0.3”: .*could be a share or tokens"):
            await run(museum(**{name: "0.3"}), ground)


async def test_a_model_that_binds_thinking_goes_on_behind_what_was_pruned_and_compacted(
    ground: ReplayEnvironment,
) -> None:
    """The provider refuses thinking whose prefix changed: what was made behind a stub or a summary goes without it."""

    def looking(number: int) -> Raw:
        call = {"id": f"c{number}", "name": "search", "arguments": {"query": "x"}, "result": TALK * 16}
        steps = [
            {"text": "I look.", "reasoning": f"Hm {number}.", "tool_calls": [call]},
            {"text": "So.", "reasoning": "!"},
        ]
        return {"pause": 40, "user": f"FACT-{number}: go on to room {number}.", "steps": steps}

    turns = [looking(number) for number in range(5)]
    del turns[0]["pause"]
    turns[0]["at"] = "2026-03-01T09:00:00+00:00"
    trace = museum() | {
        "model": "claude-opus-5-5",
        "tools": [SEARCH],
        "turns": [*turns, command("/compact"), looking(7)],
    }
    trace["settings"] = {"keep_recent_tokens": 800, "tool_prune_threshold": 8_000}
    trace["account"] = {"prefix_check": True}
    report = await run(trace, ground)
    kinds = [one.kind for one in report.happenings]
    assert "prune" in kinds
    assert "session" in kinds
    assert [request.record.error for request in report.requests] == [None] * len(report.requests)
    notes = [text for request in report.requests for _, text in request.record.notes]
    assert "its thinking is left out: what stood before it changed" in notes


async def test_a_trace_of_a_command_alone_makes_no_request(ground: ReplayEnvironment) -> None:
    only = {"at": "2026-03-01T09:00:00+00:00", "user": "/compact"}
    report = await run(museum() | {"turns": [only]}, ground=ground)
    assert (report.requests, report.cost) == ((), 0)
    [command] = report.happenings
    assert command.text == "Nothing to compact: there are no messages yet."
