"""The window of a request before it is sent: what stands in it and why, and the bill that the planner predicts. Pure.

shown = window(ScriptedModel(), AgentTurn("What is a tide?", system="You answer in one sentence."))
print(shown)                       # S U1, with the tokens, owner and marker of each segment
print(shown.read, shown.written)   # tokens that the provider's cache will give and keep
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lamella.agent.request import Prepared
from lamella.agent.run import AgentRun, AgentTurn, run
from lamella.context.assemble import letters
from lamella.core.clock import Clock
from lamella.core.ports import ChatModel
from lamella.core.prompt import Segment, Ttl
from lamella.core.tokens import Usage
from lamella.tooling.tool import Tool


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One segment of the window.

    `letters` is its name in layouts (`U1`, `TC TR`), `owner` who put it there (`deployment`, `user`, `model:NAME`),
    `lifetime` how long it keeps its place and bytes (`session`, `turn`, `step`). `marker` is the reason of the cache
    marker at its end, "" if there is none. `notes` are from assembly and planning.
    """

    letters: str
    label: str
    tokens: int
    owner: str
    source: str
    lifetime: str
    marker: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window with its reasons and its predicted bill. Sizes in tokens, `cost` in US dollars without the answer.

    `absent` has each kind of segment that the layout has a place for and the window has not, with the reason.
    """

    rows: tuple[WindowRow, ...]
    letters: str
    tokens: int
    budget: int
    read: int
    written: int
    cost: float
    absent: tuple[tuple[str, str], ...]
    body: dict[str, object]

    def __str__(self) -> str:
        lines = [f"{row.letters or '-':10}{row.tokens:8,}  {row.label} ({row.owner}){_said(row)}" for row in self.rows]
        end = (
            f"{self.tokens:,} of {self.budget:,} tokens; {self.read:,} read, {self.written:,} written, ${self.cost:.5f}"
        )
        return "\n".join([*lines, end])


def window(
    model: ChatModel,
    turn: AgentTurn,
    tools: Sequence[Tool | Callable[..., object]] = (),
    *,
    clock: Clock | None = None,
) -> Window:
    """The first window that `run` would send for these arguments. Nothing is sent, and nothing is noted as cached.

    Raises `ContextLengthExceeded` if the message does not fit.
    """
    return window_of(run(model, turn, tools, clock=clock))


def window_of(answer: AgentRun) -> Window:
    """The first window of a run that was not started."""
    prepared = answer.prepared()
    report, plan = prepared.assembled.report, prepared.plan
    notes = [(note.segment, note.text) for note in (*report.notes, *plan.notes)]
    markers = {prepared.plan.window.segment(marker.index).id: marker.why for marker in plan.markers}
    return Window(
        tuple(_row(segment, markers, notes) for segment in prepared.wired.segments),
        letters(prepared.wired.segments),
        report.estimate,
        report.budget,
        plan.read,
        plan.written,
        _cost(prepared),
        tuple((absence.kind.value, absence.why) for absence in report.absent),
        answer.inputs[1].model.body(prepared.request),
    )


def _row(segment: Segment, markers: dict[str, str], notes: Sequence[tuple[str, str]]) -> WindowRow:
    return WindowRow(
        segment.letters,
        segment.label,
        segment.tokens,
        segment.owner,
        segment.source,
        segment.lifetime.value,
        markers.get(segment.id, ""),
        tuple(text for id, text in notes if id == segment.id),
    )


def _cost(prepared: Prepared) -> float:
    """The predicted input price. If markers of both lifetimes are placed, writes are priced at the longer one."""
    plan, estimate = prepared.plan, prepared.assembled.report.estimate
    hour = any(marker.ttl is Ttl.ONE_HOUR for marker in plan.markers)
    usage = Usage(
        input=max(estimate, plan.read + plan.written),
        cache_read=plan.read,
        cache_write_5m=0 if hour else plan.written,
        cache_write_1h=plan.written if hour else 0,
    )
    return prepared.facts.model.input_cost(usage)


def _said(row: WindowRow) -> str:
    marker = f" | marker: {row.marker}" if row.marker else ""
    return marker + "".join(f" | {note}" for note in row.notes)
