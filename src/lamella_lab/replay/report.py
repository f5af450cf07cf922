"""What a replay tells: every request with its window, bill and events, and what all of it cost."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.app.request_map import sizes_of
from lamella.core.json import Json, digest
from lamella.core.records import RequestRecord
from lamella.core.tokens import Usage
from lamella_lab.replay.events import ReplayEvent
from lamella_lab.trace.format import Trace
from lamella_lab.trace.parts import TraceAnswer, TraceSent

Event = tuple[str, str]
"""What happened on the way to a request: its kind and the cause."""


@dataclass(frozen=True, slots=True)
class PromptRead:
    """What the simulator says of a prompt: the blocks that it falls into, and the last one that was read from the
    cache. None if nothing was read."""

    blocks: int
    hit: int | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """One request of a replay. `body` is what went over the wire, byte for byte; `read` is None if the simulator
    gave no answer. `recorded` has the facts of the original request, if there is one."""

    number: int
    turn: int
    record: RequestRecord
    body: bytes
    events: tuple[Event, ...]
    read: PromptRead | None = None
    run: int = 0
    recorded: TraceSent | None = None

    @property
    def difference(self) -> str:
        """How it differs from the request that was made then, "" if it does not or if nothing is known of that.

        Of one that was carried away without content, letters and tokens are compared, else the whole body.
        """
        then = self.recorded
        if then is None or not then.letters:
            return ""
        if self.record.letters != then.letters:
            return f"its window was {then.letters}"
        if then.digest:
            same = digest(self.body) == then.digest
            return "" if same else f"another body of {then.bytes:,} bytes was sent, here it has {len(self.body):,}"
        return "" if not then.sizes or sizes_of(self.record) == then.sizes else "parts of it had other lengths"

    def as_json(self) -> dict[str, Json]:
        """The shape of `lamella replay --json`."""
        record, usage = self.record, self.record.usage or Usage()
        return {
            "n": self.number,
            "at": record.at.isoformat(),
            "turn": self.turn,
            "step": record.step,
            "run": self.run,
            "purpose": record.purpose,
            "letters": record.letters,
            "model": record.model,
            "layout": record.layout,
            "marker_policy": record.marker_policy,
            "tokens": tokens_json(usage),
            "predicted": {
                "read": record.predicted_read,
                "written": record.predicted_written,
                "block": record.predicted_hit,
            },
            "read_block": self.read.hit if self.read is not None else None,
            "cost": round(record.cost or 0.0, 8),
            "events": [{"kind": kind, "cause": cause} for kind, cause in self.events],
            "body": body_name(self.number),
            "difference": self.difference or None,
        }


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """All requests, with the costs summed up in US dollars; `bound` is the least that their input can cost."""

    requests: tuple[Replayed, ...]
    cost: float
    input_cost: float
    bound: float
    faults: bool = False
    """Whether the trace has scripted faults: then failed requests are what it is about."""
    happenings: tuple[ReplayEvent, ...] = ()
    """What happened between the requests."""
    lost: int = 0
    """How many requests that were made then were not made again."""
    unused: tuple[str, ...] = ()
    """What of the trace changed nothing: settings of later versions, and what the command line overrode."""

    @property
    def differing(self) -> tuple[Replayed, ...]:
        """The requests that are not as they were then."""
        return tuple(request for request in self.requests if request.difference)

    @property
    def usage(self) -> Usage:
        """Everything that was billed."""
        return sum((r.record.usage for r in self.requests if r.record.usage), Usage())

    def purposes(self) -> dict[str, tuple[int, Usage, float]]:
        """Requests, tokens and cost of each purpose, `chat` first."""
        found: dict[str, tuple[int, Usage, float]] = {}
        for request in sorted(self.requests, key=lambda r: (r.record.purpose != "chat", r.record.purpose)):
            count, usage, cost = found.get(request.record.purpose, (0, Usage(), 0.0))
            record = request.record
            found[record.purpose] = (count + 1, usage + (record.usage or Usage()), cost + (record.cost or 0.0))
        return found

    @property
    def ratio(self) -> float | None:
        """The cost of input as a multiple of the lower bound. Output costs the same however it is cached."""
        return self.input_cost / self.bound if self.bound else None

    def as_json(self) -> dict[str, Json]:
        """The shape that `lamella replay --json` prints."""
        return {
            "requests": [request.as_json() for request in self.requests],
            "events": [happening.as_json() for happening in self.happenings],
            "totals": {
                "requests": len(self.requests),
                **tokens_json(self.usage),
                "cost": round(self.cost, 8),
                "input_cost": round(self.input_cost, 8),
                "lower_bound": round(self.bound, 8),
                "ratio": round(self.ratio, 4) if self.ratio is not None else None,
                "by_purpose": {
                    purpose: {"requests": count, **tokens_json(usage), "cost": round(cost, 8)}
                    for purpose, (count, usage, cost) in self.purposes().items()
                },
            },
        }


def nothing_asked(trace: Trace) -> str:
    """Why a replay of this trace made no request."""
    turns, others = len(trace.turns), len(trace.entries) - len(trace.turns)
    if not turns:
        what = "1 command or change" if others == 1 else f"{others} commands and changes"
        return f"the trace has no message, only {what}" if others else "nothing is in the trace"
    if told := sum(turn.told for turn in trace.turns):
        what = "1 message, with its answer" if told == 1 else f"{told} messages, with their answers"
        return f"no model was asked: a client sent {what}"
    who = "its message was" if turns == 1 else f"each of its {turns} messages was"
    return f"{who} stopped before anything was sent"


def made_then(trace: Trace) -> int:
    """How many requests a trace knows that were made before."""
    side = trace.head.side
    beside = [one for given in (side.summary, side.title) if isinstance(given, list) for one in given]
    steps = [step for turn in trace.turns for step in turn.all_steps]
    digests = [call.digest for step in steps for call in step.calls]
    sent = sum(isinstance(one, TraceAnswer) and one.sent is not None for one in (*beside, *digests))
    return sent + sum(len(step.failed) + (step.sent is not None) for step in steps)


def compared(report: ReplayReport, trace: Trace) -> str:
    """How a replay of what was carried away compares with what was sent then, in a sentence."""
    exported = trace.head.exported
    if exported is None:
        return ""
    known = sum(request.recorded is not None and bool(request.recorded.letters) for request in report.requests)
    what = "the same bodies" if exported.content else "the same letters and lengths"
    said = [f"{known - len(report.differing)} of {known} requests are as they were: {what}"]
    said += [f"{report.lost} more were made then, and not here"] if report.lost else []
    others = len(report.requests) - known
    said += [f"{others} can't be compared"] if others else []
    return "; ".join(said)


def tokens_json(usage: Usage) -> dict[str, Json]:
    """Measured tokens; `input` is the whole prompt."""
    return {
        "input": usage.input,
        "read": usage.cache_read,
        "written": usage.cache_write,
        "fresh": usage.fresh,
        "output": usage.output,
    }


def body_name(number: int) -> str:
    """The name of a dumped body."""
    return f"{number:04d}.json"
