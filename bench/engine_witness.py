"""A real engine as witness of the simulator's token mode: the same prompts through both, and what each has read.

    python bench/engine_witness.py [TRACE ...] [--requests N] [--json]

Makes a tiny model of random weights, serves it with llama.cpp, and sends the prompts of the traces to it and to the
simulator. A row is a trace; the last column is the largest difference of one request, as a share of what the engine
has read. The exit code says whether all are within 1 %. Needs `xllamacpp`, `gguf` and `tokenizers`, which `./check`
installs on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from tables import arguments, emit, show
from witnessing.comparison import TOLERANCE, Compared, compared, in_token_mode
from witnessing.engine import engine
from witnessing.model import make_model
from witnessing.prompts import prompts_of

TRACES = Path(__file__).parent / "traces"


async def compare(names: list[str], requests: int | None) -> dict[str, list[Compared]]:
    """The rows of each trace; engine and simulator keep their caches from one trace to the next."""
    files = [TRACES / f"{name}.json" for name in names]
    found: dict[str, list[Compared]] = {}
    with tempfile.TemporaryDirectory(prefix="lamella-witness-") as folder:
        model = make_model(Path(folder), files)
        simulator = in_token_mode(model)
        with engine(model.weights) as client:
            for path in files:
                prompts = islice(prompts_of(json.loads(path.read_text())), requests)
                found[path.stem] = [row async for row in compared(client, simulator, prompts)]
    return found


def main() -> int:
    """Compare, print, and say whether every request is within the tolerance."""
    parser = arguments(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("traces", nargs="*", default=sorted(path.stem for path in TRACES.glob("*.json")))
    parser.add_argument("--requests", type=int, help="of each trace")
    asked = parser.parse_args()
    found = asyncio.run(compare(asked.traces, asked.requests))
    worst = max(row.difference for rows in found.values() for row in rows)
    if asked.json:
        emit({name: [asdict(row) for row in rows] for name, rows in found.items()})
    else:
        show(
            [("trace", "requests", "prompt", "engine read", "simulator read", "difference"), *map(line, found.items())]
        )
    return int(worst > TOLERANCE)


def line(trace: tuple[str, list[Compared]]) -> tuple[str, ...]:
    name, rows = trace
    sums = [sum(numbers) for numbers in zip(*((r.prompt, r.engine, r.simulator) for r in rows), strict=True)]
    return (name, str(len(rows)), *(f"{total:,}" for total in sums), f"{max(row.difference for row in rows):.2%}")


if __name__ == "__main__":
    sys.exit(main())
