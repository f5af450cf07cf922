"""The shipped traces in every layout, with both vendors and every marker policy: taken by the simulator, in order."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import cycle, pairwise, product
from pathlib import Path

import pytest

from lamella.cache.planner import STEADY, MarkerPolicy
from lamella.context.layouts import LAYOUTS
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.format import Trace, TraceTurn
from lamella_lab.trace.reader import read_trace

pytestmark = [pytest.mark.anyio, pytest.mark.long]

BENCH = Path(__file__).parents[2] / "bench"
TRACES = sorted(path.stem for path in (BENCH / "traces").glob("*.json"))
VENDORS = {"anthropic": "claude-opus-5-5", "openai": "gpt-6.1-terra"}
REQUESTS = 4
"""How many requests of a trace are replayed in every combination."""

TURN = r"( F)? U\d+( D)?"
STEPS = r"( R)?( TC (TR|tr)( R)?)*"
WINDOWS = {
    "lamella": rf"S( CA)?( P)?({TURN}{STEPS} A\d+)*{TURN}{STEPS}",
    "onyx": r"S(( F)? U\d+( TC tr)* A\d+)*( CA)?( P)?( F)?( D)? U\d+( TC TR)*( R)?",
    "lis": r"S(( F)? U\d+( TC TR)* A\d+)*( CA)?( P)?( F)?( D)? U\d+( TC TR)*( R)?",
    "wegent": r"S(( F)? U\d+( TC TR)* A\d+)*( CA)?( P)?( F)?( D)? U\d+( TC TR)*( R)?",
}
"""What the letters of a window look like, whatever its conversation."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def ground() -> AsyncIterator[ReplayEnvironment]:
    shared = ReplayEnvironment()
    yield shared
    await shared.close()


def shipped(name: str) -> Trace:
    return read_trace(BENCH / "traces" / f"{name}.json")


def beginning(trace: Trace) -> Trace:
    """The first entries, with about as many requests as are needed to see every kind of change."""
    count, entries = 0, []
    for entry in trace.entries:
        entries.append(entry)
        count += len(entry.steps) if isinstance(entry, TraceTurn) else 0
        if count >= REQUESTS:
            break
    return replace(trace, entries=tuple(entries))


def check(report: ReplayReport, layout: str) -> None:
    for request in report.requests:
        record = request.record
        assert record.error is None
        assert re.fullmatch(WINDOWS[layout], record.letters), record.letters
        numbers = re.findall(r"[UA]\d+", record.letters)
        assert numbers == [f"{letter}{n}" for n in range(1, request.turn + 1) for letter in "UA"][:-1]
        assert len(record.markers) <= 4


@pytest.mark.parametrize("name", TRACES)
async def test_every_layout_and_policy_is_accepted_and_in_its_order(ground: ReplayEnvironment, name: str) -> None:
    """Every combination with every trace, each by one vendor; over all traces each by both."""
    trace = beginning(shipped(name))
    vendors = cycle(VENDORS.values())
    for _ in range(TRACES.index(name) % len(VENDORS)):
        next(vendors)
    for (layout, policy), model in zip(product(LAYOUTS, MarkerPolicy), vendors, strict=False):
        options = ReplayOptions(layout=layout, marker_policy=policy.value, model=model)
        report = await replay(trace, options, ground)
        check(report, layout)
        assert policy is not MarkerPolicy.OFF or not any(r.record.markers for r in report.requests)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("name", TRACES)
async def test_the_planner_knows_what_will_be_read(ground: ReplayEnvironment, name: str, vendor: str) -> None:
    report = await replay(shipped(name), ReplayOptions(marker_policy="planner", model=VENDORS[vendor]), ground)
    check(report, "lamella")
    for request in report.requests:
        record = request.record
        assert record.usage is not None
        assert record.usage.cache_read == record.predicted_read, (request.number, record.letters)
        assert request.read is not None
        assert request.read.blocks == sum(len(segment.blocks) for segment in record.segments)
        assert request.read.hit == record.predicted_hit, (request.number, record.letters)
    assert report.ratio is not None
    assert report.ratio > 0.99


@pytest.mark.parametrize("model", ["claude-opus-4-8", "gpt-6.1-terra"])
async def test_the_planner_knows_what_will_be_read_before_late_dynamic_context(
    ground: ReplayEnvironment, model: str
) -> None:
    trace = shipped("human_gaps")
    costs = {}
    for form, letters in (("late", r"S F( U\d+ A\d+)* U\d+ D"), ("kept", WINDOWS["lamella"])):
        report = await replay(trace, ReplayOptions(model=model, settings={"dynamic_context_form": form}), ground)
        for request in report.requests:
            record = request.record
            assert re.fullmatch(letters, record.letters), record.letters
            assert record.usage is not None
            assert record.usage.cache_read == record.predicted_read
            assert {marker.why for marker in record.markers[-1:]} <= {STEADY}
        costs[form] = report.cost
    assert costs["late"] < costs["kept"]


@pytest.mark.parametrize("name", TRACES)
async def test_a_trace_runs_as_it_is_shipped(ground: ReplayEnvironment, name: str) -> None:
    trace = shipped(name)
    report = await replay(trace, None, ground)
    check(report, "lamella")
    assert len(report.requests) == sum(len(turn.steps) for turn in trace.turns)
    assert not report.unused


def test_what_is_shipped_is_what_is_asked_for() -> None:
    sizes = {name: (BENCH / "traces" / f"{name}.json").stat().st_size for name in TRACES}
    assert len(sizes) >= 5
    assert max(sizes.values()) < 1_000_000
    assert len(shipped("plain_chat").turns) >= 20
    heavy = shipped("tool_heavy").turns
    assert len(heavy) >= 12
    assert sum(len(turn.steps) >= 3 for turn in heavy) >= 3
    assert max(len(step.tool_calls) for turn in shipped("many_calls").turns for step in turn.steps) >= 10
    gaps = shipped("human_gaps").turns
    assert sum((b.at - a.at).total_seconds() > 300 for a, b in pairwise(gaps)) >= 5


def test_the_traces_are_what_the_generator_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("make_traces", BENCH / "make_traces.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_traces", made)
    spec.loader.exec_module(made)
    for path, text in made.documents().items():
        assert path.read_text("utf-8") == text, f"run python bench/make_traces.py: {path.name} is out of date"
