"""The notifications, as the sessions seed writes them."""

from __future__ import annotations

import pytest

from lamella.core.tokens import percent, short
from lamella.sessions.notifications import compacted_text, pruned_text
from lamella.sessions.window import Breakdown


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, "0"),
        (300, "300"),
        (999, "999"),
        (1_000, "1k"),
        (2_100, "2.1k"),
        (12_400, "12.4k"),
        (99_949, "99.9k"),
        (99_960, "100k"),
        (157_300, "157k"),
        (999_600, "1M"),
        (1_240_000, "1.2M"),
    ],
)
def test_figures_have_three_digits_at_most(tokens: int, text: str) -> None:
    assert short(tokens) == text


def test_a_share_of_nothing_is_nothing() -> None:
    assert percent(3, 0) == "0%"


def test_a_compaction() -> None:
    parts = Breakdown(system=1_800, summary=3_200, kept=2_700, definitions=1_100, calls=300)
    assert compacted_text(157_000, parts, 150_000) == (
        "⚙️ Compacted (157k → 9.1k)\n"
        "  🔧 System: 1.8k tokens\n"
        "  📝 Summary: 3.2k tokens\n"
        "  💬 Kept context: 2.7k tokens\n"
        "  🛠️ Tools: 1.4k tokens (1.1k defs + 300 calls)\n"
        "  📊 Total: 9.1k/150k (6%)"
    )


def test_a_pruning() -> None:
    assert pruned_text(12_400, 2_100, 18_500, 150_000) == (
        "🔧 Tool outputs pruned (12.4k → 2.1k, -83%)\n  📊 Context: 18.5k/150k (12%)"
    )
    assert pruned_text(12_400, 2_100, 0, 150_000) == "🔧 Tool outputs pruned (12.4k → 2.1k, -83%)"
