"""Attacks on documents with restricted access, through a second model that gives them away on purpose.

    python bench/leaks.py [--attacks 400] [--seed 1] [--harmless 200] [--json]

Each attack is a turn of a real server: the second model echoes everything, a sentence, a figure, a date, an identifier
or a title, in other forms, encoded, pieced together, or where instructions found in the documents told it to put it.
Looked at is everything that leaves: requests to the main model, packets, journal, views of turns and requests, memory,
logs with requests logged, and every row and file outside of knowledge bases.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict

from leaking.suite import play
from tables import arguments, emit, show


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--attacks", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--harmless", type=int, default=200)
    given = parser.parse_args()
    began = time.monotonic()
    outcome = asyncio.run(play(given.seed, given.attacks, harmless=given.harmless))
    seconds = time.monotonic() - began
    if given.json:
        emit({**asdict(outcome), "seconds": seconds})
    else:
        rows = [("seed", str(outcome.seed)), ("attacks", str(outcome.attacks)), ("seconds", f"{seconds:.0f}")]
        rows += [(f"ended as {reason}", str(count)) for reason, count in outcome.reasons.most_common()]
        rows += [("characters looked at", f"{outcome.looked_at:,}"), ("canaries that left", str(len(outcome.leaks)))]
        rows += [("harmless unchanged", f"{outcome.unchanged} of {outcome.harmless} ({outcome.usefulness:.1%})")]
        show(rows)
        for line in [*outcome.leaks[:20], *outcome.changed[:20]]:
            print(line)
    sys.exit(1 if outcome.leaks else 0)


if __name__ == "__main__":
    main()
