"""Reads a trace, and says of one that can't be replayed what is wrong, in which turn, step and field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lamella.core.errors import InvalidRequest
from lamella_lab.trace.checks import capital, check_trace
from lamella_lab.trace.format import (
    AgentChange,
    BaseChange,
    CompactChange,
    PreferChange,
    ProjectChange,
    PruneChange,
    RestartChange,
    ResumeChange,
    SetChange,
    SystemChange,
    ToolsChange,
    Trace,
    TraceChange,
    TraceCommand,
    TraceEntry,
    TraceHead,
    TraceTurn,
)
from lamella_lab.trace.parts import TraceRun
from lamella_lab.trace.settings import UNUSED

CHANGES: Mapping[str, type[TraceChange]] = {
    "set": SetChange,
    "agent": AgentChange,
    "project": ProjectChange,
    "tools": ToolsChange,
    "system": SystemChange,
    "grant": BaseChange,
    "restart": RestartChange,
    "prefer": PreferChange,
    "resume": ResumeChange,
    "compact": CompactChange,
    "prune": PruneChange,
}

MESSAGE = "message"
"""The `do` of a turn whose text would else be taken for a command."""

LATER = {
    "trace": {
        "users": "give the trace of one user",
        "fault_seed": "name each `fault` in its step",
    },
    "side": {"safe_summary": "no second model is asked yet"},
    "turn": {
        "as": "give the trace of one user",
        "disconnect_after": "a client that leaves changes no request",
    },
}
"""Names of the format that this version does not replay, with what to do instead."""

LONGEST_PAUSE = 10 * 365 * 86_400
"""Seconds."""

LATER_CHANGES = {
    "edit": "Give the edited message as a turn with `edit_of`.",
    "kill": "Give its turn a `stop` with “cause”: “restart”.",
    "fault": "Give its step a `fault`.",
}

COMMAND = re.compile(
    r"/(?P<name>status|new|clear|compact|prune|resume|abort|stop|cancel|undo|context|why|queue|help)\b"
)
_STEPS = re.compile(r"\.?(steps|tool_calls|files|tools)\[(\d+)\]")
_WORDS = {"steps": "step", "tool_calls": "call", "files": "file", "tools": "tool"}

PartT = TypeVar("PartT")


def read_trace(path: Path) -> Trace:
    """The trace in a file; raises `InvalidRequest` that says what is wrong and where."""
    try:
        return parse_trace(path.read_bytes())
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.", param=str(path)) from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error.message}", hint=error.hint, param=str(path)) from None


def parse_trace(data: bytes) -> Trace:
    """The trace in JSON bytes; raises `InvalidRequest`."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"This is not JSON: {error}.") from None
    if not isinstance(raw, dict) or raw.get("lamella_trace") != 1:
        raise InvalidRequest("This is not a trace.", hint="A trace is a JSON object with “lamella_trace”: 1.")
    turns = raw.pop("turns", None)
    if not isinstance(turns, list) or not (turns or "exported" in raw):
        raise InvalidRequest("The trace has no turns.", hint="Give `turns` a list of at least one turn.")
    _refuse_later(raw, LATER["trace"], "the trace")
    if isinstance(side := raw.get("side"), dict):
        _refuse_later(side, LATER["side"], "the trace's `side`")
    unused = _unused(raw)
    head = _converted(raw, TraceHead, "the trace")
    entries: list[TraceEntry] = []
    number = 0
    for position, item in enumerate(turns, 1):
        if not isinstance(item, dict):
            raise InvalidRequest(f"Entry {position} of `turns` is no object.")
        _after_pause(item, position, entries[-1].at if entries else None)
        if item.get("do") == MESSAGE:
            number += 1
            del item["do"]
            entries.append(_turn(item, f"turn {number}"))
        elif "do" in item:
            unused |= _unused(item)
            entries.append(_change(item, position))
        elif isinstance(item.get("user"), str) and COMMAND.match(item["user"]):
            entries.append(_converted(item, TraceCommand, f"entry {position} of `turns` ({item['user'].split()[0]})"))
        else:
            number += 1
            entries.append(_turn(item, f"turn {number}"))
    trace = Trace(head, tuple(entries), tuple(sorted(unused)))
    check_trace(trace)
    return trace


def _after_pause(item: dict[str, Any], position: int, before: datetime | None) -> None:
    """Put the moment in the place of `pause`, the seconds since the entry before began."""
    if "pause" not in item:
        return
    pause = item.pop("pause")
    number = isinstance(pause, int | float) and not isinstance(pause, bool)
    if "at" in item or before is None or not number or not 0 <= pause <= LONGEST_PAUSE:
        raise InvalidRequest(
            f"Entry {position} of `turns`: `pause` can't be used like this.",
            hint="Give the first entry `at`, and each later one `at` or `pause`, a number of seconds.",
        )
    item["at"] = before + timedelta(seconds=pause)


def _unused(raw: dict[str, Any]) -> set[str]:
    """Take the settings out of `raw` that change nothing here, and name them."""
    settings = raw.get("settings")
    if not isinstance(settings, dict):
        return set()
    found = set(settings) & UNUSED
    raw["settings"] = {name: value for name, value in settings.items() if name not in found}
    return found


def _change(item: dict[str, Any], position: int) -> TraceChange:
    name = item["do"]
    where = f"entry {position} of `turns` ({name})"
    form = CHANGES.get(name) if isinstance(name, str) else None
    if form is None:
        hint = "Choose one of " + ", ".join(CHANGES) + "."
        if isinstance(name, str) and name in LATER_CHANGES:
            later = LATER_CHANGES[name]
            raise InvalidRequest(f"This version does not replay “do”: “{name}”, {where}.", hint=f"Take it out. {later}")
        raise InvalidRequest(f"{capital(where)}: there is no such “do”.", hint=hint)
    return _converted(item, form, where)


def _turn(item: dict[str, Any], where: str) -> TraceTurn:
    _refuse_later(item, LATER["turn"], where)
    runs = item.get("runs")
    for number, run in (runs if isinstance(runs, dict) else {}).items():
        _converted(run, TraceRun, f"{where}, run {number}")
    return _converted(item, TraceTurn, where)


def _refuse_later(raw: dict[str, Any], later: Mapping[str, str], where: str) -> None:
    for name in sorted(set(raw) & set(later)):
        raise InvalidRequest(f"This version does not replay `{name}` of {where}.", hint=capital(later[name]) + ".")


def _converted(raw: object, form: type[PartT], where: str) -> PartT:
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        raise InvalidRequest(f"{capital(_place(where, path.rstrip('`')))}: {said[:1].lower()}{said[1:]}.") from None


def _place(where: str, path: str) -> str:
    """A path such as `.steps[0].ms` in words: step 1, `ms`."""
    steps = [f"{_WORDS[name]} {int(index) + 1}" for name, index in _STEPS.findall(path)]
    field = _STEPS.sub("", path).lstrip(".")
    return ", ".join([where, *steps, *([f"`{field}`"] if field else [])])
