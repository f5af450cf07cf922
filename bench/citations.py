"""What it costs to look for citations in a streamed answer, by piece and by megabyte, on plain and on hostile text.

    python bench/citations.py [--json]

CPU time of one thread. A delta of 4 characters is what a provider sends; pieces of 4 kB are a stored answer read again.
"Doubled" is the time for twice the text divided by the time for the text: 2 is linear.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import process_time

from lamella.agent.citation_scanner import CitationScanner
from tables import arguments, emit, show

PLAIN = (
    "The library opens at nine on weekdays [1], and at ten on Saturdays [2, 3]. Its reading room has forty seats; "
    "twelve of them can be booked over the net. Books are lent for four weeks.\n\n```python\nrow = rows[0]\n```\n"
)
HOSTILE = {
    "open brackets": "[",
    "open lists": "[1, ",
    "backticks": "` ",
    "longer backticks": "`" * 7 + " a ",
    "tildes": "~",
    "blank lines in code": "`\n \n",
    "white brackets": "【1",
    "nested": "[[1]",
    "maths": "\\(a \\[b $$c ",
    "dollars": "$a ",
}
SMALL, LARGE = 4, 4_096
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """`delta` is microseconds for a piece of 4 characters, `speed` MB/s in pieces of 4 kB, `doubled` a ratio."""

    text: str
    delta: float
    speed: float
    doubled: float


def seconds(text: str, size: int) -> float:
    """The CPU time of scanning a text in pieces; the best of some tries."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    best = float("inf")
    for _ in range(REPEATS):
        scanner = CitationScanner()
        begun = process_time()
        for piece in pieces:
            for _found in scanner.feed(piece):
                pass
        for _found in scanner.end():
            pass
        best = min(best, process_time() - begun)
    return best


def figure(name: str, unit: str, characters: int) -> Figure:
    text = unit * (characters // len(unit))
    small = seconds(text[: characters // 8], SMALL)
    large = seconds(text, LARGE)
    return Figure(
        name,
        small / (characters // 8 / SMALL) * 1e6,
        len(text.encode()) / 1e6 / large if large else 0.0,
        seconds(text, SMALL * 16) / max(seconds(text[: len(text) // 2], SMALL * 16), 1e-9),
    )


def main() -> None:
    given = arguments(__doc__).parse_args()
    figures = [figure("an answer", PLAIN, 400_000)]
    figures += [figure(name, unit, 100_000) for name, unit in HOSTILE.items()]
    if given.json:
        emit([asdict(found) for found in figures])
        return
    rows = [("text", "4 characters", "pieces of 4 kB", "doubled")]
    rows += [(f.text, f"{f.delta:.2f} µs", f"{f.speed:.0f} MB/s", f"{f.doubled:.2f}") for f in figures]
    show(rows)


if __name__ == "__main__":
    main()
