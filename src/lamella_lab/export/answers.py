"""Writes answers into a trace: each run's steps with their parts, calls and requests, and where it was stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from msgspec import structs

from lamella.core.handover import pending
from lamella.core.knowledge import WITHHELD
from lamella.core.messages import AnswerPart, Reasoning, Step, StopReason, Text, ToolCall, ToolResult, TurnStatus
from lamella.core.records import RequestRecord, RunRecord, TurnRecord
from lamella_lab.export.conversation_data import ConversationData
from lamella_lab.export.requests import SentRequests, answer_of
from lamella_lab.trace.parts import TraceAnswer, TraceCall, TracePart, TraceRun, TraceSent, TraceStep, TraceStop

STOPPED = (TurnStatus.STOPPED, TurnStatus.INTERRUPTED)
CUT_OFF = (StopReason.USER_CANCELLED, StopReason.INTERRUPTED)


class _Digests:
    """What came of a run's requests for digests: each is of a result of one of the tools `names`, by its number."""

    def __init__(self, requests: Sequence[RequestRecord], names: Collection[str], sent: SentRequests) -> None:
        self._by_number = {record.step: answer_of(record, sent[record.id], None) for record in requests}
        self._names = names
        self._number = 0

    def of(self, result: ToolResult) -> str | TraceAnswer:
        """The digest of the next result. None if the result may not be read any more."""
        if result.name not in self._names or not result.content.strip():
            return ""
        self._number += 1
        return "" if result.content == WITHHELD else self._by_number.get(self._number - 1, "")


def run_of(turn: TurnRecord, run: RunRecord, gathered: ConversationData, sent: SentRequests) -> TraceRun:
    """A run with all its requests."""
    records = gathered.chat(turn, run.index)
    condensed = [one for one in gathered.requests[turn.id] if one.purpose == "digest" and one.run_id == run.id]
    tools = gathered.around(turn.started_at).tools
    digests = _Digests(condensed, {tool.name for tool in tools if tool.when_old == "digest"}, sent)
    ended = run.finished_at or turn.finished_at or turn.started_at
    if not records:
        return TraceRun([_told(step, digests) for step in run.steps])
    moments = [*(record.at for record in records[1:]), ended]
    until = dict(zip((record.id for record in records), moments, strict=True))
    steps = []
    for place, group in enumerate(_by_step(records)):
        *failed, last = group
        stored = run.steps[place] if place < len(run.steps) else None
        made = TraceStep(
            parts=list(_parts(stored, digests)) if stored is not None else [],
            sent=_named(last, run, sent),
            failed=[_named(one, run, sent) for one in failed],
            ms=_between(group[0].at, until[last.id]),
        )
        if stored is not None and stored.stop_reason not in (*CUT_OFF, StopReason.ERROR):
            made.stop_reason = stored.stop_reason.value
        steps.append(made)
    return TraceRun(steps)


def _told(step: Step, digests: _Digests) -> TraceStep:
    """A step that no request was made for: a client sent it with its history, or it was copied."""
    return TraceStep(
        parts=list(_parts(step, digests)),
        stop_reason=step.stop_reason.value,
        reminder=step.reminder,
        made_after=step.made_after,
    )


def _by_step(records: Sequence[RequestRecord]) -> list[list[RequestRecord]]:
    """The requests that led to each step: those before the last one came to nothing."""
    groups: dict[int, list[RequestRecord]] = {}
    for record in records:
        groups.setdefault(record.step, []).append(record)
    return [groups[number] for number in sorted(groups)]


def _named(record: RequestRecord, run: RunRecord, sent: SentRequests) -> TraceSent:
    """The facts of a request. `model` is set if a fallback answered instead of the run's model."""
    return structs.replace(sent[record.id], model=record.model if record.model != run.model else None)


def _between(start: datetime, end: datetime) -> int:
    return max(0, round((end - start).total_seconds() * 1000))


def _parts(step: Step, digests: _Digests) -> Iterator[TracePart]:
    results = {result.call_id: result for result in step.results}
    handed = {call.id for call in pending([step])}
    for part in step.parts:
        made = _part(part, results.get(part.id) if isinstance(part, ToolCall) else None, digests)
        if made.call is not None and made.call.id in handed:
            made.call.handed, made.call.interrupted = True, False
        yield made


def _part(part: AnswerPart, result: ToolResult | None, digests: _Digests) -> TracePart:
    match part:
        case Text(text):
            return TracePart(text=text)
        case Reasoning(text, signature, redacted):
            return TracePart(reasoning=text, signature=signature, redacted=redacted)
        case ToolCall():
            return TracePart(call=_call(part, result, digests))


def _call(call: ToolCall, result: ToolResult | None, digests: _Digests) -> TraceCall:
    made = TraceCall(id=call.id, name=call.name, arguments=call.arguments)
    if result is None:
        made.interrupted = True
    elif result.is_error:
        made.error = result.content
    else:
        made.result, made.rich = result.content, result.rich
        made.expanded_queries = list(result.queries)
        made.digest = digests.of(result)
    return made


def stop_of(run: RunRecord, made: TraceRun) -> TraceStop | None:
    """Where a run was stopped. None if it was not stopped."""
    if run.status not in STOPPED:
        return None
    stop = TraceStop(run=run.index, cause="user" if run.status is TurnStatus.STOPPED else "restart")
    asked = len(made.steps)
    last = run.steps[asked - 1] if 0 < asked <= len(run.steps) else None
    if asked == 0 or (last is not None and _is_whole(last)):
        stop.step = asked  # after its last step, or before it began
        return stop
    stop.step = asked - 1
    if last is not None and 0 < len(last.results) < len(last.calls):
        stop.during = "tools"
    return stop


def _is_whole(step: Step) -> bool:
    """Whether a step was done when its run was stopped: its model had ended it, and all its calls had results."""
    return step.stop_reason not in CUT_OFF or 0 < len(step.calls) == len(step.results)
