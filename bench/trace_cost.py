"""What marker policies cost on recorded agent conversations, and whether every prediction equalled the bill.

    python bench/trace_cost.py RUNS.json [--runs 5] [--model NAME ...] [--json]

RUNS.json holds a list of runs with `traj`: OpenAI chat messages with tool calls and results (tau-bench's form). Each is
replayed through the engine against the simulator, on virtual time: a step takes 4 s, a user 40 s.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lamella.core.tokens import Usage
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import Replayed, ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.format import Trace
from lamella_lab.trace.reader import parse_trace
from tables import arguments, emit, show
from writing.airline import Messages, conversation

POLICIES = ("planner", "auto_tail", "off")
MODELS = ("claude-opus-5-5", "gpt-6.1-terra")


@dataclass(frozen=True, slots=True)
class Cost:
    """One policy over all runs, in US dollars and tokens. `wrong` are requests whose billed read was not predicted."""

    model: str
    policy: str
    requests: int
    cost: float
    input_cost: float
    bound: float
    read: int
    input: int
    wrong: tuple[str, ...]

    @property
    def hit_rate(self) -> float:
        """The share of the input that was read from the cache."""
        return self.read / self.input if self.input else 0.0


def trace_of(messages: Messages) -> Trace:
    """A recorded run as a trace."""
    return parse_trace(json.dumps({"lamella_trace": 1, **conversation(messages)}).encode())


async def measure(traces: Sequence[Trace], model: str, policy: str) -> Cost:
    """Replay every trace with one model under one policy."""
    options = ReplayOptions(marker_policy=policy, model=model)
    reports: list[ReplayReport] = [await replay(trace, options) for trace in traces]
    usages = [request.record.usage or Usage() for report in reports for request in report.requests]
    wrong = [_misread(run, request) for run, report in enumerate(reports) for request in report.requests]
    return Cost(
        model=model,
        policy=policy,
        requests=len(usages),
        cost=sum(report.cost for report in reports),
        input_cost=sum(report.input_cost for report in reports),
        bound=sum(report.bound for report in reports),
        read=sum(usage.cache_read for usage in usages),
        input=sum(usage.input for usage in usages),
        wrong=tuple(text for text in wrong if text is not None),
    )


def _misread(run: int, request: Replayed) -> str | None:
    """Where the bill was another than predicted, in words; None where it was the same or there was none."""
    record, usage = request.record, request.record.usage
    if usage is None or not usage.input or usage.cache_read == record.predicted_read:
        return None
    where = f"run {run}, request {request.number} (turn {request.turn}, step {record.step})"
    return f"{where}: predicted {record.predicted_read}, billed {usage.cache_read} of {usage.input}"


def table(found: Sequence[Cost]) -> list[list[str]]:
    """A line for each model and policy."""
    off = {cost.model: cost.cost for cost in found if cost.policy == "off"}
    rows = [["model", "policy", "requests", "cost to off", "input to bound", "read", "not as predicted"]]
    for cost in found:
        ratios = [f"{cost.cost / off[cost.model]:.3f}", f"{cost.input_cost / cost.bound:.3f}", f"{cost.hit_rate:.1%}"]
        rows.append([cost.model, cost.policy, str(cost.requests), *ratios, str(len(cost.wrong))])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("path", type=Path, help="the recorded runs")
    parser.add_argument("--runs", type=int, default=5, help="how many of them")
    parser.add_argument("--model", action="append", help="a model; may be repeated")
    options = parser.parse_args()
    runs = json.loads(options.path.read_bytes())[: options.runs]
    traces = [trace_of(run["traj"]) for run in runs]
    models = options.model or MODELS
    found = [asyncio.run(measure(traces, model, policy)) for model in models for policy in POLICIES]
    if options.json:
        emit([asdict(cost) for cost in found])
        return
    show(table(found))
    for cost in found:
        for text in cost.wrong:
            print(f"{cost.model}, {cost.policy}: {text}")


if __name__ == "__main__":
    main()
