"""How the figures are printed: a small table for people, one JSON document for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from statistics import median


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option that all measurements share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    return parser


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the first row being the head: first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if not index else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def emit(figures: object) -> None:
    """Print figures as JSON."""
    print(json.dumps(figures, indent=2))


def milliseconds(seconds: float) -> str:
    """A time for a table."""
    return f"{seconds * 1e3:.2f} ms"


def middle(values: Sequence[float]) -> float:
    """The median."""
    return float(median(values))
