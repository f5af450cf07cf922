"""What the layouts cost on the shipped traces: each with its own marker policy and with the planner, on two models.

    python bench/layouts.py [--trace NAME ...] [--write] [--json]

Every trace is replayed through the engine against the simulator, on virtual time. With --write the table goes into its
section of docs/explanation/context.md.
"""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from lamella_lab.replay.comparison import in_all_layouts, pairs
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.trace.format import Trace
from lamella_lab.trace.reader import read_trace
from tables import arguments, emit, show

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "bench" / "traces"
PAGE = ROOT / "docs" / "explanation" / "context.md"
BEGIN, END = "<!-- layouts: made by bench/layouts.py --write -->", "<!-- layouts: end -->"

MODELS = ("claude-opus-5-5", "gpt-6.1-terra")

ABOUT = {
    "plain_chat": "22 questions and answers about a garden, a minute or two apart; no tool, no file",
    "tool_heavy": "an incident in 13 turns with up to four rounds of tools and searches",
    "agent_project": "an agent with a reminder and a project of about 20,000 tokens; one of its files changes once",
    "many_calls": "six turns, up to thirteen calls in one step",
    "human_gaps": "13 turns about a contract in two days, minutes to hours apart, dynamic context that changes",
    "changing": "ten turns in which agents come and go, a project is edited and the server starts again",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One trace in one layout under one policy; cost in US dollars, `ratio` to layout lamella with the planner."""

    trace: str
    model: str
    layout: str
    policy: str
    requests: int
    input: int
    read: int
    cost: float
    ratio: float = 1.0

    @property
    def share(self) -> float:
        """The share of the input that was read from the cache."""
        return self.read / self.input if self.input else 0.0


async def measure(name: str, trace: Trace, model: str, ground: ReplayEnvironment) -> list[Cost]:
    """One trace on one model, under every setting."""
    found: list[Cost] = []
    for one in await in_all_layouts(trace, ReplayOptions(model=model), ground):
        report = one.report
        failed = [r.record.error for r in report.requests if r.record.error is not None]
        if failed:
            raise SystemExit(f"{name}, {one.layout}, {one.policy}, {model}: {failed[0]['message']}")
        usage, ratio = report.usage, report.cost / found[0].cost if found else 1.0
        sums = len(report.requests), usage.input, usage.cache_read, report.cost
        found.append(Cost(name, model, one.layout, one.policy, *sums, ratio))
    return found


async def measure_all(names: Sequence[str]) -> list[Cost]:
    """Every trace on every model."""
    ground = ReplayEnvironment()
    try:
        found: list[Cost] = []
        for name in names:
            trace = read_trace(TRACES / f"{name}.json")
            for model in MODELS:
                found += await measure(name, trace, model, ground)
        return found
    finally:
        await ground.close()


def table_version() -> str:
    """The version of the model table that prices and cache rules come from."""
    return str(json.loads(files("lamella.llm").joinpath("models.json").read_bytes())["version"])


def rows(found: Sequence[Cost]) -> list[list[str]]:
    """A line for each setting, with both models side by side."""
    head = ["trace", "layout", "markers", "requests"]
    for model in MODELS:
        head += [f"{model}: input", "read", "cost", "ratio"]
    made = [head]
    for trace in dict.fromkeys(c.trace for c in found):
        for layout, policy in pairs():
            costs = [c for c in found if (c.trace, c.layout, c.policy) == (trace, layout, policy)]
            line = [trace, layout, policy, str(costs[0].requests)]
            for c in costs:
                line += [f"{c.input:,}", f"{c.share:.0%}", f"${c.cost:.4f}", f"{c.ratio:.2f}"]
            made.append(line)
    return made


def summary(found: Sequence[Cost]) -> list[str]:
    """A table with the cheapest and the dearest setting of each trace, for each model."""
    head = ["trace", "what it is"]
    for model in MODELS:
        head += [f"{model}: cheapest", "dearest"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for trace in dict.fromkeys(c.trace for c in found):
        cells = [trace, ABOUT[trace]]
        for model in MODELS:
            costs = sorted((c for c in found if c.trace == trace and c.model == model), key=lambda c: c.cost)
            least, most = costs[0], costs[-1]
            names = [f"`{c.layout}` with {c.policy}" for c in costs if c.cost <= least.cost * 1.005]
            cells += [
                f"${least.cost:.4f}: {', '.join(names)}",
                f"{most.cost / least.cost:.1f} times: `{most.layout}` with {most.policy}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def section(found: Sequence[Cost]) -> str:
    """The section of docs/explanation/context.md."""
    lines = [
        BEGIN,
        "",
        textwrap.fill(
            f"Measured {datetime.now(UTC):%Y-%m-%d} against the simulator, with the prices and cache rules of model "
            f"table {table_version()}, each layout with its own marker policy and with the planner. *Read* is the "
            "share of the input that was read from the cache, *ratio* the cost as a multiple of layout `lamella` with "
            "the planner.",
            120,
        ),
        "",
    ]
    lines += [*summary(found), "", "All settings:", ""]
    head, *body = rows(found)
    lines += ["| " + " | ".join(head) + " |", "|---|---|---|" + "---:|" * (len(head) - 3)]
    before = ""
    for row in body:
        lines.append("| " + " | ".join([row[0] if row[0] != before else "", *row[1:]]) + " |")
        before = row[0]
    lines += ["", END]
    return "\n".join(lines)


def written(page: str, made: str) -> str:
    """The page with the section in its place; at its end where it has none."""
    before, begun, rest = page.partition(BEGIN)
    if not begun:
        return f"{page.rstrip()}\n\n## What layouts cost\n\n{made}\n"
    _, ended, after = rest.partition(END)
    if not ended:
        raise SystemExit(f"{PAGE}: “{BEGIN}” has no “{END}” after it.")
    return before + made + after


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trace", action="append", choices=sorted(ABOUT), help="only this one; may repeat")
    parser.add_argument("--write", action="store_true", help="write the table into docs/explanation/context.md")
    options = parser.parse_args()
    if options.write and options.trace:
        parser.error("--write takes all traces")
    found = asyncio.run(measure_all(options.trace or list(ABOUT)))
    if options.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), section(found)), "utf-8")
    if options.json:
        emit([asdict(cost) | {"share": round(cost.share, 4)} for cost in found])
    else:
        show(rows(found))


if __name__ == "__main__":
    main()
