"""Token figures as people read them. Pure."""

from __future__ import annotations


def short(tokens: float) -> str:
    """`300`, `9.1k`, `157k`, `1.2M`: three digits at most."""
    count = round(tokens)
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size or (letter == "k" and count >= 1_000):
            value = count / size
            text = f"{value:.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")
            return "1M" if text == "1000" and letter == "k" else f"{text}{letter}"
    return str(count)


def percent(part: float, whole: float) -> str:
    """`12%`; of nothing it is `0%`."""
    return f"{round(100 * part / whole)}%" if whole else "0%"
