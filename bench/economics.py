"""What a long conversation costs with compaction and pruning, and without: 60 turns with tools, 36 facts, one run.

    python bench/economics.py [--model NAME] [--compact TOKENS] [--keep TOKENS] [--prune TOKENS]
                              [--prune-keep TOKENS] [--lines N] [--write FILE] [--json]

The conversation is replayed through the engine against the simulator with the planner's markers: append-only,
compacted, and compacted and pruned, by thresholds; compacted when it pays; and with the settings as they are shipped.
The summaries' requests are part of the cost. A fact is kept when its sentence is in the last request, word for word.
With --write the trace is written, for `lamella replay`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from argparse import Namespace
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from lamella.app.replay.ground import ReplayGround
from lamella.app.replay.options import ReplayOptions
from lamella.app.replay.report import ReplayReport
from lamella.app.replay.run import replay
from lamella.app.trace.reader import parse_trace
from tables import arguments, emit, show
from writing import planted

NO_PRUNING: dict[str, int | str] = {"tool_prune_threshold": 10_000_000, "tool_prune_when": "full"}
NEVER: dict[str, int | str] = {"compaction_threshold": "100%", "compaction_when": "full", **NO_PRUNING}


@dataclass(frozen=True, slots=True)
class Bill:
    """One run: cost in US dollars, tokens as the provider billed them, and how many facts the last request held."""

    name: str
    requests: int
    compactions: int
    prunings: int
    input: int
    read: int
    written: int
    output: int
    summaries: float
    cost: float
    last: int
    facts: int


def bill(name: str, report: ReplayReport) -> Bill:
    """What a replay came to; ends the script where a request failed."""
    failed = [request.record.error for request in report.requests if request.record.error is not None]
    if failed:
        raise SystemExit(f"{name}: {failed[0]['message']}")
    usage, purposes = report.usage, report.purposes()
    count, _, summaries = purposes.get("summary", (0, usage, 0.0))
    last = report.requests[-1]
    shown = json.dumps(json.loads(last.body), ensure_ascii=False)
    kinds = [happening.kind for happening in report.happenings]
    return Bill(
        name=name,
        requests=len(report.requests),
        compactions=count,
        prunings=kinds.count("prune"),
        input=usage.input,
        read=usage.cache_read,
        written=usage.cache_write,
        output=usage.output,
        summaries=summaries,
        cost=report.cost,
        last=last.record.usage.input if last.record.usage else 0,
        facts=sum(planted.fact(number) in shown for number in range(planted.FACTS)),
    )


def document(lines: int, **settings: int | str) -> str:
    """The trace as a file; `lines` of a log in each result."""
    return json.dumps({"lamella_trace": 1, **planted.trace(lines, **settings)}, indent=1, ensure_ascii=False) + "\n"


async def measure(options: Namespace) -> list[Bill]:
    """The same conversation, each time with other settings."""
    compacting: dict[str, int | str] = {
        "compaction_when": "full",
        "compaction_threshold": options.compact,
        "keep_recent_tokens": options.keep,
    }
    pruning: dict[str, int | str] = {
        "tool_prune_when": "full",
        "tool_prune_threshold": options.prune,
        "tool_keep_threshold": options.prune_keep,
    }
    runs: dict[str, dict[str, int | str]] = {
        "append-only": NEVER,
        "compacted": {**compacting, **NO_PRUNING},
        "compacted, pruned": {**compacting, **pruning},
        "compacted when it pays": NO_PRUNING,
        "as shipped": {},
    }
    ground = ReplayGround()
    try:
        bills = []
        for name, settings in runs.items():
            trace = parse_trace(document(options.lines, **settings).encode())
            bills.append(bill(name, await replay(trace, ReplayOptions(model=options.model), ground)))
        return bills
    finally:
        await ground.close()


def rows(bills: list[Bill]) -> list[list[str]]:
    """A line for each run."""
    made = [["run", "requests", "summaries", "prunings", "input", "read", "last", "output", "cost", "ratio", "facts"]]
    for one in bills:
        share = f"{one.read / one.input:.1%}"
        figures = [f"{n:,}" for n in (one.requests, one.compactions, one.prunings, one.input)]
        price = [f"${one.cost:.3f}", f"{one.cost / bills[0].cost:.3f}"]
        ends = [f"{one.last:,}", f"{one.output:,}", *price, f"{one.facts} of {planted.FACTS}"]
        made.append([one.name, *figures, share, *ends])
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="claude-opus-5", help="default: %(default)s, cache reads at a tenth")
    parser.add_argument("--compact", type=int, default=20_000, help="compaction threshold (default: %(default)s)")
    parser.add_argument("--keep", type=int, default=1_000, help="recent tokens kept (default: %(default)s)")
    parser.add_argument("--prune", type=int, default=15_000, help="pruning threshold (default: %(default)s)")
    parser.add_argument("--prune-keep", type=int, default=2_000, help="results kept (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=planted.LINES, help="lines of a result (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the trace and measure nothing")
    options = parser.parse_args()
    if options.write is not None:
        options.write.write_text(document(options.lines), "utf-8")
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    bills = asyncio.run(measure(options))
    if options.json:
        emit([asdict(one) for one in bills])
    else:
        show(rows(bills))


if __name__ == "__main__":
    main()
