"""The law that every conversation goes on, over generated cases.

    python bench/goes_on.py [--cases 2000] [--first 0]

Each case goes on from a stored conversation (many short turns, huge ones, Chinese, capitals, logs, compacted ones).
Its model counts up to 2.5 times as many or as few tokens as expected. Its window just holds the fixed part, the
summaries and one message, or more. It may refuse one request, and its summaries may fail. "hi" has to be answered,
after at most one compaction. The exit code says whether it always was.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

import structlog

from going_on.cases import cases, judged, smallest_window


async def _all(first: int, count: int) -> bool:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fixed = await smallest_window(Path(folder) / "empty")
        broken, tally = await judged(Path(folder), list(cases(first, count, fixed)))
    for one in broken:
        print(f"{one.case}\n  {one.why}")
    print(f"{count} cases from {first}: {tally}; {len(broken)} broke the law. {time.monotonic() - begun:.0f} s")
    return not broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(not asyncio.run(_all(asked.first, asked.cases)))


if __name__ == "__main__":
    main()
