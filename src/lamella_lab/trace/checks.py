"""What a trace has to be beyond its form: names that exist, moments in order, answers that can be played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from lamella.core.agents import check_prompt
from lamella.core.errors import InvalidRequest
from lamella.core.json import decode_object
from lamella_lab.trace.content import check_file
from lamella_lab.trace.format import (
    AgentChange,
    PreferChange,
    ProjectChange,
    PruneChange,
    SetChange,
    ToolsChange,
    Trace,
    TraceAgent,
    TraceEntry,
    TraceHead,
    TraceTurn,
)
from lamella_lab.trace.parts import TraceCall, TraceFile, TracePart, TraceRun, TraceStep, TraceTool
from lamella_lab.trace.settings import GivenSettings, settings_of


def capital(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def check_trace(trace: Trace) -> None:
    """Raises `InvalidRequest` that says what can't be replayed, and where."""
    head = trace.head
    _check_zone(head.timezone, "the trace")
    _check_settings(head.settings, "the trace")
    _check_files(head.project.files if head.project else (), "the trace, project")
    _check_agent(head.agent, "the trace, agent")
    known = _Known(head, _tool_names(head.tools, "the trace", head))
    before: tuple[str, datetime] | None = None
    number = 0
    for position, entry in enumerate(trace.entries, 1):
        number += isinstance(entry, TraceTurn)
        where = f"turn {number}" if isinstance(entry, TraceTurn) else f"entry {position} of `turns`"
        _check_moment(entry.at, "at", where)
        if before is not None and entry.at < before[1]:
            raise InvalidRequest(f"{capital(where)} is earlier than {before[0]}.", hint="Put them in order of `at`.")
        before = (where, entry.at)
        _check_entry(entry, where, known)


@dataclass(slots=True)
class _Known:
    """What an entry can name: the tools of now, and the turns so far with their runs."""

    head: TraceHead
    tools: set[str]
    turns: dict[str, TraceTurn] = field(default_factory=dict)

    def turn(self, name: str, where: str) -> TraceTurn:
        """The turn of this id; raises `InvalidRequest`."""
        if name not in self.turns:
            raise InvalidRequest(
                f"{capital(where)} names the turn “{name}”, and no turn before it has this `id`.",
                hint="Give that turn an `id`.",
            )
        return self.turns[name]

    def run(self, name: str, run: int, where: str) -> TraceRun:
        """A run of a turn; raises `InvalidRequest`."""
        answers = self.turn(name, where).answers
        if run >= len(answers):
            raise InvalidRequest(
                f"{capital(where)} names run {run} of the turn “{name}”, which has {len(answers)}.",
                hint="Runs are counted from 0.",
            )
        return answers[run]


def _check_entry(entry: TraceEntry, where: str, known_ids: _Known) -> None:
    match entry:
        case TraceTurn():
            _check_turn(entry, where, known_ids)
        case ToolsChange():
            known_ids.tools = _tool_names(entry.tools, where, known_ids.head)
        case SetChange():
            _check_settings(entry.settings, where)
        case ProjectChange(project=project) if project is not None:
            _check_files(project.files, where)
        case AgentChange(agent=agent):
            _check_agent(agent, where)
        case PreferChange(turn=turn, run=run):
            known_ids.run(turn, run or 0, where)
        case PruneChange(turn=turn, run=run, step=step):
            if step >= len(known_ids.run(turn, run, where).steps):
                raise InvalidRequest(f"{capital(where)} names step {step}, which the turn “{turn}” has not.")
        case _:
            pass


def _check_moment(at: datetime, name: str, where: str) -> None:
    if at.tzinfo is None:
        raise InvalidRequest(
            f"{capital(where)}: `{name}` has no offset.", hint="Write it as 2026-03-01T09:00:00+01:00."
        )


def _check_agent(agent: TraceAgent | None, where: str) -> None:
    try:
        if agent is not None:
            check_prompt(agent.prompt, replaces_system=agent.replaces_system)
    except InvalidRequest as error:
        raise InvalidRequest(f"{capital(where)}: {error.message}", hint=error.hint) from None


# Turns


def _check_turn(turn: TraceTurn, where: str, known_ids: _Known) -> None:
    if turn.timezone is not None:
        _check_zone(turn.timezone, where)
    if turn.sent is not None:
        _check_moment(turn.sent, "sent", where)
    _check_place(turn, where, known_ids)
    _check_told(turn, where)
    _check_words(turn, where)
    _check_files(turn.files, where)
    _check_runs(turn, where, known_ids)
    _check_stops(turn, where)
    if turn.id is not None:
        if turn.id in known_ids.turns:
            raise InvalidRequest(f"{capital(where)}: the `id` “{turn.id}” comes twice.", hint="Give each its own.")
        known_ids.turns[turn.id] = turn


def _check_place(turn: TraceTurn, where: str, known_ids: _Known) -> None:
    """Whether it follows one thing, and that is there."""
    given = [name for name in ("edit_of", "regenerate") if getattr(turn, name) is not None]
    if turn.parent is not msgspec.UNSET:
        given.append("parent")
    if len(given) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        raise InvalidRequest(f"{capital(where)} has {names}.", hint="Give one of them: each says what it follows.")
    for name in (turn.edit_of, turn.regenerate):
        if name is not None:
            known_ids.turn(name, where)
    if isinstance(turn.parent, str):
        named, run = place_named(turn.parent)
        known_ids.run(named, run or 0, where)


def place_named(parent: str) -> tuple[str, int | None]:
    """Turn and run of a `parent`: `ID/RUN`, or `ID` for the answer that is followed there."""
    name, _, run = parent.partition("/")
    return name, int(run) if run.isdecimal() else None


def _check_told(turn: TraceTurn, where: str) -> None:
    """A turn that came with its answer has no request, and nothing that only a request can have."""
    given = [name for name in _ASKED if turn.told and getattr(turn, name)]
    if given or (turn.told and any(step.sent is not None or step.failed for step in turn.steps)):
        names = " and ".join(f"`{name}`" for name in given) or "requests"
        raise InvalidRequest(
            f"{capital(where)} is `told` and has {names}.",
            hint="Leave that out: no model is asked for a turn that is told.",
        )


_ASKED = ("runs", "stop", "edit_of", "regenerate", "prefer", "knowledge", "layout", "effort")
"""What a turn can't have that was told."""


def _check_words(turn: TraceTurn, where: str) -> None:
    again = turn.regenerate is not None
    if again and (turn.user or turn.files):
        raise InvalidRequest(
            f"{capital(where)} asks a turn again and has words or files of its own.",
            hint="Leave out `user` and `files`, or give an edited message as `edit_of`.",
        )
    if not again and not turn.user.strip() and not turn.results:
        raise InvalidRequest(f"{capital(where)}: `user` says nothing.", hint="Give what the user sent.")


def _check_runs(turn: TraceTurn, where: str, known_ids: _Known) -> None:
    if turn.steps and turn.runs:
        raise InvalidRequest(f"{capital(where)} has `steps` and `runs`.", hint="`steps` are those of run 0.")
    if turn.runs and sorted(turn.runs) != sorted(map(str, range(len(turn.runs)))):
        raise InvalidRequest(
            f"{capital(where)}: its runs are {', '.join(turn.runs)}.", hint="Number them from “0” without a gap."
        )
    count = len(turn.answers)
    if len(set(turn.models)) != len(turn.models):
        raise InvalidRequest(f"{capital(where)}: a model is named twice.", hint="Name each of `models` once.")
    if (count > 1 or len(turn.models) > 1) and count != len(turn.models):
        raise InvalidRequest(
            f"{capital(where)} has {len(turn.models)} models and {count} runs.",
            hint="Name a model of `models` for each of its `runs`.",
        )
    if turn.prefer is not None and turn.prefer >= count:
        raise InvalidRequest(f"{capital(where)} prefers run {turn.prefer}, and it has {count}.")
    stopped = {(stop.run, stop.step) for stop in turn.stops}
    for number, run in enumerate(turn.answers):
        at = where if count == 1 else f"{where}, run {number}"
        ends = turn.told or any(of == number for of, _ in stopped)
        if not run.steps and not ends and known_ids.head.exported is None:
            raise InvalidRequest(f"{capital(at)} has no steps.", hint="Give what the model said as `steps`.")
        for s, step in enumerate(run.steps, 1):
            _check_step(step, f"{at}, step {s}", known_ids)
        last = run.steps[-1] if run.steps else TraceStep()
        is_handed = any(call.handed for call in last.calls)
        if last.calls and not is_handed and last.fault is None and not ends and known_ids.head.exported is None:
            raise InvalidRequest(
                f"{capital(at)} ends with a step that calls tools.", hint="Give the answer that followed as a step."
            )


def _check_step(step: TraceStep, where: str, known_ids: _Known) -> None:
    if step.parts and (step.text or step.reasoning or step.tool_calls):
        raise InvalidRequest(f"{capital(where)} has `parts` and their short form.", hint="Give one of the two.")
    if known_ids.head.exported is None and (step.sent is not None or step.failed):
        raise InvalidRequest(
            f"{capital(where)} says what was sent, which only a trace that was exported can.",
            hint="Leave out `sent` and `failed`, or keep the trace's `exported`.",
        )
    for number, part in enumerate(step.parts, 1):
        _check_part(part, f"{where}, part {number}")
    for call in step.calls:
        _check_call(call, where, known_ids)


def _check_part(part: TracePart, where: str) -> None:
    thinks = part.reasoning is not None or part.redacted is not None
    if (part.text is not None) + thinks + (part.call is not None) != 1:
        raise InvalidRequest(f"{capital(where)} is not one thing.", hint="Give `text`, `reasoning` or `call`.")


def _check_call(call: TraceCall, where: str, known_ids: _Known) -> None:
    if call.name not in known_ids.tools and not call.handed and known_ids.head.exported is None:
        raise InvalidRequest(
            f"{capital(where)} calls “{call.name}”, which is not among the trace's tools.", hint="Name it in `tools`."
        )
    if call.error is not None and call.expanded_queries:
        raise InvalidRequest(f"{capital(where)}: a failed call has no `expanded_queries`.")
    if (call.interrupted or call.handed) and (call.result or call.error is not None):
        what = "interrupted" if call.interrupted else "handed to the caller"
        raise InvalidRequest(f"{capital(where)}: the call {call.id} was {what} and has a result.")
    if isinstance(call.arguments, str):
        try:
            decode_object(call.arguments)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{capital(where)}, call {call.id}: its arguments are no JSON: {error}.") from None


def _check_stops(turn: TraceTurn, where: str) -> None:
    seen: set[int] = set()
    for stop in turn.stops:
        answers = turn.answers
        if stop.run >= len(answers) or stop.step > len(answers[stop.run].steps):
            raise InvalidRequest(
                f"{capital(where)} is stopped in run {stop.run}, step {stop.step}, which it has not.",
                hint="Both are counted from 0; a step after the last one is stopped before it is sent.",
            )
        if stop.run in seen:
            raise InvalidRequest(f"{capital(where)}: run {stop.run} is stopped twice.", hint="Give one `stop` for it.")
        seen.add(stop.run)
        step = answers[stop.run].steps[stop.step : stop.step + 1]
        if stop.during == "tools" and not any(call.interrupted for one in step for call in one.calls):
            raise InvalidRequest(
                f"{capital(where)} is stopped while its tools run, and no call of that step is `interrupted`.",
                hint="Say “interrupted”: true of each call that had no result yet.",
            )


# What stands around a conversation


def _tool_names(tools: Sequence[TraceTool], where: str, head: TraceHead) -> set[str]:
    names: set[str] = set()
    for number, tool in enumerate(tools, 1):
        if tool.name in names:
            raise InvalidRequest(f"{capital(where)}, tool {number}: “{tool.name}” comes twice.", hint="Name it once.")
        if tool.when_old == "digest" and not head.side.digest and head.exported is None:
            raise InvalidRequest(
                f"{capital(where)}, tool {number} (“{tool.name}”) asks for digests, and the trace has none.",
                hint="Give the trace “side”: {“digest”: …}, a text or “keep_facts”.",
            )
        names.add(tool.name)
    return names


def _check_settings(settings: GivenSettings, where: str) -> None:
    try:
        settings_of(settings)
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{capital(where)}, `settings.{error.param}`: {error.message}", hint=error.hint, param=error.param
        ) from None


def _check_zone(name: str, where: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"{capital(where)}, `timezone`: “{name[:60]}” is no time zone.",
            hint="Use an IANA name such as Europe/Berlin.",
        ) from None


def _check_files(files: Sequence[TraceFile], where: str) -> None:
    for problem in _problems(files):
        raise InvalidRequest(f"{capital(where)}, {problem.message}", hint=problem.hint)


def _problems(files: Sequence[TraceFile]) -> Iterator[InvalidRequest]:
    names: Mapping[str, set[str]] = {"name": set(), "id": set()}
    for number, file in enumerate(files, 1):
        try:
            check_file(file)
        except InvalidRequest as error:
            yield InvalidRequest(f"file {number} (“{file.name}”): {error.message}", hint=error.hint)
        # Files with ids are told apart by these.
        kind, said = ("name", file.name) if file.id is None else ("id", file.id)
        if said in names[kind]:
            yield InvalidRequest(f"file {number}: the {kind} “{said}” comes twice.", hint="Give each its own name.")
        names[kind].add(said)
