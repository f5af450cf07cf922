"""Reads a trace, and says of one that can't be replayed what is wrong, in which turn, step and field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from lamella.app.trace.content import check_file
from lamella.app.trace.format import (
    AgentChange,
    ProjectChange,
    RestartChange,
    SetChange,
    ToolsChange,
    Trace,
    TraceAgent,
    TraceChange,
    TraceCommand,
    TraceEntry,
    TraceFile,
    TraceHead,
    TraceSideFault,
    TraceTool,
    TraceTurn,
)
from lamella.app.trace.settings import UNUSED, GivenSettings, settings_of
from lamella.core.agents import check_prompt
from lamella.core.errors import InvalidRequest

CHANGES: Mapping[str, type[TraceChange]] = {
    "set": SetChange,
    "agent": AgentChange,
    "project": ProjectChange,
    "tools": ToolsChange,
    "restart": RestartChange,
}

LATER = {
    "trace": {
        "users": "give the trace of one user",
        "knowledge_bases": "write their passages as results of a search tool",
        "fault_seed": "name each `fault` in its step",
    },
    "side": {
        "safe_summary": "no second model is asked yet",
        "title": "no title is asked for yet",
    },
    "turn": {
        "id": "turns follow each other in order",
        "parent": "give one branch as a trace of its own",
        "edit_of": "give the edited turn in place of the first one",
        "regenerate": "give the answer that was kept",
        "as": "give the trace of one user",
        "models": "give one model's answer; another model from here on is {“do”: “set”, “model”: …}",
        "runs": "give the steps of the answer that was kept as `steps`",
        "effort": "set `thinking_effort` with {“do”: “set”}",
        "prefer": "give the answer that was kept",
        "stop": "give the steps as far as they came",
        "disconnect_after": "a client that leaves changes no request",
    },
    "call": {"rich": "give what the model read as `result`"},
}
"""Names of the format that this version does not replay, with what to do instead."""

LONGEST_PAUSE = 10 * 365 * 86_400
"""Seconds."""

LATER_CHANGES = ("grant", "prefer", "edit", "kill", "fault")

_COMMAND = re.compile(r"/(?P<name>status|new|clear|compact|prune|resume|abort|context|why|queue|help)\b")
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
    if not isinstance(turns, list) or not turns:
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
        if "do" in item:
            unused |= _unused(item)
            entries.append(_change(item, position))
        elif isinstance(item.get("user"), str) and _COMMAND.match(item["user"]):
            entries.append(_converted(item, TraceCommand, f"entry {position} of `turns` ({item['user'].split()[0]})"))
        else:
            number += 1
            entries.append(_turn(item, f"turn {number}"))
    trace = Trace(head, tuple(entries), tuple(sorted(unused)))
    _check(trace)
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
        if name in LATER_CHANGES:
            raise InvalidRequest(f"This version does not replay “do”: “{name}”, {where}.", hint=f"Take it out. {hint}")
        raise InvalidRequest(f"{_capital(where)}: there is no such “do”.", hint=hint)
    return _converted(item, form, where)


def _turn(item: dict[str, Any], where: str) -> TraceTurn:
    _refuse_later(item, LATER["turn"], where)
    for s, step in enumerate(_objects(item, "steps"), 1):
        for c, call in enumerate(_objects(step, "tool_calls"), 1):
            _refuse_later(call, LATER["call"], f"{where}, step {s}, call {c}")
    return _converted(item, TraceTurn, where)


def _objects(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = raw.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _refuse_later(raw: dict[str, Any], later: Mapping[str, str], where: str) -> None:
    for name in sorted(set(raw) & set(later)):
        raise InvalidRequest(f"This version does not replay `{name}` of {where}.", hint=_capital(later[name]) + ".")


def _converted(raw: object, form: type[PartT], where: str) -> PartT:
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        raise InvalidRequest(f"{_capital(_place(where, path.rstrip('`')))}: {said[:1].lower()}{said[1:]}.") from None


def _place(where: str, path: str) -> str:
    """A path such as `.steps[0].ms` in words: step 1, `ms`."""
    steps = [f"{_WORDS[name]} {int(index) + 1}" for name, index in _STEPS.findall(path)]
    field = _STEPS.sub("", path).lstrip(".")
    return ", ".join([where, *steps, *([f"`{field}`"] if field else [])])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _check(trace: Trace) -> None:
    _check_zone(trace.head.timezone, "the trace")
    _check_settings(trace.head.settings, "the trace")
    _check_files(trace.head.project.files if trace.head.project else (), "the trace, project")
    _check_agent(trace.head.agent, "the trace, agent")
    digest = trace.head.side.digest
    tools = _tool_names(trace.head.tools, "the trace", digest)
    before: tuple[str, datetime] | None = None
    number = 0
    for position, entry in enumerate(trace.entries, 1):
        number += isinstance(entry, TraceTurn)
        where = f"turn {number}" if isinstance(entry, TraceTurn) else f"entry {position} of `turns`"
        if entry.at.tzinfo is None:
            raise InvalidRequest(
                f"{_capital(where)}: `at` has no offset.", hint="Write it as 2026-03-01T09:00:00+01:00."
            )
        if before is not None and entry.at < before[1]:
            raise InvalidRequest(f"{_capital(where)} is earlier than {before[0]}.", hint="Put them in order of `at`.")
        before = (where, entry.at)
        match entry:
            case TraceTurn():
                _check_turn(entry, where, tools)
            case ToolsChange():
                tools = _tool_names(entry.tools, where, digest)
            case SetChange():
                _check_settings(entry.settings, where)
            case ProjectChange(project=project) if project is not None:
                _check_files(project.files, where)
            case AgentChange(agent=agent):
                _check_agent(agent, where)
            case _:
                pass


def _check_agent(agent: TraceAgent | None, where: str) -> None:
    try:
        if agent is not None:
            check_prompt(agent.prompt, replaces_system=agent.replaces_system)
    except InvalidRequest as error:
        raise InvalidRequest(f"{_capital(where)}: {error.message}", hint=error.hint) from None


def _check_turn(turn: TraceTurn, where: str, tools: set[str]) -> None:
    if turn.timezone is not None:
        _check_zone(turn.timezone, where)
    _check_files(turn.files, where)
    last = turn.steps[-1]
    if last.tool_calls and last.fault is None:
        raise InvalidRequest(
            f"{_capital(where)} ends with a step that calls tools.", hint="Give the answer that followed as a step."
        )
    for s, step in enumerate(turn.steps, 1):
        for call in step.tool_calls:
            if call.name not in tools:
                raise InvalidRequest(
                    f"{_capital(where)}, step {s} calls “{call.name}”, which is not among the trace's tools.",
                    hint="Name it in `tools`.",
                )
            if call.error is not None and call.expanded_queries:
                raise InvalidRequest(f"{_capital(where)}, step {s}: a failed call has no `expanded_queries`.")


def _tool_names(tools: Sequence[TraceTool], where: str, digest: str | TraceSideFault) -> set[str]:
    names: set[str] = set()
    for number, tool in enumerate(tools, 1):
        if tool.name in names:
            raise InvalidRequest(f"{_capital(where)}, tool {number}: “{tool.name}” comes twice.", hint="Name it once.")
        if tool.when_old == "digest" and not digest:
            raise InvalidRequest(
                f"{_capital(where)}, tool {number} (“{tool.name}”) asks for digests, and the trace has none.",
                hint="Give the trace “side”: {“digest”: …}, a text or “keep_facts”.",
            )
        names.add(tool.name)
    return names


def _check_settings(given: GivenSettings, where: str) -> None:
    try:
        settings_of(given)
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{_capital(where)}, `settings.{error.param}`: {error.message}", hint=error.hint, param=error.param
        ) from None


def _check_zone(name: str, where: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"{_capital(where)}, `timezone`: “{name[:60]}” is no time zone.",
            hint="Use an IANA name such as Europe/Berlin.",
        ) from None


def _check_files(files: Sequence[TraceFile], where: str) -> None:
    for problem in _problems(files):
        raise InvalidRequest(f"{_capital(where)}, {problem.message}", hint=problem.hint)


def _problems(files: Sequence[TraceFile]) -> Iterator[InvalidRequest]:
    names = set()
    for number, file in enumerate(files, 1):
        try:
            check_file(file)
        except InvalidRequest as error:
            yield InvalidRequest(f"file {number} (“{file.name}”): {error.message}", hint=error.hint)
        if file.name in names:
            yield InvalidRequest(f"file {number}: the name “{file.name}” comes twice.", hint="Give each its own name.")
        names.add(file.name)
