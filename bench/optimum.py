"""What compaction costs against the best that could have been done knowing the whole conversation.

    python bench/optimum.py [--reads 0.1 0.05 0.025] [--lines N] [--json]

The conversation of `writing/planted.py`, without pruning, is replayed through the engine against the simulator, on a
model of each vendor: append-only, and with `compaction_when=pays`; at each price of cached reads, once as fast as it
was written down and once with human gaps, where a fifth of the turns come 8 minutes and a tenth 2 hours after the one
before.

The optimum takes the sizes of the append-only run and what summaries came to in the other one, and looks at every set
of turns before which the conversation could have been compacted, for each life of cached entries that the vendor sells.
It forgets nothing either: earlier summaries stay in its windows, and however often it compacts, they have as many
tokens for each call that they stand for as in the other run. Costs are of all input and of the summaries' output, in US
dollars; answers cost the same in all.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from economics import NEVER, NO_PRUNING
from lamella.cache.economics import Rates
from lamella.core.tokens import Usage
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.reader import parse_trace
from tables import arguments, emit, show
from vendors import READS, VENDORS, Vendor
from writing import planted

KEEP = 1_000
"""Recent tokens that a compaction keeps."""

PAYING: dict[str, int | str] = {
    "compaction_when": "pays",
    "compaction_threshold": "80%",
    "keep_recent_tokens": KEEP,
}

PACES = ("warm", "human gaps")

SHORT, LONG = timedelta(minutes=8), timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Call:
    """A request of the append-only run: its input in tokens, seconds since the one before, whether it begins a turn."""

    input: int
    gap: float
    begins_turn: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """What a compaction comes to, in tokens: a summary for each call that it stands for, what is kept, the
    instruction."""

    each: float
    kept: int
    question: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One model, price and pace; US dollars."""

    model: str
    read: float
    pace: str
    append_only: float
    paying: float
    summaries: int
    optimum: float
    cuts: int

    @property
    def ratio(self) -> float:
        """What was paid as a multiple of the optimum."""
        return self.paying / self.optimum


def optimum(calls: Sequence[Call], summary: Summary, rates: Rates, life: float) -> tuple[float, int]:
    """The least that these calls can cost, in tokens of input, and how many compactions that takes.

    A dynamic programme over the calls that begin a turn: the best way to come to a compaction there is the best way to
    come to the one before it, and the calls between them.
    """
    static, last = calls[0].input, len(calls) - 1
    best: dict[int, tuple[float, int]] = {0: (0.0, 0)}
    whole = (float("inf"), 0)
    for start in range(len(calls)):
        if start not in best:
            continue
        spent, cuts = best[start]
        before = calls[start - 1].input if start else 0
        base = static + summary.each * start + summary.kept
        shift = base - before if start else 0.0
        held: float = static if start else 0  # what of the window an earlier request had written
        for index in range(start, len(calls)):
            call = calls[index]
            write = 1.0 if index == last else rates.write
            if index > start and call.begins_turn and held > static + summary.each * index + summary.kept:
                made = spent + rates.read * held + summary.question + rates.output * summary.each * (index - start)
                # The summaries up to `start` are cached, as what is static is.
                made -= (write - (rates.read if call.gap <= life else rates.write)) * summary.each * start
                if made < best.get(index, (float("inf"), 0))[0]:
                    best[index] = made, cuts + 1
            window = call.input + shift
            read = held if call.gap <= life else 0
            spent += rates.read * read + (rates.write * (held - read) if held > read else 0.0)
            spent += write * (window - held)
            held = window
        whole = min(whole, (spent, cuts))
    return whole


def paced(document: dict[str, object], *, human: bool) -> bytes:
    """The trace, with the gaps of somebody who goes away now and then."""
    turns = document["turns"]
    assert isinstance(turns, list)
    late = timedelta()
    for number, turn in enumerate(turns):
        if human and number:
            late += LONG if number % 10 == 5 else SHORT if number % 10 in (2, 8) else timedelta()
        turn["at"] = (datetime.fromisoformat(turn["at"]) + late).isoformat()
    return json.dumps({"lamella_trace": 1, **document}).encode()


def paid(report: ReplayReport, output: float) -> float:
    """What the input cost, and the output of the summaries, at `output` US dollars for a million tokens."""
    failed = [r.record.error for r in report.requests if r.record.error is not None]
    if failed:
        raise SystemExit(str(failed[0]["message"]))
    made = sum(usage.output for _, usage, _ in _summaries(report))
    return report.input_cost + made * output / 1_000_000


def _summaries(report: ReplayReport) -> list[tuple[int, Usage, float]]:
    return [found for purpose, found in report.purposes().items() if purpose == "summary"]


def calls_of(report: ReplayReport) -> list[Call]:
    """The requests of an append-only run."""
    records = [request.record for request in report.requests]
    gaps = [0.0, *((b.at - a.at).total_seconds() for a, b in pairwise(records))]
    return [Call((r.usage or Usage()).input, gap, r.step == 0) for r, gap in zip(records, gaps, strict=True)]


def summary_of(report: ReplayReport) -> Summary:
    """What compactions came to in a run, on average; the last one stands for all calls before it."""
    asked = [(r, report.requests[i - 1]) for i, r in enumerate(report.requests) if r.record.purpose == "summary"]
    usages = [(r.record.usage or Usage(), before.record.usage or Usage()) for r, before in asked]
    if not usages:
        raise SystemExit("no summary was made: make the conversation longer (--lines)")
    kept = [happening.numbers["kept"] for happening in report.happenings if "kept" in happening.numbers]
    count = len(usages)
    requests = [request.record.purpose for request in report.requests]
    stood_for = requests[: len(requests) - requests[::-1].index("summary")].count("chat")
    each = sum(own.output for own, _ in usages) / stood_for
    question = sum(max(0, own.input - before.input - before.output) for own, before in usages) // count
    return Summary(each, int(sum(kept) / len(kept)) if kept else 0, question)


class Bench:
    """Replays of the conversation on one model at one price."""

    def __init__(self, ground: ReplayEnvironment, vendor: Vendor, models: Path, lines: int) -> None:
        self._ground = ground
        self._vendor = vendor
        self._options = ReplayOptions(model=vendor.model, models=models)
        self._lines = lines

    async def run(self, settings: dict[str, int | str], *, human: bool) -> ReplayReport:
        """The conversation with these settings at one of the two paces."""
        trace = paced(planted.trace(self._lines, **settings), human=human)
        return await replay(parse_trace(trace), self._options, self._ground)

    async def figures(self, read: float, pace: str) -> Figures:
        """What it came to, and what it could have."""
        vendor, human = self._vendor, pace != PACES[0]
        append_only = await self.run(NEVER, human=human)
        paying = await self.run({**PAYING, **NO_PRUNING}, human=human)
        calls, summary = calls_of(append_only), summary_of(paying)
        rates = (Rates(read, write, vendor.output / vendor.input) for _, write in vendor.lives)
        lives = (life for life, _ in vendor.lives)
        least, cuts = min(optimum(calls, summary, *one) for one in zip(rates, lives, strict=True))
        summaries = sum(count for count, _, _ in _summaries(paying))
        spent = paid(append_only, vendor.output), paid(paying, vendor.output), summaries
        return Figures(vendor.model, read, pace, *spent, least * vendor.input / 1_000_000, cuts)


async def measure(reads: Sequence[float], lines: int) -> list[Figures]:
    """Every model and price, warm and with gaps."""
    found: list[Figures] = []
    ground = ReplayEnvironment()
    with TemporaryDirectory() as folder:
        try:
            for vendor, read in product(VENDORS, reads):
                bench = Bench(ground, vendor, vendor.priced(read, Path(folder)), lines)
                found += [await bench.figures(read, pace) for pace in PACES]
        finally:
            await ground.close()
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--reads", type=float, nargs="+", default=READS, help="default: %(default)s")
    parser.add_argument("--lines", type=int, default=planted.LINES, help="lines of a result (default: %(default)s)")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found = asyncio.run(measure(given.reads, given.lines))
    if given.json:
        emit([asdict(one) | {"ratio": one.ratio} for one in found])
        return
    rows = [["model", "reads at", "pace", "append-only", "when it pays", "summaries", "optimum", "summaries", "ratio"]]
    for one in found:
        paid_for = [f"${one.append_only:.3f}", f"${one.paying:.3f}", str(one.summaries)]
        rows.append(
            [one.model, f"{one.read:g}", one.pace, *paid_for, f"${one.optimum:.3f}", str(one.cuts), f"{one.ratio:.2f}"]
        )
    show(rows)


if __name__ == "__main__":
    main()
