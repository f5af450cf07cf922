"""The provider's faults, the user's stop and a full disk, at every place of a turn that seeds choose.

    python bench/chaos.py [--cases 500] [--first 0] [--seed N]

Each case is a turn of two steps with a tool call on a real server over the simulator (`storms/`): it has to end in the
state that its fault allows, be stored once, leave nothing streaming at the provider, say what to do where it failed,
and leave a conversation whose next message is answered. --seed plays one case again. The exit code says whether every
law held.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

from lamella_simulator.testing import running
from storms.case import Case
from storms.day import days, play


async def storm(seeds: range) -> bool:
    """Play the seeds; gives whether every law held."""
    begun, broken = time.monotonic(), 0
    ends: Counter[tuple[str, str]] = Counter()
    with running("--clock", "system") as url:
        async with days(url) as both:
            for seed in seeds:
                outcome = await play(Case.drawn(seed), both)
                ends[(outcome.case.kind, outcome.status)] += 1
                if outcome.broken or len(seeds) == 1:
                    print(f"seed {seed}: {outcome.case}\n  {outcome.status}, {outcome.packets} packets", flush=True)
                for law in outcome.broken:
                    print(f"  {law}", flush=True)
                broken += bool(outcome.broken)
    for (kind, status), count in sorted(ends.items()):
        print(f"{kind:>20}  {status:<10} {count}")
    print(f"{len(seeds)} cases, seeds {seeds.start} to {seeds.stop - 1}; {broken} broke a law.", end=" ")
    print(f"{time.monotonic() - begun:.0f} s")
    return not broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    given = parser.parse_args()
    first, count = (given.seed, 1) if given.seed is not None else (given.first, given.cases)
    sys.exit(0 if asyncio.run(storm(range(first, first + count))) else 1)


if __name__ == "__main__":
    main()
