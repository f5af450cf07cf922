"""What a long conversation full of identifiers costs with compaction and pruning, and which facts its window holds.

    python bench/economics.py [--kinds words log …] [--runs NAME …] [--turns 60] [--seed 1] [--model NAME] [--json]
    python bench/economics.py --airline FILE [--count 20]

Sixty turns of two requests each, a tool's result of 3 kB (each tenth 12 kB) in every turn, 36 facts in paragraphs of
their own, said by user, tool and assistant in turn (`writing/identifiers.py`). They are replayed through the engine
against the simulator with the planner's markers. The summariser obeys: it keeps the facts of what it is asked to
summarise, and nothing else. Costs are in thousands of the price of an input token: `input` is all input, the
summaries' included, `with output` adds what the summaries' output costs; answers cost the same in all runs. `reads` and
`writes` are what the answers' requests cost for what they found in the cache and for what they did not, `summaries`
what the summaries' requests cost as input. `aim` is a share of the append-only run. A fact counts as there if its
sentence is in the last request, word for word; `by user, tool, assistant` are those by who said them.

`every ten turns` is the rule of another library: `/compact` after each tenth turn, all but the newest turn.

With --airline: recorded runs of tau-bench as one conversation, each run after the one before, and summaries of about
800 tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from lamella.core.tokens import Usage
from lamella.llm.model_table import ModelTable
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.reader import parse_trace
from tables import arguments, emit, show
from writing import airline, identifiers
from writing.parts import Json

NO_PRUNING: dict[str, int | str] = {"tool_prune_threshold": 10_000_000, "tool_prune_when": "full"}
BY_HAND: dict[str, int | str] = {"compaction_threshold": "100%", "compaction_when": "full"}
NEVER: dict[str, int | str] = {**BY_HAND, **NO_PRUNING}
PAYS: dict[str, int | str] = {"compaction_when": "pays"}
AT_20K: dict[str, int | str] = {"compaction_when": "full", "compaction_threshold": 20_000}
PAYS_AT_20K: dict[str, int | str] = {**PAYS, "compaction_threshold": 20_000}
NEWEST_TURN: dict[str, int | str] = {"keep_recent_tokens": 0}
"""What keeps the newest turn and no other."""

TEN = "every ten turns"
APPEND_ONLY = 515
"""What the append-only run cost, in thousands, for which the aims were set."""


@dataclass(frozen=True, slots=True)
class Run:
    """One way to pay for a conversation: the settings, and what it may cost at most, as a share of append-only.
    `search`: at the end the model searches the conversation once for what tools said."""

    settings: Mapping[str, int | str]
    aim: float | None = None
    search: bool = False


RUNS: Mapping[str, Run] = {
    "append-only": Run(NEVER),
    TEN: Run({**NEVER, **NEWEST_TURN}),
    "pays, newest turn": Run({**PAYS, **NO_PRUNING, **NEWEST_TURN}, 205 / APPEND_ONLY),
    "pays, 4,000": Run({**PAYS, **NO_PRUNING}, 230 / APPEND_ONLY),
    "pays at 20k, newest turn": Run({**PAYS_AT_20K, **NO_PRUNING, **NEWEST_TURN}, 230 / APPEND_ONLY),
    "pays at 20k, 4,000": Run({**PAYS_AT_20K, **NO_PRUNING}, 230 / APPEND_ONLY),
    "full at 20k, newest turn": Run({**AT_20K, **NO_PRUNING, **NEWEST_TURN}),
    "full at 20k, 4,000": Run({**AT_20K, **NO_PRUNING}),
    "pays, pruned, search, newest turn": Run({**PAYS, **NEWEST_TURN}, 195 / APPEND_ONLY, search=True),
    "pays, pruned, search, 4,000": Run(PAYS, 195 / APPEND_ONLY, search=True),
    "pruning alone": Run(BY_HAND, 285 / APPEND_ONLY),
    "balanced, as shipped": Run({}),
    "full": Run({"compaction_when": "full"}),
}
"""By name: when it is compacted, and what is kept word for word."""


@dataclass(frozen=True, slots=True)
class Bill:
    """One run of one conversation, in thousands of the price of an input token. `by` are the facts in the last request
    by who said them."""

    text: str
    run: str
    requests: int
    summaries: int
    asked_again: int
    prunings: int
    input: float
    with_output: float
    reads: float
    writes: float
    asked: float
    last: int
    facts: int
    of: int
    by: Mapping[str, int]
    seconds: float


class Bench:
    """Replays on one model."""

    def __init__(self, ground: ReplayEnvironment, model: str) -> None:
        self._ground = ground
        self._model = model
        price = ModelTable.read(None).facts(model, "openai" if model.startswith("gpt") else "anthropic").price
        self._unit, self._output, self._read = price.input / 1_000_000, price.output / price.input, price.read

    async def bill(self, text: str, run: str, trace: Json, facts: Sequence[str] = ()) -> Bill:
        """What a trace costs; ends the script if a request failed."""
        begun = time.process_time()
        document = json.dumps({"lamella_trace": 1, **trace}).encode()
        report = await replay(parse_trace(document), ReplayOptions(model=self._model), self._ground)
        failed = [request.record.error for request in report.requests if request.record.error is not None]
        if failed:
            raise SystemExit(f"{text}, {run}: {failed[0]['message']}")
        summaries, usage, _ = report.purposes().get("summary", (0, Usage(), 0.0))
        spent, asked = report.input_cost / self._unit / 1_000, self._asked(report)
        chat = [request for request in report.requests if request.record.purpose == "chat"]
        reads = sum((one.record.usage or Usage()).cache_read for one in chat) * self._read / 1_000
        shown = "\n".join(strings(json.loads(chat[-1].body)))
        kinds = [happening.kind for happening in report.happenings]
        there = [fact in shown for fact in facts]
        return Bill(
            text=text,
            run=run,
            requests=len(report.requests),
            summaries=summaries,
            asked_again=asked_again(report),
            prunings=kinds.count("prune"),
            input=spent,
            with_output=spent + usage.output * self._output / 1_000,
            reads=reads,
            writes=spent - asked - reads,
            asked=asked,
            last=(chat[-1].record.usage or Usage()).input,
            facts=sum(there),
            of=len(facts),
            by={who: sum(there[place::3]) for place, who in enumerate(identifiers.SPEAKERS)},
            seconds=time.process_time() - begun,
        )

    def _asked(self, report: ReplayReport) -> float:
        """What the requests for summaries cost as input."""
        found = [r.record for r in report.requests if r.record.purpose == "summary"]
        output = sum((record.usage or Usage()).output for record in found) * self._output / 1_000
        return sum(record.cost or 0.0 for record in found) / self._unit / 1_000 - output


def asked_again(report: ReplayReport) -> int:
    """Requests for summaries that were second tries."""
    return sum(r.record.purpose == "summary" and r.record.step > 0 for r in report.requests)


def strings(value: Json | list[Json] | str) -> Iterator[str]:
    """All texts of a body."""
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from strings(inner)
        case list():
            for inner in value:
                yield from strings(inner)


def with_compactions(trace: Json, every: int) -> Json:
    """The trace with a `/compact` after so many turns, again and again."""
    turns: list[Json] = []
    for number, turn in enumerate(trace["turns"], start=1):
        turns.append(turn)
        if number % every == 0 and number < len(trace["turns"]):
            following = datetime.fromisoformat(trace["turns"][number]["at"])
            turns.append({"at": (following - timedelta(seconds=1)).isoformat(), "user": "/compact"})
    return {**trace, "turns": turns}


async def measure(options: Namespace, ground: ReplayEnvironment) -> list[Bill]:
    """Every run of every kind of text."""
    bench, found = Bench(ground, options.model), []
    for kind in options.kinds:
        facts = options.turns * identifiers.FACTS // identifiers.TURNS
        notes = identifiers.told(identifiers.KINDS[kind], options.seed, facts)
        for name in options.runs:
            run = RUNS[name]
            trace = identifiers.trace(kind, options.seed, options.turns, facts, search=run.search, **run.settings)
            trace = with_compactions(trace, 10) if name == TEN else trace
            found.append(await bench.bill(kind, name, trace, notes))
    return found


async def measure_airline(options: Namespace, ground: ReplayEnvironment) -> list[Bill]:
    """Recorded runs one after the other, append-only and compacted."""
    bench = Bench(ground, options.model)
    runs = json.loads(options.airline.read_bytes())[: options.count]
    names = [name for name in options.runs if not RUNS[name].search]
    found = []
    for name in names:
        summaries = options.summaries
        for _ in range(3):  # until each summary tells of its own part
            trace = airline.trace([run["traj"] for run in runs], summaries, **RUNS[name].settings)
            trace = with_compactions(trace, 10) if name == TEN else trace
            bill = await bench.bill(f"{len(runs)} airline runs", name, trace)
            made = bill.summaries - bill.asked_again
            if abs(made - summaries) <= 1 or not made:
                break
            summaries = made
        found.append(bill)
    return found


def rows(bills: Sequence[Bill]) -> list[list[str]]:
    """A line for each run."""
    counted = ["requests", "summaries", "again", "prunings"]
    costs = ["input", "with output", "ratio", "aim", "reads", "writes", "summaries"]
    made = [["text", "run", *counted, *costs, "last", "facts", "by user, tool, assistant"]]
    whole = {one.text: one.input for one in bills if one.run == "append-only"}
    for one in bills:
        counts = [str(n) for n in (one.requests, one.summaries, one.asked_again, one.prunings)]
        ratio = f"{one.input / whole[one.text]:.3f}" if one.text in whole else ""
        aim = RUNS[one.run].aim if one.of else None
        aimed = f"{aim:.3f}" if aim is not None else ""
        costs = [f"{one.input:.0f}", f"{one.with_output:.0f}", ratio, aimed]
        costs += [f"{part:.0f}" for part in (one.reads, one.writes, one.asked)]
        facts = [f"{one.facts} of {one.of}", ", ".join(map(str, one.by.values()))] if one.of else ["", ""]
        made.append([one.text, one.run, *counts, *costs, f"{one.last:,}", *facts])
    return made


async def measured(options: Namespace) -> list[Bill]:
    """What the command line asks for."""
    ground = ReplayEnvironment()
    try:
        return await (measure_airline if options.airline else measure)(options, ground)
    finally:
        await ground.close()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="gpt-5.6", help="default: %(default)s, cache reads at a tenth")
    parser.add_argument("--kinds", nargs="+", choices=identifiers.KINDS, default=list(identifiers.KINDS))
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="NAME", help=", ".join(RUNS))
    parser.add_argument("--turns", type=int, default=identifiers.TURNS, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--airline", type=Path, metavar="FILE", help="runs of tau-bench's airline")
    parser.add_argument("--count", type=int, default=20, help="how many of them (default: %(default)s)")
    parser.add_argument("--summaries", type=int, default=6, help="about how many there are (default: %(default)s)")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    bills = asyncio.run(measured(options))
    if options.json:
        emit([asdict(one) for one in bills])
    else:
        show(rows(bills))


if __name__ == "__main__":
    main()
